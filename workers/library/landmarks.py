"""Logical windows: what a landmark ends, an event by which a source or a task says that something is complete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .aggregates import Aggregate
from .pieces import due
from .state_store import Parts
from .watermarks import FOREVER


@dataclass(frozen=True, slots=True)
class LandmarkWindowed:
    """``step`` takes a key's text, whether the event is a landmark, time, sequence number, birth, the key's values and
    the aggregates' values; a landmark gives (seq, time, born, *key, start, end, *results, 0) for each key since the
    one before, in the order in which the keys came.

    A landmark is the last event of its window. It ends the window of every key, its own key's too. Start and end are
    the times, in ms, of the key's first event in the window and of the landmark.
    """

    keys: int
    aggregates: tuple[Aggregate, ...]

    def start(self) -> dict:
        return {"events": 0, "keys": {}}

    def parts(self) -> Parts:
        """All keys are due at the next landmark; the moment is the number of a key's first event."""
        return {"keys": _first_number}

    def step(
        self, state: dict, key: str, landmark: bool | None, time: int, seq: int, born: int, *values: Any
    ) -> Iterable[tuple]:
        """Take an event in.

        Parameters
        ----------
        landmark : bool, optional
            True where the event ends the window; None: it does not.
        time, seq, born : int
            Weir's columns of the event.
        *values
            Those of the key's columns, then one for each aggregate.
        """
        here = state["keys"].setdefault(key, {
            "key": list(values[:self.keys]), "number": state["events"], "begin": time,
            "states": [aggregate.kind.start() for aggregate in self.aggregates]})
        state["events"] += 1
        for aggregate, aggregated, value in zip(self.aggregates, here["states"], values[self.keys:], strict=True):
            if value is not None or not aggregate.column:
                aggregate.add(aggregated, value)
        return self._close(state, (seq, time, born)) if landmark else ()

    def _close(self, state: dict, event: Sequence[int]) -> list[tuple]:
        closing = sorted((state["keys"][key]["number"], key) for key in due(
            state["keys"], FOREVER, moment=_first_number))
        out = []
        for _, key in closing:
            here = state["keys"].pop(key)
            results = [aggregate.result(aggregated) for aggregate, aggregated in zip(
                self.aggregates, here["states"], strict=True)]
            out.append((*event, *here["key"], here["begin"], event[1], *results, 0))
        return out


def _first_number(here: dict) -> int:
    return here["number"]
