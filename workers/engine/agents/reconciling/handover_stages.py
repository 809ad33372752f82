"""Handover: fragments end, and others go on exactly where they ended. Its stages as pure values.

A fragment that hands over works until its inputs from other ending fragments have ended, reads them to the last block,
stops cleanly, and leaves a ``Savepoint``. An heir begins from a ``RestorePoint`` once the savepoints of all its
predecessors are there. When all successors of a fragment have begun, it is over, and what it left is deleted. Every
step can be repeated: after any failure the records decide what is left to do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum

from scheduler.contracts.desired import DesiredState, WantedFragment
from scheduler.contracts.offsets import Offset
from scheduler.contracts.savepoints import RestorePoint, Savepoint
from workers.engine.channels import keys


class HandoverStage(StrEnum):
    """The stage of a fragment that hands over."""

    WORK = "work"  # what it reads has not come to its end
    COPY = "copy"  # it works, and a copy of its state is to go ahead to another node
    END = "end"
    ENDED = "ended"
    OVER = "over"  # all that go on with it have begun


AT_WORK = frozenset({HandoverStage.WORK, HandoverStage.COPY, HandoverStage.END})


def predecessors(desired: DesiredState, fragment: WantedFragment) -> tuple[str, ...]:
    """The fragments that this one goes on with, as far as this node knows them: those that hand over, and bundles that
    leave, or work on with the others of their keys.

    A plan that is taken back before it was enacted leaves fragments that never began, between those that end now and
    those that shall go on: only the last of each line count.
    """
    is_from_elsewhere = desired.is_from_elsewhere(fragment)
    inherited = {name: desired.wanted[name] for name in fragment.inherits if name in desired.wanted}
    givers = {name for name, predecessor in inherited.items() if predecessor.leaving or name in fragment.taken}
    givers.update(fragment.remote_givers)
    names = [name for name in fragment.inherits if name in desired.outgoing or is_from_elsewhere or name in givers]
    others = {**desired.heirs_elsewhere, **desired.outgoing}
    earlier = {older for name in names if name in others for older in others[name].inherits}
    return tuple(name for name in names if name not in earlier)


def successors(desired: DesiredState, fragment_id: str) -> tuple[WantedFragment, ...]:
    """The fragments that go on with this one, on whatever node."""
    here = (*desired.wanted.values(), *desired.outgoing.values())
    return tuple(
        heir for heir in (*here, *desired.heirs_elsewhere.values(), *desired.takers)
        if fragment_id in heir.inherits and fragment_id in predecessors(desired, heir)
    )


def stage_of(
    desired: DesiredState, fragment_id: str, *, begun: Collection[str], ended: Collection[str], may_end: bool = True
) -> HandoverStage:
    """The stage of a fragment that hands over.

    Parameters
    ----------
    begun, ended : collection of str
        The fragments that have left a record of their beginning (those of other nodes: that have said so), or of their
        end.
    may_end : bool
        True where those that shall go on with it stand by, or are not waited for any more.
    """
    records = {"begun": begun, "ended": ended}
    if is_over(desired, fragment_id, begun=begun):
        return HandoverStage.ENDED if _is_read(desired, fragment_id, **records) else HandoverStage.OVER
    if fragment_id in ended:
        return HandoverStage.ENDED
    is_its_turn = may_end and all(name in ended for name in upstream(desired, fragment_id, **records))
    return HandoverStage.END if is_its_turn else HandoverStage.WORK


def remote_successors(desired: DesiredState, fragment_id: str) -> tuple[WantedFragment, ...]:
    """Successor fragments on other nodes."""
    return tuple(heir for heir in successors(desired, fragment_id) if heir.id in desired.heirs_elsewhere)


def is_over(desired: DesiredState, fragment_id: str, *, begun: Collection[str]) -> bool:
    """True where all that go on with a fragment that hands over have begun, or are over themselves."""
    heirs = successors(desired, fragment_id)
    return bool(heirs) and all(
        heir.id in begun or (heir.id in desired.outgoing and is_over(desired, heir.id, begun=begun)) for heir in heirs
    )


def _is_read(desired: DesiredState, fragment_id: str, *, begun: Collection[str], ended: Collection[str]) -> bool:
    """Whether another that hands over has not read to the end yet what this one wrote."""
    return fragment_id in ended and any(
        name not in ended and not is_over(desired, name, begun=begun)
        and fragment_id in upstream(desired, name, begun=begun, ended=ended)
        for name in desired.outgoing
    )


def upstream(
    desired: DesiredState, fragment_id: str, *, begun: Collection[str], ended: Collection[str]
) -> tuple[str, ...]:
    """The fragments that hand over, too, and write the channels that this one reads.

    Those that were cleared away wrote long ago; those that go on with this one's work will write there, but after it
    has ended.
    """
    inputs = {item.channel for item in desired.outgoing[fragment_id].inputs}
    return tuple(
        name for name, outgoing in desired.outgoing.items()
        if inputs.intersection(outgoing.written)
        and fragment_id not in line(desired, [name])
        and (name in ended or not is_over(desired, name, begun=begun))
    )


def line(desired: DesiredState, fragment_ids: Iterable[str]) -> frozenset[str]:
    """Fragments, and all those before them whose work they go on with: any of them may be the one that still works."""
    ancestors: set[str] = set()
    remaining_ids = list(fragment_ids)
    while remaining_ids:
        name = remaining_ids.pop()
        if name not in ancestors:
            ancestors.add(name)
            fragment = desired.outgoing.get(name) or desired.heirs_elsewhere.get(name)
            remaining_ids += fragment.inherits if fragment is not None else ()
    return frozenset(ancestors)


def restore_point_of(fragment: WantedFragment, ends: Sequence[Savepoint]) -> RestorePoint:
    """Merge the savepoints of a fragment's predecessors into its restore point."""
    tasks = {task.id for task in fragment.tasks}
    batch_bases = {channel: offset.block for end in ends for channel, offset in end.last_offsets.items()}
    for channel, batch_base in (item for end in ends for item in end.batch_bases.items()):
        batch_bases[channel] = max(batch_base, batch_bases.get(channel, 0))
    source_offsets = [end.source_offset for end in ends if end.source_offset is not None]
    copies = [end for end in ends if end.repeats is not None]
    reads = tuple(channel for end in copies for channel in end.reads)
    inputs = {name for item in fragment.inputs for name in (item.channel, keys.whole_of(item.channel))}
    return RestorePoint(
        source_offset=source_offsets[0] if source_offsets and not fragment.inputs else None,
        batch_bases={channel: batch_bases[channel] for channel in fragment.written if channel in batch_bases},
        states={task: states for end in ends for task, states in end.states.items() if task in tasks},
        offsets={channel: offset for end in copies for channel, offset in end.offsets.items()},
        repeats=bool(copies), recorded=sum(end.recorded for end in copies),
        reads=reads, gone=tuple(channel for channel in reads if channel not in inputs),
    )


def offset_of(channel: str, ends: Sequence[Savepoint], *, written: bool = True) -> Offset | None:
    """The offset at which a successor begins in a channel: the reader's end; or else the writer's, whose next block is
    new.

    Without ``written`` only the former.
    """
    offsets = [end.offsets[channel] for end in ends if channel in end.offsets]
    last_offsets = [end.last_offsets[channel] for end in ends if written and channel in end.last_offsets]
    return (offsets or last_offsets or [None])[0]
