"""Guards as closures over one list of values: figures first, then what each temporal word gives.

NULL is as in the SQL of tasks: what cannot be computed is NULL, a division by zero and a number too large among it; a
comparison with NULL is NULL; AND and OR are three-valued.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fmod, isfinite
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Protocol

from .guard_conditions import Evaluated, FollowedBy, ForAtLeast, Latch, NotFollowedBy
from .guard_reading import read_element
from .guard_timetables import Timetable
from .guard_tree import CONDITIONS, TEMPORAL, WINDOWS, GuardNode
from .guard_values import GuardCatalog, GuardedElement
from .guard_windows import window_of

_COMPARED: dict[str, Callable[[Any, Any], bool]] = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_CONDITIONS: dict[str, type] = {
    "for_at_least": ForAtLeast, "followed_by": FollowedBy, "not_followed_by": NotFollowedBy, "latch": Latch}


class TemporalWord(Protocol):
    """A temporal word while it is evaluated: a value at each moment, and ``due``, when it may be another by itself."""

    due: float

    def refresh(self, values: Sequence[Any], now_ms: int) -> Any:
        """Its value at a moment; never earlier than the last one asked for."""

    def dump(self) -> list[Any]:
        """Its state as JSON."""

    def load(self, state: Sequence[Any]) -> None:
        """Become what was dumped; of a new one alone."""


@dataclass(frozen=True, slots=True)
class FigureSlot:
    """The place of a figure's value."""

    figure: str
    kind: str
    slot: int


@dataclass(frozen=True, slots=True)
class WindowFeed:
    """The input of a window when an event names any of some figures; ``figures`` is empty where every event does."""

    figures: frozenset[str]
    sample: Evaluated
    word: int


@dataclass(frozen=True, slots=True)
class CompiledElement:
    """An element whose guards can be evaluated.

    Parameters
    ----------
    guards, values : mapping
        By alternate: the trees of those guards that are not empty, and of those values that are functions.
    figures, feeds : mapping
        The written and sampled parts, by stream.
    words : tuple of (GuardNode, callable)
        Each temporal word and what makes it, those that it is made of before it; their values are in the slots behind
        the figures.
    """

    element: GuardedElement
    guards: Mapping[str, GuardNode]
    values: Mapping[str, GuardNode]
    figures: Mapping[str, tuple[FigureSlot, ...]]
    feeds: Mapping[str, tuple[WindowFeed, ...]]
    words: tuple[tuple[GuardNode, Callable[[], TemporalWord]], ...]
    slots: Mapping[GuardNode, int]
    closures: tuple[Evaluated, ...]  # of the guards, then of the values

    @property
    def streams(self) -> frozenset[str]:
        """The streams whose events it has to be told."""
        return frozenset(self.figures) | frozenset(self.feeds)


def compile_element(element: GuardedElement, catalog: GuardCatalog) -> CompiledElement:
    """Read an element's guards and make them ready. Raises ``InvalidGuard`` as `read_element` does."""
    guards, values = read_element(element, catalog)
    trees = [*guards.values(), *values.values()]
    nodes = list(dict.fromkeys(node for tree in trees for node in tree.walk()))
    figures = [node for node in nodes if node.word == "figure"]
    words = [node for node in nodes if node.word in TEMPORAL]
    slots = {node: slot for slot, node in enumerate([*figures, *words])}
    by_stream: dict[str, list[FigureSlot]] = {}
    for node in figures:
        stream, _, figure = str(node.value).rpartition(".")
        by_stream.setdefault(stream, []).append(FigureSlot(figure, node.kind, slots[node]))
    feeds: dict[str, list[WindowFeed]] = {}
    for index, node in enumerate(words):
        if node.word in WINDOWS:
            stream, feed = _feed(node.parts[0], index, slots)
            feeds.setdefault(stream, []).append(feed)
    return CompiledElement(
        element, guards, values, {stream: tuple(of_stream) for stream, of_stream in by_stream.items()},
        {stream: tuple(of_stream) for stream, of_stream in feeds.items()},
        tuple((node, _maker(node, slots, catalog)) for node in words), slots,
        tuple(closure_of(tree, slots) for tree in trees))


def _feed(part: GuardNode, index: int, slots: Mapping[GuardNode, int]) -> tuple[str, WindowFeed]:
    stream = next(iter(part.figures())).rpartition(".")[0]
    if part.word == "stream":
        return str(part.value), WindowFeed(frozenset(), _constant(1.0), index)
    named = frozenset(name.rpartition(".")[2] for name in part.figures())
    return stream, WindowFeed(named, closure_of(part, slots), index)


def _maker(node: GuardNode, slots: Mapping[GuardNode, int], catalog: GuardCatalog) -> Callable[[], TemporalWord]:
    written = node.value if isinstance(node.value, tuple) else ()
    if node.word in WINDOWS:
        return lambda: window_of(node)
    if node.word in CONDITIONS:
        closures = [closure_of(part, slots) for part in node.parts]
        return lambda: _CONDITIONS[node.word](*closures, *written)
    days = catalog.calendars[str(written[0])] if node.word == "days" else frozenset()
    return lambda: Timetable(node, days)


def closure_of(node: GuardNode, slots: Mapping[GuardNode, int]) -> Evaluated:
    """A part as a function of the list of values."""
    if node in slots:
        slot = slots[node]
        return lambda values: values[slot]
    if node.word == "literal":
        return _constant(node.value)
    parts = [closure_of(part, slots) for part in node.parts]
    if node.word in _COMPARED:
        return _compared(node, parts, slots)
    if node.word in _CALCULATED:
        return _calculated(_CALCULATED[node.word], *parts)
    return _MAKERS[node.word](*parts)


def _constant(value: Any) -> Evaluated:
    return lambda values: value


def _compared(node: GuardNode, parts: list[Evaluated], slots: Mapping[GuardNode, int]) -> Evaluated:
    compare, (left, right) = _COMPARED[node.word], parts
    if node.parts[0] in slots and node.parts[1].word == "literal":  # what most guards are
        slot, constant = slots[node.parts[0]], node.parts[1].value

        def with_constant(values: Sequence[Any]) -> bool | None:
            value = values[slot]
            return None if value is None else compare(value, constant)

        return with_constant

    def compared(values: Sequence[Any]) -> bool | None:
        one, other = left(values), right(values)
        return None if one is None or other is None else compare(one, other)

    return compared


def _calculated(calculate: Callable[[float, float], float | None], left: Evaluated, right: Evaluated) -> Evaluated:
    def calculated(values: Sequence[Any]) -> float | None:
        one, other = left(values), right(values)
        if one is None or other is None:
            return None
        result = calculate(one, other)
        return result if result is not None and isfinite(result) else None

    return calculated


def _joined(*, decisive: bool) -> Callable[..., Evaluated]:
    """OR, which TRUE decides, or AND, which FALSE does; NULL where nothing decides and a part is NULL."""
    def made(*parts: Evaluated) -> Evaluated:
        def joined(values: Sequence[Any]) -> bool | None:
            result: bool | None = not decisive
            for part in parts:
                value = part(values)
                if value is decisive:
                    return decisive
                if value is None:
                    result = None
            return result

        return joined

    return made


def _not(part: Evaluated) -> Evaluated:
    def negated(values: Sequence[Any]) -> bool | None:
        value = part(values)
        return None if value is None else not value

    return negated


def _of_number(calculate: Callable[[float], float]) -> Callable[[Evaluated], Evaluated]:
    def made(part: Evaluated) -> Evaluated:
        def calculated(values: Sequence[Any]) -> float | None:
            value = part(values)
            return None if value is None else calculate(value)

        return calculated

    return made


def _of_known(choose: Callable[[list[Any]], Any]) -> Callable[..., Evaluated]:
    """A function of those of its arguments that are not NULL; NULL where all are."""
    def made(*parts: Evaluated) -> Evaluated:
        def chosen(values: Sequence[Any]) -> Any:
            results = [value for part in parts if (value := part(values)) is not None]
            return choose(results) if results else None

        return chosen

    return made


def _case(*parts: Evaluated) -> Evaluated:
    pairs, default = list(zip(parts[:-1:2], parts[1:-1:2], strict=True)), parts[-1]

    def chosen(values: Sequence[Any]) -> Any:
        for condition, result in pairs:
            if condition(values) is True:
                return result(values)
        return default(values)

    return chosen


_CALCULATED: dict[str, Callable[[float, float], float | None]] = {
    "+": lambda one, other: one + other, "-": lambda one, other: one - other, "*": lambda one, other: one * other,
    "/": lambda one, other: one / other if other else None, "%": lambda one, other: fmod(one, other) if other else None}
_MAKERS: dict[str, Callable[..., Evaluated]] = {
    "and": _joined(decisive=False), "or": _joined(decisive=True), "not": _not,
    "negative": _of_number(lambda value: -value), "abs": _of_number(abs),
    "coalesce": _of_known(lambda values: values[0]), "greatest": _of_known(max), "least": _of_known(min), "case": _case,
    "is null": lambda part: lambda values: part(values) is None,
    "is true": lambda part: lambda values: part(values) is True,
    "is false": lambda part: lambda values: part(values) is False}

