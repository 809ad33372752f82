"""Keys that a bundle gives away while it works on with its other keys. Pure, but for reading files on disk.

Once all its writers divide by the new ring, no further event of these keys comes to it. As soon as it has read all
entries from before that boundary, the states of the keys are final. Between two batches they are left for the heir in a
record of their own, ``<giver>--<heir>.ended``. They also stay in the giver's state, but no longer count: a later heir
of the giver takes other ranges. If the heir is on another node, the record goes there (``transport/gifts.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from scheduler.contracts.desired import DesiredState, WantedFragment, made_in
from scheduler.contracts.partitioning import Partitioning
from scheduler.contracts.savepoints import Savepoint
from scheduler.model.ring import KEY_GROUPS, Ring
from workers.engine.channels.keys import gift_name

from .broker_instructions import Resume
from .delays import RETRY_MS, SOON_MS
from .inputs import channels_of, is_unread
from .instructions import Again, HoldQuery, Instructions, NoteEnds, ReadState, RecordGiven, RetryAt
from .outputs import hastened
from .reconcile import CopyState, FragmentState, waits_for_keys
from .retirement import inputs_of, is_final
from .savepoint_decisions import state_left
from .snapshot import READY, Snapshot

if TYPE_CHECKING:
    from .fragment_run import FragmentRun
    from .started_fragments import SlotStore


def given_to(store: SlotStore, giver: str, heir: str) -> Savepoint | None:
    """The savepoint that another left for an heir: of the keys that it gave away, or of all when it ended; None while
    neither."""
    return store.ended(gift_name(giver, heir)) or store.ended(giver)


def not_given(desired: DesiredState, fragments: Iterable[WantedFragment], store: SlotStore) -> tuple[CopyState, ...]:
    """The keys that some fragments have still to give away while they work on."""
    givers = {fragment.id: fragment for fragment in fragments if not fragment.leaving and not fragment.paused}
    return tuple(
        CopyState(givers[name], heir=heir) for heir, names in _waiting(desired, store) for name in names
        if name in givers and store.ended(gift_name(name, heir.id)) is None)


def keys_change_hands(desired: DesiredState, slot: str, store: SlotStore, runs: Mapping[str, FragmentRun]) -> bool:
    """True where others are to take keys of any fragment of a slot, which works on or leaves, and have not; or one that
    runs there does not yet read where keys go on."""
    fragments = {fragment.id: fragment for fragment in desired.of_slot(slot)}
    return any(name in fragments for _, names in _waiting(desired, store) for name in names) or any(
        waits_for_keys(fragments[name], run.fragment.inputs)
        for name, run in list(runs.items()) if name in fragments and run.state is FragmentState.RUNNING)


def _waiting(desired: DesiredState, store: SlotStore) -> Iterator[tuple[WantedFragment, Iterable[str]]]:
    """The fragments of any node that have not begun and take keys of this one's, and those whose keys they take."""
    yield from ((heir, heir.taken) for heir in desired.wanted.values()
                if heir.key_ranges and not store.has(heir.id, "begun"))
    if desired.takers:
        begun = store.taken()
        yield from ((heir, heir.taken) for heir in desired.takers if heir.id not in begun)


def give(snapshot: Snapshot, action: CopyState, heir: WantedFragment) -> Instructions:
    """Leave the states of an heir's keys, or come a step nearer to it; the query works on meanwhile."""
    fragment = action.fragment
    if not snapshot.has_query:
        return ()
    later = RetryAt(snapshot.now_ms + SOON_MS)
    ranges = heir.taken[fragment.id]

    def has_turned(partitioning: Partitioning, part: str) -> bool:
        return isinstance(partitioning, Ring) and not any(
            piece.bundle == part and _overlap(piece.token, piece.size, ranges) for piece in partitioning.ranges)

    if heir.id not in snapshot.ends:
        if not all(
            is_final(snapshot, channel, writer, made_in(heir.id), has_turned)
            for channel, writer in fragment.writers.items()
        ):
            # Once the heir is ready its keys are about to stand still.
            is_soon = READY in snapshot.controls.get(heir.id, {})
            return (RetryAt(snapshot.now_ms + (SOON_MS if is_soon else RETRY_MS)),)
        return (NoteEnds(heir.id, {name: info.last for name, info in snapshot.channels.items()}), Again(action))
    progress, ends = snapshot.records.progress, snapshot.ends[heir.id]
    names = channels_of(inputs_of(fragment, snapshot.records))
    if any(
        name in ends and (info := snapshot.channels.get(name)) is not None
        and is_unread(info, fragment.id, progress.offsets.get(name), ends[name]) for name in names
    ):
        return (*hastened(snapshot), later)
    if snapshot.is_held is None:
        return (HoldQuery(), Again(action))
    if not snapshot.is_held or not progress.is_done:
        return (later,)
    return (ReadState(state_left(snapshot.records)), Resume(), RecordGiven(heir.id, ranges))


def _overlap(first: int, size: int, ranges: Collection[tuple[int, int]]) -> bool:
    """Whether a range, which may go over the ring's end, has a key group of others."""
    return any(
        (begin - first) % KEY_GROUPS < size or (first - begin) % KEY_GROUPS < others for begin, others in ranges)
