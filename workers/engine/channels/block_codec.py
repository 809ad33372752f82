"""Blocks: a batch of events as one Arrow IPC stream."""

from __future__ import annotations

import pyarrow as pa


def encode_block(batch: pa.RecordBatch) -> bytes:
    """A record batch as an Arrow IPC stream of one batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def decode_block(block: bytes) -> list[pa.RecordBatch]:
    """The record batches of a block; more than one only where another writer chose so."""
    with pa.ipc.open_stream(block) as reader:
        return list(reader)
