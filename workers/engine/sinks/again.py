"""Writing again what is kept, because somebody asked for it: what was refused, or all since a time.

What was written before stands there twice afterwards, unless the other system tells rows by a key. An order that is cut
short is begun again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import pyarrow as pa

from scheduler.contracts.offsets import Offset
from workers.engine.letters import KeptLetter
from workers.engine.slot_values import table_of
from workers.library.arrow_types import rows_in

from .contract import Batch, RefusedRow, Sink, Writer
from .rows import as_json
from .sink_store import Order, SinkStore

REFUSED, SINCE = "refused", "since"
MOST_LETTERS, MOST_BLOCKS = 500, 16  # of one batch


def write_again(
    order: Order, writer: Writer, store: SinkStore, sink: Sink, *, committed: Offset, position: Offset
) -> int:
    """Do what was asked, and let go of the order; how many events were taken.

    Parameters
    ----------
    committed, position : Offset
        Blocks that are kept are behind the one, up to the other.
    """
    if order.what == REFUSED:
        count = _refused_again(writer, store, sink.channel, position)
    else:
        count = _blocks_again(order.since_ms or 0, writer, store, sink, committed, position)
    store.done(sink.channel)
    return count


def _refused_again(writer: Writer, store: SinkStore, channel: str, position: Offset) -> int:
    letters, count = store.all_letters(channel), 0
    for start in range(0, len(letters), MOST_LETTERS):
        chunk = letters[start:start + MOST_LETTERS]
        taken = _offered(writer, chunk, position)
        store.taken(channel, taken)
        count += len(taken)
    return count


def _offered(writer: Writer, letters: Sequence[KeptLetter], position: Offset) -> list[KeptLetter]:
    """Offer events that were refused once more; those that are taken now."""
    tables = [table_of(letter.block) for letter in letters]
    refused: set[int] = set()

    def refuse(rows: Sequence[RefusedRow]) -> None:
        refused.update(row.row for row in rows)

    writer.write(Batch(pa.concat_tables(tables), after=position, until=position, again=True), refuse)
    return [letter for row, letter in enumerate(letters) if row not in refused]


def _blocks_again(
    since_ms: int, writer: Writer, store: SinkStore, sink: Sink, committed: Offset, position: Offset
) -> int:
    """Write the blocks again that are kept and were made since a time."""
    after, count = committed, 0
    while after < position:
        entries = store.channels.entries(sink.channel, after=after, count=MOST_BLOCKS)
        blocks = [block for block in entries if block.offset <= position and block.written_ms >= since_ms]
        if blocks:
            rows = pa.concat_tables(table_of(block.payload) for block in blocks)
            places = [(block, row) for block in blocks for row in range(block.events)]
            refused: list[RefusedRow] = []
            writer.write(Batch(rows, after=position, until=position, again=True), refused.extend)
            store.refuse(sink.channel, [
                (*places[letter.row], letter.reason, event, as_json(rows_in(event)[0]))
                for letter in refused for event in (rows.slice(letter.row, 1),)],
                keep=sink.keep_refused, now_ms=time.time_ns() // 1_000_000)
            count += rows.num_rows - len(refused)
        if not entries:
            break
        after = entries[-1].offset
    return count
