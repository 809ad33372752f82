"""Waiting in tests for a condition, with a limit that only a broken system reaches; and whether a process lives."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]


def wait_until(condition: Callable[[], bool], *, limit_s: float = 120.0) -> None:
    """Return as soon as the condition holds; fail after ``limit_s``."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"not so within {limit_s} s"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """True where a process runs under this id; one that only waits to be collected does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
