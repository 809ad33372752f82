"""Invariants of a fragment, checked at each look. Pure; nothing is read for them beyond the snapshot.

A slot checks every snapshot before it decides on it, and says what does not hold. It goes on all the same: what stands
between two steps is repaired by the next ones, and a check that is wrong must stop nobody's dataflow.
"""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.contracts.savepoints import RestorePoint

from .reconcile import FragmentState
from .snapshot import Snapshot


def validate_state(snapshot: Snapshot) -> tuple[str, ...]:
    """Violations of a fragment's invariants, a sentence each; none where all is well."""
    checks = (_of_its_state, _of_desired_state, _of_its_streams, _of_block_numbers)
    return tuple(violation for check in checks for violation in check(snapshot))


def _of_its_state(snapshot: Snapshot) -> Iterator[str]:
    state = snapshot.actual.state
    if state is FragmentState.RUNNING and not snapshot.has_query and not snapshot.is_compiled:
        yield "It is running and has no query."
    if state in (FragmentState.WAITING, FragmentState.BACKOFF) and snapshot.has_query:
        yield f"It is {state} and has a query."
    if snapshot.has_query and snapshot.records.has_ended and snapshot.id not in snapshot.desired.wanted:
        yield "It has ended for others and has a query."


def _of_desired_state(snapshot: Snapshot) -> Iterator[str]:
    desired = snapshot.desired
    slots = [
        name for name, slot in desired.slots.items() if any(fragment.id == snapshot.id for fragment in slot.fragments)]
    if len(slots) > 1:
        yield f"It is wanted on the slots {', '.join(sorted(slots))}: two queries would do its work."
    if slots and snapshot.id in desired.outgoing:
        yield "It is wanted and to hand over."


def _of_its_streams(snapshot: Snapshot) -> Iterator[str]:
    """A reader gets each event once: of the whole stream, or of its parts. A part is read by somebody."""
    actual, tasks = snapshot.actual, len(snapshot.running.tasks)
    for position, routes in sorted(actual.routes.items()):
        for reader in sorted(actual.outlets.get(position, frozenset()) & routes.keys()):
            yield f"{reader} reads the stream at {position} whole and in parts."
        for reader, how in sorted(routes.items()):
            if how.why_not:
                yield f"The stream at {position} is divided for {reader} among nobody."
    if tasks and actual.state is FragmentState.RUNNING:
        for position in sorted({*actual.outlets, *actual.routes} - set(range(tasks))):
            yield f"A stream at {position} is in force, and it has {tasks} tasks."


def _of_block_numbers(snapshot: Snapshot) -> Iterator[str]:
    """What a fragment at rest writes next is above all that stands in its channels: else the broker refuses it."""
    if snapshot.has_query or not snapshot.is_compiled:
        return
    begun = snapshot.records.begun or RestorePoint()
    if begun.repeats:
        return  # what another has written is written again, and refused where it stands
    for channel in snapshot.running.written:
        info = snapshot.channels.get(channel)
        highest = begun.batch_bases.get(channel, 0) + snapshot.records.progress.batch + 1
        if info is not None and info.last.block > highest:
            yield f"{channel} has block {info.last.block}, and it has written {highest} at most."
