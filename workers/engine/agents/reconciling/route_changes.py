"""Changes of the routes of a running fragment's streams, and when they are in force. Pure.

What cannot wait for a batch with events is done between two batches: the query is held, and looked at again there.
"""

from __future__ import annotations

from collections.abc import Iterable

from workers.engine.channels.control import PART

from .broker_instructions import Activate, OpenPart, Resume, SetRoute
from .delays import ACTIVATE_AFTER_MS, RETRY_MS
from .instructions import Again, HoldQuery, Instructions, LookAtRoutes, RetryAt
from .outputs import divided, have_begun, open_parts, whole_readers
from .reconcile import ActivateRoutes, DivideStream
from .snapshot import Snapshot


def divide(snapshot: Snapshot, action: DivideStream) -> Instructions:
    """Divide a stream anew; where it was read whole, between two batches: its parts begin where that ends."""
    fragment, position = snapshot.as_wanted(), action.position
    parts = open_parts(snapshot, fragment, position, action.partitioning)
    opening = () if _are_open(snapshot, parts) else parts
    later = (*opening, RetryAt(snapshot.now_ms + RETRY_MS))
    if not have_begun(snapshot, fragment, action.partitioning):
        return later
    readers = whole_readers(snapshot, fragment, position, action.reader)
    route = SetRoute(position, action.reader, action.partitioning, channel=fragment.channel(position))
    if not readers:
        return (*opening, route, *divided(snapshot, fragment, position, action.reader, action.partitioning))
    if action.reader not in readers or not snapshot.has_query:
        return later  # who takes over a place in the whole stream does so first
    if snapshot.is_held is None:
        return (*opening, HoldQuery(), Again(action))
    progress = snapshot.records.progress
    if not snapshot.is_held or not progress.is_done:
        return later
    route = SetRoute(
        position, action.reader, action.partitioning, channel=fragment.channel(position), from_batch=progress.batch + 1,
        instead=True)
    return (*opening, route, *divided(snapshot, fragment, position, action.reader, action.partitioning))


def activate(snapshot: Snapshot) -> Instructions:
    """Bring routes into force that wait for events: those who are to get no more wait for that."""
    if not snapshot.has_query:
        return ()
    if snapshot.is_held is None:
        if all(route.effective for route in snapshot.routes_asked.values()):
            return (Resume(), LookAtRoutes(None))  # where an earlier try could not
        return (HoldQuery(), Again(ActivateRoutes(snapshot.id)))
    progress = snapshot.records.progress
    if snapshot.is_held and progress.is_done:
        return (Activate(progress.batch), LookAtRoutes(None))
    return (LookAtRoutes(snapshot.now_ms + ACTIVATE_AFTER_MS),)


def _are_open(snapshot: Snapshot, parts: Iterable[OpenPart]) -> bool:
    """Whether all parts were opened while the query runs: one that was closed since has lost its reader."""
    for part in parts:
        info = snapshot.channels.get(part.part)
        is_ours = f"{part.position}{PART}{part.bundle}" in snapshot.control
        if not is_ours or info is None or not {part.reader, *part.predecessors} & info.readers.keys():
            return False
    return True
