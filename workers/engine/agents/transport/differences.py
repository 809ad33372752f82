"""Difference of two texts: from which parts of the old one the new one is put together, and what is new between them.

Both are cut into chunks where their content says so (content-defined chunking [1]), about one a KiB: behind a change
both are cut alike again, though it has moved all that follows. Nothing is known of what the texts mean.

[1] Muthitacharoen, Chen and Mazières, "A Low-bandwidth Network File System", SOSP 2001.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator

import numpy as np

_WINDOW = 8  # bytes that say whether a chunk ends behind them
_BITS = 10  # of their hash that are zero there
_LEAST = 64  # bytes between two ends: what repeats a few bytes again and again is not cut into those
_SLAB = 1 << 20  # bytes that are looked at in one go
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HEAD, _PART = struct.Struct("<QQ"), struct.Struct("<qQ")
_MOST_TIMES = 8  # what both texts have together that the new one may be long: a few bytes name a part again and again
_NEW = -1  # where a part begins that the old text lacks


def difference(old: bytes, new: bytes) -> bytes:
    """The bytes that ``put_together`` needs, besides the old text, for the new one.

    Parameters
    ----------
    old, new : bytes
        The texts; a chunk of the new one that the old one has anywhere is not part of the difference.
    """
    places: dict[bytes, int] = {}
    for first, chunk in _chunks(old):
        places.setdefault(_digest(chunk), first)
    parts: list[tuple[int, int]] = []
    added: list[memoryview] = []
    for _, chunk in _chunks(new):
        first, length = places.get(_digest(chunk), _NEW), len(chunk)
        if first == _NEW:
            added.append(chunk)
        before, so_far = parts[-1] if parts else (_NEW - 1, 0)
        goes_on = before == _NEW if first == _NEW else before >= 0 and before + so_far == first
        if goes_on:
            parts[-1] = (before, so_far + length)
        else:
            parts.append((first, length))
    return b"".join((_HEAD.pack(len(parts), len(old)), *(_PART.pack(*part) for part in parts), *added))


def put_together(old: bytes, change: bytes) -> bytes:
    """The new text, of the old one and the difference.

    Raises
    ------
    ValueError
        They do not belong together.
    """
    view, before = memoryview(change), memoryview(old)
    try:
        count, old_length = _HEAD.unpack_from(view)
        parts = [_PART.unpack_from(view, _HEAD.size + number * _PART.size) for number in range(count)]
    except struct.error as error:
        raise ValueError("the difference is cut short") from error
    at, texts = _HEAD.size + count * _PART.size, []
    for first, length in parts:
        if first == _NEW:
            texts.append(view[at : at + length])
            at += length
        else:
            texts.append(before[first : first + length])
    if sum(map(len, texts)) > _MOST_TIMES * (len(before) + len(view)):
        raise ValueError("the difference makes too much")
    text = b"".join(texts)
    if old_length != len(old) or at != len(change) or len(text) != sum(length for _, length in parts):
        raise ValueError("the difference is of another text")
    return text


def _chunks(text: bytes) -> Iterator[tuple[int, memoryview]]:
    view, first = memoryview(text), 0
    for end in _ends(text):
        yield first, view[first:end]
        first = end
    if first < len(text):
        yield first, view[first:]


def _ends(text: bytes) -> list[int]:
    """Behind which bytes a chunk ends, but for the last one."""
    count = len(text) - _WINDOW + 1
    ends = [np.empty(0, np.int64)]
    for first in range(0, max(0, count), _SLAB):
        windows = np.ndarray((min(_SLAB, count - first),), "<u8", buffer=text, offset=first, strides=(1,))
        hits = np.flatnonzero((windows * _FACTOR) >> np.uint64(64 - _BITS) == 0)
        ends.append(hits + (first + _WINDOW))
    every_end = np.concatenate(ends)
    return every_end[np.diff(every_end, prepend=-_LEAST) >= _LEAST].tolist()


def _digest(chunk: memoryview) -> bytes:
    return hashlib.blake2b(chunk, digest_size=16).digest()
