"""PostgreSQL: rows appended to a table, or put in by a key; each exactly once through a table of batches.

One transaction inserts a batch and moves the sink's row in ``weir_batches`` from the last block before it to its own
last one. Whoever finds another block there was overtaken, and writes nothing. Rows that the table does not take are
found by halves, each in a savepoint, so that one of them takes no others with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from scheduler.contracts.offsets import Offset
from workers.library import databases
from workers.library.arrow_types import values_of_column
from workers.library.json_values import json_ready

from .contract import Batch, Batching, Overtaken, Refuse, RefusedRow, SinkAway, SinkOpening, SinkRefused
from .rows import chosen

BATCHES = "weir_batches"
PATIENCE_MS = 60_000  # of one statement
ANSWER_BYTES = 16 << 20  # of a server, which has little to say to who writes
LOCK_MS = 10_000  # how long a lock of somebody else is waited for
_STAGED, _ORDER = "weir_staged", "weir_row"


def open_postgresql(opening: SinkOpening) -> PostgresqlWriter:
    """Connect, and see that the table can take the events."""
    location = databases.locate(opening.config["database"], writes=True)
    if not location.facts:
        raise SinkRefused("The secret “database” is no address of PostgreSQL.",
                          remedy="Keep postgresql://user:password@host/name as the secret.")
    return PostgresqlWriter(opening, dict(location.facts))


class PostgresqlWriter:
    """A connection that writes one table."""

    def __init__(self, opening: SinkOpening, facts: dict[str, str]) -> None:
        import psycopg
        from psycopg import sql

        from workers.library.bounded_postgresql import bounded_by

        self._psycopg, self._sql = psycopg, sql
        self._sink, self._config = opening.sink, opening.config
        self._table = opening.config["table"]
        self._names = chosen(opening.columns, opening.config["columns"])
        self._key = list(opening.config["key"])
        self._written_until: str | None = None
        self._nulls_are_equal = True
        self.batching = Batching()
        options = f"-c statement_timeout={PATIENCE_MS} -c lock_timeout={LOCK_MS}"
        try:
            self._connection = bounded_by(ANSWER_BYTES).connect(
                **facts, options=options, connect_timeout=10, autocommit=True)
        except psycopg.OperationalError as error:
            raise self._unreached(error) from None
        try:
            self._prepare()
        except psycopg.Error as error:
            self._connection.close()
            raise self._explained(error) from None
        except BaseException:
            self._connection.close()
            raise

    def position(self) -> Offset | None:
        return Offset(self._written_until) if self._written_until else None

    def write(self, batch: Batch, refuse: Refuse) -> None:
        rows = self._values(batch.rows)
        keyless: list[RefusedRow] = []
        refused: list[RefusedRow] = []
        try:
            with self._connection.transaction(), self._connection.cursor() as cursor:
                if not batch.again:
                    self._move(cursor, batch)
                self._put(cursor, self._keyed(rows, keyless), refused)
                if keyless or refused:
                    refuse([*keyless, *refused])
        except self._psycopg.Error as error:
            raise self._explained(error) from None
        if not batch.again:
            self._written_until = str(batch.until)

    def rest(self) -> None:
        return

    def close(self) -> None:
        self._connection.close()

    # -- one batch -----------------------------------------------------------------------------------------------------

    def _move(self, cursor: Any, batch: Batch) -> None:
        """Move the sink's place from where this writer believes it to be; another's place is not moved."""
        cursor.execute(
            f"update {BATCHES} set position = %s, at = now() where sink = %s and position is not distinct from %s",
            (str(batch.until), self._sink, self._written_until))
        if cursor.rowcount != 1:
            raise Overtaken

    def _keyed(self, rows: Sequence[tuple], keyless: list[RefusedRow]) -> list[tuple[int, tuple]]:
        """Rows that have a key, by their numbers. Where nulls are no key of the table, a row that has one would be put
        in again with each event, or not, depending on how batches fall."""
        places = [] if self._nulls_are_equal else [self._names.index(name) for name in self._key]
        keyed = []
        for number, values in enumerate(rows):
            missing = [self._names[index] for index in places if values[index] is None]
            if missing:
                keyless.append(RefusedRow(number, f"has no {missing[0]}, by which {self._table} tells rows apart"))
            else:
                keyed.append((number, values))
        return keyed

    def _put(self, cursor: Any, rows: Sequence[tuple[int, tuple]], refused: list[RefusedRow]) -> None:
        """Put rows in. Rows that the database refuses are found by bisection."""
        try:
            with self._connection.transaction():
                self._insert(cursor, [values for _, values in rows])
        except (
            self._psycopg.DataError, self._psycopg.IntegrityError, self._psycopg.errors.RaiseException
        ) as error:
            if isinstance(error, self._psycopg.errors.NotNullViolation) and error.diag.column_name not in self._names:
                raise self._lacks(str(error.diag.column_name)) from None
            if not refused and self._columns() != self._kinds:  # what is staged has the former types
                raise SinkAway(f"The columns of {self._table} changed.", remedy="It is opened anew.") from None
            if len(rows) == 1:
                refused.append(RefusedRow(rows[0][0], self._reason(error)))
                return
            middle = len(rows) // 2
            self._put(cursor, rows[:middle], refused)
            self._put(cursor, rows[middle:], refused)

    def _insert(self, cursor: Any, rows: Sequence[tuple]) -> None:
        sql = self._sql
        names = sql.SQL(", ").join(map(sql.Identifier, self._names))
        if not self._key:
            copy = sql.SQL("copy {} ({}) from stdin").format(self._identifier, names)
            with cursor.copy(copy) as into:
                for values in rows:
                    into.write_row(values)
            return
        cursor.execute(f"truncate {_STAGED}")
        copy = sql.SQL("copy {} ({}, {}) from stdin").format(
            sql.Identifier(_STAGED), names, sql.Identifier(_ORDER))
        with cursor.copy(copy) as into:
            for number, values in enumerate(rows):
                into.write_row((*values, number))
        cursor.execute(self._upsert)

    def _values(self, rows: pa.Table) -> list[tuple]:
        """Rows as the table's columns take them: what is nested as JSON, unless the column is an array."""
        columns = [
            [self._value(value, self._kinds[name]) for value in values_of_column(rows.column(name))]
            for name in self._names]
        return list(zip(*columns, strict=True))

    def _value(self, value: Any, kind: str) -> Any:
        if isinstance(value, dict) or (isinstance(value, list) and not kind.endswith("[]")) or (
                kind in ("json", "jsonb") and value is not None and not isinstance(value, str)):
            return json.dumps(json_ready(value), ensure_ascii=False, allow_nan=False)
        return value

    # -- seeing that it can be -----------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """See to the table, its key, and the table of batches."""
        sql = self._sql
        self._identifier = sql.Identifier(*self._table.split("."))
        self._kinds = self._columns()
        missing = [name for name in (*self._names, *self._key) if name not in self._kinds]
        if missing:
            raise SinkRefused(
                f"The table {self._table} has no column {', '.join(dict.fromkeys(missing))}.",
                remedy=f"Add it, or name the columns to be written; it has {', '.join(self._kinds)}.")
        left_out = [name for name in self._key if name not in self._names]
        if left_out:
            raise SinkRefused(f"The key {', '.join(left_out)} is not among the columns that are written.",
                              remedy="Name it in “columns”, too.")
        self._require_defaults()
        if self._key:
            self._require_key()
            self._stage()
        self._make_batches()
        self._connection.execute(
            f"insert into {BATCHES} (sink) values (%s) on conflict (sink) do nothing", (self._sink,))
        row = self._connection.execute(f"select position from {BATCHES} where sink = %s", (self._sink,)).fetchone()
        self._written_until = row[0] if row else None

    def _columns(self) -> Mapping[str, str]:
        columns = dict(self._connection.execute(
            "select attname::text, format_type(atttypid, atttypmod) from pg_attribute "
            "where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped",
            (self._identifier.as_string(self._connection),)).fetchall())
        if not columns:
            raise SinkRefused(
                f"The table {self._table} is not there.", remedy="Make it, or let the user of the address see it.")
        return columns

    def _require_defaults(self) -> None:
        """A column that is not written may not need a value: no event would be taken, for no fault of its own."""
        needed = [name for name, in self._connection.execute(
            "select attname::text from pg_attribute where attrelid = to_regclass(%s) and attnum > 0 "
            "and not attisdropped and attnotnull and not atthasdef and attidentity = '' order by attnum",
            (self._identifier.as_string(self._connection),)).fetchall() if name not in self._names]
        if needed:
            raise self._lacks(", ".join(needed))

    def _lacks(self, columns: str) -> SinkRefused:
        return SinkRefused(
            f"The table {self._table} needs a value of {columns}, which is not written.",
            remedy="Write that column, too, give it a default, or let it be null.")

    def _require_key(self) -> None:
        """There must be a unique index over just the key: it tells rows apart, those with nulls if it says so."""
        indexes = self._connection.execute(
            "select array_agg(attname::text), bool_or((to_jsonb(pg_index) ->> 'indnullsnotdistinct')::boolean) "
            "from pg_index join pg_attribute on attrelid = indrelid "
            "and attnum = any(indkey::int2[]) where indrelid = to_regclass(%s) and indisunique and indisvalid "
            "and indpred is null and indexprs is null group by indexrelid",
            (self._identifier.as_string(self._connection),)).fetchall()
        fitting = [bool(are_equal) for names, are_equal in indexes if set(names) == set(self._key)]
        self._nulls_are_equal = any(fitting)
        if not fitting:
            columns = ", ".join(self._key)
            raise SinkRefused(
                f"The table {self._table} has no unique index over {columns}: rows cannot be told apart by it.",
                remedy=f"create unique index on {self._table} ({columns})")

    def _stage(self) -> None:
        """A table of this session without constraints, from which the newest row of each key is put in."""
        sql = self._sql
        names = sql.SQL(", ").join(map(sql.Identifier, self._names))
        key = sql.SQL(", ").join(map(sql.Identifier, self._key))
        self._connection.execute(sql.SQL(
            "create temporary table {staged} as select {names}, 0 as {order} from {table} limit 0").format(
                staged=sql.Identifier(_STAGED), names=names, order=sql.Identifier(_ORDER), table=self._identifier))
        others = [name for name in self._names if name not in self._key]
        change = sql.SQL("update set {}").format(sql.SQL(", ").join(
            sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in others)
        ) if others else sql.SQL("nothing")
        self._upsert = sql.SQL(
            "insert into {table} ({names}) select {names} from (select distinct on ({key}) * from {staged} "
            "order by {key}, {order} desc) as newest order by {order} on conflict ({key}) do {change}").format(
                table=self._identifier, names=names, key=key, staged=sql.Identifier(_STAGED),
                order=sql.Identifier(_ORDER), change=change)

    def _make_batches(self) -> None:
        """The table of batches, where the search path leads; the user may lack the right to make it."""
        if self._connection.execute("select to_regclass(%s)", (BATCHES,)).fetchone()[0] is not None:
            return
        make = f"create table if not exists {BATCHES} (sink text primary key, position text, at timestamptz)"
        try:
            self._connection.execute(make)
        except self._psycopg.errors.UniqueViolation:
            return  # another made it in the same moment
        except self._psycopg.errors.InsufficientPrivilege:
            raise SinkRefused(
                f"The table {BATCHES}, by which each row is written once, is not there and cannot be made.",
                remedy=f"Let an admin of the database say: {make}; grant select, insert, update on {BATCHES} to the "
                "user of the address.") from None

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    def _reason(self, error: Exception) -> str:
        primary = getattr(getattr(error, "diag", None), "message_primary", None)
        return f"is not taken by {self._table}: {primary or str(error).splitlines()[0]}"

    def _explained(self, error: Exception) -> Exception:
        errors = self._psycopg.errors
        primary = error.diag.message_primary or type(error).__name__
        if isinstance(error, errors.LockNotAvailable | errors.QueryCanceled):
            return SinkAway(f"The table {self._table} is locked or too slow: {primary}.",
                            remedy="It is tried again by itself.")
        if isinstance(error, errors.InsufficientPrivilege):
            return SinkRefused(f"{self._table} may not be written: {primary}.",
                               remedy=f"grant insert, select{', update' if self._key else ''} on {self._table}")
        if isinstance(error, self._psycopg.OperationalError | self._psycopg.InterfaceError):
            return self._unreached(error)
        return SinkRefused(f"{self._table} cannot be written: {primary}.", remedy="See to the table.")

    def _unreached(self, error: Exception) -> SinkAway | SinkRefused:
        state = getattr(getattr(error, "diag", None), "sqlstate", None) or getattr(error, "sqlstate", None) or ""
        if refused := databases.refusal_of(error):
            return SinkRefused(f"PostgreSQL refuses the {refused} of the secret “database”.",
                               remedy="See to the secret.")
        if state.startswith("53"):
            return SinkAway("The database has no room or no connection left.",
                            remedy="Make room there; it is tried again by itself.")
        with suppress(Exception):
            self._connection.close()
        return SinkAway("The database does not answer.", remedy="It is tried again by itself.")
