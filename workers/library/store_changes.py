"""Changes of a fold store since somebody made a copy of it, so that the copy can be brought up to date."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .state_store import GONE, Pointer, require
from .store_files import DROP, PUT, connected, has_version, make, newest, remove


class StoreRow(NamedTuple):
    """A row as it goes to another node; without a value it went."""

    owner: str
    part: str
    member: str
    due: int | None
    value: str | None


@dataclass(frozen=True, slots=True)
class StoreVersion:
    """As of when somebody has a copy of a store: its version, and how often batches had been taken back until then."""

    version: int
    returns: int


def copied(folder: Path, pointer: Pointer) -> tuple[StoreVersion, list[StoreRow]]:
    """All rows of a store's newest version, which a batch may go on from meanwhile."""
    with closing(connected(folder / pointer.store)) as connection:
        connection.execute("BEGIN")
        stand = StoreVersion(newest(connection), _returns(connection))
        return stand, [StoreRow(*row) for row in connection.execute("SELECT owner, part, member, due, value FROM rows")]


def changed(folder: Path, pointer: Pointer, stand: StoreVersion) -> tuple[StoreVersion, list[StoreRow]] | None:
    """Changes that turn a copy into a version of the store, and as of when it is then; None where the store does not
    know that any more.

    Rows may be in it that are as they were.

    Raises
    ------
    StateLost
        The store does not have that version.
    """
    since = (min(stand.version, pointer.version),)
    with closing(connected(folder / pointer.store)) as connection:
        connection.execute("BEGIN")
        require(connection, pointer)
        taken_back = connection.execute(
            "SELECT 1 FROM returns WHERE number > ? AND version < ?", (stand.returns, stand.version)).fetchone()
        if taken_back or since[0] < newest(connection) - GONE:
            return None
        gone = connection.execute("SELECT owner, part, member, NULL, NULL FROM gone WHERE version > ?", since)
        rows = {row[:3]: StoreRow(*row) for row in gone}
        written = connection.execute("SELECT owner, part, member, due, value FROM rows WHERE version > ?", since)
        rows |= {row[:3]: StoreRow(*row) for row in written}
        newer = connection.execute(
            "SELECT owner, part, member, due, value FROM before WHERE version > ? ORDER BY version DESC",
            (pointer.version,))
        is_now = StoreVersion(pointer.version, _returns(connection))
        return is_now, list((rows | {row[:3]: StoreRow(*row) for row in newer}).values())


def put_copy(folder: Path, pointer: Pointer, rows: Iterable[StoreRow]) -> None:
    """Make a store of a copy, whose one version is the pointer's; what was under that name goes."""
    folder.mkdir(parents=True, exist_ok=True)
    remove(folder / pointer.store)
    make(folder / pointer.store, rows, version=pointer.version, token=pointer.token)


def put_changes(folder: Path, pointer: Pointer, rows: Iterable[StoreRow], *, to: Pointer) -> None:
    """Turn a copy into another version, its only one from then on; repeating it is safe.

    Parameters
    ----------
    to : Pointer
        The version that they make, of the same store.

    Raises
    ------
    StateLost
        There is no such copy.
    """
    with closing(connected(folder / pointer.store)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        if not has_version(connection, to.version, to.token):
            require(connection, pointer)
        for *row, due, value in rows:
            if value is None:
                connection.execute(DROP, row)
            else:
                connection.execute(PUT, (*row, due, value, to.version))
        connection.execute("DELETE FROM heads")
        connection.execute("INSERT INTO heads VALUES (?, ?)", (to.version, to.token))
        connection.execute("COMMIT")


def _returns(connection: sqlite3.Connection) -> int:
    return connection.execute("SELECT max(number) FROM returns").fetchone()[0] or 0
