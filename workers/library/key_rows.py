"""Bringing rows of some keys from fold stores to another store of the node, while batches go on with the former.

First all rows of the keys are brought, then in rounds the changes since (``store_changes``), and last the changes up to
the final version. Queries rest only for that last round. A process that stops between two rounds goes on with the next
one: the store itself records up to which version it has each giver's rows.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import astuple, dataclass
from pathlib import Path

from scheduler.model.ring import key_group

from .key_states import KeyRanges, table_of
from .state_store import Pointer, newest_pointer
from .store_changes import StoreVersion, changed
from .store_files import DROP, PUT, StateLost, connected, make, remove
from .watermarks import is_of_all_keys

_MARKS = "CREATE TABLE IF NOT EXISTS givers (name TEXT PRIMARY KEY, mark TEXT NOT NULL) WITHOUT ROWID"
_ALL = ("INSERT OR REPLACE INTO rows (owner, part, member, due, value, version) "
        "SELECT owner, part, member, due, value, 0 FROM given.rows WHERE counts(owner)")
_FIRST = 0  # the one version of a store whose fold has not begun


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Rows that a store gets of another: of which store, of the keys in which ranges, and up to which version; None:
    the newest.
    """

    store: str
    ranges: tuple[tuple[int, int], ...]
    upto: Pointer | None = None


def bring(folder: Path, store: str, givers: Mapping[str, GivenRows]) -> int:
    """Bring a store to exactly the rows of these givers; about how many characters that took.

    Parameters
    ----------
    store : str
        The store, which is made if it is missing. Its fold has not begun.
    givers : mapping of str to GivenRows
        By the giver's name. No two of them give the same key.

    Raises
    ------
    StateLost
        A giver's store is gone, or does not have its version.
    """
    path = folder / store
    if not _is_whole(path):
        remove(path)
        make(path, (), version=_FIRST, token=store)
    with closing(connected(path)) as connection:
        connection.execute(_MARKS)
        if {name for name, in connection.execute("SELECT name FROM givers")} - givers.keys():
            _empty(connection)
        brought = 0
        for name, source in givers.items():
            if (length := _round(connection, folder, name, source)) is None:
                # Batches were taken back that it has rows of, or these are of another store: all comes again.
                _empty(connection)
                return brought + sum(_whole(connection, folder, *item) for item in givers.items())
            brought += length
        return brought


def is_by_key(folder: Path, store: str) -> bool:
    """True where each row of a store is one key's: not where keys have their marks in common, and so one state."""
    with closing(connected(folder / store)) as connection:
        row = connection.execute("SELECT value FROM rows WHERE part = '' LIMIT 1").fetchone()
    return row is None or not is_of_all_keys(json.loads(row[0]))


def as_of(folder: Path, store: str) -> Pointer:
    """The version that a fold begins with whose store was brought."""
    pointer = newest_pointer(folder, store)
    if pointer is None:
        raise StateLost(f"The store {store} has no version.")
    return pointer


def _is_whole(path: Path) -> bool:
    """Whether a store was made to its end."""
    try:
        with closing(connected(path)) as connection:
            return connection.execute("SELECT 1 FROM heads").fetchone() is not None
    except (StateLost, sqlite3.OperationalError):
        return False


def _empty(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM rows")
    connection.execute("DELETE FROM givers")
    connection.execute("COMMIT")


def _round(connection: sqlite3.Connection, folder: Path, name: str, source: GivenRows) -> int | None:
    """What has changed since the last round, or all; None where that cannot be told."""
    noted = connection.execute("SELECT mark FROM givers WHERE name = ?", (name,)).fetchone()
    if noted is None:
        return _whole(connection, folder, name, source)
    store, ranges, *stand = json.loads(noted[0])
    if store != source.store or ranges != [list(key_range) for key_range in source.ranges]:
        return None
    upto = source.upto or newest_pointer(folder, source.store)
    news = None if upto is None else changed(folder, upto, StoreVersion(*stand))
    if news is None:
        return None
    counts = _counting(source.ranges)
    length = 0
    connection.execute("BEGIN IMMEDIATE")
    for *row, due, value in news[1]:
        if not counts(row[0]):
            continue
        if value is None:
            connection.execute(DROP, row)
        else:
            connection.execute(PUT, (*row, due, value, _FIRST))
            length += len(value)
    _note(connection, name, source, news[0])
    connection.execute("COMMIT")
    return length


def _whole(connection: sqlite3.Connection, folder: Path, name: str, source: GivenRows) -> int:
    """All rows of the giver's keys: the newest, and from there back to the version that counts, if that is older."""
    connected(folder / source.store).close()  # StateLost where there is none; one of an older format is brought up
    connection.create_function("counts", 1, _counting(source.ranges))
    connection.execute("ATTACH DATABASE ? AS given", (f"{(folder / source.store).absolute().as_uri()}?mode=rw",))
    try:
        connection.execute("BEGIN")  # of the giver's store it only reads
        returns = connection.execute("SELECT max(number) FROM given.returns").fetchone()[0] or 0
        version = connection.execute("SELECT max(version) FROM given.heads").fetchone()[0] or 0
        before = _length(connection)
        connection.execute(_ALL)
        length = _length(connection) - before
        _note(connection, name, source, StoreVersion(version, returns))
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute("DETACH DATABASE given")
    if source.upto is None:
        return length
    more = _round(connection, folder, name, source)
    if more is None:
        raise StateLost(f"The store {source.store} was taken back while its rows were read.")
    return length + more


def _note(connection: sqlite3.Connection, name: str, source: GivenRows, stand: StoreVersion) -> None:
    text = json.dumps([source.store, source.ranges, *astuple(stand)])
    connection.execute("INSERT OR REPLACE INTO givers VALUES (?, ?)", (name, text))


def _length(connection: sqlite3.Connection) -> int:
    return connection.execute("SELECT total(length(value)) FROM main.rows").fetchone()[0]


def _counting(ranges: KeyRanges) -> Callable[[str], bool]:
    """Whether a key's rows count."""
    table = table_of(ranges)
    return lambda owner: bool(table[key_group(owner)])
