"""Fold stores as files of SQLite: their tables, how they are opened and brought up to date, made and deleted."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

MOST_OPEN = 16  # stores that a process keeps open
WAIT_S = 30.0  # for another process that holds a store, such as one of a slot that was killed

_FORMAT = 1  # of a store, as SQLite's user_version says it
_CHANGES = (  # what a store of format 0 lacks, besides rows' versions
    "CREATE INDEX rows_version ON rows (version)",
    "CREATE TABLE gone (owner TEXT NOT NULL, part TEXT NOT NULL, member TEXT NOT NULL, version INTEGER NOT NULL, "
    "PRIMARY KEY (owner, part, member)) WITHOUT ROWID",
    "CREATE INDEX gone_version ON gone (version)",
    "CREATE TABLE returns (number INTEGER PRIMARY KEY, version INTEGER NOT NULL)",
    f"PRAGMA user_version = {_FORMAT}")
_SCHEMA = f"""
PRAGMA journal_mode = WAL;
CREATE TABLE rows (
  id INTEGER PRIMARY KEY, owner TEXT NOT NULL, part TEXT NOT NULL, member TEXT NOT NULL, due INTEGER,
  value TEXT NOT NULL, version INTEGER NOT NULL DEFAULT 0, UNIQUE (owner, part, member));
CREATE INDEX rows_due ON rows (owner, part, due) WHERE due IS NOT NULL;
CREATE TABLE before (
  version INTEGER NOT NULL, owner TEXT NOT NULL, part TEXT NOT NULL, member TEXT NOT NULL, due INTEGER, value TEXT);
CREATE INDEX before_version ON before (version);
CREATE TABLE heads (version INTEGER PRIMARY KEY, token TEXT NOT NULL);
{"; ".join(_CHANGES)};
"""
PUT = ("INSERT INTO rows (owner, part, member, due, value, version) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (owner, part, member) DO UPDATE "
        "SET due = excluded.due, value = excluded.value, version = excluded.version")
DROP = "DELETE FROM rows WHERE owner = ? AND part = ? AND member = ?"
NOTE_GONE = "INSERT OR REPLACE INTO gone VALUES (?, ?, ?, ?)"


class StateLost(Exception):
    """A store is gone, or does not have the version that Spark's checkpoint says."""


def make(store: Path, rows: Iterable[tuple[str, str, str, int | None, str]], *, version: int, token: str) -> None:
    """Make a store of these rows (owner, part, member, due, value)."""
    with closing(connected(store, mode="rwc")) as connection:
        connection.executescript(_SCHEMA)
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(PUT, ((*row, version) for row in rows))
        connection.execute("INSERT INTO heads VALUES (?, ?)", (version, token))
        connection.execute("COMMIT")


def remove(store: Path) -> None:
    """Delete a store; not there is fine."""
    for path in (store, store.with_name(f"{store.name}-wal"), store.with_name(f"{store.name}-shm")):
        path.unlink(missing_ok=True)


def has_version(connection: sqlite3.Connection, version: int, token: str) -> bool:
    """True where a store has a version with that token."""
    row = connection.execute("SELECT token FROM heads WHERE version = ?", (version,)).fetchone()
    return row == (token,)


def newest(connection: sqlite3.Connection) -> int:
    """The newest version that a store has."""
    return connection.execute("SELECT max(version) FROM heads").fetchone()[0] or 0


_OPEN: OrderedDict[Path, sqlite3.Connection] = OrderedDict()


def opened(store: Path) -> sqlite3.Connection:
    """A store's connection, which stays open for later batches. It is never closed for others during a batch."""
    connection = _OPEN.pop(store, None) if store.exists() else None
    connection = _OPEN[store] = connection or connected(store)
    idle = [path for path, opened in _OPEN.items() if path != store and not opened.in_transaction]
    for path in idle[:max(0, len(_OPEN) - MOST_OPEN)]:
        _OPEN.pop(path).close()
    return connection


def connected(store: Path, *, mode: str = "rw") -> sqlite3.Connection:
    """A connection to a store that is there, brought up to date; `StateLost` where there is none."""
    try:
        connection = sqlite3.connect(
            f"{store.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=WAIT_S)
    except sqlite3.OperationalError as error:
        raise StateLost(f"The store {store.name} of a fold's state cannot be opened: {error}.") from error
    connection.execute("PRAGMA synchronous = NORMAL")
    if mode == "rw" and _format(connection) < _FORMAT:
        _bring_up_to_date(connection)
    return connection


def _format(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA user_version").fetchone()[0]


def _bring_up_to_date(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    if _format(connection) < _FORMAT:  # another process may have been faster
        connection.execute("ALTER TABLE rows ADD COLUMN version INTEGER NOT NULL DEFAULT 0")
        for statement in _CHANGES:
            connection.execute(statement)
    connection.execute("COMMIT")
