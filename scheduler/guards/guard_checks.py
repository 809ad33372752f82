"""Findings about an element's guards before anything runs: both on, none on, never on.

Each guard is a formula over *terms*. Comparing an expression with a constant makes the expression a term; comparing two
expressions makes their difference a term, compared with 0. The constants of all guards divide a numeric term into
points and intervals within which no comparison changes. A text term is one of the named texts, or any other. Each term
may also be NULL. All combinations of these regions are tried, up to `MOST_CASES`.

So *never on* is exact in one direction: a guard that is reported as never on never is. *Both on* and *none on* are
*certain* if the terms share no figure, and so take any combination of values. Else they are only possible: terms count
as independent, and may not be (the mean and the maximum of one figure). What is not reported cannot happen. Temporal
conditions count by what they imply: one that holds for at least a time holds now; one that is followed by B is true
while B holds; a latch is on where its first condition alone is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from math import prod
from typing import Any

from .guard_compiling import closure_of
from .guard_reading import read_element
from .guard_tree import CONDITIONS, TEMPORAL, TIMES, WINDOWS, GuardNode
from .guard_values import ACTIVATION, NUMBER, TEXT, TRUTH, GuardCatalog, GuardedElement

BOTH_ON, NONE_ON, NEVER_ON, LATCH_OVERLAP, UNDECIDED = "both_on", "none_on", "never_on", "latch_overlap", "undecided"
MOST_CASES = 20_000
MOST_STEPS = 500_000  # parts of guards times cases: a tenth of a second
_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "<>": "<>"}
_UNKNOWN = "not known"

Region = tuple[Any, str]  # a value that stands for it, and its text
Case = Sequence[Any]  # a value for each term
Formula = Callable[[Case], bool | None]
Terms = dict[GuardNode, tuple[int, list[Any]]]  # the place of each in a case, and the constants it is compared with


@dataclass(frozen=True, slots=True)
class GuardFinding:
    """A fault of an element's guards, or an undecided question.

    Parameters
    ----------
    what : str
        ``BOTH_ON``, ``NONE_ON``, ``NEVER_ON``, ``LATCH_OVERLAP`` or ``UNDECIDED``.
    alternates : tuple of str
        The alternates that it concerns.
    when : str
        A case in which it happens, as text; empty if it always does.
    is_certain : bool
        True if it happens in the case ``when``; else it may.
    """

    what: str
    alternates: tuple[str, ...]
    message: str
    remedy: str
    when: str = ""
    is_certain: bool = True


def check_element(element: GuardedElement, catalog: GuardCatalog) -> tuple[GuardFinding, ...]:
    """The faults of an element's guards as far as they can be decided now."""
    guards, _ = read_element(element, catalog)
    trees = list(guards.values())
    terms: Terms = {}
    formulas = [_formula(tree, terms) for tree in trees]
    conditions = {node: tuple(_formula(part, terms) for part in node.parts)
                  for tree in trees for node in tree.walk() if node.word in CONDITIONS}
    regions = {term: _regions(term, constants) for term, (_, constants) in terms.items()}
    cases = prod(len(of_term) for of_term in regions.values())
    guarded = list(guards)
    if cases > MOST_CASES or cases * sum(tree.size for tree in trees) > MOST_STEPS:
        return (GuardFinding(
            UNDECIDED, tuple(guarded),
            f"Whether guards of {element.name} exclude each other is not decided: there are {cases:,} cases.",
            "Weir says so while it runs. Guards of fewer comparisons can be decided."),)
    empty = [alternate.name for alternate in element.alternates if alternate.name not in guards]
    temporal = [(node, terms[node][0], parts) for node, parts in conditions.items()]
    search = _Search(element, guarded, empty, formulas, temporal, regions)
    return tuple(search.findings())


class _Search:
    """Goes through all cases once, and keeps the first of each kind, those without NULL before others."""

    def __init__(
        self, element: GuardedElement, guarded: list[str], empty: list[str], formulas: list[Formula],
        conditions: Sequence[tuple[GuardNode, int, tuple[Formula, ...]]], regions: Mapping[GuardNode, list[Region]],
    ) -> None:
        self.element, self.guarded, self.empty = element, guarded, empty
        self.formulas, self.conditions, self.regions = formulas, conditions, regions
        self.cases: dict[tuple[str, ...], tuple[Region, ...]] = {}
        self.ever_on: set[str] = set()

    def findings(self) -> Iterator[GuardFinding]:
        """The findings, in the order of alternates."""
        self._search()
        never = [name for name in [*self.guarded, *self.empty] if name not in self.ever_on]
        for name in never:
            yield GuardFinding(
                NEVER_ON, (name,), f"{name} of {self.element.name} is never on: "
                + ("its guard is never true." if name in self.guarded else "another guard is always true."),
                "Correct the comparisons, or remove the alternate.")
        is_certain = _are_independent(list(self.regions))
        for (kind, *alternates), case in self.cases.items():
            yield self._finding(kind, tuple(alternates), case, is_certain=is_certain)

    def _search(self) -> None:
        for regions in product(*self.regions.values()):
            case = [value for value, _ in regions]
            if not all(_is_possible(node.word, case[index], parts, case) for node, index, parts in self.conditions):
                continue
            on = [name for name, formula in zip(self.guarded, self.formulas, strict=True) if formula(case) is True]
            self.ever_on.update(on or self.empty)
            has_null = any(text == _UNKNOWN for _, text in regions)
            for pair in combinations(on, 2) if self.element.kind == ACTIVATION else ():
                self._keep((BOTH_ON, *pair), regions, has_null=has_null)
            if not on and not self.empty and not has_null:
                self._keep((NONE_ON, *self.guarded), regions, has_null=False)
            for node, _, parts in self.conditions:
                if node.word == "latch" and all(part(case) is True for part in parts):
                    self._keep((LATCH_OVERLAP, str(node)), regions, has_null=has_null)
        if self.element.kind != ACTIVATION:
            self.ever_on.update(self.empty)

    def _keep(self, key: tuple[str, ...], regions: tuple[Region, ...], *, has_null: bool) -> None:
        earlier = self.cases.get(key)
        if earlier is None or (not has_null and any(text == _UNKNOWN for _, text in earlier)):
            self.cases[key] = regions

    def _finding(
        self, kind: str, alternates: tuple[str, ...], case: tuple[Region, ...], *, is_certain: bool
    ) -> GuardFinding:
        when = ", ".join(f"{term} {text}" if text in ("is true", "is false") or text.startswith("=")
                         else f"{term} is {text}" if text == _UNKNOWN else f"{term} {text}"
                         for term, (_, text) in zip(self.regions, case, strict=True))
        verb = "are" if is_certain else "may be"
        name = self.element.name
        if kind == BOTH_ON:
            return GuardFinding(
                kind, alternates, f"{' and '.join(alternates)} of {name} {verb} on at once where {when}.",
                "Let one guard exclude the other. If both are true, the present alternate stays on.", when, is_certain)
        if kind == NONE_ON:
            return GuardFinding(
                kind, alternates, f"No alternate of {name} {'is' if is_certain else 'may be'} on where {when}.",
                "Leave the guard of one alternate empty: it is on if no other guard is true. If none is true, the "
                "present alternate stays on.", when, is_certain)
        return GuardFinding(
            kind, (), f"{alternates[0]} of {name} is turned on and off at once where {when}; off wins.",
            "Let it turn off further away than it turns on: latch(rate > 100, rate < 80).", when, is_certain)


def _is_possible(word: str, value: Any, parts: Sequence[Formula], case: Case) -> bool:
    """True if a condition over time can have a value, where its parts are what a case says."""
    if word == "for_at_least":
        return not value or parts[0](case) is True
    if word == "followed_by":
        return not value or parts[1](case) is True
    if word == "not_followed_by":
        return not value or parts[1](case) is not True
    if parts[1](case) is True:
        return not value
    return bool(value) or parts[0](case) is not True


def _are_independent(terms: Sequence[GuardNode]) -> bool:
    """True if terms take any combination of values: each is free, and none has figures of another."""
    base = [term for term in terms if term.word not in CONDITIONS]
    figures = [figure for term in base for figure in term.figures()]
    return (all(map(_is_free, base)) and len(set(figures)) == len(figures)
            and sum(term.word in TIMES for term in base) < 2 and len(terms) - len(base) < 2)


def _is_free(term: GuardNode) -> bool:
    """True if a term takes any value: it is a figure, a window of one, or a difference of two such."""
    if term.word == "-":
        return all(map(_is_free, term.parts)) and not term.parts[0].figures() & term.parts[1].figures()
    return term.word in ("figure", *TIMES) or (term.word in WINDOWS and term.parts[0].word in ("figure", "stream"))


def _regions(term: GuardNode, constants: Sequence[Any]) -> list[Region]:
    """The parts of a term's values within which no comparison changes."""
    null: list[Region] = [] if term.word in ("count", *CONDITIONS, *TIMES) else [(None, _UNKNOWN)]
    if term.kind == TRUTH:
        return [(True, "is true"), (False, "is false"), *null]
    if term.kind == TEXT:
        unlisted_text = "other"
        while unlisted_text in constants:
            unlisted_text += "'"
        return [*((text, f"= '{text}'") for text in sorted(set(constants))), (unlisted_text, "is any other"), *null]
    points = sorted(set(constants))
    if not points:
        return [(0.0, "is any number"), *null]
    regions: list[Region] = [(points[0] - max(1.0, abs(points[0])), f"< {points[0]:.15g}")]
    for point, after in [*pairwise(points), (points[-1], None)]:
        regions.append((point, f"= {point:.15g}"))
        if after is not None and point < (middle := point + (after - point) / 2) < after:
            regions.append((middle, f"between {point:.15g} and {after:.15g}"))
    regions.append((points[-1] + max(1.0, abs(points[-1])), f"> {points[-1]:.15g}"))
    if term.word == "count":
        regions = [(value, text) for value, text in regions if value >= 0 or text.startswith("between")]
    return [*regions, *null]


def _formula(node: GuardNode, terms: Terms) -> Formula:
    """A condition as a function of its terms' values, which are noted with the constants they are compared with."""
    if node.word in _FLIPPED and node.parts[0].kind != TRUTH:
        return _comparison(node, terms)
    if node.word == "literal":
        return lambda case: node.value  # type: ignore[return-value]
    if node.word in TEMPORAL or node.word in ("figure", "coalesce"):
        for part in node.parts if node.word in CONDITIONS else ():
            _formula(part, terms)
        return _term(node, terms)
    if node.word == "is null" and node.parts[0].kind != TRUTH:
        part = node.parts[0]
        if _is_constant(part):
            return lambda case: closure_of(part, {})([]) is None
        term = _term(part, terms)
        return lambda case: term(case) is None
    if node.word == "case" and node.kind != TRUTH:
        return _term(node, terms)
    # The rest joins conditions, as `guard_compiling` computes it: conditions are values of slots by their place.
    parts = [_formula(part, terms) for part in node.parts]
    slots = [GuardNode("figure", TRUTH, value=f"{index}") for index in range(len(parts))]
    joined = closure_of(GuardNode(node.word, node.kind, tuple(slots)), {slot: at for at, slot in enumerate(slots)})
    return lambda case: joined([part(case) for part in parts])


def _term(node: GuardNode, terms: Terms) -> Formula:
    index, _ = terms.setdefault(node, (len(terms), []))
    return lambda case: case[index]


def _comparison(node: GuardNode, terms: Terms) -> Formula:
    (left, right), sign = node.parts, node.word
    if _is_constant(left) and not _is_constant(right):
        left, right, sign = right, left, _FLIPPED[sign]
    if _is_constant(left):
        return lambda case: closure_of(node, {})([])
    if left.kind == TEXT and (sign not in ("=", "<>") or not _is_constant(right)):
        return _term(node, terms)
    if not _is_constant(right):
        if str(left) > str(right):
            left, right, sign = right, left, _FLIPPED[sign]
        left, right = GuardNode("-", NUMBER, (left, right)), GuardNode("literal", NUMBER, value=0.0)
    constant = closure_of(right, {})([])
    index, constants = terms.setdefault(left, (len(terms), []))
    if constant is None:
        return lambda case: None
    constants.append(constant)
    compared = closure_of(
        GuardNode(sign, TRUTH, (left, GuardNode("literal", left.kind, value=constant))), {left: 0})
    return lambda case: compared((case[index],))


def _is_constant(node: GuardNode) -> bool:
    return not any(part.word in ("figure", "stream") or part.word in TEMPORAL for part in node.walk())
