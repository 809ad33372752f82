"""What a channel holds, block by block: what tests and benches compare."""

from __future__ import annotations

from typing import Any

from scheduler.contracts.offsets import START, Offset
from workers.engine.channels import block_codec, keys
from workers.engine.channels.channel_registry import Channels


def block_rows(block: bytes) -> list[dict[str, Any]]:
    """The events of a block as dictionaries, oldest first."""
    return [row for batch in block_codec.decode_block(block) for row in batch.to_pylist()]


def read_blocks(
    channels: Channels, channel: str, *, after: Offset = START, count: int = 100
) -> list[tuple[Offset, list[dict[str, Any]]]]:
    """Up to ``count`` blocks after an entry, oldest first: (entry id, events). Does not move any reader."""
    entries = channels._redis.xrange(keys.channel(channel), min=f"({after}", max="+", count=count)
    return [(Offset(entry.decode()), block_rows(fields[b"b"])) for entry, fields in entries]
