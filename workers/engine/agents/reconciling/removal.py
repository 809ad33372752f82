"""Removal of what a fragment that nobody wants leaves, and when each part of it goes. Pure.

The checkpoint stays for a while: a plan that is rolled back starts the fragment again from where it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.contracts.desired import WantedFragment
from workers.engine.channels import keys

from .broker_instructions import DeleteChannel, Expire, ForgetFragment, ForgetRanges, PassPart, Unregister
from .delays import FAILED_ACTION_MS, OUTPUTS_KEPT_S, PARTS_KEPT_S
from .handover_stages import line
from .inputs import channels_of
from .instructions import (
    Again,
    DropSavepoint,
    ForgetRecord,
    Gone,
    Instruction,
    Instructions,
    MarkRemoved,
    Release,
    Stopped,
    StopQuery,
)
from .outputs import parts_of
from .reconcile import Stop
from .snapshot import Snapshot

TakenOver = Mapping[str, Sequence[WantedFragment]]  # who goes on writing, by channel


def stop(snapshot: Snapshot, action: Stop) -> Instructions:
    """Stop a fragment's query, then let go of what it left, unless another slot of the node takes it over."""
    stopped = Stopped(snapshot.now_ms + FAILED_ACTION_MS)
    if snapshot.has_query:
        return (StopQuery(keeps_state=action.keep), stopped, Again(action))
    removal = () if action.keep else _remove(snapshot)
    return (stopped, *removal, ForgetRecord(), Release(), Gone())


def _remove(snapshot: Snapshot) -> Instructions:
    fragment = removed_fragment(snapshot)
    steps: list[Instruction] = []
    inputs: list[str] = []
    if fragment is not None:
        handed_over = snapshot.desired.outgoing.get(snapshot.id, fragment)  # also what it had still to read
        inputs = channels_of(dict.fromkeys((*fragment.inputs, *handed_over.inputs)))
        taken_over = _taken_over(snapshot, fragment)
        if snapshot.id in snapshot.desired.outgoing:
            steps += [Unregister(channel, snapshot.id, for_good=True) for channel in inputs]
        steps += _channels_left(snapshot, fragment, taken_over)
        steps += _parts_left(snapshot, fragment, taken_over)
    # The savepoint at last: what is still to be removed has it.
    return (*steps, ForgetRanges(tuple(inputs)), ForgetFragment(), MarkRemoved(), DropSavepoint())


def removed_fragment(snapshot: Snapshot) -> WantedFragment | None:
    """The fragment whose channels are removed: as this slot started it, or else as it was to hand over."""
    return snapshot.records.own_record or snapshot.desired.outgoing.get(snapshot.id)


def _taken_over(snapshot: Snapshot, fragment: WantedFragment) -> TakenOver:
    """Who goes on writing which channel."""
    desired = snapshot.desired
    # Those whose work it went on with ended before it began.
    over = line(desired, fragment.inherits) | {snapshot.id}
    everywhere = (*desired.wanted.values(), *desired.outgoing.values(), *desired.heirs_elsewhere.values())
    writers: dict[str, list[WantedFragment]] = {}
    for fragment_there in everywhere:
        for channel in fragment_there.written if fragment_there.id not in over else ():
            writers.setdefault(channel, []).append(fragment_there)
    return writers


def _channels_left(
    snapshot: Snapshot, fragment: WantedFragment, taken_over: TakenOver
) -> list[Instruction]:
    outputs = snapshot.outputs_of(fragment)
    # By whoever has not heard yet that it is gone, or that the one is which went on writing there.
    is_read_still = snapshot.id in snapshot.desired.outgoing or snapshot.records.has_left
    steps: list[Instruction] = []
    for position, channel in enumerate(fragment.written):
        if channel in taken_over:
            continue
        if position in outputs:
            steps.append(Expire(channel, OUTPUTS_KEPT_S))
        else:
            steps.append(Expire(channel, PARTS_KEPT_S) if is_read_still else DeleteChannel(channel))
    return steps


def _parts_left(
    snapshot: Snapshot, fragment: WantedFragment, taken_over: TakenOver
) -> list[Instruction]:
    steps: list[Instruction] = []
    for part in parts_of(snapshot.control, fragment).values():
        # Whoever does not write the part would not look at it again, for it may have started by now.
        heir = next((heir for heir in taken_over.get(keys.whole_of(part), ()) if _writes_part(heir, part)), None)
        if heir is None:
            steps.append(Expire(part, PARTS_KEPT_S))
        else:
            steps.append(PassPart(part, heir.written.index(keys.whole_of(part)), heir.id))
    return steps


def _writes_part(heir: WantedFragment, part: str) -> bool:
    routes = heir.routes.get(heir.written.index(keys.whole_of(part)), {})
    return any(keys.reader_of(part) in how.bundles for how in routes.values())
