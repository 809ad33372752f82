"""Fold stores: the state of one fold by key, in a file of SQLite, where all of it in one text would be large.

A batch reads and writes the rows of what it touches, in one transaction, and gives a **pointer**: the store, the
version there, and a token that no other batch has given. Spark keeps the pointer as the fold's state. So Spark's
checkpoint says which version counts, and the store may only be ahead of it: by a batch that was written and not
committed. The rows that the last ``VERSIONS`` batches replaced are kept, and a batch that is repeated first brings
them back. Two that go on from one version exclude one another: a transaction holds the store from its first row on,
and what the other one made of it is taken back, or noticed by its token.

A store also says what has changed since a copy of it was made (``store_changes``): each row has the version that wrote
it, rows that went are remembered for some time, and so is each time that batches were taken back.

A row is a key's state. Where that has members that are mappings by a key of their own (``parts`` of a fold), each of
their entries is a row, too (``pieces``).
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .store_files import DROP, NOTE_GONE, PUT, StateLost, connected, has_version, make, newest, opened, remove

LARGE = 256 << 10
FIRST_DUE = -(1 << 63)  # of what SQLite can keep
VERSIONS = 20  # batches that can be taken back: as many as Spark keeps
GONE = 1_000  # batches for which a row that went is remembered
MARK = "@"  # what the text of a pointer begins with; that of states is a JSON object
SUFFIX = ".fold"

Moment = Callable[[Any], int | None]
Parts = Mapping[str, Moment]  # of a fold's state: member → when an entry of it is due

@dataclass(frozen=True, slots=True)
class Pointer:
    """A version of a store, by the store's name; as a text it is a fold's state."""

    store: str
    version: int
    token: str

    def __str__(self) -> str:
        return MARK + json.dumps({"store": self.store, "version": self.version, "token": self.token})

    @staticmethod
    def read(text: str) -> Pointer | None:
        """The pointer that a text is; None of one that has the states themselves."""
        return Pointer(**json.loads(text[len(MARK):])) if text.startswith(MARK) else None


class StoreTransaction:
    """One batch's transaction on a store: from a version to the next one, or to nothing.

    Parameters
    ----------
    pointer : Pointer
        The version that the batch begins with; what was written after it is taken back.

    Raises
    ------
    StateLost
        The store does not have that version.
    """

    def __init__(self, connection: sqlite3.Connection, pointer: Pointer) -> None:
        self._connection, self._pointer = connection, pointer
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._go_back()
        except BaseException:
            self.roll_back()
            raise

    def read(self, owner: str, part: str = "", member: str = "") -> tuple[int | None, str] | None:
        """The time at which a row is due, and its value; None where there is none."""
        return self._connection.execute(
            "SELECT due, value FROM rows WHERE owner = ? AND part = ? AND member = ?", (owner, part, member)).fetchone()

    def members(self, owner: str, part: str) -> Iterator[str]:
        """The members of a part."""
        rows = self._connection.execute("SELECT member FROM rows WHERE owner = ? AND part = ?", (owner, part))
        return (member for member, in rows)

    def due(self, owner: str, part: str, upto: int) -> list[str]:
        """The members of a part that are due then, or before."""
        rows = self._connection.execute(
            "SELECT member FROM rows WHERE owner = ? AND part = ? AND due <= ?", (owner, part, upto))
        return [member for member, in rows]

    def soonest(self, owner: str, part: str, *, after: int | None = None) -> Iterator[tuple[str, int]]:
        """The members of a part that will be due, later than ``after`` if that is given, and when; the first ones
        first."""
        return self._connection.execute(
            "SELECT member, due FROM rows WHERE owner = ? AND part = ? AND due > ? ORDER BY due",
            (owner, part, FIRST_DUE if after is None else after))

    def write(
        self, row: tuple[str, str, str], value: str | None, *, due: int | None, before: tuple[int | None, str] | None
    ) -> None:
        """Write a row, once in a batch; with None it goes."""
        was = before or (None, None)
        values = (self._pointer.version + 1, *row, *was)
        self._connection.execute("INSERT INTO before VALUES (?, ?, ?, ?, ?, ?)", values)
        self._put(row, due, value, self._pointer.version + 1)

    def commit(self) -> Pointer:
        """The version that the batch has made, from now on in the store."""
        new = Pointer(self._pointer.store, self._pointer.version + 1, secrets.token_hex(8))
        self._connection.execute("INSERT INTO heads VALUES (?, ?)", (new.version, new.token))
        self._connection.execute("DELETE FROM before WHERE version <= ?", (new.version - VERSIONS,))
        self._connection.execute("DELETE FROM heads WHERE version < ?", (new.version - VERSIONS,))
        self._connection.execute("DELETE FROM gone WHERE version < ?", (new.version - GONE,))
        self._connection.execute("COMMIT")
        return new

    def roll_back(self) -> None:
        """Leave the store as it was; after a commit nothing."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _go_back(self) -> None:
        require(self._connection, self._pointer)
        after = (self._pointer.version,)
        if newest(self._connection) == self._pointer.version:
            return
        self._connection.execute("INSERT INTO returns (version) VALUES (?)", after)
        newer = self._connection.execute(
            "SELECT owner, part, member, due, value FROM before WHERE version > ? ORDER BY version DESC", after)
        for owner, part, member, due, value in newer.fetchall():
            self._put((owner, part, member), due, value, self._pointer.version)
        for table in ("before", "heads", "gone"):
            self._connection.execute(f"DELETE FROM {table} WHERE version > ?", after)

    def _put(self, row: tuple[str, str, str], due: int | None, value: str | None, version: int) -> None:
        if value is None:
            self._connection.execute(DROP, row)
            self._connection.execute(NOTE_GONE, (*row, version))
        else:
            self._connection.execute(PUT, (*row, due, value, version))


# -- stores as files ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """The place where a fold's store is made: the folder of all stores, the beginning of its names, and from how many
    characters of all states on."""

    folder: str
    name: str
    large: int = LARGE

    def begin(self, pointer: Pointer) -> StoreTransaction:
        """A batch that goes on from there."""
        return StoreTransaction(opened(Path(self.folder) / pointer.store), pointer)

    def create(self, states: Mapping[str, Any], parts: Parts) -> Pointer:
        """A store of these states. What this fold's earlier stores have does not count any more, and goes."""
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        for earlier in folder.glob(f"{self.name}.*{SUFFIX}"):
            remove(earlier)
        pointer = Pointer(f"{self.name}.{secrets.token_hex(4)}{SUFFIX}", 0, secrets.token_hex(8))
        make(folder / pointer.store, _rows(states, parts), version=pointer.version, token=pointer.token)
        return pointer


def read_whole(folder: Path, pointer: Pointer) -> str:
    """All states of a version, as the text that they would be without a store.

    Raises
    ------
    StateLost
        The store does not have that version.
    """
    with closing(connected(folder / pointer.store)) as connection:
        connection.execute("BEGIN")
        rows = {row[:3]: row[3] for row in connection.execute("SELECT owner, part, member, value FROM rows")}
        require(connection, pointer)
        for *row, value in connection.execute(
                "SELECT owner, part, member, value FROM before WHERE version > ? ORDER BY version DESC",
                (pointer.version,)):
            rows[tuple(row)] = value
    states = {owner: json.loads(value) for (owner, part, _), value in rows.items() if not part and value is not None}
    for (owner, part, member), value in sorted(rows.items()):
        if part and value is not None:
            states[owner][part][member] = json.loads(value)
    return packed(dict(sorted(states.items())))


def newest_pointer(folder: Path, store: str) -> Pointer | None:
    """The newest version that a store has, whether a checkpoint says it yet or not; None where it has none."""
    with closing(connected(folder / store)) as connection:
        head = connection.execute("SELECT version, token FROM heads ORDER BY version DESC LIMIT 1").fetchone()
    return None if head is None else Pointer(store, *head)


def packed(value: Any) -> str:
    """A value as JSON."""
    return json.dumps(value, separators=(",", ":"))


def _rows(states: Mapping[str, Any], parts: Parts) -> Iterator[tuple[str, str, str, int | None, str]]:
    for key, state in states.items():
        yield key, "", "", None, packed({**state, **{part: {} for part in parts}} if parts else state)
        for part, moment in parts.items():
            for member, value in state[part].items():
                yield key, part, member, moment(value), packed(value)


def require(connection: sqlite3.Connection, pointer: Pointer) -> None:
    """Raise `StateLost` where a store does not have a version."""
    if not has_version(connection, pointer.version, pointer.token):
        raise StateLost(f"The store {pointer.store} does not have version {pointer.version} of the state.")
