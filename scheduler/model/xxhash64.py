"""XXH64 (xxHash, 64 bits; Collet, 2012): the hash that Spark's SQL function ``xxhash64`` computes."""

from __future__ import annotations

SPARKS_SEED = 42
_MASK = 2**64 - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def xxhash64(data: bytes, seed: int = SPARKS_SEED) -> int:
    """The hash of some bytes, from 0 to 2**64 - 1; Spark's has the same 64 bits as a signed number.

    Examples
    --------
    >>> xxhash64(b"Spark") - 2**64
    -4294468057691064905
    """
    length, position = len(data), 0
    if length >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        while position + 32 <= length:
            for lane in range(4):
                lanes[lane] = _round(lanes[lane], _word(data, position + 8 * lane, 8))
            position += 32
        mixed = sum(_rotated(lane & _MASK, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            mixed = ((mixed ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        mixed = seed + _P5
    mixed = (mixed + length) & _MASK
    while position + 8 <= length:
        mixed = (_rotated(mixed ^ _round(0, _word(data, position, 8)), 27) * _P1 + _P4) & _MASK
        position += 8
    if position + 4 <= length:
        mixed = (_rotated(mixed ^ _word(data, position, 4) * _P1 & _MASK, 23) * _P2 + _P3) & _MASK
        position += 4
    for byte in data[position:]:
        mixed = _rotated(mixed ^ byte * _P5 & _MASK, 11) * _P1 & _MASK
    mixed = (mixed ^ mixed >> 33) * _P2 & _MASK
    mixed = (mixed ^ mixed >> 29) * _P3 & _MASK
    return mixed ^ mixed >> 32


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _word(data: bytes, position: int, size: int) -> int:
    return int.from_bytes(data[position : position + size], "little")
