"""Windows and pairs as folds: what comes out for a key follows from the order of its partition's events.

Time is the events'. Each partition of a source has a mark of its own (``watermarks``); what is at or before it is
settled. It moves with each event and not, as Spark's watermark, with each batch: so the same events give the same
results however they are cut into batches and however partitions interleave, and what is late is the same for whoever
shares the task. State of folds can be handed from one query to another, which that of Spark's own windows cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from scheduler.model.columns import partition_of

from . import watermarks
from .aggregates import Aggregate
from .pieces import due, soonest
from .state_store import Moment, Parts
from .watermarks import FOREVER, NEVER


@dataclass(frozen=True, slots=True)
class Windowed:
    """``step`` takes a key's text, time, sequence number, birth, the key's values and the aggregates' values (None for
    those of events); gives (seq, time, born, *key, start, end, *results, late) for each window that closes.

    Times are in ms; ``size`` is a session's gap where ``slide`` is 0. A window is half open: it has its start and not
    its end. It closes when all partitions that its key was seen in have passed it. ``late`` counts the events that came
    after their window had closed, since the key's last result, where that is not much older; with ``mark`` each such
    event gives a result of its own at once, of itself alone, whose ``late`` is 1.
    """

    size: int
    slide: int
    lateness: int
    mark: bool
    keys: int
    aggregates: tuple[Aggregate, ...]
    ahead: int = 0
    idle: int | None = None

    def start(self) -> dict:
        return {**watermarks.start(), "keys": {}}

    def parts(self) -> Parts:
        """A key is due when the first of its windows closes, or, without one, when it is forgotten."""
        return {"keys": _first_end}

    def step(self, state: dict, key: str, time: int, seq: int, born: int, *values: Any) -> Iterable[tuple]:
        """Take an event in.

        Parameters
        ----------
        time, seq, born : int
            Weir's columns of the event.
        *values
            Those of the key's columns, then one for each aggregate.
        """
        if watermarks.is_of_one_mark(state):
            self._divide(state, born)
        name, fell = watermarks.arrive(state, seq, born, self)
        out = self._close(state) if fell else []
        partition = state["partitions"][name]
        here = state["keys"].get(key)
        if here is None:
            here = state["keys"][key] = {"key": list(values[:self.keys]), "open": [], "late": 0, "of": []}
        if name not in here.setdefault("of", []):
            here["of"].append(name)
            if (moment := _first_end(here)) is not None:
                watermarks.expect(partition, moment)
        settled, is_late = max(partition["mark"], here.get("closed", NEVER)), False
        event, read, first = (seq, time, born), values[self.keys:], FOREVER
        for begin, end in self._windows(time, here["open"]):
            if end <= settled:
                is_late = True
                out += self._late(here, begin, end, event, read)
            else:
                window = self._window(here["open"], begin, end)
                window[2:5] = event
                self._add(window[5], read)
                first = min(first, window[1])
        state["late"] += is_late
        if not here["open"] and here["late"]:
            first = here["until"] = max(partition["mark"] + self.size, here.get("closed", NEVER))
        if first < FOREVER:
            for partition_name in here["of"]:
                watermarks.expect(state["partitions"][partition_name], first)
        elif not here["open"] and "until" not in here:
            del state["keys"][key]
        watermarks.advance(partition, time, born, self)
        if watermarks.is_due(partition):
            out += self._close(state, partition)
        return out

    def tell(self, state: dict, name: str, time: int, born: int) -> Iterable[tuple]:
        """Take in how far a partition has come by events of other keys."""
        if watermarks.is_of_one_mark(state):
            self._divide(state, born)
        out = self._close(state) if watermarks.hear(state, name, born, self) else []
        partition = state["partitions"][name]
        watermarks.reach(partition, time, self)
        if watermarks.is_due(partition):
            out += self._close(state, partition)
        return out

    def silence(self, state: dict) -> Iterable[tuple]:
        """Nothing has come for ``idle`` ms: give the windows that are open."""
        watermarks.silence(state)
        return self._close(state)

    def late(self, state: dict) -> int:
        """The number of events that came too late for one of their windows."""
        return state.get("late", 0)

    def _divide(self, state: dict, born: int) -> None:
        """A state of one mark for all: keys that only ever were late go, for nobody else would forget them."""
        state.pop("next", None)
        watermarks.divide(state, state.pop("mark", None), born, self)
        for key in [key for key, here in state["keys"].items() if not here["open"]]:
            del state["keys"][key]

    def _windows(self, time: int, open_windows: Sequence[list]) -> list[tuple[int, int]]:
        """The windows that an event is in, by start and end, the earliest first."""
        if self.slide:
            last = time - time % self.slide
            if self.slide == self.size:
                return [(last, last + self.size)]
            return [(begin, begin + self.size) for begin in range(last, time - self.size, -self.slide)][::-1]
        begin, end = time, time + self.size
        for window in open_windows:
            if window[0] < time + self.size and time < window[1]:
                begin, end = min(begin, window[0]), max(end, window[1])
        return [(begin, end)]

    def _window(self, open_windows: list, begin: int, end: int) -> list:
        """The open window there; of sessions, all that it joins made one."""
        inside = [window for window in open_windows if window[0] >= begin and window[1] <= end]
        if len(inside) == 1 and self.slide:
            return inside[0]
        if not inside:
            inside = [[begin, end, 0, 0, 0, [aggregate.kind.start() for aggregate in self.aggregates]]]
            open_windows.append(inside[0])
        first, *others = sorted(inside, key=lambda window: window[0])
        first[0], first[1] = begin, end
        for joined_window in others:
            open_windows.remove(joined_window)
            for aggregate, state, another in zip(self.aggregates, first[5], joined_window[5], strict=True):
                aggregate.merge(state, another)
        return first

    def _add(self, states: list, values: Sequence[Any]) -> None:
        for aggregate, state, value in zip(self.aggregates, states, values, strict=True):
            if value is not None or not aggregate.column:
                aggregate.add(state, value)

    def _late(self, here: dict, begin: int, end: int, event: tuple, values: Sequence[Any]) -> list[tuple]:
        if not self.mark:
            here["late"] += 1
            return []
        alone = [aggregate.kind.start() for aggregate in self.aggregates]
        self._add(alone, values)
        return [(*event, *here["key"], begin, end, *self._results(alone), 1)]

    def _results(self, states: list) -> list[Any]:
        return [aggregate.result(state)
                for aggregate, state in zip(self.aggregates, states, strict=True)]

    def _close(self, state: dict, moved: dict | None = None) -> list[tuple]:
        """Close what is due by the mark of a partition that has moved, or of any; the earliest end first."""
        keys, partitions, closing = state["keys"], state["partitions"], []
        for key in due(keys, FOREVER if moved is None else moved["mark"], moment=_first_end):
            here = keys[key]
            mark = watermarks.least(state, here.get("of", ()), self)
            closing += [(window[1], window[0], key) for window in here["open"] if window[1] <= mark]
            if not here["open"] and here["until"] <= mark and self._is_settled(state, here):
                del keys[key]
        out = []
        for end, begin, key in sorted(closing):
            here = keys[key]
            window = next(window for window in here["open"] if window[0] == begin and window[1] == end)
            here["open"].remove(window)
            out.append((*window[2:5], *here["key"], begin, end, *self._results(window[5]), here["late"]))
            here["late"], here["closed"] = 0, end
            if not here["open"] and self._is_settled(state, here):
                del keys[key]
            elif not here["open"]:  # the mark of one that is silent was not waited for
                here["until"] = end
        for name, partition in partitions.items():
            if moved is None or partition is moved:
                partition["next"] = self._next(state, name)
        for here in (keys[key] for key in {key for _, _, key in closing} if key in keys):
            moment = _first_end(here)  # which those partitions wait for now that are not as far
            for partition in (partitions[name] for name in here.get("of", ())):
                if moment is not None and partition["mark"] < moment:
                    watermarks.expect(partition, moment)
        return out

    def _is_settled(self, state: dict, here: dict) -> bool:
        """Whether no event can come any more for a window of a key that has closed."""
        return here.get("closed", NEVER) <= watermarks.settled(state, here.get("of", ()))

    def _next(self, state: dict, name: str) -> int | None:
        """When the next key of a partition is due that is not held up by another one."""
        if len(state["partitions"]) == 1:
            return soonest(state["keys"], moment=_first_end)
        return soonest(state["keys"], moment=_first_end, after=state["partitions"][name]["mark"],
                       where=lambda here: name in here.get("of", (name,)))


def _first_end(here: dict) -> int | None:
    """When the first of a key's open windows ends; without one, when it is forgotten."""
    return min((window[1] for window in here["open"]), default=here.get("until"))


@dataclass(frozen=True, slots=True)
class JoinFold:
    """``step`` takes a key's text behind a “=” (any other text, and None, match nothing), time, sequence number, birth,
    the event's text as a left one and as a right one (None if it is none of that side), and, of several ``streams``,
    the number of its own; it gives (seq, time, born, left, right) for each pair.

    A pair's right event is at most ``before`` ms earlier and ``after`` ms later than the left one. An event that is
    older than its partition's mark is left out; with ``mark`` it comes out alone. With ``outer`` a left event that
    finds no partner comes out alone once all partitions have passed the times that it could match. Streams (of one
    stream, sides) from which nothing has come yet are waited for like silent partitions. Each stream has partitions of
    its own, so that none decides what is late in another.
    """

    before: int
    after: int
    lateness: int
    outer: bool
    mark: bool = False
    ahead: int = 0
    idle: int | None = None
    streams: int = 1

    def start(self) -> dict:
        return {**watermarks.start(), "next": None, "swept": NEVER, "sides": "", "begun": None, "left": {}, "right": {}}

    def parts(self) -> Parts:
        """A key is due when the first of its events can match nobody any more, but for the watermark's own moment."""
        return {"left": self._last_chance(self.after), "right": self._last_chance(self.before)}

    def _last_chance(self, reach: int) -> Moment:
        return partial(_first_time, reach=reach)

    def step(
        self, state: dict, key: str | None, time: int, seq: int, born: int, left: str | None, right: str | None,
        stream: int | None = None,
    ) -> Iterable[tuple]:
        """Take an event in.

        Parameters
        ----------
        time, seq, born : int
            Weir's columns of the event.
        """
        partition = str(partition_of(seq))
        name = partition if stream is None else watermarks.of_stream(stream, partition)
        out = self._hear(state, name, born)
        event_partition = state["partitions"][name]
        if self.streams == 1 and len(state["sides"]) < 2:
            for side, letter in ((left, "L"), (right, "R")):
                if side is not None and letter not in state["sides"]:
                    state["sides"] += letter
        if time < event_partition["mark"]:
            state["late"] += 1
            return [*out, (seq, time, born, left, right, 1)] if self.mark else out
        entry: list | None = None
        matches = key is not None and key.startswith("=")
        if left is not None:
            entry = [time, seq, born, left, 0]
            for candidate in state["right"].get(key, ()) if matches else ():
                if time - self.before <= candidate[0] <= time + self.after:
                    entry[4] = 1
                    out.append((seq, time, born, left, candidate[3], 0))
            self._keep(state, "left", key or "", entry, self.after)
        if right is not None and matches:
            for candidate in state["left"].get(key, ()):
                if candidate[0] - self.before <= time <= candidate[0] + self.after and candidate is not entry:
                    candidate[4] = 1
                    out.append((seq, time, born, candidate[3], right, 0))
            self._keep(state, "right", str(key), [time, seq, born, right], self.before)
        watermarks.advance(event_partition, time, born, self)
        out += self._forget(state)
        return out

    def tell(self, state: dict, name: str, time: int, born: int) -> Iterable[tuple]:
        """Take in how far a partition has come by events of other keys."""
        out = self._hear(state, name, born)
        watermarks.reach(state["partitions"][name], time, self)
        return out + self._forget(state)

    def silence(self, state: dict) -> Iterable[tuple]:
        """Nothing has come for ``idle`` ms: give the left events that found nobody, where they are wanted."""
        watermarks.silence(state)
        return self._forget(state)

    def late(self, state: dict) -> int:
        """The number of events that came too late."""
        return state.get("late", 0)

    def _hear(self, state: dict, name: str, born: int) -> list[tuple]:
        """Note an arrival in a partition; the results that are final because another partition has become silent."""
        if watermarks.is_of_one_mark(state):
            watermarks.divide(state, state.pop("mark", None), born, self)
            state.update(swept=NEVER, sides="LR", begun=born)
        if name not in state["partitions"]:
            self._begin(state, name, born)
        fell = watermarks.hear(state, name, born, self)
        if self.streams > 1 and len(state["sides"]) < 2 and watermarks.streams_in(state) == self.streams:
            state["sides"] = "LR"
        return self._forget(state) if fell else []

    def _begin(self, state: dict, name: str, born: int) -> None:
        """Note that something of a new partition comes."""
        if self.streams > 1 and not watermarks.is_of_stream(next(iter(state["partitions"]), name)):
            # Of a version whose streams had their partitions in common: each goes on from the one furthest behind.
            floor = watermarks.settled(state, state["partitions"])
            state.update(partitions={}, floor=floor, sides="", begun=born)
        if state["begun"] is None:
            state["begun"] = born

    def _keep(self, state: dict, side: str, key: str, entry: list, reach: int) -> None:
        state[side].setdefault(key, []).append(entry)
        end = entry[0] + reach
        state["next"] = end if state["next"] is None else min(state["next"], end)

    def _mark(self, state: dict) -> int:
        """Up to when nobody can come any more."""
        mark = watermarks.least(state, state["partitions"], self)
        waits = len(state["sides"]) < 2 and state["clock"] - state["begun"] < watermarks.hold_ms(self)
        return NEVER if waits and mark < FOREVER else mark

    def _forget(self, state: dict) -> list[tuple]:
        """Leave out what can match nobody any more; give those of the left that never did.

        That may look at all that is kept. So it happens as the mark passes a multiple of an eighth of the interval, and
        takes what lies before that multiple: results do not depend on how often marks are told.
        """
        mark = self._mark(state)
        passed = mark - mark % max(1, (self.before + self.after) // 8)
        if passed <= state["swept"]:
            return []
        state["swept"] = passed if mark < FOREVER else NEVER
        if state["next"] is None or state["next"] >= passed:
            return []
        gone: list[list] = []
        ends: list[int | None] = []
        for side, reach in (("left", self.after), ("right", self.before)):
            moment = self._last_chance(reach)
            for key in due(state[side], passed - 1, moment=moment):
                stay, over = [], []
                for entry in state[side][key]:
                    (over if entry[0] + reach < passed else stay).append(entry)
                if side == "left":
                    gone += [entry for entry in over if not entry[4]]
                if stay:
                    state[side][key] = stay
                else:
                    del state[side][key]
            ends.append(soonest(state[side], moment=moment))
        state["next"] = min((end for end in ends if end is not None), default=None)
        return [(entry[1], entry[0], entry[2], entry[3], None, 0) for entry in sorted(
            gone, key=lambda entry: (entry[0], entry[1]))] if self.outer else []


def _first_time(entries: list[list], *, reach: int) -> int | None:
    return min((entry[0] + reach for entry in entries), default=None)
