"""Waiting in tests: for a condition, with a limit that only a broken system reaches."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], *, limit_s: float = 20.0) -> None:
    """Return as soon as the condition holds; fail after ``limit_s``."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"not so within {limit_s} s"
        time.sleep(0.02)
