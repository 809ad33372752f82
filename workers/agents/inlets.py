"""What a fragment reads and has read: which of its channels are there, and what is left in them for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from workers.channels.registry import ChannelInfo

from .checkpoint import Progress
from .handover import order_of
from .inputs import inputs_now
from .wanted import Input, WantedFragment

if TYPE_CHECKING:
    from .hands import Surroundings


class Inlets:
    """Looks at the channels of fragments that this slot runs."""

    def __init__(self, around: Surroundings) -> None:
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
        items = dict.fromkeys((*wanted.inputs, *known_inputs))
        infos = {item.channel: self._around.channels.info(item.channel) for item in items}
        there = {channel: info for channel, info in infos.items() if info is not None and info.schema_json}
        return inputs_now(
            wanted.inputs, known_inputs,
            ready={channel for channel, info in there.items() if wanted.id in info.readers},
            unread={
                channel for channel, info in there.items() if _is_unread(info, wanted.id, read.places.get(channel))
            },
            between_batches=read.is_done if between_batches is None else between_batches,
        )

    def is_read(self, fragment: WantedFragment, items: Iterable[Input]) -> bool:
        """Whether the fragment has read these channels to their ends, by its checkpoint."""
        read = self._around.store.progress(fragment.id)
        infos = {item.channel: self._around.channels.info(item.channel) for item in items}
        return not any(
            info is not None and _is_unread(info, fragment.id, read.places.get(channel))
            for channel, info in infos.items()
        )


def _is_unread(info: ChannelInfo, reader: str, read_to: str | None) -> bool:
    place = info.readers.get(reader)  # behind what it has read, but for one that was let go meanwhile
    return place is not None and max(order_of(read_to or place), order_of(place)) < order_of(info.last)
