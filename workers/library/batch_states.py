"""The states of a fold during a batch: all in one text, or in a store by key to which the text points."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from .pieces import States
from .state_store import Parts, Pointer, StoreLocation, packed

if TYPE_CHECKING:
    from .folds import Fold


class StatesByKey(Protocol):
    """The states of a fold by key, as a batch has them: a dict, or those of a store."""

    def get(self, key: str) -> Any:
        """A key's state, to be changed in place; None where it has none."""

    def __setitem__(self, key: str, state: Any) -> None: ...


class Keeping(Protocol):
    """The states of a fold during a batch."""

    states: StatesByKey

    def save(self) -> str:
        """Keep what they are now; the text that says it to the next batch."""

    def close(self) -> None:
        """Let go of what was not saved."""


class KeptAsText:
    """All states in the text, until they are many."""

    def __init__(self, text: str, location: StoreLocation | None, parts: Parts) -> None:
        self.states: dict[str, Any] = json.loads(text)
        self._location, self._parts = location, parts

    def save(self) -> str:
        """As `Keeping` has it."""
        text, location = packed(self.states), self._location
        is_large = location is not None and len(text) >= location.large
        return str(location.create(self.states, self._parts)) if is_large else text

    def close(self) -> None:
        """As `Keeping` has it."""


class KeptByKey:
    """The states in a store, of which the text says the version."""

    def __init__(self, pointer: Pointer, location: StoreLocation, parts: Parts) -> None:
        self._batch = location.begin(pointer)
        self.states = States(self._batch, parts)

    def save(self) -> str:
        """As `Keeping` has it."""
        self.states.save()
        return str(self._batch.commit())

    def close(self) -> None:
        """As `Keeping` has it."""
        self._batch.roll_back()


def keeping(text: str, location: StoreLocation | None, parts: Parts) -> Keeping:
    """The states that a text says, for one batch.

    Parameters
    ----------
    text : str
        The text that the batch before gave: the states as JSON, or a pointer.
    location : StoreLocation, optional
        The place of this fold's store; without one the text is all.
    """
    pointer = Pointer.read(text)
    if pointer is None:
        return KeptAsText(text, location, parts)
    if location is None:
        raise ValueError("The state of a fold is in a store, and there is no folder of stores.")
    return KeptByKey(pointer, location, parts)


def parts_of(fold: Fold) -> Parts:
    """The members of a state that are mappings of their own, by what the fold says of them."""
    return fold.parts() if hasattr(fold, "parts") else {}
