"""Delta tables, in S3 or in a folder of the installation: events appended, each exactly once by transaction ids.

A commit holds a batch's files and the sink's last block as the transaction of its name (``app_id``). Who opens the
table reads there how far the sink has come. Of two writers that commit for one sink at the same time, the format lets
one through.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from scheduler.contracts.offsets import START, Offset
from workers.library.disk_room import require_room

from . import s3
from .contract import Batch, Batching, Overtaken, Refuse, RefusedRow, SinkOpening, SinkRefused
from .rows import chosen

STEP = 1_000_000  # a transaction's version: a block's number times this, and its part
LARGEST_EVENTS = 1_000_000


def open_delta(opening: SinkOpening) -> DeltaWriter:
    """Open the table, if it is there; it is made with the first batch."""
    return DeltaWriter(opening)


class DeltaWriter:
    """A table, and how far the sink has come in it."""

    def __init__(self, opening: SinkOpening) -> None:
        config = opening.config
        self._sink = opening.sink
        self._names = chosen(opening.columns, config["columns"])
        self._partitions = list(config["partition_by"])
        if config["url"] is not None:
            self._place, self._options = config["url"], s3.delta_options(config)
        else:
            self._place, self._options = str(folder_of(opening.folder, config["folder"], opening.task)), None
        self._title = f"The Delta table {config['url'] or config['folder']}"
        self.batching = Batching(
            linger_s=config["every"], most_events=LARGEST_EVENTS, most_bytes=round(config["megabytes"] * 1e6))
        self._table = self._load()
        self._written_version = self._version()
        if self._table is not None:
            self._require_columns()
        self.notice = "" if self._written_version is not None or opening.known_offset <= START else (
            f"{self._title} is not the one that was written: it was deleted"
            + (", and is made anew with the next events. " if self._table is None else " and made anew. ")
            + "What was written before is not in it. “Write again” on the sink's page writes what is kept of that.")

    def position(self) -> Offset | None:
        return None if self._written_version is None else offset_of(self._written_version)

    def write(self, batch: Batch, refuse: Refuse) -> None:
        from deltalake import CommitProperties, Transaction, write_deltalake
        from deltalake.exceptions import CommitFailedError, DeltaError, SchemaMismatchError

        try:
            if self._options is None:
                require_room(Path(self._place).parent)
            rows = batch.rows.select(self._names)
            if self._table is None:
                self._table = self._existing_table(rows.schema)
            self._table.update_incremental()
            if self._version() != self._written_version:
                raise Overtaken
            rows = self._fitted(rows, refuse)
            number = number_of(batch.until)
            write_deltalake(
                self._table, rows, mode="append", commit_properties=None if batch.again else CommitProperties(
                    app_transactions=[Transaction(self._sink, number)]))
        except CommitFailedError as error:
            raise Overtaken from error
        except SchemaMismatchError:
            raise SinkRefused(f"{self._title} has other columns than the events.",
                              remedy="Name in “columns” those that fit, or write to another table.") from None
        except (DeltaError, OSError) as error:
            raise self._explained(error) from None
        if not batch.again:
            self._written_version = number

    def rest(self) -> None:
        return

    def close(self) -> None:
        self._table = None

    # -- the table -----------------------------------------------------------------------------------------------------

    def _load(self) -> Any:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        try:
            if self._options is None:
                Path(self._place).mkdir(parents=True, exist_ok=True)
            return DeltaTable(self._place, storage_options=self._options)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise self._explained(error) from None

    def _existing_table(self, schema: pa.Schema) -> Any:
        """The table, made without rows where it is not there: only a table that is there tells writers apart."""
        from deltalake import DeltaTable

        return self._load() or DeltaTable.create(
            self._place, schema, mode="ignore", partition_by=self._partitions or None, storage_options=self._options)

    def _version(self) -> int | None:
        return None if self._table is None else self._table.transaction_version(self._sink)

    def _schema(self) -> pa.Schema:
        return pa.schema(self._table.schema().to_arrow())

    def _require_columns(self) -> None:
        schema = self._schema()
        missing = [name for name in self._names if name not in schema.names]
        if missing:
            raise SinkRefused(
                f"{self._title} has no column {', '.join(missing)}.",
                remedy=f"Add it, or name the columns to be written; it has {', '.join(schema.names)}.")
        needed = [field.name for field in schema if not field.nullable and field.name not in self._names]
        if needed:
            raise SinkRefused(f"{self._title} needs a value of {', '.join(needed)}.",
                              remedy="Write that column, too, or let it be null.")

    def _fitted(self, rows: pa.Table, refuse: Refuse) -> pa.Table:
        """Events in the types of the table, its other columns null; those that do not fit are refused."""
        self._require_columns()
        schema = self._schema()
        refused: list[RefusedRow] = []
        parts = _cast(rows, 0, pa.schema([schema.field(name) for name in rows.schema.names]), refused)
        if refused:
            refuse(refused)
        fitted = pa.concat_tables(parts) if parts else rows.slice(0, 0).cast(
            pa.schema([schema.field(name) for name in rows.schema.names]))
        return pa.table(
            [fitted.column(field.name) if field.name in fitted.schema.names else pa.nulls(fitted.num_rows, field.type)
             for field in schema], schema=schema)

    def _explained(self, error: Exception) -> Exception:
        if self._options is not None:
            return s3.explained(str(error), self._title)
        text = str(error)
        if "nvariant" in text or "onstraint" in text:
            return SinkRefused(f"{self._title} has a constraint that events do not keep.",
                               remedy="Filter them before, or drop the constraint.")
        return s3.explained(str(error), self._title)


def folder_of(folder: Path, name: str, task: str) -> Path:
    """The folder of a table on the node's own disk: like files of sinks, apart for each running task."""
    return folder / f"{name}-{task[:12]}"


def number_of(offset: Offset) -> int:
    """A block as one number that grows as blocks do."""
    block, part = offset.split("-")
    return int(block) * STEP + int(part)


def offset_of(number: int) -> Offset:
    """The block of a number."""
    return Offset(f"{number // STEP}-{number % STEP}")


def _cast(rows: pa.Table, first: int, schema: pa.Schema, refused: list[RefusedRow]) -> list[pa.Table]:
    """Rows cast to other types. Rows that cannot be cast are found by bisection, and refused."""
    if not rows.num_rows:
        return []
    try:
        return [rows.cast(schema)]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        if rows.num_rows == 1:
            refused.append(RefusedRow(first, f"does not fit the table: {str(error).splitlines()[0]}"))
            return []
    middle = rows.num_rows // 2
    return [*_cast(rows.slice(0, middle), first, schema, refused),
            *_cast(rows.slice(middle), first + middle, schema, refused)]
