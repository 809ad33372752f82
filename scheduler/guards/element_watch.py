"""One element while its guards are evaluated: event by event, and at each moment at which time alone may change them.

What is true at a moment is a function of the events until then and of nothing else: not of how often anybody looks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from ..model.bounds import GUARD_CHARACTERS
from .alternate_choice import AlternateChoice, decide
from .guard_compiling import CompiledElement
from .guard_tree import CONDITIONS, TEMPORAL, WINDOWS, GuardNode
from .guard_values import NUMBER, TEXT, FigureValue, GuardEvent

HOUR_MS = 3_600_000
MOST_SWITCHES_PER_H = 12
LARGEST = 1e200  # a figure beyond it counts as not known, so that no sum of a window is beyond what a double holds
LONGEST = GUARD_CHARACTERS.most  # no text that a guard compares with is longer; one that is counts as not known
STATE_VERSION = 1
SHOWN = 6  # parts of a guard whose values a switch tells


@dataclass(frozen=True, slots=True)
class ElementSwitch:
    """Another alternate is on, or trouble with guards begins or ends, at a moment (ms since the epoch).

    ``before`` is the alternate that was on, None at first. ``values`` has the figures and words that the guards look
    at, as they were. ``advice`` is not empty where the element switches too often.
    """

    at_ms: int
    element: str
    before: str | None
    choice: AlternateChoice
    values: Mapping[str, FigureValue]
    advice: str = ""

    @property
    def is_switch(self) -> bool:
        """True if one alternate takes the place of another; else it is the first, or trouble alone has changed."""
        return self.before is not None and self.before != self.choice.alternate

    @property
    def because(self) -> str:
        """The reason, with the values that were seen."""
        values_text = ", ".join(f"{part} = {_value_text(value)}" for part, value in self.values.items())
        return f"{self.choice.why} ({values_text})" if values_text else self.choice.why


class ElementWatch:
    """Evaluates the guards of one element.

    ``due`` is the next moment at which it has to be looked at without an event, in ms since the epoch. Times that it is
    given never go back.

    Parameters
    ----------
    at_ms : int
        The beginning, in ms: guards are evaluated at this moment first, with no figure known.
    state : mapping, optional
        The result of `state` for this element, to go on from; what a changed guard has in common with the earlier one
        keeps its state.
    """

    def __init__(
        self, compiled: CompiledElement, at_ms: int, *, state: Mapping[str, Any] | None = None,
        most_switches_per_h: int = MOST_SWITCHES_PER_H,
    ) -> None:
        self.compiled = compiled
        self.words = [make() for _, make in compiled.words]
        self.first_word = len(compiled.slots) - len(self.words)
        self.values: list[Any] = [None] * len(compiled.slots)
        self.newest_ms: dict[str, int] = {}
        self.late = 0
        self.at_ms, self.due = at_ms, inf
        self.choice: AlternateChoice | None = None
        self.results: list[Any] | None = None
        self.switches_ms: deque[int] = deque(maxlen=most_switches_per_h + 1)
        self.begun: list[ElementSwitch] = []
        if state:
            self._load(state)
        else:
            self.begun = list(self._step(at_ms))

    def take(self, event: GuardEvent, at_ms: int) -> Iterator[ElementSwitch]:
        """Take in an event at a moment, from its own ``at_ms`` on, and give what changes.

        An event that is older than the newest of its stream is late: it is counted and changes nothing.
        """
        stream = event.stream
        if event.at_ms < self.newest_ms.get(stream, event.at_ms):
            self.late += 1
            return
        self.newest_ms[stream] = event.at_ms
        named, values = event.values, self.values
        if self.due <= at_ms:
            yield from self.advance(at_ms)
        is_touched = False
        for figure in self.compiled.figures.get(stream, ()):
            if figure.figure in named:
                values[figure.slot] = _accepted(named[figure.figure], figure.kind)
                is_touched = True
        for feed in self.compiled.feeds.get(stream, ()):
            if feed.figures and feed.figures.isdisjoint(named):
                continue
            is_touched = True
            sample = feed.sample(values)
            if sample is not None:
                is_number = isinstance(sample, float)
                if not is_number or -LARGEST <= sample <= LARGEST:
                    self.words[feed.word].take(sample, at_ms)  # type: ignore[attr-defined]
        if is_touched:
            yield from self._step(at_ms)

    def advance(self, to_ms: int) -> Iterator[ElementSwitch]:
        """Let time pass, and give what changes by it, each change at its own moment."""
        while self.due <= to_ms:
            yield from self._step(int(self.due))

    def readings(self) -> Mapping[str, FigureValue]:
        """Each figure and temporal word of the guards and value functions, as text, with its value."""
        return {str(node): self.values[slot] for node, slot in self.compiled.slots.items()}

    def verdicts(self) -> dict[str, dict[str, FigureValue]]:
        """The values of each alternate's ``guard`` and ``value`` function, of those that have one; None is NULL."""
        verdicts: dict[str, dict[str, FigureValue]] = {}
        guards, values = self.compiled.guards, self.compiled.values
        for name, result in zip(guards, self.results or (), strict=False):
            verdicts.setdefault(name, {})["guard"] = result
        for name, result in zip(values, (self.results or [])[len(guards):], strict=False):
            verdicts.setdefault(name, {})["value"] = result
        return verdicts

    def state(self) -> dict[str, Any]:
        """All that it needs to go on, as JSON."""
        words = zip(self.compiled.words, self.words, strict=True)
        figures = (figure for of_stream in self.compiled.figures.items() for figure in _named(*of_stream))
        return {
            "version": STATE_VERSION, "at_ms": self.at_ms, "newest_ms": dict(self.newest_ms), "late": self.late,
            "figures": {name: self.values[slot] for name, slot in figures},
            "words": {str(node): word.dump() for (node, _), word in words},
            "on": self.choice.alternate if self.choice else None, "trouble": self.choice.trouble if self.choice else "",
            "switches_ms": list(self.switches_ms),
        }

    def _load(self, state: Mapping[str, Any]) -> None:
        self.at_ms, self.late = max(self.at_ms, state["at_ms"]), state["late"]
        self.newest_ms = {
            stream: at_ms for stream, at_ms in state["newest_ms"].items() if stream in self.compiled.streams}
        self.switches_ms.extend(state["switches_ms"])
        for stream, figures in self.compiled.figures.items():
            for (name, slot), figure in zip(_named(stream, figures), figures, strict=True):
                self.values[slot] = _accepted(state["figures"].get(name), figure.kind)
        for (node, _), word in zip(self.compiled.words, self.words, strict=True):
            if (dumped := state["words"].get(str(node))) is not None:
                word.load(dumped)
        if state["on"] is not None:
            self.choice = AlternateChoice(state["on"], "", state["trouble"])
        self.begun = list(self._step(state["at_ms"]))

    def _step(self, now_ms: int) -> Iterator[ElementSwitch]:
        """Evaluate everything at a moment: words first, each behind those that it is made of."""
        self.at_ms, values, due = now_ms, self.values, inf
        slot = self.first_word
        for word in self.words:
            values[slot] = word.refresh(values, now_ms)
            if word.due < due:
                due = word.due
            slot += 1
        self.due = due
        results = [closure(values) for closure in self.compiled.closures]
        if results != self.results:
            self.results = results
            yield from self._decide(now_ms, results)

    def _decide(self, now_ms: int, results: list[Any]) -> Iterator[ElementSwitch]:
        element, before = self.compiled.element, self.choice
        guards, values = self.compiled.guards, self.compiled.values
        choice = decide(
            element, dict(zip(guards, results, strict=False)), before.alternate if before else None,
            dict(zip(values, results[len(guards):], strict=True)))
        self.choice = choice
        if before and (before.alternate, before.trouble) == (choice.alternate, choice.trouble):
            return
        advice = ""
        if before and before.alternate != choice.alternate:
            self.switches_ms.append(now_ms)
            advice = self._advice(now_ms)
        yield ElementSwitch(now_ms, element.name, before.alternate if before else None, choice,
                            self._values_read(choice), advice)

    def _advice(self, now_ms: int) -> str:
        times, most = self.switches_ms, (self.switches_ms.maxlen or 1) - 1
        if len(times) <= most or now_ms - times[0] > HOUR_MS:
            return ""
        return (f"{self.compiled.element.name} switches more than {most} times an hour. Add for_at_least(…, '5 min') "
                "to its guards, or let latch(…, …) turn off further away than it turns on.")

    def _values_read(self, choice: AlternateChoice) -> Mapping[str, FigureValue]:
        """The values that the guards of the allowed alternates read; if none of them has a guard, those of all
        guards."""
        trees = self.compiled.guards
        if choice.alternate in trees and choice.allowed:
            trees = {name: tree for name, tree in trees.items() if name in choice.allowed}
        parts = dict.fromkeys(part for tree in trees.values() for part in _terms(tree))
        return {str(part): self.values[self.compiled.slots[part]] for part in list(parts)[:SHOWN]}


def state_with(on: str, event: GuardEvent) -> dict[str, Any]:
    """The state of an element that begins with an event and an alternate on: guards that allow nothing keep it."""
    figures = {f"{event.stream}.{name}" if event.stream else name: value for name, value in event.values.items()}
    return {"at_ms": event.at_ms, "newest_ms": {}, "late": 0, "figures": figures, "words": {}, "on": on, "trouble": "",
            "switches_ms": []}


def _named(stream: str, figures: Any) -> Iterator[tuple[str, int]]:
    for figure in figures:
        yield (f"{stream}.{figure.figure}" if stream else figure.figure), figure.slot


def _terms(node: GuardNode) -> Iterator[GuardNode]:
    """Figures and words of a part that have values; of a condition over time also those within it."""
    if node.word == "figure" or node.word in TEMPORAL:
        yield node
    if node.word not in WINDOWS and (node.word not in TEMPORAL or node.word in CONDITIONS):
        for part in node.parts:
            yield from _terms(part)


def _accepted(value: FigureValue, kind: str) -> FigureValue:
    """A value as guards have it: of another kind, not finite, too large or too long it is not known."""
    if kind == NUMBER:
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and -LARGEST <= value <= LARGEST
        return float(value) if is_number else None  # type: ignore[arg-type]
    if kind == TEXT:
        return value if isinstance(value, str) and len(value) <= LONGEST and _is_stored(value) else None
    return value if isinstance(value, bool) else None


def _is_stored(text: str) -> bool:
    """True if any database keeps a text: no NUL, and no half of a character."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _value_text(value: FigureValue) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.4g}" if isinstance(value, float) else f"'{value[:40]}'"
