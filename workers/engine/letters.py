"""Letters: what could not be read of a live source, or was refused by a sink's other system, as the broker keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeptLetter:
    """A dead letter that is kept: when it came or was refused (ms since the epoch), why, where it was, and how it
    begins; a sink's has its event as JSON there, and as the block that it was."""

    id: str
    at_ms: int
    reason: str
    place: str
    sample: bytes
    block: bytes = b""

    @classmethod
    def of(cls, entry: bytes, fields: Mapping[bytes, bytes]) -> KeptLetter:
        """An entry of the stream that keeps them."""
        return cls(
            entry.decode(), int(fields[b"t"]), fields[b"reason"].decode(errors="replace"),
            fields[b"place"].decode(errors="replace"), fields[b"sample"], fields.get(b"b", b""))
