"""Databases to look something up in, read-only: PostgreSQL on hosts that the operator names, SQLite in replay folders.

A query is an engineer's text: it may be made to write, to wait or to take memory. Neither database lets it: PostgreSQL
by a read-only transaction that it cannot leave, SQLite by an authorizer; both by limits of time, SQLite by limits of
memory as well. The text itself is looked at before (`sql`), for a message that comes early.

Both raise ``ConnectionError`` where the connection is gone (opening it anew may help) and ``LookupError`` where the
query is at fault, with a message that holds no value and no password.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

from .config import InvalidConfig
from .files import replay_path
from .reach import allowed_hosts, variable_for

VARIABLE = "WEIR_DATABASE_HOSTS"

FILE = "sqlite:"  # what the address of a file begins with
_SQLITE_READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_STEPS = 1_000  # of SQLite's machine, between two looks at the clock
_HEAP_BYTES = 256 * 2**20  # of all SQLite connections of a process, and of one answer of PostgreSQL
_MOST_BYTES = 16 * 2**20  # of text and blobs in the rows for one event
_SQLITE_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 4 * 2**20,  # of a value, a row or a query, in bytes
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,  # a pattern is tried within one step, where no clock is looked at
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
# What an address may say beside where the database is: nothing that names files or leads elsewhere.
_PLAIN = frozenset({"user", "password", "host", "port", "dbname", "sslmode", "application_name"})


class Database(Protocol):
    """An open connection; ``style`` is how its queries write placeholders."""

    style: str

    def rows(self, query: str, values: Mapping[str, Any], *, most: int) -> list[tuple]:
        """The first rows of a query."""
        ...

    def close(self) -> None:
        """Let the connection go."""
        ...


@dataclass(frozen=True, slots=True)
class DatabaseLocation:
    """The address of a database that may be read: a file, or what libpq takes (name and value)."""

    file: str = ""
    facts: tuple[tuple[str, str], ...] = ()


def is_file(address: str) -> bool:
    """True where an address is that of a file on the node that reads it."""
    return address.startswith(FILE)


def locate(address: str, *, writes: bool = False) -> DatabaseLocation:
    """The location of a database by its address, to be read or written to.

    Raises
    ------
    InvalidConfig
        It is none, or leads where nothing may be read, or written.
    """
    if is_file(address):
        return DatabaseLocation(file=str(replay_path(address.removeprefix(FILE))))
    if address.startswith(("postgresql://", "postgres://")):
        return DatabaseLocation(facts=tuple(sorted(_postgresql_facts(address, writes=writes).items())))
    raise InvalidConfig(
        "The database's address is none.",
        remedy="Keep postgresql://user:password@host/name or sqlite:FILE as the secret that “database” names.")


def open_database(location: DatabaseLocation, *, patience_s: float) -> Database:
    """Open a database read-only; ``ConnectionError`` where nobody answers there."""
    if location.file:
        return SqliteDatabase(location.file, patience_s=patience_s)
    return PostgresqlDatabase(dict(location.facts), patience_s=patience_s)


class SqliteDatabase:
    """A file that is read; attaching others, writing and settings are refused, and so is what takes much memory."""

    style = "named"

    def __init__(self, path: str, *, patience_s: float) -> None:
        self._patience_s, self._ends_s = patience_s, 0.0
        try:
            self._connection = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=patience_s)
        except sqlite3.OperationalError as error:
            raise ConnectionError(str(error)) from None
        self._connection.execute("pragma temp_store = memory")  # else sorting fills the disk that all share
        self._connection.execute(f"pragma hard_heap_limit = {_HEAP_BYTES}")  # of this Python worker
        for limit, most in _SQLITE_LIMITS.items():
            self._connection.setlimit(limit, most)
        self._connection.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_OK if action in _SQLITE_READS else sqlite3.SQLITE_DENY)
        self._connection.set_progress_handler(lambda: time.monotonic() > self._ends_s, _STEPS)

    def rows(self, query: str, values: Mapping[str, Any], *, most: int) -> list[tuple]:
        """The first rows of a query."""
        self._ends_s = time.monotonic() + self._patience_s
        rows, held_bytes = [], 0
        try:
            cursor = self._connection.execute(query, dict(values))
            while len(rows) < most and (row := cursor.fetchone()) is not None:
                rows.append(row)
                held_bytes += sum(len(value) for value in row if isinstance(value, str | bytes))
                if held_bytes > _MOST_BYTES:
                    raise LookupError(f"its rows have more than {_MOST_BYTES:,} bytes")
            return rows
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise LookupError(str(error)) from None
        except MemoryError:
            raise LookupError("it takes too much memory") from None

    def close(self) -> None:
        """Let the file go."""
        self._connection.close()


class PostgresqlDatabase:
    """A connection on which nothing can be written, and on which a query leaves nothing behind.

    A query is the body of a cursor in a read-only transaction, sent by the extended protocol: PostgreSQL takes a single
    SELECT or VALUES there and nothing else. What a function of it sets or locks ends with the transaction, which is
    rolled back, and with the reset of the session after it.
    """

    style = "pyformat"

    def __init__(self, facts: Mapping[str, str], *, patience_s: float) -> None:
        import psycopg

        from .bounded_postgresql import AnswerTooLarge, bounded_by

        self._psycopg, self._too_large = psycopg, AnswerTooLarge
        patience_ms = max(1, int(1000 * patience_s))
        options = " ".join(f"-c {name}={value}" for name, value in {
            "default_transaction_read_only": "on", "statement_timeout": patience_ms, "lock_timeout": patience_ms,
            "idle_in_transaction_session_timeout": 60_000}.items())
        try:
            self._connection = bounded_by(_HEAP_BYTES).connect(
                **facts, options=options, connect_timeout=max(2, int(patience_s)), target_session_attrs="any",
                autocommit=True, prepare_threshold=None)
        except psycopg.OperationalError:
            raise ConnectionError(f"{facts['host']} does not take the connection") from None

    def rows(self, query: str, values: Mapping[str, Any], *, most: int) -> list[tuple]:
        """The first rows of a query, in a transaction of its own."""
        try:
            return self._fetch_rows(query, values, most)
        except self._too_large as error:  # opening it anew would not help
            raise LookupError(str(error)) from None
        except self._psycopg.Error as error:
            if self._connection.closed or self._connection.broken:
                raise ConnectionError("the connection was lost") from None
            raise LookupError(error.diag.message_primary or type(error).__name__) from None

    def _fetch_rows(self, query: str, values: Mapping[str, Any], most: int) -> list[tuple]:
        connection = self._connection
        try:
            with connection.pipeline():  # in one go, and always by the extended protocol
                connection.execute("begin transaction read only")
                connection.execute(f"declare looked_up no scroll cursor without hold for {query}", dict(values))
                return connection.execute(f"fetch forward {int(most)} from looked_up").fetchall()
        finally:
            if not connection.closed:
                connection.execute("rollback")
                connection.execute("discard all")

    def close(self) -> None:
        """End the session."""
        self._connection.close()


def refusal_of(error: Exception) -> str:
    """The kind of refusal by a server, in a word (``user``, ``database``); empty where the error is another.

    While it connects, libpq gives a text and no code: the server's own words, which begin with FATAL.
    """
    text = str(error)
    state = getattr(getattr(error, "diag", None), "sqlstate", None) or getattr(error, "sqlstate", None) or ""
    if state == "3D000" or re.search(r'FATAL: +database "[^"]*" does not exist', text):
        return "database"
    if state.startswith("28") or "authentication failed" in text or re.search(
            r'FATAL: +(role "[^"]*" (does not exist|is not permitted)|no pg_hba|permission denied)', text):
        return "user"
    return ""


def _postgresql_facts(address: str, *, writes: bool) -> dict[str, str]:
    """Where the database is, as libpq takes it; ``InvalidConfig`` where it may not be reached."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        facts = {name: str(value) for name, value in conninfo_to_dict(address).items() if value is not None}
    except psycopg.ProgrammingError:
        raise InvalidConfig("The database's address cannot be read.",
                            remedy="Keep postgresql://user:password@host:port/name as the secret.") from None
    further = sorted(set(facts) - _PLAIN)
    host = facts.get("host", "").lower()
    allowed = allowed_hosts(VARIABLE, writes=writes)
    if further:
        raise InvalidConfig(f"The database's address sets {', '.join(further)}.",
                            remedy=f"It may set {', '.join(sorted(_PLAIN))}.", further=further)
    if not host or "," in host or (host not in allowed and f"{host}:{facts.get('port', '5432')}" not in allowed):
        raise InvalidConfig(
            f"Tasks may not {'write' if writes else 'read'} databases on "
            f"{host or 'a host that the address does not name'}.",
            remedy=f"Ask the operator to name the host in {variable_for(VARIABLE, writes=writes)}.", host=host)
    return facts

