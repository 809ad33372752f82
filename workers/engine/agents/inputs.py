"""What a fragment reads and has read: which of its channels are there, and what is left in them for it.

A reader of a whole stream that becomes one of a part of it reads the whole up to where its parts begin, and then those:
its writer says where that is (`ChannelInfo.limits`), and until it does so, all goes on as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from scheduler.contracts.desired import Input, WantedFragment
from workers.engine.channels import keys
from workers.engine.channels.registry import ChannelInfo

from .checkpoint import Progress
from .context import SlotContext
from .handover import offset_order
from .input_selection import select_inputs


class InputChannels:
    """Looks at the channels of fragments that this slot runs."""

    def __init__(self, around: SlotContext) -> None:
        self._around = around

    def now(self, wanted: WantedFragment, *, between_batches: bool | None = None) -> tuple[Input, ...] | None:
        """What the fragment can read now of what it should; None where it has to wait.

        ``between_batches`` is what its checkpoint says, if not given: a query that runs ends its batch before it stops.
        """
        store = self._around.store
        known_inputs, read = (), Progress()
        known = store.known(wanted.id)
        if known is not None and {item.task for item in known.inputs} == {item.task for item in wanted.inputs}:
            known_inputs, read = known.inputs, store.progress(wanted.id)
        channels = dict.fromkeys((*channels_of(wanted.inputs), *channels_of(known_inputs)))
        infos = {channel: self._around.channels.info(channel) for channel in channels}
        there = {channel: info for channel, info in infos.items() if info is not None and info.schema_json}
        whole = {
            channel for channel, info in there.items() if _is_read_whole(info, wanted.id, read.offsets.get(channel))}
        return select_inputs(
            [_instead(item, whole) for item in wanted.inputs], known_inputs,
            ready={channel for channel, info in there.items() if wanted.id in {*info.readers, *info.limits}},
            unread={
                channel for channel, info in there.items() if _is_unread(info, wanted.id, read.offsets.get(channel))
            },
            between_batches=read.is_done if between_batches is None else between_batches,
        )

    def is_read(self, fragment: WantedFragment, items: Iterable[Input]) -> bool:
        """Whether the fragment has read these channels to their ends, by its checkpoint."""
        read = self._around.store.progress(fragment.id)
        infos = {channel: self._around.channels.info(channel) for channel in channels_of(items)}
        return not any(
            info is not None and _is_unread(info, fragment.id, read.offsets.get(channel))
            for channel, info in infos.items()
        )


def channels_of(items: Iterable[Input]) -> list[str]:
    """The channels of inputs, and those of the whole streams that some of them are parts of."""
    return list(dict.fromkeys(
        channel for item in items
        for channel in ((item.channel, keys.whole_of(item.channel)) if keys.is_part(item.channel) else (item.channel,))
    ))


def _instead(item: Input, whole: set[str]) -> Input:
    """The whole stream, where the reader still reads that and not its part."""
    channel = keys.whole_of(item.channel) if keys.is_part(item.channel) else item.channel
    return replace(item, channel=channel) if channel in whole else item


def _is_read_whole(info: ChannelInfo, reader: str, read_to: str | None) -> bool:
    """Whether a reader of parts has a place in the whole stream, and has not come to its limit there."""
    offset = info.readers.get(reader)
    limit = info.limits.get(reader)
    if offset is None:
        return False
    return limit is None or max(offset_order(read_to or offset), offset_order(offset)) < offset_order(limit)


def _is_unread(info: ChannelInfo, reader: str, read_to: str | None) -> bool:
    offset = info.readers.get(reader)  # behind what it has read, but for one that was let go meanwhile
    last = info.limits.get(reader, info.last)
    return offset is not None and max(offset_order(read_to or offset), offset_order(offset)) < offset_order(last)
