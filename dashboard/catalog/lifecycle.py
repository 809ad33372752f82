"""The states of a submitted dataflow, and which may follow which."""

from __future__ import annotations

from dashboard.core.transitions import Transitions

SUBMITTED = "submitted"  # stored; its plan is being computed
PLANNED = "planned"  # a plan stands before its reviewers
RUNNING = "running"  # in the estate, since its proposal was approved
PAUSING = "pausing"  # what no other dataflow needs is being stopped, with its state kept
PAUSED = "paused"  # in the estate; its tasks rest where no other dataflow needs them
REMOVING = "removing"  # out of the estate; its fragments are being stopped
REMOVED = "removed"
REJECTED = "rejected"  # by a reviewer
WITHDRAWN = "withdrawn"  # by its author
FAILED = "failed"  # no plan could be made

LIFECYCLE = Transitions("dataflow", {
    SUBMITTED: {PLANNED, FAILED, WITHDRAWN},
    PLANNED: {RUNNING, REJECTED, WITHDRAWN, SUBMITTED},
    RUNNING: {PAUSING, REMOVING},
    PAUSING: {PAUSED, RUNNING},  # running again where the pause is rolled back
    PAUSED: {RUNNING, REMOVING},
    REMOVING: {REMOVED, RUNNING},  # running again where the removal is rolled back
    REMOVED: {SUBMITTED},
    REJECTED: {SUBMITTED},
    WITHDRAWN: {SUBMITTED},
    FAILED: {SUBMITTED, WITHDRAWN},
})
COMES_TO_REST = {REMOVING: REMOVED, PAUSING: PAUSED}  # when the plan that began it is in force
AT_REST = frozenset({REMOVED, REJECTED, WITHDRAWN, FAILED})  # a new version may be submitted
