"""What guards come to, by definition: at each step everything that happened is gone through anew. Slow on purpose.

Guards are tuples here, as `random_guards` draws them, and never text: no parser is shared with what is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil, fmod, isfinite
from typing import Any

from scheduler.guards.guard_values import GuardEvent
from scheduler.guards.guard_windows import bin_of, middle_of

KINDS = {"a": float, "b": float, "t": str, "on": bool, "x.u": float, "x.v": float, "x.w": str}
SIGNS = {"=": lambda a, b: a == b, "<>": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
         ">": lambda a, b: a > b, ">=": lambda a, b: a >= b}
CALCULATIONS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
                "/": lambda a, b: a / b if b else None, "%": lambda a, b: fmod(a, b) if b else None}


@dataclass(frozen=True)
class HistoryStep:
    """A moment at which somebody looks; with what came then, if anything did."""

    at_ms: int
    event: GuardEvent | None = None


def steps_of(events: Sequence[GuardEvent], guards: Sequence[Any], begin_ms: int, end_ms: int) -> list[HistoryStep]:
    """Every moment at which any of the guards may change: of events, of windows that lose values, of durations."""
    now_ms, newest, taken = begin_ms, {}, []
    for event in events:
        if event.at_ms < newest.get(event.stream, event.at_ms):
            taken.append((max(now_ms, event.at_ms), None))  # late: time passes, nothing else
        else:
            newest[event.stream] = event.at_ms
            taken.append((max(now_ms, event.at_ms), event))
        now_ms = taken[-1][0]
    moments = {begin_ms, end_ms, *(at_ms for at_ms, _ in taken)}
    moments |= set(range(begin_ms - begin_ms % 60_000, end_ms, 60_000))
    words = [node for guard in guards for node in walk(guard)]
    for node in words:
        if node[0] == "window":
            pane_ms, count = panes(node)
            moments |= {(at_ms // pane_ms + count) * pane_ms for at_ms, _ in taken}
    durations = {node[-1] for node in words if node[0] in ("for_at_least", "followed_by", "not_followed_by")}
    for _ in range(2):  # conditions over time stand within one another twice at most
        moments |= {at_ms + duration for at_ms in moments for duration in durations}
    steps: list[HistoryStep] = []
    for at_ms in sorted(at_ms for at_ms in moments if begin_ms <= at_ms <= end_ms):
        steps.append(HistoryStep(at_ms))
        steps += [HistoryStep(at_ms, event) for moment, event in taken if moment == at_ms and event is not None]
    return steps


def walk(node: Any) -> list[Any]:
    """All tuples within one, itself too."""
    return [node, *(inner for part in node if isinstance(part, tuple) for inner in walk(part))]


def panes(node: Any) -> tuple[int, int]:
    """The length of a window's panes in ms, and how many it has."""
    most = 20 if node[1] == "quantile" else 60
    count = max(number for number in range(1, most + 1) if node[-1] % number == 0)
    return node[-1] // count, count


@dataclass
class NaiveGuards:
    """Guards over the steps of one history."""

    steps: Sequence[HistoryStep]
    known: dict[tuple[int, int], Any] = field(default_factory=dict)  # by a part's identity and the step

    def at(self, node: Any, step: int) -> Any:
        """What a part comes to behind a step."""
        key = (id(node), step)
        if key not in self.known:
            self.known[key] = self._computed(node, step)
        return self.known[key]

    def _computed(self, node: Any, step: int) -> Any:
        word, *parts = node
        if word in ("number", "text", "truth", "null"):
            return parts[0]
        if word == "figure":
            return self._figure(parts[0], step)
        if word in ("and", "or"):
            return self._joined(word, [self.at(part, step) for part in parts])
        if word in ("window", "for_at_least", "followed_by", "not_followed_by", "latch", "hours"):
            return getattr(self, f"_{word}")(node, step)
        if word == "case":
            condition, result, other = parts
            return self.at(result if self.at(condition, step) is True else other, step)
        operator, *operands = parts if word in ("compare", "calculate") else (word, *parts)
        values = [self.at(part, step) for part in operands]
        if word == "is null":
            return values[0] is None
        if word in ("coalesce", "greatest", "least"):
            given = [value for value in values if value is not None]
            return {"coalesce": given[:1], "greatest": sorted(given)[-1:], "least": sorted(given)[:1]}[word][0] \
                if given else None
        if None in values:
            return None
        if word == "not":
            return not values[0]
        if word == "abs":
            return abs(values[0])
        if word == "compare":
            return SIGNS[operator](*values)
        result = CALCULATIONS[operator](*values)
        return result if result is not None and isfinite(result) else None

    def _joined(self, word: str, values: list[Any]) -> bool | None:
        decisive = word == "or"
        if decisive in values:
            return decisive
        return None if None in values else not decisive

    def _figure(self, name: str, step: int) -> Any:
        stream, _, figure = name.rpartition(".")
        for place in range(step, -1, -1):
            event = self.steps[place].event
            if event is not None and event.stream == stream and figure in event.values:
                value = event.values[figure]
                if KINDS[name] is float:
                    is_number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
                    return float(value) if is_number else None
                return value if isinstance(value, KINDS[name]) else None
        return None

    def _window(self, node: Any, step: int) -> float | None:
        _, word, series, *rest, _ = node
        pane_ms, count = panes(node)
        begin_ms = (self.steps[step].at_ms // pane_ms - count + 1) * pane_ms
        names = {part[1] for part in walk(series) if part[0] == "figure"}
        samples = []
        for place in range(step + 1):
            event = self.steps[place].event
            if event is None or self.steps[place].at_ms < begin_ms:
                continue
            if series[0] == "stream":
                value = 1.0 if event.stream == series[1] else None
            else:
                named = {f"{event.stream}.{figure}" if event.stream else figure for figure in event.values}
                value = self.at(series, place) if named & names else None
            if value is not None:
                samples.append((self.steps[place].at_ms, value))
        values = [value for _, value in samples]
        if word == "count":
            return float(len(values))
        if not values:
            return None
        if word == "rate_of_change":
            (first_ms, first), (last_ms, last) = samples[0], samples[-1]
            return None if first_ms == last_ms else (last - first) / ((last_ms - first_ms) / 1000)
        if word == "quantile":
            return middle_of(bin_of(sorted(values)[max(1, ceil(rest[0] * len(values))) - 1]))
        return {"sum": sum(values), "mean": sum(values) / len(values), "min": min(values), "max": max(values)}[word]

    def _onset(self, node: Any, step: int) -> int:
        """The first step of those up to this one at which a condition is true without a break."""
        while step > 0 and self.at(node, step - 1) is True:
            step -= 1
        return step

    def _for_at_least(self, node: Any, step: int) -> bool:
        _, condition, duration = node
        if self.at(condition, step) is not True:
            return False
        return self.steps[step].at_ms - self.steps[self._onset(condition, step)].at_ms >= duration

    def _followed_by(self, node: Any, step: int) -> bool:
        _, first, second, duration = node
        if self.at(second, step) is not True:
            return False
        begun = self._onset(second, step)
        for place in range(begun - 1, -1, -1):
            if self.at(first, place) is True:
                return place == begun - 1 or self.steps[begun].at_ms - self.steps[place + 1].at_ms <= duration
        return False

    def _not_followed_by(self, node: Any, step: int) -> bool:
        _, first, second, duration = node
        begin = step + 1
        while begin > 0 and self.at(second, begin - 1) is not True:
            begin -= 1
        for place in range(begin, step + 1):
            if self.at(first, place) is True and (place == 0 or self.at(first, place - 1) is not True):
                return self.steps[step].at_ms - self.steps[place].at_ms >= duration
        return False

    def _latch(self, node: Any, step: int) -> bool:
        _, on, off = node
        for place in range(step, -1, -1):
            if self.at(off, place) is True:
                return False
            if self.at(on, place) is True:
                return True
        return False

    def _hours(self, node: Any, step: int) -> bool:
        _, first, last = node
        moment = datetime.fromtimestamp(self.steps[step].at_ms / 1000, UTC)
        minute = moment.hour * 60 + moment.minute
        return first <= minute < last


def naive_choice(
    names: Sequence[str], guards: Sequence[Any], values: Sequence[Any], kind: str, current: str | None
) -> tuple[str, str]:
    """Which alternate is on, and the trouble: guards are values, None for one that is empty, "null" for NULL."""
    on = [name for name, guard in zip(names, guards, strict=True) if guard is True]
    empty = [name for name, guard in zip(names, guards, strict=True) if guard is None]
    stays = names[0] if current is None else current
    if kind == "activation":
        if len(on) > 1:
            return (current if current in on else on[0]), "both_on"
        return ([*on, *empty, stays][0], "" if on or empty else "none_on")
    allowed = [name for name in names if name in on or name in empty]
    if not allowed:
        return stays, "none_on"
    worth = dict(zip(names, values, strict=True))
    ranks = {name: (worth[name] is not None, worth[name] or 0.0, name == current, -names.index(name))
             for name in allowed}
    return max(allowed, key=ranks.__getitem__), ""
