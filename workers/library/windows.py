"""Windows, repetitions and pairs as folds: what comes out follows from the order of the events alone.

Time is the events'. The **mark** is the latest time that has come, less the lateness that is waited for; what is at or
before the mark is settled. It moves with each event and not, as Spark's watermark, with each batch: so the same events
give the same results however they are cut into batches, and what is late is the same for whoever shares the task. State
of folds can be handed from one query to another, which that of Spark's own windows cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .aggregates import Aggregate
from .pieces import due, soonest
from .state_store import Moment, Parts


@dataclass(frozen=True, slots=True)
class Windowed:
    """``step`` takes a key's text, time, sequence number, birth, the key's values and the aggregates' values (None for
    those of events); gives (seq, time, born, *key, start, end, *results, late) for each window that closes.

    Times are in ms; ``size`` is a session's gap where ``slide`` is 0. A window is half open: it has its start and not
    its end. ``late`` counts the events that came after their window had closed, since the key's last result; with
    ``mark`` each such event gives a result of its own at once, of itself alone, whose ``late`` is 1.
    """

    size: int
    slide: int
    lateness: int
    mark: bool
    keys: int
    aggregates: tuple[Aggregate, ...]

    def start(self) -> dict:
        return {"mark": None, "next": None, "keys": {}}

    def parts(self) -> Parts:
        """A key is due when the first of its windows closes."""
        return {"keys": _first_end}

    def step(self, state: dict, key: str, time: int, seq: int, born: int, *values: Any) -> Iterable[tuple]:
        """Take an event in.

        Parameters
        ----------
        state : dict
            As `start` gives it; changed in place.
        time, seq, born : int
            Weir's columns of the event.
        *values
            Those of the key's columns, then one for each aggregate.
        """
        here = state["keys"].setdefault(key, {"key": list(values[:self.keys]), "open": [], "late": 0})
        event, read, out = (seq, time, born), values[self.keys:], []
        for begin, end in self._windows(time, here["open"]):
            if state["mark"] is not None and end <= state["mark"]:
                out += self._late(here, begin, end, event, read)
            else:
                window = self._window(here["open"], begin, end)
                window[2:5] = event
                self._add(window[5], read)
                state["next"] = window[1] if state["next"] is None else min(state["next"], window[1])
        reached = time - self.lateness
        if state["mark"] is None or reached > state["mark"]:
            state["mark"] = reached
        if state["next"] is not None and state["next"] <= state["mark"]:
            out += self._close(state)
        if not here["open"] and not here["late"]:
            state["keys"].pop(key, None)
        return out

    def _windows(self, time: int, open_windows: Sequence[list]) -> list[tuple[int, int]]:
        """The windows that an event is in, by start and end, the earliest first."""
        if self.slide:
            last = time - time % self.slide
            return [(begin, begin + self.size) for begin in range(last, time - self.size, -self.slide)][::-1]
        begin, end = time, time + self.size
        for window in open_windows:
            if window[0] < time + self.size and time < window[1]:
                begin, end = min(begin, window[0]), max(end, window[1])
        return [(begin, end)]

    def _window(self, open_windows: list, begin: int, end: int) -> list:
        """The open window there; of sessions, all that it joins made one."""
        inside = [window for window in open_windows if window[0] >= begin and window[1] <= end]
        if not inside:
            inside = [[begin, end, 0, 0, 0, [aggregate.kind.start() for aggregate in self.aggregates]]]
            open_windows.append(inside[0])
        first, *others = sorted(inside, key=lambda window: window[0])
        first[0], first[1] = begin, end
        for other in others:
            open_windows.remove(other)
            for aggregate, state, another in zip(self.aggregates, first[5], other[5], strict=True):
                aggregate.kind.merge(state, another)
        return first

    def _add(self, states: list, values: Sequence[Any]) -> None:
        for aggregate, state, value in zip(self.aggregates, states, values, strict=True):
            if value is not None or not aggregate.column:
                aggregate.kind.add(state, value)

    def _late(self, here: dict, begin: int, end: int, event: tuple, values: Sequence[Any]) -> list[tuple]:
        if not self.mark:
            here["late"] += 1
            return []
        alone = [aggregate.kind.start() for aggregate in self.aggregates]
        self._add(alone, values)
        return [(*event, *here["key"], begin, end, *self._results(alone), 1)]

    def _results(self, states: list) -> list[Any]:
        return [aggregate.kind.result(state, aggregate.argument)
                for aggregate, state in zip(self.aggregates, states, strict=True)]

    def _close(self, state: dict) -> list[tuple]:
        keys = state["keys"]
        closing = sorted(
            (window[1], window[0], key) for key in due(keys, state["mark"], moment=_first_end)
            for window in keys[key]["open"] if window[1] <= state["mark"])
        out = []
        for end, begin, key in closing:
            here = keys[key]
            window = next(window for window in here["open"] if window[0] == begin and window[1] == end)
            here["open"].remove(window)
            out.append((*window[2:5], *here["key"], begin, end, *self._results(window[5]), here["late"]))
            here["late"] = 0
            if not here["open"]:
                del keys[key]
        state["next"] = soonest(keys, moment=_first_end)
        return out


def _first_end(here: dict) -> int | None:
    """When the first of a key's open windows ends."""
    return min((window[1] for window in here["open"]), default=None)


@dataclass(frozen=True, slots=True)
class Deduplicated:
    """``step`` takes a key's text and a time (ms) and gives one empty tuple for an event that passes: none of its key
    passed less than ``within`` ms before or after it.

    Keys are forgotten when events of a time twice that far behind could only be new; of events that come later than
    ``within`` a repetition may pass, and so may one of an event that came so late: the latest time of each key is kept.
    """

    within: int

    def start(self) -> dict:
        return {"latest": None, "next": None, "passed": {}}

    def parts(self) -> Parts:
        """A key is due by when it passed."""
        return {"passed": _itself}

    def step(self, state: dict, key: str, time: int) -> Iterable[tuple]:
        latest = state["latest"] = time if state["latest"] is None else max(state["latest"], time)
        if state["next"] is None or latest >= state["next"]:
            for other in due(state["passed"], latest - 2 * self.within, moment=_itself):
                del state["passed"][other]
            state["next"] = latest + self.within
        before = state["passed"].get(key)
        if before is not None and abs(time - before) < self.within:
            return ()
        state["passed"][key] = time if before is None else max(before, time)
        return [()]


def _itself(at: int) -> int:
    return at


@dataclass(frozen=True, slots=True)
class Joined:
    """``step`` takes a key's text (not empty; None: matches nothing), time, sequence number, birth, and what the event
    gives as one of the left and as one of the right (None where it is none); gives (seq, time, born, left, right) for
    each pair.

    A pair's right event is at most ``before`` ms earlier and ``after`` ms later than the left one. An event that is
    older than the mark is left out. With ``outer`` a left event that finds nobody comes out alone, once nobody can
    come any more.
    """

    before: int
    after: int
    lateness: int
    outer: bool

    def start(self) -> dict:
        return {"mark": None, "next": None, "swept": None, "left": {}, "right": {}}

    def parts(self) -> Parts:
        """A key is due when the first of its events can match nobody any more, but for the mark's own moment."""
        return {"left": self._last_chance(self.after), "right": self._last_chance(self.before)}

    def _last_chance(self, reach: int) -> Moment:
        return partial(_first_time, reach=reach)

    def step(
        self, state: dict, key: str | None, time: int, seq: int, born: int, left: str | None, right: str | None
    ) -> Iterable[tuple]:
        """Take an event in.

        Parameters
        ----------
        state : dict
            As `start` gives it; changed in place.
        time, seq, born : int
            Weir's columns of the event.
        left, right : str, optional
            What a pair takes of it on each side.
        """
        if state["mark"] is not None and time < state["mark"]:
            return []
        out: list[tuple] = []
        entry: list | None = None
        if left is not None:
            entry = [time, seq, born, left, 0]
            for other in state["right"].get(key, ()) if key is not None else ():
                if time - self.before <= other[0] <= time + self.after:
                    entry[4] = 1
                    out.append((seq, time, born, left, other[3]))
            self._keep(state, "left", key or "", entry, self.after)
        if right is not None and key is not None:
            for other in state["left"].get(key, ()):
                if other[0] - self.before <= time <= other[0] + self.after and other is not entry:
                    other[4] = 1
                    out.append((seq, time, born, other[3], right))
            self._keep(state, "right", key, [time, seq, born, right], self.before)
        state["mark"] = max(time - self.lateness, state["mark"] if state["mark"] is not None else time - self.lateness)
        rested = state["swept"] is None or state["mark"] - state["swept"] >= (self.before + self.after) // 8
        if rested and state["next"] is not None and state["next"] < state["mark"]:
            out += self._forget(state)
        return out

    def _keep(self, state: dict, side: str, key: str, entry: list, reach: int) -> None:
        state[side].setdefault(key, []).append(entry)
        end = entry[0] + reach
        state["next"] = end if state["next"] is None else min(state["next"], end)

    def _forget(self, state: dict) -> list[tuple]:
        """Leave out what can match nobody any more; give those of the left that never did.

        That may look at all that is kept, so it waits until an eighth of the interval has passed since the last time.
        """
        gone: list[list] = []
        ends: list[int | None] = []
        for side, reach in (("left", self.after), ("right", self.before)):
            moment = self._last_chance(reach)
            for key in due(state[side], state["mark"] - 1, moment=moment):
                entries = state[side][key]
                stay = [entry for entry in entries if entry[0] + reach >= state["mark"]]
                if side == "left":
                    gone += [entry for entry in entries if entry[0] + reach < state["mark"] and not entry[4]]
                if stay:
                    state[side][key] = stay
                else:
                    del state[side][key]
            ends.append(soonest(state[side], moment=moment))
        state["next"] = min((end for end in ends if end is not None), default=None)
        state["swept"] = state["mark"]
        return [(entry[1], entry[0], entry[2], entry[3], None) for entry in sorted(
            gone, key=lambda entry: (entry[0], entry[1]))] if self.outer else []


def _first_time(entries: list[list], *, reach: int) -> int | None:
    return min((entry[0] + reach for entry in entries), default=None)
