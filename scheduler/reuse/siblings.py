"""Siblings: running tasks that have a type, the parents and the scope in common, and differ in their configs alone.

Near misses and containment look for them. However much runs, finding them is a look-up by their kin: in a database
by a column that holds `kin`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from scheduler.model.canonical import canonical_json
from scheduler.model.fragment import RunningTask

MOST_SIBLINGS = 200  # looked at; sources of one type may be many


class Siblings(Protocol):
    """The look-up of siblings."""

    def siblings(self, kin: str) -> Sequence[RunningTask]:
        """The running tasks of this kin in the order of their ids, `MOST_SIBLINGS` at most."""


def expect(look_ups: Any, keys: Iterable[str]) -> None:
    """Tell look-ups that can read many at once (a database's) what is looked up next."""
    if hasattr(look_ups, "expect"):
        look_ups.expect(keys)


def kin(type_name: str, *, parents: Iterable[str], scope: str = "") -> str:
    """The key that siblings share, and no others: 128 bits of a hash of type, parents and scope."""
    shared = canonical_json([type_name, sorted(parents), scope])
    return hashlib.sha256(shared.encode()).hexdigest()[:32]


def kin_of(task: RunningTask) -> str:
    """A running task's kin."""
    return kin(task.type, parents=task.parents, scope=task.scope)
