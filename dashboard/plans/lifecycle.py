"""The states of a plan and the moves between them."""

from __future__ import annotations

from dashboard.core.transitions import Transitions

COMPUTING = "computing"
READY = "ready"
STALE = "stale"  # the estate moved on
FAILED = "failed"  # no plan could be made; the record says why

LIFECYCLE = Transitions("plan", {
    COMPUTING: {READY, FAILED, STALE},
    READY: {STALE},
    STALE: set(),
    FAILED: set(),
})
