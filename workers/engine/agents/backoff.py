"""Backoff: how long what failed waits before it is tried again, and when it is not any more. Pure: time is an argument.
"""

from __future__ import annotations

import re

FIRST_MS = 1_000
LONGEST_MS = 60_000
HEALTHY_MS = 60_000  # who ran that long has recovered: the next failure counts as the first
RETRIES = 8  # of what goes wrong in the same way each time: about three minutes
_CHANGING = re.compile(r"\d+|'[^']*'|\"[^\"]*\"")  # numbers, and what is quoted: values of events


def delay_ms(failures: int, *, longest_ms: int = LONGEST_MS) -> int:
    """1, 2, 4 … 60 seconds after the first, second, third … failure in a row."""
    return min(FIRST_MS * 2 ** min(max(failures, 1) - 1, 16), longest_ms)


def failures_after(failures: int, *, ran_ms: int) -> int:
    """The number of failures in a row, counting one that came after running for ``ran_ms``."""
    return 1 if ran_ms >= HEALTHY_MS else failures + 1


def is_alike(message: str, other: str | None) -> bool:
    """True where two failures are the same but for numbers (of batches, rows and moments) and quoted values of
    events."""
    return other is not None and _CHANGING.sub("#", message) == _CHANGING.sub("#", other)
