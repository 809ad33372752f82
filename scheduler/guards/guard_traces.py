"""The values that guards read over a time: what they compare with numbers, as lines, and when each of them was true."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .element_watch import ElementWatch
from .guard_compiling import CompiledElement, closure_of
from .guard_tree import WINDOWS, GuardNode
from .guard_values import NUMBER

_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "<>": "<>"}
LIKE_THE_FIGURE = frozenset({"mean", "min", "max", "quantile"})  # windows whose values are values of the figure


@dataclass(frozen=True, slots=True)
class GuardLimit:
    """A number that a guard compares a term with: ``term word value``, such as ``mean(rate, '1 min') > 100``."""

    alternate: str
    term: str
    word: str
    value: float


@dataclass(frozen=True, slots=True)
class GuardTerm:
    """A value that guards compare: a figure, a window of one, or a calculation. ``drawn_with`` is the figure on whose
    chart it belongs; its own text where its values are of another kind than the figure's."""

    text: str
    drawn_with: str
    points: Sequence[tuple[int, float | None]]  # (ms since the epoch, value from then on), where it became another

    def at(self, moments_ms: Sequence[int]) -> list[float | None]:
        """Its values at moments; None where it is not known."""
        times = [at_ms for at_ms, _ in self.points]
        places = (bisect_right(times, moment) for moment in moments_ms)
        return [self.points[index - 1][1] if index else None for index in places]


@dataclass(frozen=True, slots=True)
class GuardTrace:
    """The values that the guards of an element read; ``true_ms`` has the spans in which each guard was true, by
    alternate."""

    terms: tuple[GuardTerm, ...]
    limits: tuple[GuardLimit, ...]
    true_ms: Mapping[str, Sequence[tuple[int, int]]]


class GuardTracer:
    """Notes what guards see while an element is watched (``seen`` of `dry_run`)."""

    def __init__(self, compiled: CompiledElement) -> None:
        self._guards = list(compiled.guards)
        compared = [(alternate, *pair) for alternate, tree in compiled.guards.items() for pair in _compared(tree)]
        self._limits = tuple(dict.fromkeys(
            GuardLimit(alternate, str(term), word, value) for alternate, term, word, value in compared))
        # A window is drawn over the figure that it is of.
        figures = [node for tree in compiled.guards.values() for node in _looked_at(tree)
                   if node.word == "figure" and node.kind == NUMBER]
        terms = dict.fromkeys(
            [part for _, term, _, _ in compared for part in (*_figure_of(term), term)] + figures)
        self._terms = [(term, closure_of(term, compiled.slots)) for term in terms if _has_slots(term, compiled)]
        self._points: list[list[tuple[int, Any]]] = [[] for _ in self._terms]
        self._begins_ms: dict[str, int] = {}
        self._spans: dict[str, list[tuple[int, int]]] = {alternate: [] for alternate in self._guards}
        self._now_ms = 0

    def __call__(self, watch: ElementWatch, at_ms: int) -> None:
        """Note what is so at a moment, in ms since the epoch; moments never go back."""
        self._now_ms = at_ms
        for points, (_, closure) in zip(self._points, self._terms, strict=True):
            value = closure(watch.values)
            if not points or points[-1][1] != value:
                points.append((at_ms, value))
        for alternate, result in zip(self._guards, watch.results or (), strict=False):
            if result is True:
                self._begins_ms.setdefault(alternate, at_ms)
            elif alternate in self._begins_ms:
                self._spans[alternate].append((self._begins_ms.pop(alternate), at_ms))

    def trace(self, *, begin_ms: int, end_ms: int) -> GuardTrace:
        """The trace of a time, in ms since the epoch."""
        spans = {
            alternate: [(max(since, begin_ms), min(until, end_ms)) for since, until in (
                *noted, *([(self._begins_ms[alternate], end_ms)] if alternate in self._begins_ms else []))
                if until > begin_ms and since < end_ms]
            for alternate, noted in self._spans.items()}
        return GuardTrace(
            tuple(GuardTerm(str(term), _drawn_with(term), points)
                  for (term, _), points in zip(self._terms, self._points, strict=True)),
            self._limits, spans)


def _compared(tree: GuardNode) -> Iterator[tuple[GuardNode, str, float]]:
    """The comparisons with a number in a guard: the part, the operator and the number."""
    for node in _looked_at(tree):
        if node.word not in _FLIPPED:
            continue
        left, right = node.parts
        if left.word == "literal":
            left, right, word = right, left, _FLIPPED[node.word]
        else:
            word = node.word
        number = _number(right)
        if number is not None and left.kind == NUMBER and left.word != "literal":
            yield left, word, number


def _looked_at(node: GuardNode) -> Iterator[GuardNode]:
    """A part and those that it is made of, but for what a window samples."""
    yield node
    for part in node.parts if node.word not in WINDOWS else ():
        yield from _looked_at(part)


def _number(node: GuardNode) -> float | None:
    if node.word == "negative":
        inner = _number(node.parts[0])
        return None if inner is None else -inner
    is_number = node.word == "literal" and isinstance(node.value, int | float) and not isinstance(node.value, bool)
    return float(node.value) if is_number else None  # type: ignore[arg-type]


def _figure_of(term: GuardNode) -> tuple[GuardNode, ...]:
    return (term.parts[0],) if term.word in LIKE_THE_FIGURE and term.parts[0].word == "figure" else ()


def _drawn_with(term: GuardNode) -> str:
    return str((*_figure_of(term), term)[0])


def _has_slots(term: GuardNode, compiled: CompiledElement) -> bool:
    """True if a term can be computed at any moment: a condition inside a window is sampled by that alone."""
    if term in compiled.slots:
        return True
    return term.word not in WINDOWS and term.word != "figure" and all(
        _has_slots(part, compiled) or part.word == "literal" for part in term.parts)
