"""Blocks that no query of Weir wrote: what somebody who took a slot over may put into its channels."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from workers.engine.channels.block_codec import encode_block

EVENTS = 4
SECRET = 60_000  # bytes that a forged text claims, where its block has 8
LONGS = pa.array(range(EVENTS), pa.int64())
HONEST = pa.record_batch({
    "n": LONGS, "text": ["a", None, "ccc", ""], "is": [True, None, False, True],
    "list": [[1, None], [], None, [2]], "record": [{"x": "y"}, None, {"x": None}, {"x": "z"}],
    "map": pa.array([[("a", 1)], [], None, [("b", 2)]], pa.map_(pa.string(), pa.int32())),
    "nothing": pa.nulls(EVENTS), "bytes": [b"\xff", b"", None, b"1"]})


def forged_blocks() -> Iterator[tuple[str, bytes, int]]:
    """Each with what is wrong with it, and the events that its entry says."""
    texts, plain = pa.record_batch({"text": ["a", "b", "c", "d"]}), encode_block(pa.record_batch({"n": LONGS}))
    yield "a text that reaches beyond", patched(texts, "text", (1, 0, [0, 1, 2, 3, SECRET])), EVENTS
    yield "a text that begins before", patched(texts, "text", (1, 0, [-SECRET, 1, 2, 3, 4])), EVENTS
    yield "texts that go back", patched(texts, "text", (1, 0, [0, 4, 1, 3, 4])), EVENTS
    lists = pa.record_batch({"list": [[1], [2], [3], [4]]})
    yield "a list that reaches beyond", patched(lists, "list", (1, 0, [0, 1, 2, 3, SECRET])), EVENTS
    within = pa.record_batch({"list": [["a"], ["b"], ["c"], ["d"]]})
    yield "a text within a list", patched(within, "list", (3, 0, [0, 1, 2, 3, SECRET])), EVENTS
    records = pa.record_batch({"record": [{"x": "a"}] * EVENTS})
    yield "a text within a record", patched(records, "record", (2, 0, [0, 1, 2, 3, SECRET])), EVENTS
    yield "more events than bytes", counted(plain, 2**31 - 1), 2**31 - 1
    yield "as many events, and another number at its entry", counted(plain, 2**31 - 1), EVENTS
    yield "fewer than none", counted(plain, -1), EVENTS
    yield "events that its entry does not have", plain, EVENTS - 1
    yield "fewer events than its entry has", plain, 1_000_000
    yield "nulls without end", encode_block(pa.record_batch({"n": pa.nulls(30_000_000)})), 30_000_000
    yield "a dictionary", encode_block(pa.record_batch({"n": pa.array(["a"] * EVENTS).dictionary_encode()})), EVENTS
    yield "compressed", packed(np.zeros(1_000_000, np.int64)), 1_000_000
    yield "a message of two gigabytes", plain[:4] + struct.pack("<i", 2**31 - 1) + plain[8:], EVENTS
    yield "a message of less than nothing", plain[:4] + struct.pack("<i", -8) + plain[8:], EVENTS
    yield "a body of two gigabytes", replaced(plain, 8 * EVENTS, 2**31 - 1), EVENTS
    yield "cut short", plain[:-40], EVENTS
    yield "nothing", b"", 0
    yield "noise", bytes(range(256)) * 10, EVENTS
    deep = pa.int64()
    for _ in range(200):
        deep = pa.list_(deep)
    yield "lists in lists", schema_alone(pa.schema({"n": deep})), 0
    yield "columns without end", schema_alone(pa.schema([("n", pa.int64())] * 20_001)), 0
    yield "names without end", schema_alone(pa.schema([("n" * 1_000, pa.int64())] * 1_001)), 0
    union = pa.UnionArray.from_sparse(pa.array([0] * EVENTS, pa.int8()), [LONGS])
    yield "a union", encode_block(pa.record_batch({"n": union})), EVENTS
    three = encode_block(pa.record_batch({"a": LONGS, "b": LONGS, "c": LONGS}))
    yield "three columns at one place", at_one_place(three), EVENTS


def noise(block: bytes, seed: int) -> bytes:
    """A block with some bytes changed."""
    random = np.random.default_rng(seed)
    changed = bytearray(block)
    for place in random.integers(0, len(block), random.integers(1, 6)):
        changed[place] = random.integers(0, 256)
    return bytes(changed)


def patched(batch: pa.RecordBatch, name: str, change: tuple[int, int, list[int]]) -> bytes:
    """A block with other numbers of 32 bits in one buffer of a column, which pyarrow would not write."""
    buffer, first, numbers = change
    honest = encode_block(batch)
    before = batch.column(name).buffers()[buffer].to_pybytes()[4 * first:4 * (first + len(numbers))]
    place = honest.rindex(before)
    return honest[:place] + struct.pack(f"<{len(numbers)}i", *numbers) + honest[place + len(before):]


def counted(block: bytes, events: int) -> bytes:
    """A block that says of its batch, and of its columns, to have so many events."""
    return replaced(block, EVENTS, events)


def replaced(block: bytes, number: int, other: int) -> bytes:
    """A block whose record batch says another number of 64 bits wherever its header says one."""
    start = block.rindex(struct.pack("<i", -1), 0, len(block) - 8)
    length = struct.unpack_from("<i", block, start + 4)[0]
    header = block[start + 8:start + 8 + length].replace(struct.pack("<q", number), struct.pack("<q", other))
    return block[:start + 8] + header + block[start + 8 + length:]


def at_one_place(block: bytes) -> bytes:
    """A block of three columns of numbers that are all where the first is, and no others there."""
    body = 8 * EVENTS
    for place in (body, 2 * body):
        block = block.replace(struct.pack("<qq", place, body), struct.pack("<qq", 0, body))
        block = block.replace(struct.pack("<qq", place, 0), struct.pack("<qq", 0, 0))
    return replaced(block, 3 * body, body)[:-2 * body - 8] + block[-8:]


def schema_alone(schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema):
        pass
    return sink.getvalue().to_pybytes()


def packed(values: np.ndarray) -> bytes:
    batch, sink = pa.record_batch({"n": values}), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()
