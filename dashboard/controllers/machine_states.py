"""The states of a machine that was ordered, and the moves between them."""

from __future__ import annotations

from dashboard.core.transitions import Transitions

ORDERED = "ordered"  # it is to be started
STARTING = "starting"  # the provider took the order; its agent has not reported yet
SERVING = "serving"
LEAVING = "leaving"  # it is drained, and then to be stopped
STOPPED = "stopped"  # the provider took that; its agent may report still
GONE = "gone"

MACHINE_LIFECYCLE = Transitions("machine", {
    ORDERED: {STARTING, LEAVING},
    STARTING: {SERVING, LEAVING},
    SERVING: {LEAVING},
    LEAVING: {STOPPED},
    STOPPED: {GONE},
    GONE: set(),
})
OPEN_STATES = tuple(state for state in MACHINE_LIFECYCLE.states if state != GONE)
