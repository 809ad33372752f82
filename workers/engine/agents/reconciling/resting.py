"""Decisions by which a query comes to rest between two batches. Pure.

A query that is stopped in the middle of a batch has to repeat it, and a slow one would never get beyond it. So a query
is held: no batch follows, and it is stopped when the present one is done. A batch that takes too long may hang, and is
not waited for.
"""

from __future__ import annotations

from .delays import REPEAT_MS, SOON_MS
from .instructions import Again, HoldQuery, Instructions, RetryAt, Show, Stopped, StopQuery
from .reconcile import Action, FragmentState
from .snapshot import Snapshot


def come_to_rest() -> Instructions:
    """Stop a query between two batches."""
    return (Show(FragmentState.DRAINING), StopQuery(), Stopped())


def await_batch(snapshot: Snapshot, action: Action, *, again_ms: int = SOON_MS) -> Instructions | None:
    """Instructions while a batch is under way of a query that is to come to rest; None where none is, or none counts.

    The hold ends with the action, which is decided anew soon, by what is desired then.
    """
    if not is_busy(snapshot):
        return None
    if snapshot.is_held is None:
        return (HoldQuery(), Again(action))
    return (RetryAt(snapshot.now_ms + again_ms),)


def is_busy(snapshot: Snapshot) -> bool:
    """True where a batch is under way that is worth waiting for."""
    progress = snapshot.records.progress
    if progress.is_done:
        return False
    return snapshot.now_ms - max(snapshot.since_ms, progress.planned_ms) < REPEAT_MS
