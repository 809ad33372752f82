"""Fold stores on their way to another node: a copy that goes ahead, then the rows that are new since, as lines of JSON.

A copy begins with a line that names its stores and as of when it has them (``StoreVersion``). The heir's node makes
stores of it as soon as it is there, while its predecessor works on; and so it brings them up to date with each round
after it, which begins with such a line, too. What is new at last begins with the record that was left, whose pointers
then point to those stores. So nothing that is done while outputs stand still grows with the state.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from scheduler.contracts.savepoints import SAVEPOINTS, Savepoint, States
from scheduler.model.ring import key_group
from workers.library.key_states import table_of
from workers.library.state_store import SUFFIX, Pointer
from workers.library.store_changes import StoreRow, StoreVersion, changed, copied, put_changes, put_copy

_COPY, _ROUND = b'{"stores": ', b'{"rows": '  # how they begin; a record that has all states itself does not
MOST_OF_HEAD = 64 << 10  # bytes of a copy that have its first line
_SHORT = 16  # characters of a checksum that tell copies apart


def is_of_stores(head: bytes) -> bool:
    """True where that is the beginning of a copy of stores, or of a round after it."""
    return head.startswith((_COPY, _ROUND))


def points_to_stores(states: States) -> bool:
    """True where any of these states is in a store."""
    return any(True for _ in _pointers(states))


def is_round(head: bytes) -> bool:
    """True where that is the beginning of such a round."""
    return head.startswith(_ROUND)


@dataclass(frozen=True, slots=True)
class StoreCopies:
    """Copies of the stores in a folder, and those that become stores there: of the keys in some ``ranges``, or all."""

    folder: Path
    ranges: tuple[tuple[int, int], ...] = ()

    def copy(self, states: States) -> bytes | None:
        """A copy of the newest versions of the stores that states point to; None where they point to none."""
        names, stands, lines = [], [], []
        for pointer in _pointers(states):
            stand, rows = copied(self.folder, pointer)
            lines += _lines(len(names), self._own_rows(rows))
            names.append(pointer.store)
            stands.append(astuple(stand))
        return _joined({"stores": names, "marks": stands}, lines) if names else None

    def newer(self, last: bytes, saved: Savepoint, *, base: str) -> bytes | None:
        """A round: what is new in the stores that states point to since a copy, or the round before, was made.

        Parameters
        ----------
        last : bytes
            The copy or round; its first line is enough.
        saved : Savepoint
            The states, as of which versions; the round of a copy that may be gone on with by itself has all of it.
        base : str
            The SHA-256 of that copy or round.

        Raises
        ------
        StateLost
            A store does not have the version that the states point to.
        """
        head = _head(last)
        news = self._news(head, saved.states)
        if news is None:
            return None
        stands, lines = news
        versions = [version for version, _ in head["marks"]]
        about = {"rows": True, "base": base, "copy": head.get("copy", base), "since": versions}
        record = {} if saved.repeats is None else {"record": SAVEPOINTS.document(saved)}
        return _joined({**about, **record, "stores": head["stores"], "marks": stands}, lines)

    def change(self, last: bytes, ended: Savepoint) -> bytes | None:
        """The new part of a record and its stores; None where that cannot be told.

        Parameters
        ----------
        last : bytes
            The record that went ahead last; its first line is enough.

        Raises
        ------
        StateLost
            A store does not have the version that the record points to.
        """
        head = _head(last)
        news = self._news(head, ended.states)
        return None if news is None else _joined({**head, "record": SAVEPOINTS.document(ended)}, news[1])

    def take(self, heir: str, text: bytes, *, check: str) -> None:
        """Make stores of a copy, or bring them to where a round has them; repeating it is safe.

        Raises
        ------
        StateLost
            What the round is newer than is not there.
        """
        head, rows = _read(text)
        for number, (version, _) in enumerate(head["marks"]):
            to = _pointer(heir, head, number, version=version, check=check)
            if "rows" in head:
                base = _pointer(heir, head, number, version=head["since"][number], check=head["base"])
                put_changes(self.folder, base, rows[number], to=to)
            else:
                put_copy(self.folder, to, rows[number])

    def record(self, heir: str, text: bytes, *, check: str) -> bytes | None:
        """The record of a copy, with pointers to the stores that `take` made of it; None if the copy has no record,
        because it is newer than any.
        """
        head = _head(text)
        if "record" not in head:
            return None
        saved, local = SAVEPOINTS.read(head["record"]), {}
        for pointer in _pointers(saved.states):
            number = head["stores"].index(pointer.store)
            local[str(pointer)] = str(_pointer(heir, head, number, version=head["marks"][number][0], check=check))
        return _record_of(saved, local)

    def put_together(self, heir: str, change: bytes, *, check: str) -> bytes:
        """Bring the stores to where the predecessor ended; the record, as its heir goes on with it.

        Raises
        ------
        StateLost
            The stores are missing, or not those that the change is based on.
        """
        head, rows = _read(change)
        ended = SAVEPOINTS.read(head["record"])
        local: dict[str, str] = {}
        for pointer in _pointers(ended.states):
            number = head["stores"].index(pointer.store)
            base = _pointer(heir, head, number, version=head["marks"][number][0], check=check)
            to = replace(pointer, store=base.store)
            put_changes(self.folder, base, rows[number], to=to)
            local[str(pointer)] = str(to)
        return _record_of(ended, local)

    def _own_rows(self, rows: Iterable[StoreRow]) -> Iterable[StoreRow]:
        if not self.ranges:
            return rows
        table = table_of(self.ranges)
        return [row for row in rows if table[key_group(row.owner)]]

    def _news(self, head: Mapping[str, Any], states: States) -> tuple[list[tuple[int, int]], list[str]] | None:
        """As of when the stores of a copy are now, and the rows that are new; None where that cannot be told."""
        stands, lines = [tuple(stand) for stand in head["marks"]], []
        for pointer in _pointers(states):
            if pointer.store not in head["stores"]:
                return None
            number = head["stores"].index(pointer.store)
            change = changed(self.folder, pointer, StoreVersion(*stands[number]))
            if change is None:
                return None
            stand, rows = change
            lines += _lines(number, self._own_rows(rows))
            stands[number] = astuple(stand)
        return stands, lines


def _record_of(saved: Savepoint, local: Mapping[str, str]) -> bytes:
    """A record with its pointers replaced by those of this node."""
    states = {task: [local.get(text, text) if text else text for text in texts]
              for task, texts in saved.states.items()}
    return SAVEPOINTS.dumps(replace(saved, states=states)).encode()


def _pointer(heir: str, head: Mapping[str, Any], number: int, *, version: int, check: str) -> Pointer:
    """A version of a store at the heir's node: named after the copy that it was made of, with the checksum of what
    made the version as its token.

    Raises
    ------
    ValueError
        What it says of that copy is no checksum: no file is named after it.
    """
    copy = head.get("copy", check)[:_SHORT]
    if not copy.isalnum():
        raise ValueError("its copy is not named by a checksum")
    return Pointer(f"{heir}.{copy}-{number}{SUFFIX}", version, check[:_SHORT])


def _pointers(states: States) -> Iterator[Pointer]:
    for texts in states.values():
        for text in texts:
            pointer = None if text is None else Pointer.read(text)
            if pointer is not None:
                yield pointer


def _lines(number: int, rows: Iterable[StoreRow]) -> Iterator[str]:
    return (json.dumps((number, *row)) for row in rows)


def _joined(head: dict[str, Any], lines: Iterable[str]) -> bytes:
    return "\n".join((json.dumps(head), *lines)).encode()


def _head(text: bytes) -> dict[str, Any]:
    return json.loads(text.partition(b"\n")[0])


def _read(text: bytes) -> tuple[dict[str, Any], list[list[StoreRow]]]:
    first, *lines = text.split(b"\n")
    head = json.loads(first)
    rows: list[list[StoreRow]] = [[] for _ in head["stores"]]
    for line in lines:
        number, *row = json.loads(line)
        rows[number].append(StoreRow(*row))
    return head, rows
