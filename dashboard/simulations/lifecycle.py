"""The states of a simulation and the moves between them."""

from __future__ import annotations

from dashboard.core.transitions import Transitions

QUEUED = "queued"
RUNNING = "running"
DONE = "done"
FAILED = "failed"  # it says why
CANCELLED = "cancelled"

LIFECYCLE = Transitions("simulation", {
    QUEUED: {RUNNING, FAILED, CANCELLED},
    RUNNING: {DONE, FAILED, CANCELLED},
    DONE: set(),
    FAILED: set(),
    CANCELLED: set(),
})
OPEN = (QUEUED, RUNNING)  # the driver moves them on
