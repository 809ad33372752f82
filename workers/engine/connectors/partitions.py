"""Partitions of live sources: parts within which events keep their order, each with a number that its events carry."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from scheduler.model.columns import NUMBER_BITS

from .contract import Message


def partitions_of(messages: Sequence[Message]) -> list[str]:
    """The partition that each is of; none where none is named."""
    names = [message.partition for message in messages]
    return names if any(names) else []


def numbered(partitions: Sequence[str], *, first: int, source: str) -> list[int]:
    """The ``_seq`` of events that came together."""
    begin = {name: _number(source, name) << NUMBER_BITS for name in set(partitions)} if source else {}
    return [begin.get(name, 0) + first + index for index, name in enumerate(partitions)]


@lru_cache(maxsize=10_000)
def _number(source: str, partition: str) -> int:
    """The number of a source's partition, from 1 on, of two million."""
    digest = hashlib.blake2b(f"{source}\0{partition}".encode(), digest_size=8).digest()
    return 1 + int.from_bytes(digest, "big") % ((1 << (63 - NUMBER_BITS)) - 1)
