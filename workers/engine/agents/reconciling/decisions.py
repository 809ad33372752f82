"""The decision about one fragment: its snapshot and an action in, instructions out. Pure.

``reconcile.py`` says, for the whole slot and without asking the broker, which actions there are. Here one of them
becomes instructions with everything resolved. Where something has to be seen after a step, the last instruction is
``Again``: the fragment is looked at and decided on anew.
"""

from __future__ import annotations

from .delays import RETRY_MS
from .ending import come_to_an_end, copy
from .given_keys import give
from .instructions import Again, Instructions, RetryAt
from .keys_ahead import bring
from .outputs import change
from .query_start import restart, stand_down, start
from .reconcile import (
    Action,
    ActivateRoutes,
    BringKeys,
    CloseTail,
    CopyState,
    DivideStream,
    End,
    FragmentState,
    Leave,
    OpenTail,
    Pause,
    Restart,
    Start,
    Stop,
    SwitchAlternates,
    Unroute,
)
from .removal import stop
from .route_changes import activate, divide
from .savepoint_decisions import has_repeated
from .snapshot import Snapshot


def decide(snapshot: Snapshot, action: Action) -> Instructions:
    """The instructions that perform an action, or bring the fragment a step nearer to it."""
    if not isinstance(action, Start | BringKeys) and (snapshot.standby is not None or snapshot.records.is_standby):
        return (*stand_down(snapshot), Again(action))
    if isinstance(action, DivideStream | Unroute | OpenTail | CloseTail | SwitchAlternates) and not has_repeated(
            snapshot, snapshot.running):
        return (RetryAt(snapshot.now_ms + RETRY_MS),)  # what is repeated is divided, done, and goes on, as it was
    match action:
        case Start(fragment):
            return start(snapshot, fragment)
        case Restart(fragment):
            return restart(snapshot, fragment)
        case End() | Pause() | Leave():
            return come_to_an_end(snapshot, action)
        case CopyState():
            return copy(snapshot, action) if action.heir is None else give(snapshot, action, action.heir)
        case BringKeys():
            return bring(snapshot, action)
        case Stop():
            return stop(snapshot, action)
        case ActivateRoutes():
            return activate(snapshot)
        case DivideStream():
            return divide(snapshot, action)
        case _:
            return change(snapshot, action)


def state_meanwhile(state: FragmentState, action: Action) -> FragmentState | None:
    """The state to show while an action is under way; changes of a running query have none of their own."""
    if isinstance(action, Start):
        return None if state in (FragmentState.WAITING, FragmentState.STARTING) else FragmentState.STARTING
    if isinstance(action, Stop):
        return FragmentState.DRAINING
    return None
