"""The states of a fold store as lazy mappings for a batch: an entry is read when it is asked for.

Entries may be changed in place; changed ones are written at the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from .state_store import Moment, Parts, StoreTransaction, packed


class StoredMapping(MutableMapping[str, Any]):
    """A member of a state that is a mapping, of which each entry is a row: read when it is asked for.

    What is taken out may be changed in place.
    """

    def __init__(self, batch: StoreTransaction, owner: str, part: str, moment: Moment) -> None:
        self._batch, self._owner_part, self._moment = batch, (owner, part), moment
        self._values: dict[str, Any] = {}  # what it is now, where it was asked for
        self._deleted_members: set[str] = set()
        self._stored_rows: dict[str, tuple[int | None, str] | None] = {}

    def __getitem__(self, member: str) -> Any:
        if not self._load(member):
            raise KeyError(member)
        return self._values[member]

    def __setitem__(self, member: str, value: Any) -> None:
        self._load(member)
        self._values[member] = value
        self._deleted_members.discard(member)

    def __delitem__(self, member: str) -> None:
        if not self._load(member):
            raise KeyError(member)
        del self._values[member]
        self._deleted_members.add(member)

    def __contains__(self, member: object) -> bool:
        return isinstance(member, str) and self._load(member)

    def __iter__(self) -> Iterator[str]:
        stored = list(self._batch.members(*self._owner_part))
        yield from [*(member for member in stored if member not in self._stored_rows), *self._values]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def clear(self) -> None:
        """Delete all."""
        for member in list(self):
            del self[member]

    def due(self, upto: int) -> list[str]:
        """The entries that are due then, or before."""
        stored = [member for member in self._batch.due(*self._owner_part, upto) if member not in self._stored_rows]
        moments = ((member, self._moment(value)) for member, value in self._values.items())
        return [*stored, *(member for member, moment in moments if moment is not None and moment <= upto)]

    def soonest(self, *, after: int | None = None, where: Callable[[Any], bool] | None = None) -> int | None:
        """The time at which the first entry is due, as of `soonest`; None if none will be."""
        stored = next((due for member, due in self._batch.soonest(*self._owner_part, after=after)
                       if member not in self._stored_rows and (where is None or where(self._peek(member)))), None)
        in_memory = _soonest(self._values.values(), self._moment, after, where)
        return min((moment for moment in (stored, in_memory) if moment is not None), default=None)

    def _peek(self, member: str) -> Any:
        """A stored entry that is looked at and not kept."""
        row = self._batch.read(*self._owner_part, member)
        return None if row is None else json.loads(row[1])

    def save(self) -> None:
        """Write what is other than it was."""
        for member, before in self._stored_rows.items():
            row = (*self._owner_part, member)
            if member in self._values:
                value = self._values[member]
                text, due = packed(value), self._moment(value)
                if before != (due, text):
                    self._batch.write(row, text, due=due, before=before)
            elif before is not None:
                self._batch.write(row, None, due=None, before=before)

    def _load(self, member: str) -> bool:
        if member not in self._stored_rows:
            self._stored_rows[member] = before = self._batch.read(*self._owner_part, member)
            if before is not None:
                self._values[member] = json.loads(before[1])
        return member in self._values


class States:
    """The states by key, as a fold is given them: read when they are asked for, and changed in place."""

    def __init__(self, batch: StoreTransaction, parts: Parts) -> None:
        self._batch, self._parts = batch, parts
        self._states: dict[str, Any] = {}
        self._stored_rows: dict[str, tuple[int | None, str] | None] = {}

    def get(self, key: str) -> Any:
        """A key's state; None where it has none."""
        if key not in self._stored_rows:
            self._stored_rows[key] = before = self._batch.read(key)
            if before is not None:
                state = self._states[key] = json.loads(before[1])
                for part, moment in self._parts.items():
                    state[part] = StoredMapping(self._batch, key, part, moment)
        return self._states.get(key)

    def __setitem__(self, key: str, state: Any) -> None:
        self.get(key)
        for part, moment in self._parts.items():
            if not isinstance(state[part], StoredMapping):
                pieces, entries = StoredMapping(self._batch, key, part, moment), state[part]
                pieces.clear()
                pieces.update(entries)
                state[part] = pieces
        self._states[key] = state

    def save(self) -> None:
        """Write what is other than it was."""
        for key, state in self._states.items():
            for part in self._parts:
                state[part].save()
            text = packed({**state, **{part: {} for part in self._parts}} if self._parts else state)
            before = self._stored_rows[key]
            if before is None or before[1] != text:
                self._batch.write((key, "", ""), text, due=None, before=before)


def due(entries: Mapping[str, Any], upto: int, *, moment: Moment) -> list[str]:
    """The entries of a part that are due then, or before, whether it is in pieces or not.

    Parameters
    ----------
    moment : callable
        Gives the time at which an entry is due, as the fold's ``parts`` have it.
    """
    if isinstance(entries, StoredMapping):
        return entries.due(upto)
    moments = ((member, moment(value)) for member, value in entries.items())
    return [member for member, at in moments if at is not None and at <= upto]


def soonest(
    entries: Mapping[str, Any], *, moment: Moment, after: int | None = None, where: Callable[[Any], bool] | None = None
) -> int | None:
    """The time at which the first entry of a part is due, whether it is in pieces or not; None where none will be.

    Parameters
    ----------
    moment : callable
        Gives the time at which an entry is due, as the fold's ``parts`` have it.
    """
    if isinstance(entries, StoredMapping):
        return entries.soonest(after=after, where=where)
    return _soonest(entries.values(), moment, after, where)


def _soonest(
    values: Iterable[Any], moment: Moment, after: int | None, where: Callable[[Any], bool] | None
) -> int | None:
    moments = ((moment(value), value) for value in values)
    return min((
        at for at, value in moments
        if at is not None and (after is None or at > after) and (where is None or where(value))), default=None)
