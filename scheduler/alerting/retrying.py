"""Times of further attempts at a delivery, and the end of attempts."""

from __future__ import annotations

FIRST_S, LONGEST_S = 10, 3600
MOST_ATTEMPTS = 10


def next_attempt_s(attempts: int, now_s: float) -> float | None:
    """The time of the next attempt after so many failed ones, in seconds since the epoch: each wait is twice the last
    one.

    None where that was the last attempt, about three hours after the first one.
    """
    if attempts >= MOST_ATTEMPTS:
        return None
    return now_s + min(FIRST_S * 2 ** (attempts - 1), LONGEST_S)
