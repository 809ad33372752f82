"""Decisions by which the states of keys come ahead to the bundle that is to take them, in rounds, while those that have
them work on. Pure.

Once the bundle stands by, and has rows of these keys, it is ready: from then on its writers divide by the new ring.
What is still to come then is what the givers' last batches change. A round reads the givers' stores on this node, and
nobody rests for it. It comes again and again until the bundle takes over, so that the last one is short. Rows of givers
on other nodes are sent by these (``transport/gifts.py``).
"""

from __future__ import annotations

from ..transport.ahead import LIMITS, is_worth_another
from .broker_instructions import MarkReady
from .delays import RETRY_MS, SOON_MS, STANDBY_MS
from .instructions import BringRows, Instructions, Wait
from .reconcile import BringKeys, FragmentState
from .snapshot import READY, Snapshot


def bring(snapshot: Snapshot, action: BringKeys) -> Instructions:
    """Bring a round of rows, or say that the bundle is ready, or wait for either."""
    later = Wait(snapshot.now_ms + SOON_MS)
    if not snapshot.has_lock or not _is_due(snapshot):
        return (later,)
    is_near = bool(snapshot.rounds) and not is_worth_another(snapshot.rounds, LIMITS)
    if is_near and snapshot.is_ahead and READY not in snapshot.control:
        return (MarkReady(), later)
    if is_near and snapshot.now_ms - snapshot.brought_ms < RETRY_MS:
        return (later,)
    return (BringRows(action.fragment.taken, snapshot.now_ms), later)


def _is_due(snapshot: Snapshot) -> bool:
    """Whether its query stands by; or has not for long, for what it reads may open only once others have begun."""
    progress = snapshot.records.progress
    if snapshot.standby is not None and progress.batch >= 0 and progress.is_done:
        return True
    waits = snapshot.actual.state is FragmentState.WAITING
    return waits and snapshot.now_ms - snapshot.since_ms >= STANDBY_MS
