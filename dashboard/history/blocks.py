"""Blocks: the points of some series over some time as bytes, and back.

A block is a header (series and points, how many), the series' ids within their shard, ascending, and a matrix of
float32, a row for each series. Of a value 12 bits behind the leading one are stored, an error of 0.012 % at most: what
was measured is no more exact, and bits of noise do not compress (Klöwer et al., "Compressing atmospheric data into its
real information content", 2021). Bytes of equal rank stand together, and Zstandard packs all of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

VERSION = 1
_HEADER = struct.Struct("<BHH")  # version, series, points
_CODEC = pa.Codec("zstd", compression_level=3)
_DROPPED_BITS = 23 - 12
_HALF = np.uint32(1 << (_DROPPED_BITS - 1))
_MASK = np.uint32(0xFFFFFFFF << _DROPPED_BITS & 0xFFFFFFFF)


class InvalidBlock(Exception):
    """Bytes that are no block of this version or an earlier one."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Values (float32) of series, a row each, by their ids within the shard, ascending; NaN where there is none."""

    ids: NDArray[np.uint16]
    values: NDArray[np.float32]


def encoded(matrix: Matrix) -> bytes:
    """The block of a matrix."""
    count, points = matrix.values.shape
    planes = _rounded(matrix.values).view(np.uint8).reshape(-1, 4).T
    body = matrix.ids.astype("<u2").tobytes() + np.ascontiguousarray(planes).tobytes()
    return _HEADER.pack(VERSION, count, points) + _CODEC.compress(body, asbytes=True)


def sharded(ids: NDArray[np.int64], values: NDArray[np.float32], size: int) -> Iterator[tuple[int, Matrix]]:
    """Values of series, by ascending ids, as a matrix for each shard of so many ids that has any."""
    shards = ids // size
    for shard in np.unique(shards).tolist():
        rows = slice(*np.searchsorted(shards, [shard, shard + 1]).tolist())
        yield shard, Matrix((ids[rows] - shard * size).astype(np.uint16), values[rows])


def decoded(block: bytes) -> Matrix:
    """The matrix of a block."""
    count, points, body = _opened(block)
    ids = np.frombuffer(body, "<u2", count)
    planes = np.frombuffer(body, np.uint8, offset=2 * count).reshape(4, -1)
    return Matrix(ids, np.ascontiguousarray(planes.T).view("<f4").reshape(count, points))


def rows_of(block: bytes, wanted_series: Sequence[int]) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """The values of some series of a block, by id within the shard; only these are put together again."""
    count, points, body = _opened(block)
    ids = np.frombuffer(body, "<u2", count)
    planes = np.frombuffer(body, np.uint8, offset=2 * count).reshape(4, count, points)
    wanted_ids = np.asarray(wanted_series, np.int64)
    rows = np.searchsorted(ids, wanted_ids)
    places = np.flatnonzero(ids.take(rows, mode="clip") == wanted_ids)  # those of the wanted that the block has
    rows = rows[places]
    values = np.ascontiguousarray(planes[:, rows, :].transpose(1, 2, 0)).view("<f4").reshape(len(rows), points)
    yield from ((wanted_series[at], row) for at, row in zip(places.tolist(), values, strict=True))


def _opened(block: bytes) -> tuple[int, int, bytes]:
    version, count, points = _HEADER.unpack_from(block)
    if version != VERSION:
        raise InvalidBlock(f"a block of version {version}")
    return count, points, _CODEC.decompress(
        memoryview(block)[_HEADER.size:], 2 * count + 4 * count * points, asbytes=True)


def _rounded(values: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Values to so many bits, halves away from zero; what is no number stays as it is."""
    bits = np.ascontiguousarray(values, dtype="<f4").view("<u4")
    rounded = (bits + _HALF) & _MASK
    return np.where(np.isfinite(values), rounded, bits)
