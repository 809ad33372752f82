"""The progress of a query, read from its checkpoint without Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scheduler.contracts.offsets import Offset
from workers.engine.channels import open_streams


@dataclass(frozen=True, slots=True)
class CheckpointProgress:
    """The newest batch that a query planned (-1 before the first), whether it is done, and where its sources ended.

    ``source_offset``: the offset of a source; ``offsets``: the last entries read, by channel; ``start_offsets``: the
    entries after which that batch begins, as far as an earlier batch tells; ``planned_ms``: when that batch was planned
    (ms since the epoch); ``is_open``: the unfinished batch was begun in real-time mode, and is to be ended in it.
    """

    batch: int = -1
    is_done: bool = True
    source_offset: Mapping[str, int] | None = None
    offsets: Mapping[str, Offset] = field(default_factory=dict)
    start_offsets: Mapping[str, Offset] = field(default_factory=dict)
    planned_ms: int = field(default=0, compare=False)
    is_open: bool = False


def read_progress(checkpoint: Path) -> CheckpointProgress:
    """The progress of a checkpoint; one that is not there has not begun."""
    batch = max(_batches(checkpoint / "offsets"), default=-1)
    done = max(_batches(checkpoint / "commits"), default=-1)
    opened = open_streams.journal(checkpoint)
    if opened is not None and opened[0] > done:  # Spark does not know yet what it has read
        batch, lines = opened
        source_offset, offsets = _parsed(lines[-1:])
        _, start_offsets = _offsets(checkpoint, batch - 1)
        return CheckpointProgress(
            batch, False, source_offset, offsets, start_offsets, int(time.time() * 1000), is_open=True)
    if batch < 0:
        return CheckpointProgress()
    source_offset, offsets = _offsets(checkpoint, batch)
    _, start_offsets = _offsets(checkpoint, batch - 1)
    planned_ms = _written_ms(checkpoint / "offsets" / str(batch))
    return CheckpointProgress(batch, done >= batch, source_offset, offsets, start_offsets, planned_ms)


def _offsets(checkpoint: Path, batch: int) -> tuple[dict[str, int] | None, dict[str, Offset]]:
    try:
        lines = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    except FileNotFoundError:
        return None, {}
    # The first two lines are the version and Spark's own; then comes a line for each source, "-" without an offset.
    return _parsed(lines[2:])


def _parsed(lines: Iterable[str]) -> tuple[dict[str, int] | None, dict[str, Offset]]:
    source_offset, offsets = None, {}
    for line in lines:
        offset = json.loads(line) if line != "-" else {}
        if "t0" in offset:
            source_offset = offset if offset["next"] >= 0 else None  # below 0 it stood by (TicksOffset.java)
        else:
            offsets.update({channel: Offset(entry) for channel, entry in offset.items()})
    return source_offset, offsets


def _written_ms(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:  # Spark has deleted it meanwhile: it was an old one
        return 0


def _batches(log: Path) -> list[int]:
    try:
        return [int(path.name) for path in log.iterdir() if path.name.isdigit()]
    except FileNotFoundError:  # it has not begun, or is cleared away just now
        return []
