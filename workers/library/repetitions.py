"""Repetitions as a fold: an event whose key passed shortly before, or after, by the events' time (``windows``)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from scheduler.model.columns import partition_of

from . import watermarks
from .pieces import due
from .state_store import Parts


@dataclass(frozen=True, slots=True)
class Deduplicated:
    """``step`` takes a key's text and a time (ms) and gives one empty tuple for an event that passes: none of its key
    passed less than ``within`` ms before or after it.

    Keys are forgotten when events of a time twice that far behind could only be new in their partition, whenever its
    mark passes a multiple of ``within``; of events that come later than ``within`` a repetition may pass, and so may
    one of an event that came so late: the latest time of each key is kept.
    """

    within: int
    ahead: int = 0
    lateness: ClassVar[int] = 0
    idle: ClassVar[int | None] = None

    def start(self) -> dict:
        return {**watermarks.start(), "passed": {}}

    def parts(self) -> Parts:
        """A key is due by when it passed."""
        return {"passed": _when}

    def step(self, state: dict, key: str, time: int, seq: int, born: int) -> Iterable[tuple]:
        """Take an event in.

        Parameters
        ----------
        time, seq, born : int
            Weir's columns of the event.
        """
        name = str(partition_of(seq))
        self.tell(state, name, min(time, born + self.ahead), born)
        before = state["passed"].get(key)
        at = None if before is None else _when(before)
        if at is not None and abs(time - at) < self.within:
            return ()
        if at is None or time >= at:
            state["passed"][key] = [time, name]
        return [()]

    def tell(self, state: dict, name: str, time: int, born: int) -> Iterable[tuple]:
        """Take in how far a partition has come, by its events of this key or of others."""
        if watermarks.is_of_one_mark(state):
            state.pop("next", None)
            watermarks.divide(state, state.pop("latest", None), born, self)
        watermarks.hear(state, name, born, self)
        partition = state["partitions"][name]
        watermarks.reach(partition, time, self)
        if partition["next"] is None or watermarks.is_due(partition):
            passed = partition["mark"] - partition["mark"] % self.within  # so that it matters not how often who is told
            for key in due(state["passed"], passed - 2 * self.within, moment=_when):
                entry = state["passed"][key]
                if isinstance(entry, int) or entry[1] == name:  # a number alone is of a version without partitions
                    del state["passed"][key]
            partition["next"] = passed + self.within
        return ()


def _when(entry: int | list) -> int:
    return entry if isinstance(entry, int) else entry[0]
