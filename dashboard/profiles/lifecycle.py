"""The states of a sweep and the moves between them."""

from __future__ import annotations

from dashboard.core.transitions import Transitions

SUGGESTED = "suggested"  # by Weir: whoever may measure starts or cancels it
QUEUED = "queued"  # until its slot is free
RUNNING = "running"  # its slot is reserved, trials are ordered
PAUSED = "paused"  # its slot is free again; its trials are kept
DONE = "done"  # its profile is there
FAILED = "failed"  # it says why; trials are kept, and it may go on
CANCELLED = "cancelled"

LIFECYCLE = Transitions("sweep", {
    SUGGESTED: {QUEUED, CANCELLED},
    QUEUED: {RUNNING, PAUSED, FAILED, CANCELLED},
    RUNNING: {PAUSED, DONE, FAILED, CANCELLED},
    PAUSED: {QUEUED, CANCELLED},
    FAILED: {QUEUED, CANCELLED},
    DONE: set(),
    CANCELLED: set(),
})
OPEN = (QUEUED, RUNNING)  # the driver moves them on
