"""The doors of a fragment: its channels, who reads them, and its tail; before its query starts and while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from workers.channels import keys
from workers.channels.config import CAPACITY_BLOCKS, KEEP_EVENTS
from workers.spark.compile import output_positions

from .handover import line
from .live import Live
from .reconcile import (
    Change,
    CloseOutlet,
    CloseTail,
    OpenOutlet,
    OpenTail,
    RegisterReaders,
    UnregisterReaders,
)
from .wanted import WantedFragment

if TYPE_CHECKING:
    from .hands import Surroundings


class Doors:
    """Opens and closes channels and tails on the broker, and registers readers."""

    def __init__(
        self, around: Surroundings, *, clock_ms: Callable[[], int], on_event: Callable[..., None]
    ) -> None:
        self._around = around
        self._clock_ms = clock_ms
        self._on_event = on_event

    def prepare(self, whole: WantedFragment, schemas: Sequence[str], *, has_begun: bool) -> None:
        """Bring channels and valves to what is wanted, whatever an earlier life of the fragment left there."""
        channels = self._around.channels
        first_batch = None if has_begun else 0
        outputs = output_positions(whole.tasks, self._around.task_types)
        for task, schema in zip(whole.tasks, schemas, strict=True):
            self._around.broker.set(keys.schema(task.id), schema)
        for position in range(len(whole.tasks)):
            readers = whole.outlets.get(position, frozenset())
            if not readers and position not in outputs:
                unread = channels.info(whole.channel(position))
                if unread is not None:
                    self._close_outlet(whole, position, unread.readers)
                continue
            self._open_channel(whole, position, schemas[position], readers)
            if position not in outputs:  # who reads an output is not the engine's business
                staying = readers | whole.predecessors(readers) | self._around.desired().ceding.keys()
                for reader in channels.info(whole.channel(position)).readers.keys() - staying:
                    channels.unregister(whole.channel(position), reader)
            channels.open_outlet(whole.id, position, from_batch=first_batch)
        self._set_active(whole.id, whole.active, of=len(whole.tasks))
        self._around.broker.persist(keys.meter(whole.id))
        channels.resume(whole.id)

    def _open_channel(self, fragment: WantedFragment, position: int, schema: str, readers: Iterable[str]) -> None:
        channel = fragment.channel(position)
        task = fragment.tasks[position]
        is_output = position in output_positions(fragment.tasks, self._around.task_types)
        keep_events = int(task.config.get("keep_events", KEEP_EVENTS)) if is_output else 0
        for key in channel_keys(channel):  # an output that was left to expire may be written again
            self._around.broker.persist(key)
        self._around.channels.open_channel(
            channel, schema_json=schema, capacity=CAPACITY_BLOCKS, retain=keep_events,
        )
        self._register(fragment, position, readers)

    def _register(self, fragment: WantedFragment, position: int, readers: Iterable[str]) -> None:
        """Let fragments read a stream from where they ask to; who goes on with another's work sees to it itself."""
        for reader in readers:
            where = fragment.joins.get(position, {}).get(reader, "now")
            channel = fragment.channel(position)
            # One before its predecessors may still read here, where plans came faster than they were enacted.
            before = line(self._around.desired(), fragment.heirs.get(reader, ()))
            joined = self._around.channels.join(channel, reader, where=where, predecessors=sorted(before))
            if joined.kept_since is not None:
                self._on_event(
                    "joined_late", at_ms=self._clock_ms(), fragment=reader, channel=channel, asked=where,
                    kept_since_ms=None if joined.kept_since == "all" else int(joined.kept_since),
                )

    def change(self, live: Live, action: Change) -> None:
        """Bring a change of a running fragment into force."""
        channels = self._around.channels
        outlets = {position: set(readers) for position, readers in live.outlets.items()}
        fragment = self._as_wanted(live)
        match action:
            case OpenOutlet(fragment_id, position, readers):
                self._open_channel(fragment, position, live.schemas[position], readers)
                channels.open_outlet(fragment_id, position)
                outlets[position] = set(readers)
            case RegisterReaders(_, position, readers):
                self._register(fragment, position, readers)
                outlets[position] |= readers
            case UnregisterReaders(_, position, readers):
                for reader in readers:
                    channels.unregister(fragment.channel(position), reader)
                outlets[position] -= readers
            case CloseOutlet(_, position, readers):
                self._close_outlet(fragment, position, readers)
                outlets[position] = set()
            case CloseTail(fragment_id, active) | OpenTail(fragment_id, active):
                self._set_active(fragment_id, active, of=len(fragment.tasks))
                live.changed(active=active)
                return
        live.changed(outlets={position: frozenset(readers) for position, readers in outlets.items()})

    def _as_wanted(self, live: Live) -> WantedFragment:
        """The whole chain that runs, with what is now said of its readers."""
        wanted = self._around.desired().wanted.get(live.id)
        return live.fragment if wanted is None else replace(live.fragment, heirs=wanted.heirs, joins=wanted.joins)

    def _close_outlet(self, fragment: WantedFragment, position: int, readers: Iterable[str]) -> None:
        self._around.channels.close_outlet(fragment.id, position)
        for reader in readers:
            self._around.channels.unregister(fragment.channel(position), reader)

    def _set_active(self, fragment_id: str, active: int, *, of: int) -> None:
        if active < of:
            self._around.channels.close_tail(fragment_id, active - 1)
        else:
            self._around.channels.open_tail(fragment_id)


def channel_keys(channel: str) -> tuple[str, str, str]:
    """All keys of a channel."""
    return keys.channel(channel), keys.meta(channel), keys.readers(channel)
