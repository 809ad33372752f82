"""Spills: blocks of channels on a node's disk, for readers that are too slow for the broker to keep them.

A folder for each channel holds segments. A segment is named after the entry that its first block follows, and holds
blocks without a gap. The Java side (``Spill.java``) reads them by the same ids, so that a batch is the same wherever
its blocks come from.
"""

from __future__ import annotations

import os
import shutil
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scheduler.contracts.offsets import Offset

SEGMENT_BYTES = 16 << 20
SUFFIX = ".blocks"
# Of each block: the two numbers of its id, its events, when it was written (ms), the length and CRC-32 of what follows.
HEADER = struct.Struct("<QQQQII")


@dataclass(frozen=True, slots=True)
class SpilledBlock:
    """A block as it was written: its events, when it was written (ms since the epoch), and the Arrow IPC stream."""

    offset: Offset
    events: int
    written_ms: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Segment:
    """Blocks after ``start`` up to ``end``, in a file of ``size`` bytes."""

    path: Path
    start: Offset
    end: Offset
    size: int


def spill_folder(data_dir: Path, node: str) -> Path:
    """The folder of blocks that a node's readers have still to read."""
    return data_dir / "spill" / node


class ChannelSpill:
    """Blocks of one channel that a node has on disk. One process writes it.

    What a process that was killed had begun to write is cut off when the next one opens the folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        paths = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else ()
        self._segments = sorted((_opened(path) for path in paths), key=lambda segment: segment.start)
        for segment in [segment for segment in self._segments if segment.size == 0]:
            self._drop(segment)

    @property
    def size(self) -> int:
        """Its bytes on disk."""
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Its files, in the order of their blocks."""
        return tuple(self._segments)

    def count(self, after: Offset, to: Offset) -> tuple[int, int]:
        """The numbers of blocks and events that it holds after an entry up to another."""
        entries = list(self.entries(after, to))
        return len(entries), sum(entry.events for entry in entries)

    def behind(self, offset: Offset) -> int:
        """The bytes of the segments that hold what follows an entry."""
        return sum(segment.size for segment in self._segments if offset < segment.end)

    def end_of(self, offset: Offset) -> Offset:
        """The entry up to which it holds what follows another, without a gap; that one where it holds none of it."""
        for segment in self._segments:
            if segment.start <= offset < segment.end:
                offset = segment.end
        return offset

    def room_after(self, offset: Offset) -> Offset | None:
        """The entry behind this one after which it holds blocks; None where there is none."""
        return next((segment.start for segment in self._segments if segment.start > offset), None)

    def append(self, after: Offset, entries: Sequence[SpilledBlock]) -> None:
        """Add the blocks that follow an entry without a gap. They are on disk when this returns.

        Raises
        ------
        OSError
            They could not be written; what it held stays.
        """
        if not entries:
            return
        last = next((segment for segment in self._segments if segment.end == after), None)
        if last is None or last.size >= SEGMENT_BYTES:
            self.folder.mkdir(parents=True, exist_ok=True)
            last = Segment(self.folder / f"{after}{SUFFIX}", after, after, 0)
        data = b"".join(map(_packed, entries))
        try:
            _write(last.path, data, at=last.size)
        except OSError:
            if last.size == 0:
                last.path.unlink(missing_ok=True)
            else:
                os.truncate(last.path, last.size)
            raise
        grown = Segment(last.path, last.start, entries[-1].offset, last.size + len(data))
        self._segments = sorted(
            [*(segment for segment in self._segments if segment.path != last.path), grown],
            key=lambda segment: segment.start)

    def entries(self, after: Offset, to: Offset) -> Iterator[SpilledBlock]:
        """The blocks after an entry up to another, as far as it holds them without a gap."""
        for segment in self._segments:
            if segment.start <= after < min(segment.end, to):
                for entry in _entries(segment.path):
                    if after < entry.offset <= to:
                        yield entry
                after = min(segment.end, to)

    def prune(self, places: Iterable[Offset]) -> None:
        """Delete what is behind all of these places."""
        slowest = min(places, default=None)
        for segment in self._segments[:]:
            if slowest is None or segment.end <= slowest:
                self._drop(segment)
        if not self._segments:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _drop(self, segment: Segment) -> None:
        segment.path.unlink(missing_ok=True)
        self._segments.remove(segment)


def _write(path: Path, data: bytes, *, at: int) -> None:
    is_new = not path.exists()
    with path.open("r+b" if not is_new else "xb") as file:
        file.seek(at)
        file.truncate()
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if is_new:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _packed(entry: SpilledBlock) -> bytes:
    block, number = map(int, entry.offset.split("-"))
    payload = entry.payload
    return HEADER.pack(block, number, entry.events, entry.written_ms, len(payload), zlib.crc32(payload)) + payload


def _entries(path: Path) -> Iterator[SpilledBlock]:
    """The blocks of a file that are whole, in their order."""
    with path.open("rb") as file:
        while len(header := file.read(HEADER.size)) == HEADER.size:
            block, number, events, written_ms, length, checksum = HEADER.unpack(header)
            payload = file.read(length)
            if len(payload) < length or zlib.crc32(payload) != checksum:
                return
            yield SpilledBlock(Offset(f"{block}-{number}"), events, written_ms, payload)


def _opened(path: Path) -> Segment:
    """A segment without what was only begun."""
    start = end = Offset(path.name.removesuffix(SUFFIX))
    size = 0
    for entry in _entries(path):
        end, size = entry.offset, size + HEADER.size + len(entry.payload)
    os.truncate(path, size)
    return Segment(path, start, end, size)
