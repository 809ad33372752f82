"""PostgreSQL: a table that grows, read by a column whose values only rise, a look every few seconds.

Numbers are handed out before transactions end, so that a row may appear behind others that were read already. A look
therefore stops before the first row whose transaction is not older than all that are under way.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from scheduler.model.bounds import PACKET_BYTES
from workers.library import databases

from .certificates import as_file
from .contract import (
    MOST_BYTES,
    MOST_MESSAGES,
    DeadLetter,
    Message,
    Opening,
    Polled,
    Position,
    SourceAway,
    SourceRefused,
)

PATIENCE_MS = 30_000  # of one look
LOOK_PATIENCE_MS = 4_000  # of one look, of somebody who waits
# A machine that is gone without a word is noticed, as a server is that no longer answers a statement in time.
# Types whose values Python has as the server does; all others come as the server writes them, so that none is changed
# on the way, and none (a time of 24:00, a range without end, a number of 5,000 digits) cannot be loaded.
_LOADED = frozenset({"bool", "int2", "int4", "int8", "oid", "float4", "float8", "bytea"})
ALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": PATIENCE_MS}


def open_postgresql(opening: Opening) -> PostgresqlReader:
    """Read a table from where it was left, or from where the config says."""
    return PostgresqlReader(opening, _facts(opening))


def look_at_postgresql(opening: Opening, count: int) -> Iterator[Polled]:
    """The rows with the highest values of the column that grows; where there are none, the first that come."""
    reader = _NewestReader(opening, _facts(opening), count)
    try:
        yield Polled()
        while not (polled := reader.poll(0.5)).messages:
            yield polled
        yield polled
    finally:
        reader.close(for_good=True)


def _facts(opening: Opening) -> dict[str, str]:
    """What the driver takes of the secret, once it is known that its host is allowed."""
    location = databases.locate(opening.config["database"])
    if not location.facts:
        raise SourceRefused("The secret “database” is no address of PostgreSQL.",
                            remedy="Keep postgresql://user:password@host/name as the secret.")
    return dict(location.facts)


class PostgresqlReader:
    """A connection on which nothing can be written, and the value after which rows are new."""

    patience_ms = PATIENCE_MS

    def __init__(self, opening: Opening, facts: dict[str, str]) -> None:
        import psycopg

        from workers.library.bounded_postgresql import AnswerTooLarge

        self._psycopg, self._too_large = psycopg, AnswerTooLarge
        self._opening, self._facts = opening, facts
        self._table, self._column = opening.config["table"], opening.config["column"]
        self._every_s = float(opening.config["every"])
        self._names = list(opening.config["columns"])
        self._due_s, self._at_once = 0.0, MOST_MESSAGES  # fewer rows where these are large
        self._connection = self._connected()
        try:
            self._query, self._places = self._prepare()
            self._after_value = opening.position["after"] if opening.position else self._begin(opening.config["start"])
        except BaseException:
            self._connection.close()
            raise

    def _connected(self) -> Any:
        """A connection on which nothing can be written, and of which no row is larger than a message may be."""
        from workers.library.bounded_postgresql import bounded_by

        options = (
            f"-c default_transaction_read_only=on -c statement_timeout={self.patience_ms} -c timezone=UTC "
            "-c datestyle=ISO")
        with ExitStack() as files:
            ca = self._opening.config.get("ca")
            trusted = {"sslmode": "verify-full", "sslrootcert": str(files.enter_context(as_file(ca)))} if ca else {}
            try:
                connection = bounded_by(PACKET_BYTES.most).connect(
                    **{**self._facts, **trusted}, **ALIVE, options=options,
                    connect_timeout=min(10, self.patience_ms // 1000), autocommit=True)
            except self._psycopg.OperationalError as error:
                raise self._unreached(error) from None
        self._load_as_text(connection)
        return connection

    def position(self) -> Position:
        return {"after": self._after_value}

    def poll(self, timeout_s: float) -> Polled:
        wait_s = self._due_s - time.monotonic()
        if wait_s > 0:
            time.sleep(min(wait_s, timeout_s))
            if wait_s > timeout_s:
                return Polled()
        after = self._after_value
        try:
            limit = self._at_once
            messages, lost = self._next_rows(limit)
        except self._psycopg.DataError as error:  # not of a row: the place where it was left is none of the column's
            raise self._unread(error) from None
        is_all = self._at_once == limit and len(messages) + len(lost) < limit
        self._due_s = time.monotonic() + (self._every_s if is_all else 0)
        if self._at_once == limit:
            self._at_once = min(2 * limit, MOST_MESSAGES)
        return Polled(messages, None if self._after_value == after else self.position(), lost)

    def written(self) -> None:
        return  # the table keeps its rows

    def rest(self, timeout_s: float) -> None:
        time.sleep(timeout_s)

    def close(self, *, for_good: bool) -> None:
        self._connection.close()

    def _next_rows(self, most: int) -> tuple[list[Message], list[DeadLetter]]:
        """The next rows, and those of them that cannot be read: where one cannot, each is asked for alone."""
        try:
            return [self._message(row) for row in self._rows(self._query, most)], []
        except (self._psycopg.DataError, ValueError, self._too_large) as error:
            if isinstance(error, self._too_large):
                self._connection = self._connected()
            if most == 1:
                reason = (f"is of more than {PACKET_BYTES.most:,} bytes" if isinstance(error, self._too_large) else
                       f"cannot be read: {_first_line(error)}")
                return [], [DeadLetter(reason, self._place(at)) for at, _ in self._rows(self._places, 1, is_known=True)]
        messages: list[Message] = []
        lost: list[DeadLetter] = []
        while len(messages) + len(lost) < most and sum(
                _size(message.values.values()) for message in messages) < MOST_BYTES:
            message, dead = self._next_rows(1)
            if not message and not dead:
                break
            messages += message
            lost += dead
        return messages, lost

    def _rows(self, query: Any, most: int, *, is_known: bool = False) -> list[tuple]:
        """The next final rows, which count as read: no earlier row can still appear. At most ``most``, or a poll's.

        Raises if they cannot be read. With ``is_known``, which asks for their places alone, a server that sends too
        much is refused.
        """
        read: list[tuple] = []
        size, is_whole = 0, True
        with self._explained(also=() if is_known else (self._too_large, self._psycopg.DataError)), closing(
                self._connection.cursor().stream(query, {"after": self._after_value, "most": most})) as rows:
            for row in rows:
                read.append(row)
                size += _size(row)
                is_whole = size < MOST_BYTES and len(read) <= most  # whatever the server was asked for
                if not is_whole:
                    self._connection.close()  # else what is still to come would be read and thrown away
                    break
        if not is_whole:
            self._at_once = max(1, len(read) // 2)
            self._connection = self._connected()
        complete = list(itertools.takewhile(lambda row: row[-1], read[:most]))
        if complete:
            self._after_value = complete[-1][-2]
        return complete

    def _message(self, row: tuple) -> Message:
        *values, at, _ = row
        return Message(place=self._place(at), values=dict(zip(self._names, values, strict=True)))

    def _place(self, at: str) -> str:
        return f"{self._table}, {self._column} {at}"

    def _load_as_text(self, connection: Any) -> None:
        """Let all but the plainest values come as their text."""
        from psycopg.types.string import TextLoader

        adapters = connection.adapters
        for info in self._psycopg.adapters.types:
            # Where columns are not named yet, a number of any length is seen as one.
            if info.name not in _LOADED and (self._opening.config["columns"] or info.name != "numeric"):
                adapters.register_loader(info.oid, TextLoader)

    def _prepare(self) -> tuple[Any, Any]:
        """The query of a look, and that of its rows' places alone, once table and columns are known to be there."""
        sql = self._psycopg.sql
        table = sql.Identifier(*self._table.split("."))
        attributes = self._ask(
            "select attname::text, format_type(atttypid, atttypmod) from pg_attribute "
            "where attrelid = to_regclass(%(table)s) and attnum > 0 and not attisdropped",
            {"table": table.as_string(self._connection)})
        kinds = dict(attributes)
        if not kinds:
            raise SourceRefused(
                f"The table {self._table} is not there.", remedy="Make it, or let the user of the address see it.")
        missing = [name for name in (self._column, *self._names) if name not in kinds]
        if missing:
            raise SourceRefused(
                f"The table {self._table} has no column {', '.join(missing)}.", remedy=f"It has {', '.join(kinds)}.")
        if not self._names:  # nobody has named them yet: a look that proposes columns sees all
            self._names = list(kinds)
        column = sql.Identifier(self._column)
        look = sql.SQL(
            # The column is named with its table: else "order by" would mean the text that is selected.
            "select {names}grows.{column}::text, age(xmin) > "
            "age((pg_snapshot_xmin(pg_current_snapshot())::text::bigint %% 4294967296)::text::xid) "
            "from {table} as grows where %(after)s::text is null or grows.{column} > %(after)s::{kind} "
            "order by grows.{column} limit %(most)s"
        )
        names = sql.SQL("").join(sql.SQL("{}, ").format(sql.Identifier("grows", name)) for name in self._names)
        parts = {"column": column, "table": table, "kind": sql.SQL(kinds[self._column])}
        return look.format(names=names, **parts), look.format(names=sql.SQL(""), **parts)

    def _begin(self, start: str) -> str | None:
        if start == "oldest":
            return None
        sql = self._psycopg.sql
        [(newest,)] = self._ask(sql.SQL("select max({})::text from {}").format(
            sql.Identifier(self._column), sql.Identifier(*self._table.split("."))), {})
        return newest

    def _ask(self, query: Any, values: dict[str, Any]) -> list[tuple]:
        with self._explained(also=(self._psycopg.DataError,)):
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _explained(self, *, also: tuple[type[Exception], ...]) -> Iterator[None]:
        """Errors of a server in words; those that are ``also`` somebody else's to explain are passed on."""
        try:
            yield
        except also:
            raise
        except self._too_large as error:
            raise SourceRefused(f"{self._table} cannot be read: {error}.", remedy="See to its server.") from None
        except self._psycopg.errors.QueryCanceled:
            raise SourceRefused(
                f"A look at {self._table} takes more than {self.patience_ms // 1000} s.",
                remedy=f"Make an index on {self._column}.") from None
        except self._psycopg.OperationalError as error:
            raise self._unreached(error) from None
        except self._psycopg.Error as error:
            raise self._unread(error) from None

    def _unread(self, error: Any) -> SourceRefused:
        is_right = isinstance(error, self._psycopg.errors.InsufficientPrivilege)
        return SourceRefused(
            f"{self._table} cannot be read: {error.diag.message_primary or _first_line(error)}.",
            remedy="Let the user of the address select from it." if is_right else
            "See to the table and its columns, and whether the source still fits them.")

    def _unreached(self, error: Exception) -> SourceAway | SourceRefused:
        # The host is part of the secret: it is not named.
        if "certificate" in str(error) or "SSL" in str(error):
            return SourceRefused(
                "The server of the secret “database” is not trusted, or speaks no TLS.",
                remedy="Name its authority's certificate as “ca”, and the host as its certificate has it.")
        if refused := databases.refusal_of(error):
            return SourceRefused(
                f"PostgreSQL refuses the {refused} of the secret “database”.", remedy="See to the secret.")
        return SourceAway("The server of the secret “database” does not answer.", remedy="It is tried again by itself.")


def _size(values: Iterable[Any]) -> int:
    """How many characters or bytes the texts among values have."""
    return sum(len(value) for value in values if isinstance(value, str | bytes))


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:200]


class _NewestReader(PostgresqlReader):
    """A reader that begins so that a table's last rows come."""

    patience_ms = LOOK_PATIENCE_MS

    def __init__(self, opening: Opening, facts: dict[str, str], count: int) -> None:
        self._count = count
        super().__init__(opening, facts)

    def _begin(self, start: str) -> str | None:
        sql = self._psycopg.sql
        column = sql.Identifier("grows", self._column)  # with its table: else the text that is selected would be meant
        last = self._ask(sql.SQL(
            "select {column}::text from {table} as grows where {column} is not null "
            "order by {column} desc offset %(most)s limit 1"
        ).format(column=column, table=sql.Identifier(*self._table.split("."))), {"most": self._count})
        return last[0][0] if last else None
