"""Bloom filter: membership in one array of bits, never a false negative, few false positives.

Places come from one MD5 digest by double hashing, so that Spark's own ``md5`` finds the same ones.

References
----------
.. [1] B. H. Bloom, "Space/Time Trade-offs in Hash Coding with Allowable Errors", CACM 13(7), 1970.
.. [2] A. Kirsch and M. Mitzenmacher, "Less Hashing, Same Performance", ESA 2006.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """``bits`` holds ``size`` bits, the lowest of each octet first; a key has ``hashes`` places."""

    bits: bytes
    size: int
    hashes: int

    @classmethod
    def of(cls, members: Iterable[str], *, expected_insertions: int, false_positive_ratio: float) -> BloomFilter:
        """The filter of these members, sized for so many at so small a share of false positives."""
        size = max(8, math.ceil(-expected_insertions * math.log(false_positive_ratio) / math.log(2) ** 2))
        hashes = max(1, round(size / expected_insertions * math.log(2)))
        bits = bytearray((size + 7) // 8)
        for member in members:
            for bit in places(member, size=size, hashes=hashes):
                bits[bit >> 3] |= 1 << (bit & 7)
        return cls(bytes(bits), size, hashes)

    def __contains__(self, key: str) -> bool:
        return all(self.bits[bit >> 3] >> (bit & 7) & 1
                   for bit in places(key, size=self.size, hashes=self.hashes))


def places(key: str, *, size: int, hashes: int) -> Iterator[int]:
    """The bits of a key: the digest's first 32 bits, and steps of its second 32 bits from there."""
    digest = hashlib.md5(key.encode(), usedforsecurity=False).hexdigest()
    first, step = int(digest[:8], 16), int(digest[8:16], 16)
    return ((first + turn * step) % size for turn in range(hashes))
