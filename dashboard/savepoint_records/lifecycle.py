"""The states of a named savepoint and the moves between them."""

from __future__ import annotations

from dashboard.core.transitions import Transitions

TAKING = "taking"  # its query is asked for its part
WHOLE = "whole"
FAILED = "failed"  # it could not be taken, or is lost; the record says why

LIFECYCLE = Transitions("savepoint", {
    TAKING: {WHOLE, FAILED},
    WHOLE: {FAILED},
    FAILED: {WHOLE},  # what was missed is there after all
})
