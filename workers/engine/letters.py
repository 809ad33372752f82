"""Letters: what could not be read of a live source, or was refused by a sink's other system, as the broker keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.contracts.moments import LATEST_MS
from workers.engine.slot_values import count_of


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
        """An entry of the stream that keeps them, as a connector host wrote it: what it lacks is empty, and a time
        that is none is that of 1970."""
        reason, place = (fields.get(name, b"").decode(errors="replace") for name in (b"reason", b"place"))
        return cls(
            entry.decode(), min(count_of(fields.get(b"t")) or 0, LATEST_MS), reason, place, fields.get(b"sample", b""),
            fields.get(b"b", b""))
