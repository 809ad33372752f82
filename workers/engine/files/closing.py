"""Closing: staged batches become one file, when they are large or old enough, and each is in exactly one."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from . import disk
from .folder import CLOSING, META, SUFFIX, Staged, locked, recover, staged_in, write_state
from .spark_sink import METADATA, adopt

ARROW = b"ARROW1"  # how a staged batch of columns begins
ROW_GROUP_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class FileLimits:
    """Limits at which a file is closed: at so many staged bytes, or so many seconds after its first batch was
    staged."""

    file_bytes: int = 64 << 20
    file_s: float = 60.0


def close_due(folder: Path, limits: FileLimits, *, now_s: float, all_of_it: bool = False) -> list[str]:
    """Close what is due in a sink's folder; the names of the files that came of it.

    Parameters
    ----------
    all_of_it : bool, optional
        Close what is staged whether it is due or not, as when the node ends.

    Raises
    ------
    OSError
        The disk is full, or somebody else holds the folder: what is staged stays, for the next time.
    """
    if not (folder / METADATA).exists() and not is_due(staged_in(folder), limits, now_s=now_s, all_of_it=all_of_it):
        return []
    names = []
    with locked(folder, within_s=0.0):
        adopt(folder)
        state = recover(folder)
        while is_due(staged := staged_in(folder), limits, now_s=now_s, all_of_it=all_of_it):
            part = _one_file(staged, limits)
            format = _format_of(part[0])
            state = replace(
                state, run=part[-1].run, batch=part[-1].batch,
                file=f"events-{part[0].run}-{part[0].batch:012d}-{part[-1].batch:012d}{SUFFIX[format]}")
            encode = _parquet if format == "parquet" else _lines
            closing = folder / META / f"{state.file}{CLOSING}"
            disk.write(closing, lambda file: encode(part, file))  # noqa: B023
            disk.sync(closing.parent)
            write_state(folder, state)  # from here on these batches are in that file
            recover(folder)
            names.append(state.file)
    return names


def is_due(staged: Sequence[Staged], limits: FileLimits, *, now_s: float, all_of_it: bool = False) -> bool:
    """True where staged batches are to become a file."""
    if not staged:
        return False
    return (
        all_of_it or sum(batch.size for batch in staged) >= limits.file_bytes
        or now_s - min(batch.staged_s for batch in staged) >= limits.file_s)


def _one_file(staged: Sequence[Staged], limits: FileLimits) -> list[Staged]:
    """The oldest staged batches: of one run, of the same columns, and no more than a file's size and one batch."""
    part, size, columns = [staged[0]], staged[0].size, _columns_of(staged[0])
    for batch in staged[1:]:
        if size >= limits.file_bytes or batch.run != staged[0].run or _columns_of(batch) != columns:
            break
        part.append(batch)
        size += batch.size
    return part


def _format_of(batch: Staged) -> str:
    with disk.opened(batch.path) as file:
        return "parquet" if file.read(len(ARROW)) == ARROW else "json"


def _columns_of(batch: Staged) -> object:
    if _format_of(batch) == "json":
        return "lines"
    from workers.engine.connectors.arrow_streams import schema_of

    with disk.opened(batch.path) as source:
        return schema_of(source, batch.size)


def _lines(part: Sequence[Staged], file: IO[bytes]) -> None:
    for batch in part:
        with disk.opened(batch.path) as source:
            shutil.copyfileobj(source, file)


def _parquet(part: Sequence[Staged], file: IO[bytes]) -> None:
    """Row groups of some megabytes, however small the batches were.

    What slots staged is looked at before Arrow trusts it: uncompressed, it decodes to no more than it has bytes, and
    a value has a bit at least.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from workers.engine.connectors.arrow_streams import DecodingRoom, batches_of

    columns = _columns_of(part[0])
    with pq.ParquetWriter(file, columns) as writer:
        tables: list[pa.Table] = []
        size = 0
        for batch in part:
            room = DecodingRoom(events=8 * batch.size, values=16 * batch.size, bytes=batch.size)
            with disk.opened(batch.path) as source:
                tables.append(pa.Table.from_batches(batches_of(source, room), schema=columns))
            size += batch.size
            if size >= ROW_GROUP_BYTES:
                writer.write_table(pa.concat_tables(tables))
                tables, size = [], 0
        if tables:
            writer.write_table(pa.concat_tables(tables))
