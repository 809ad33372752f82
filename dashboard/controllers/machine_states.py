"""The states of a machine that was ordered, or recommended, and the moves between them."""

from __future__ import annotations

from dashboard.core.transitions import Transitions

RECOMMENDED = "recommended"  # an administrator may order it; nothing is paid
DECLINED = "declined"  # it never was ordered: somebody declined it, or nobody wants it any more
ORDERED = "ordered"  # it is to be started
STARTING = "starting"  # the provider took the order; its agent has not reported yet
SERVING = "serving"
LEAVING = "leaving"  # it is drained, and then to be stopped
STOPPED = "stopped"  # the provider took that; its agent may report still
GONE = "gone"

MACHINE_LIFECYCLE = Transitions("machine", {
    RECOMMENDED: {ORDERED, DECLINED},
    ORDERED: {STARTING, LEAVING},
    STARTING: {SERVING, LEAVING},
    SERVING: {LEAVING},
    LEAVING: {STOPPED},
    STOPPED: {GONE},
    GONE: set(),
    DECLINED: set(),
})
UNPAID_STATES = (RECOMMENDED, DECLINED)
OPEN_STATES = (ORDERED, STARTING, SERVING, LEAVING, STOPPED)
