"""When something that could not be delivered is tried again, and when nobody tries any more."""

from __future__ import annotations

FIRST_S, LONGEST_S = 10, 3600
MOST_ATTEMPTS = 10


def next_attempt_s(attempts: int, now_s: float) -> float | None:
    """When to try again after so many failed attempts, in seconds since the epoch: each wait is twice the last one.

    None where that was the last attempt, about three hours after the first one.
    """
    if attempts >= MOST_ATTEMPTS:
        return None
    return now_s + min(FIRST_S * 2 ** (attempts - 1), LONGEST_S)
