"""The states of a proposal and the moves between them."""

from __future__ import annotations

from dashboard.core.transitions import Transitions

COMPUTING = "computing"  # its plan is being computed
UNPLANNABLE = "unplannable"  # no plan could be made; it says why
PENDING = "pending"  # before its reviewers
REJECTED = "rejected"
CANCELLED = "cancelled"  # by its author
STALE = "stale"  # the estate moved on; one click recomputes it
EXECUTING = "executing"  # approved: in the estate, being enacted
DONE = "done"
FAILED = "failed"  # a query of it fails for longer than the patience; it is still tried
ROLLING_BACK = "rolling_back"
ROLLED_BACK = "rolled_back"

LIFECYCLE = Transitions("proposal", {
    COMPUTING: {PENDING, UNPLANNABLE, CANCELLED},
    UNPLANNABLE: {COMPUTING, CANCELLED},
    PENDING: {EXECUTING, REJECTED, CANCELLED, STALE},
    STALE: {COMPUTING, CANCELLED, REJECTED},
    EXECUTING: {DONE, FAILED, ROLLING_BACK},
    FAILED: {EXECUTING, DONE, ROLLING_BACK},
    ROLLING_BACK: {ROLLED_BACK},
    DONE: {ROLLING_BACK},  # a fusion, which is cut again
    REJECTED: set(),
    CANCELLED: set(),
    ROLLED_BACK: set(),
})
UNDER_WAY = frozenset({EXECUTING, FAILED, ROLLING_BACK})  # reports of the nodes decide what comes next
OPEN = frozenset({COMPUTING, UNPLANNABLE, PENDING, STALE})  # nothing of it is in the estate yet
