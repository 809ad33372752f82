"""Fold stores on their way to another node: a copy that goes ahead, then the rows that are new since, as lines of JSON.

A copy begins with a line that names its stores and as of when it has them (``Mark``). The heir's node makes stores of
it as soon as it is there, while its predecessor works on. What is new begins with the record that was left, whose
pointers then point to those stores. So nothing that is done while outputs stand still grows with the state.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from scheduler.contracts.savepoints import SAVEPOINTS, Savepoint, States
from workers.library.state_store import SUFFIX, Pointer
from workers.library.store_changes import Mark, Row, changed, copied, put_changes, put_copy

_BEGINS = b'{"stores": '  # a copy; a record that has all states itself does not
MOST_OF_HEAD = 64 << 10  # bytes of a copy that have its first line
_SHORT = 16  # characters of a checksum that tell copies apart


def is_of_stores(head: bytes) -> bool:
    """Whether that is the beginning of a copy of stores."""
    return head.startswith(_BEGINS)


@dataclass(frozen=True, slots=True)
class StoreCopies:
    """Copies of the stores in a folder, and those that come to be stores there."""

    folder: Path

    def copy(self, states: States) -> bytes | None:
        """A copy of the newest versions of the stores that states point to; None where they point to none."""
        names, marks, lines = [], [], []
        for pointer in _pointers(states):
            mark, rows = copied(self.folder, pointer)
            lines += _lines(len(names), rows)
            names.append(pointer.store)
            marks.append(astuple(mark))
        return _joined({"stores": names, "marks": marks}, lines) if names else None

    def change(self, copy: bytes, ended: Savepoint) -> bytes | None:
        """What is new in a record and its stores since a copy was made; None where that cannot be told from it.

        Parameters
        ----------
        copy : bytes
            What `copy` gave; its first line is enough.
        ended : Savepoint
            What was left, with pointers.

        Raises
        ------
        StateLost
            A store does not have the version that the record points to.
        """
        head = json.loads(copy.partition(b"\n")[0])
        marks = dict(zip(head["stores"], head["marks"], strict=True))
        lines: list[str] = []
        for pointer in _pointers(ended.states):
            rows = changed(self.folder, pointer, Mark(*marks[pointer.store])) if pointer.store in marks else None
            if rows is None:
                return None
            lines += _lines(head["stores"].index(pointer.store), rows)
        return _joined({**head, "record": SAVEPOINTS.document(ended)}, lines)

    def take(self, heir: str, copy: bytes, *, check: str) -> None:
        """Make stores of a copy.

        Parameters
        ----------
        heir : str
            The fragment that is to go on with them.
        copy : bytes
            The copy.
        check : str
            Its SHA-256.
        """
        head, rows = _read(copy)
        for number, (version, _) in enumerate(head["marks"]):
            put_copy(self.folder, _pointer(heir, check, number, version), rows[number])

    def put_together(self, heir: str, change: bytes, *, check: str) -> bytes:
        """Bring the stores of a copy to where the predecessor ended; the record, as its heir goes on with it.

        Parameters
        ----------
        heir, check : str
            As `take` was given them.
        change : bytes
            What `change` gave.

        Raises
        ------
        StateLost
            The stores of that copy are not there.
        """
        head, rows = _read(change)
        ended = SAVEPOINTS.read(head["record"])
        local: dict[str, str] = {}
        for pointer in _pointers(ended.states):
            number = head["stores"].index(pointer.store)
            base = _pointer(heir, check, number, head["marks"][number][0])
            to = replace(pointer, store=base.store)
            put_changes(self.folder, base, rows[number], to=to)
            local[str(pointer)] = str(to)
        states = {task: [local.get(text, text) if text else text for text in texts]
                  for task, texts in ended.states.items()}
        return SAVEPOINTS.dumps(replace(ended, states=states)).encode()


def _pointer(heir: str, check: str, number: int, version: int) -> Pointer:
    return Pointer(f"{heir}.{check[:_SHORT]}-{number}{SUFFIX}", version, check[:_SHORT])


def _pointers(states: States) -> Iterator[Pointer]:
    for texts in states.values():
        for text in texts:
            pointer = None if text is None else Pointer.read(text)
            if pointer is not None:
                yield pointer


def _lines(number: int, rows: Iterable[Row]) -> Iterator[str]:
    return (json.dumps((number, *row)) for row in rows)


def _joined(head: dict[str, Any], lines: Iterable[str]) -> bytes:
    return "\n".join((json.dumps(head), *lines)).encode()


def _read(text: bytes) -> tuple[dict[str, Any], list[list[Row]]]:
    first, *lines = text.split(b"\n")
    head = json.loads(first)
    rows: list[list[Row]] = [[] for _ in head["stores"]]
    for line in lines:
        number, *row = json.loads(line)
        rows[number].append(Row(*row))
    return head, rows
