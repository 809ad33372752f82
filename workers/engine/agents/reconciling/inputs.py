"""What a fragment can read now, and what it has read: of a snapshot, which of its channels are open for it. Pure.

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

from ..checkpoint import CheckpointProgress
from .input_selection import select_inputs
from .snapshot import Snapshot


def inputs_now(
    snapshot: Snapshot, wanted: WantedFragment, *, between_batches: bool | None = None
) -> tuple[Input, ...] | None:
    """What the fragment can read now of what it should; None where it has to wait.

    ``between_batches`` is what its checkpoint says, if not given: a query that runs ends its batch before it stops.
    """
    known_inputs, progress = (), CheckpointProgress()
    known = snapshot.records.known
    if known is not None and {item.task for item in known.inputs} == {item.task for item in wanted.inputs}:
        known_inputs, progress = known.inputs, snapshot.records.progress
    channels = dict.fromkeys((*channels_of(wanted.inputs), *channels_of(known_inputs)))
    infos = {name: info for name in channels if (info := snapshot.channels.get(name)) is not None and info.schema_json}
    if between_batches is None:
        between_batches = progress.is_done
    if between_batches:  # what a writer that has left wrote, and what is not there any more, is read to its end
        known_inputs = tuple(item for item in known_inputs if not item.ending or item.channel in infos)
    whole = {
        name for name, info in infos.items() if _is_read_whole(info, wanted.id, progress.offsets.get(name))}
    unread = {name for name, info in infos.items() if is_unread(info, wanted.id, progress.offsets.get(name))}
    return select_inputs(
        [_instead(item, whole) for item in wanted.inputs], known_inputs,
        ready={name for name, info in infos.items() if wanted.id in {*info.readers, *info.limits}}, unread=unread,
        between_batches=between_batches,
        later={item.channel for item in wanted.inputs if unread.intersection(item.after)},
    )


def channels_of(items: Iterable[Input]) -> list[str]:
    """The channels of inputs, and those of the whole streams that some of them are parts of."""
    return list(dict.fromkeys(
        channel for item in items
        for channel in ((item.channel, keys.whole_of(item.channel)) if keys.is_part(item.channel) else (item.channel,))
    ))


def is_unread(info: ChannelInfo, reader: str, read_to: Offset | None) -> bool:
    """Whether something is left in a channel for a reader that has read so far, by its checkpoint."""
    offset = info.readers.get(reader)  # behind what it has read, but for one that was let go meanwhile
    last = info.limits.get(reader, info.last)
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
