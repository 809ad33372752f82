"""Runner: one sink on a thread of its own, from the other system's place, for as long as it is wanted.

It reads the sink's channel, puts blocks together and lets the connector write them. Whatever fails, it opens the other
system again and goes on from what that says: after a second at first, then less and less often. What waits stays in
the channel, which holds back the sink's own query when it is full, and nobody else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import redis

from scheduler.contracts.offsets import Offset
from scheduler.contracts.reports import SinkReport
from scheduler.model.errors import WeirError
from workers.engine.channels.channel_config import CAPACITY_BLOCKS
from workers.engine.channels.spill import SpilledBlock
from workers.engine.retried import RUNNING, Retried, now_ms
from workers.engine.sealed_secrets import redacted
from workers.engine.slot_values import table_of
from workers.library.arrow_types import rows_in
from workers.library.config import InvalidConfig

from .again import write_again
from .contract import Batch, Batching, Overtaken, RefusedRow, Sink, SinkAway, SinkOpening, Writer
from .rows import as_json
from .sink_store import KeptBlock, SinkStore

WAIT_MS = 1_000  # how long a quiet channel is waited for at a time: a stop is noticed within that
LOOK_S = 0.25  # for a channel that is not open yet
READ_BLOCKS = 64  # at a time
MOST_BLOCKS = CAPACITY_BLOCKS // 2  # of a batch: its channel must not be full before it is written
KEPT_BLOCKS = 1_000  # that are outside, and kept to be written again


class SinkRunner(Retried):
    """Runs one sink, once ``start`` was called, until ``stop``."""

    def __init__(
        self, sink: Sink, store: SinkStore, *, on_event: Callable[..., None] = lambda *_, **__: None
    ) -> None:
        super().__init__(sink.task, kind="sink", on_event=on_event)
        self.sink = sink
        self._store = store
        self._draining = False
        self.is_empty = False  # nothing waited when it looked last
        self.has_given = False  # a batch to the other system
        self._pending: list[SpilledBlock] = []
        self._kept_blocks: list[KeptBlock] = []
        self._position = self._place = Offset("0-0")

    def drain(self, is_wanted_no_more: bool) -> None:
        """Say whether nobody wants the sink any more: then nothing waits for a batch to be larger."""
        self._draining = is_wanted_no_more

    def report(self) -> SinkReport:
        """The report of the sink, but for its counters."""
        return SinkReport(
            state=self._state, since_ms=self._since_ms, error=self._error or None, retry_at_ms=self._retry_at_ms,
            restarts=self._restarts)

    # -- on the thread -------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Write until asked to stop."""
        sink, store = self.sink, self._store
        schema = store.schema(sink.channel)
        if schema is None:  # its query starts only, or is gone
            self.is_empty = True
            self._stopping.wait(LOOK_S)
            return
        noted = store.position(sink.channel)
        writer = self._open(schema, noted)
        try:
            if notice := getattr(writer, "notice", ""):
                self._on_event(
                    "sink_found_otherwise", task=sink.task, fragment=sink.channel.partition(".")[0],
                    what=notice)
            restored = store.restored(sink.channel)
            if restored is not None:
                writer = self._after_a_restore(writer, restored, schema, noted)
            self._find_place(writer, noted)
            while not self._stopping.is_set():
                self._become(RUNNING)
                order = store.oldest_order(sink.channel)
                if order is not None:
                    count = write_again(
                        order, writer, store, sink, committed=self._place, position=self._position)
                    self._on_event("sink_wrote_again", task=sink.task, events=count)
                blocks = self._gather(writer.batching)
                self.is_empty = not blocks and not self._pending
                if blocks:
                    self._write(writer, blocks)
                else:
                    writer.rest()
        finally:
            with suppress(Exception):
                writer.close()

    def _open(self, schema: str, noted: Offset) -> Writer:
        sink = self.sink
        return sink.open(SinkOpening(sink.name, sink.task, sink.config(), column_names(schema), noted, sink.folder))

    def _after_a_restore(self, writer: Writer, restored: Offset, schema: str, noted: Offset) -> Writer:
        """Go on as another sink if the other system has more than the restored channel.

        New blocks will have the numbers of blocks there, and other events: under the sink's old name they would count
        as written already.
        """
        is_new = (writer.position() or restored) > restored
        life = self._store.settle(self.sink.channel, is_new=is_new)
        if not is_new:
            return writer
        writer.close()
        self.sink = replace(self.sink, name=f"weir-{life}")
        self._on_event("sink_began_anew", task=self.sink.task)
        return self._open(schema, noted)

    def _find_place(self, writer: Writer, noted: Offset) -> None:
        """Where to go on: behind what the other system has, which may be more than was noted here."""
        sink, store = self.sink, self._store
        self._position = max(noted, writer.position() or noted)
        self._place = store.place(sink.channel)
        self._pending, self._kept_blocks = [], []
        after, unnoted = self._place, 0
        while after < self._position:
            blocks = store.channels.entries(sink.channel, after=after, count=READ_BLOCKS)
            for block in blocks:
                if block.offset > self._position:
                    break
                self._kept_blocks.append(KeptBlock(block.offset, block.events, block.written_ms))
                unnoted += block.events if block.offset > noted else 0
            if not blocks or blocks[-1].offset >= self._position:
                break
            after = blocks[-1].offset
        if self._position > noted:
            self._note(taken=unnoted, passed=unnoted)

    def _gather(self, batching: Batching) -> list[SpilledBlock]:
        """The blocks of the next batch; empty if it is not yet due."""
        after = self._pending[-1].offset if self._pending else self._position
        wait_ms = WAIT_MS
        if self._pending:
            due_ms = self._pending[0].written_ms + round(1000 * self._linger_s(batching))
            wait_ms = min(WAIT_MS, due_ms - now_ms())
        if len(self._pending) < MOST_BLOCKS and wait_ms > 0:
            self._pending += self._store.wait(
                self.sink.channel, after=after, most=READ_BLOCKS, timeout_ms=wait_ms)
        if not self._pending:
            return []
        count, events, size = 0, 0, 0
        for block in self._pending[:MOST_BLOCKS]:
            if count and (events >= batching.most_events or size >= batching.most_bytes):
                break
            count, events, size = count + 1, events + block.events, size + len(block.payload)
        is_due = now_ms() - self._pending[0].written_ms >= 1000 * self._linger_s(batching)
        is_large = events >= batching.most_events or size >= batching.most_bytes or count >= MOST_BLOCKS
        if not is_due and not is_large:
            return []
        return self._pending[:count]

    def _linger_s(self, batching: Batching) -> float:
        return 0.0 if self._draining else batching.linger_s

    def _write(self, writer: Writer, blocks: Sequence[SpilledBlock]) -> None:
        """Write blocks as one batch, then note it."""
        tables = [table_of(block.payload) for block in blocks]
        rows = pa.concat_tables(tables)
        refused: set[int] = set()

        def refuse(letters: Sequence[RefusedRow]) -> None:
            self._refuse(rows, blocks, letters)
            refused.update(letter.row for letter in letters)

        writer.write(Batch(rows, after=self._position, until=blocks[-1].offset), refuse)
        self.has_given = True
        del self._pending[:len(blocks)]
        self._position = blocks[-1].offset
        self._kept_blocks += [KeptBlock(block.offset, block.events, block.written_ms) for block in blocks]
        self._note(taken=rows.num_rows - len(refused), passed=rows.num_rows)

    def _refuse(self, rows: pa.Table, blocks: Sequence[SpilledBlock], letters: Sequence[RefusedRow]) -> None:
        """Keep what the other system does not take."""
        places = [(block, row) for block in blocks for row in range(block.events)]
        events = []
        for letter in sorted(letters, key=lambda letter: letter.row):
            block, row = places[letter.row]
            event = rows.slice(letter.row, 1)
            events.append((block, row, redacted(letter.reason), event, as_json(rows_in(event)[0])))
        for start in range(0, len(events), 100):
            self._store.refuse(
                self.sink.channel, events[start:start + 100], keep=self.sink.keep_refused, now_ms=now_ms())

    def _note(self, *, taken: int, passed: int) -> None:
        """Note what is outside, and free what is kept no longer."""
        kept_events = sum(block.events for block in self._kept_blocks)
        count = 0
        while count < len(self._kept_blocks) and (
            kept_events > self.sink.keep_events or len(self._kept_blocks) - count > KEPT_BLOCKS or self._draining
        ):
            kept_events -= self._kept_blocks[count].events
            self._place = self._kept_blocks[count].offset
            count += 1
        del self._kept_blocks[:count]
        if not self._kept_blocks:
            self._place = self._position
        self._store.note(
            self.sink.channel, position=self._position, taken=taken, passed=passed, now_ms=now_ms(),
            committed=self._place, kept_blocks=self._kept_blocks)

    def _words_of(self, error: BaseException) -> str:
        return redacted(_words(error))

    def _is_away(self, error: BaseException) -> bool:
        return isinstance(error, SinkAway)


def column_names(schema_json: str) -> list[str]:
    """The columns of a schema as Spark has it."""
    return [field["name"] for field in json.loads(schema_json)["fields"]]


def _words(error: BaseException) -> str:
    """What went wrong, for the people whose sink it is."""
    match error:
        case InvalidConfig():
            return "The operator does not let sinks write to this system. Ask for its host to be named, in " \
                "WEIR_SINK_HOSTS, or where that is not used in WEIR_CONNECTOR_HOSTS or, of databases, " \
                "WEIR_DATABASE_HOSTS."
        case WeirError():
            return error.full_message
        case redis.RedisError():
            return "The broker does not answer."
        case Overtaken():
            return "Another host writes this sink; it continues where that one stopped."
        case _:
            return f"{type(error).__name__}: {str(error)[:300]}"
