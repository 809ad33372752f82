"""Inputs that a fragment can read now, and those that it has read: the channels of a snapshot that are open for it.
Pure.

A reader of a whole stream that becomes one of a part of it reads the whole up to where its parts begin, and then those:
its writer says where that is (`ChannelInfo.limits`), and until it does so, all goes on as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from scheduler.contracts.desired import Input, WantedFragment
from scheduler.contracts.offsets import Offset
from workers.engine.channels import keys
from workers.engine.channels.channel_info import ChannelInfo

from ..node_files.checkpoint import CheckpointProgress
from .input_selection import select_inputs
from .snapshot import Snapshot


def inputs_now(
    snapshot: Snapshot, fragment: WantedFragment, *, between_batches: bool | None = None
) -> tuple[Input, ...] | None:
    """Those of the fragment's inputs that it can read now; None where it has to wait.

    ``between_batches`` is what its checkpoint says, if not given: a query that runs ends its batch before it stops.
    """
    known_inputs, progress = (), CheckpointProgress()
    recorded = snapshot.records.chain
    if recorded is not None and {item.task for item in recorded.inputs} == {item.task for item in fragment.inputs}:
        known_inputs, progress = recorded.inputs, snapshot.records.progress
    channels = dict.fromkeys((*channels_of(fragment.inputs), *channels_of(known_inputs)))
    infos = {name: info for name in channels if (info := snapshot.channels.get(name)) is not None and info.schema_json}
    if between_batches is None:
        between_batches = progress.is_done
    if between_batches:  # what a writer that has left wrote, and what is not there any more, is read to its end
        known_inputs = tuple(item for item in known_inputs if not item.ending or item.channel in infos)
    whole = {
        name for name, info in infos.items() if _is_read_whole(info, fragment.id, progress.offsets.get(name))}
    unread = {name for name, info in infos.items() if is_unread(info, fragment.id, progress.offsets.get(name))}
    begun = snapshot.records.begun
    # What is repeated reads what it read: what had to be read before that was.
    read = {item.channel for item in known_inputs} | set(begun.reads if begun is not None else ())
    return select_inputs(
        [_instead(item, whole) for item in fragment.inputs], known_inputs,
        ready={name for name, info in infos.items() if fragment.id in {*info.readers, *info.limits}}, unread=unread,
        between_batches=between_batches,
        later={
            item.channel for item in fragment.inputs if item.channel not in read and any(
                name in unread and is_unread(
                    infos[name], fragment.id, progress.offsets.get(name), snapshot.ends.get(item.channel, {}).get(name))
                for name in item.after)},
    )


def ends_to_note(snapshot: Snapshot, fragment: WantedFragment) -> dict[str, dict[str, Offset]]:
    """By channel that is open and comes after others, and is not read yet: where these ended when that was seen first.

    What they have of the keys that the channel goes on with is before there.
    """
    read = {item.channel for item in snapshot.actual.inputs}
    infos = snapshot.channels
    return {
        item.channel: {name: infos[name].last for name in item.after if name in infos}
        for item in fragment.inputs
        if item.after and item.channel not in {*read, *snapshot.ends} and item.channel in infos
        and infos[item.channel].schema_json}


def channels_of(items: Iterable[Input]) -> list[str]:
    """The channels of inputs, and those of the whole streams that some of them are parts of.

    A channel that continues another comes before it, so that the look at the other is not older.
    """
    return list(dict.fromkeys(
        channel for item in sorted(items, key=lambda item: -len(item.after))
        for channel in ((item.channel, keys.whole_of(item.channel)) if keys.is_part(item.channel) else (item.channel,))
    ))


def streams_by_channel(items: Iterable[Input]) -> dict[str, str]:
    """The task whose stream each of these channels carries, where they carry several streams; else nothing."""
    streams = {item.channel: item.task for item in items}
    return streams if len(set(streams.values())) > 1 else {}


def is_unread(info: ChannelInfo, reader: str, read_to: Offset | None, end: Offset | None = None) -> bool:
    """True where something is left in a channel, up to an end or at all, for a reader that has read so far, by its
    checkpoint."""
    offset = info.readers.get(reader)  # behind what it has read, but for one that was let go meanwhile
    last = min(info.limits.get(reader, info.last), end or info.last)
    return offset is not None and max(read_to or offset, offset) < last


def _instead(item: Input, whole: set[str]) -> Input:
    """The whole stream, where the reader still reads that and not its part."""
    channel = keys.whole_of(item.channel) if keys.is_part(item.channel) else item.channel
    return replace(item, channel=channel) if channel in whole else item


def _is_read_whole(info: ChannelInfo, reader: str, read_to: Offset | None) -> bool:
    """Whether a reader of parts has a place in the whole stream, and has not come to its limit there."""
    offset = info.readers.get(reader)
    limit = info.limits.get(reader)
    if offset is None:
        return False
    return limit is None or max(read_to or offset, offset) < limit
