"""How a bundle leaves that gets nothing more: it reads what it has to the end, and stays until its own events are read.

Its writers are on any node, and may be leaving themselves: what is known of them stands in the broker. A writer that is
not heard of has not begun yet, and may still write what an older plan says.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.contracts.desired import Input, WantedFragment, Writer
from workers.engine.channels import keys

from .context import SlotContext
from .handover import offset_order
from .inputs import InputChannels, channels_of

LEFT = "left"  # in a fragment's control hash: it has stopped for good, and writes nothing more


class Retirement:
    """Looks whether a leaving bundle may stop, and whether it may go."""

    def __init__(self, around: SlotContext, inputs: InputChannels) -> None:
        self._around = around
        self._inputs = inputs

    def is_drained(self, fragment: WantedFragment) -> bool:
        """Whether nobody will write for it any more, and it has read all that was written."""
        # In this order: what is written meanwhile must not be missed.
        if not all(self._is_final(writer, fragment.id) for writer in fragment.writers.values()):
            return False
        return self._inputs.is_read(fragment, self._read_by(fragment))

    def stops(self, fragment: WantedFragment) -> None:
        """Mark the bundle retired in the broker and release its offsets; its writers and readers treat that as final.

        Its places in channels say how far it had come before its last batch.
        """
        for channel in channels_of(self._read_by(fragment)):
            self._around.channels.unregister(channel, fragment.id)
        self._around.broker.hset(keys.valve(fragment.id), LEFT, 1)

    def comes_back(self, fragment_id: str) -> None:
        """It is started, and writes again."""
        self._around.broker.hdel(keys.valve(fragment_id), LEFT)
        self._around.store.record_left(fragment_id, left=False)

    def is_read(self, fragment: WantedFragment) -> bool:
        """Whether all who read what it wrote have done so."""
        channels = [
            *fragment.written,
            *(
                keys.part(fragment.channel(position), bundle)
                for position, readers in fragment.routes.items() for weights in readers.values() for bundle in weights
            ),
        ]
        infos = [info for channel in channels if (info := self._around.channels.info(channel)) is not None]
        return all(
            offset_order(offset) >= offset_order(info.last) for info in infos for offset in info.readers.values())

    def _read_by(self, fragment: WantedFragment) -> Iterable[Input]:
        known = self._around.store.known(fragment.id)
        return dict.fromkeys((*fragment.inputs, *(known.inputs if known else ())))

    def _is_final(self, writer: Writer, bundle: str) -> bool:
        if self._around.broker.hexists(keys.valve(writer.fragment), LEFT):
            return True
        route = self._around.channels.routed(writer.fragment, writer.position, writer.reader)
        # A route that lacks the bundle is of a plan before it, which its writer's node has still to hear of.
        return route is not None and route.effective and route.weights.get(bundle) == 0
