"""The retirement of a bundle that gets nothing more: it reads what it has to the end, and stays until its own events
are read.

Its writers are on any node, and may be leaving themselves: what is known of them stands in the broker. A writer that is
not heard of has not begun yet, and may still write what an older plan says. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scheduler.contracts.desired import ChannelWriter, Input, WantedFragment, made_in
from scheduler.contracts.partitioning import Partitioning
from scheduler.model.fragment import channel_id
from workers.engine.channels import keys
from workers.engine.channels.control import routes_of

from .broker_instructions import MarkLeft, Unregister
from .delays import RETRY_MS
from .handover_stages import successors
from .inputs import channels_of, is_unread
from .instructions import Instructions, RecordLeft, Release, RetryAt, TakeOn
from .savepoint_decisions import end
from .snapshot import LEFT, Records, Snapshot


def has_read_all(snapshot: Snapshot, fragment: WantedFragment) -> bool:
    """True where nobody will write for a leaving bundle any more, and it has read all that was written.

    Snapshots read control hashes before channels: what a writer wrote before it became final is seen.
    """
    offsets = snapshot.records.progress.offsets
    infos = {name: snapshot.channels.get(name) for name in channels_of(inputs_of(fragment, snapshot.records))}
    if snapshot.records.has_ended:
        return True
    heirs = [made_in(heir.id) for heir in successors(snapshot.desired, fragment.id)]
    leaves_since = min(heirs, default=None)
    return all(
        is_final(snapshot, channel, writer, leaves_since, _is_out) for channel, writer in fragment.writers.items()
    ) and not any(
        info is not None and is_unread(info, fragment.id, offsets.get(name)) for name, info in infos.items())


def retire(snapshot: Snapshot, fragment: WantedFragment) -> Instructions:
    """Release the places of a bundle at rest. It is retired once every reader has consumed its output.

    Where others have its keys from now on, it leaves the states of these first, and stays until those of other nodes
    have begun with them. Its places in channels say how far it
    had come before its last batch.
    """
    infos = [info for name in streams_of(fragment) if (info := snapshot.channels.get(name)) is not None]
    is_read = all(
        offset >= info.last for info in infos for offset in info.readers.values())
    may_go = is_read and has_given(snapshot, fragment)
    has_heirs = bool(successors(snapshot.desired, fragment.id)) and not snapshot.records.has_ended
    return (
        *(end(snapshot, fragment) if has_heirs else ()),
        TakeOn(snapshot.records.chain or fragment),
        *(Unregister(name, fragment.id) for name in channels_of(inputs_of(fragment, snapshot.records))),
        MarkLeft(),
        *((RecordLeft(), Release()) if may_go else (RetryAt(snapshot.now_ms + RETRY_MS),)),
    )


def has_given(snapshot: Snapshot, fragment: WantedFragment) -> bool:
    """True where bundles of other nodes have begun with all that a bundle leaves for them: until then it has that
    alone.
    """
    return all(taker.id in snapshot.taken for taker in snapshot.desired.takers if fragment.id in taker.taken)


def writers_of(fragment: WantedFragment) -> tuple[str, ...]:
    """Writers for a bundle that leaves, or gives keys away."""
    return tuple(dict.fromkeys(writer.fragment for writer in fragment.writers.values()))


def streams_of(fragment: WantedFragment) -> tuple[str, ...]:
    """The channels of a fragment's streams, and the parts of those that are divided."""
    parts = (
        keys.part(fragment.channel(position), bundle)
        for position, readers in fragment.routes.items() for how in readers.values() for bundle in how.bundles)
    return (*fragment.written, *parts)


def inputs_of(fragment: WantedFragment, records: Records) -> Iterable[Input]:
    """Inputs that a fragment should read, and those that it read when it last ran."""
    return dict.fromkeys((*fragment.inputs, *(records.chain.inputs if records.chain else ())))


def is_final(
    snapshot: Snapshot, channel: str, writer: ChannelWriter, since: int | None,
    has_turned: Callable[[Partitioning, str], bool],
) -> bool:
    """True if a writer gives a bundle no more events of keys that others are to have.

    A writer that is new with their plan, or with a later one, gives it none: it may be waiting for what this bundle
    still reads.

    Parameters
    ----------
    since : int or None
        The generation of their plan.
    has_turned : callable
        Takes a division; True if it gives the bundle no such events.
    """
    control = snapshot.controls.get(writer.fragment, {})
    if LEFT in control:
        return True
    route = routes_of(control).get((writer.position, writer.reader))
    # A route that lacks the bundle is of a plan before it, which its writer's node has still to hear of.
    bundle = keys.reader_of(channel)
    is_new = keys.whole_of(channel) == channel_id(writer.fragment, writer.position)
    if route is None and is_new and since is not None and made_in(writer.fragment) >= since:
        return True
    return route is not None and route.effective and has_turned(route.partitioning, bundle)


def _is_out(partitioning: Partitioning, bundle: str) -> bool:
    return bundle in partitioning.bundles and bundle not in partitioning.served
