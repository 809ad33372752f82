"""Reading guards: SQL conditions over named figures, parsed by sqlglot, with a few temporal words as functions.

What a guard may hold is closed, as a query of the ``sql`` task is: what is not read here is refused, with its place.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cache
from math import isfinite
from zoneinfo import available_timezones

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from ..model.bounds import GUARD_CHARACTERS, GUARD_LEVELS, GUARD_PARTS, GUARD_STREAMS, GUARD_WORDS, PARSER_STEPS
from ..model.columns import nearest
from ..model.sql_dialect import Dialect, TooManySteps, function_name, number
from . import guard_tree as words
from .guard_tree import EXAMPLES, LONGEST_MS, SCALARS, SYNONYMS, TEMPORAL, UNITS_MS, GuardNode, kind_in_words
from .guard_values import ACTIVATION, NUMBER, TEXT, TRUTH, VALUE, GuardCatalog, GuardedElement, InvalidGuard

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
NOTHING = "nothing"  # the kind of NULL
_COMPARED = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_CALCULATED = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_DURATION = re.compile(r"\s*(\d{1,9})\s*([A-Za-z]+)\s*")
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)|24:00")
REMEDY = "Write an SQL condition over figures, such as rate > 100 AND mean(latency, '5 min') < 2000."


def read_guard(text: str, catalog: GuardCatalog) -> GuardNode:
    """Read a condition.

    Examples
    --------
    >>> str(read_guard("NOT rate<=1e2 and for_at_least(rate > 5, '120 s')", GuardCatalog({"": {"rate": "number"}})))
    "(NOT (rate <= 100)) AND for_at_least(rate > 5, '2 min')"
    """
    return _read(text, catalog, TRUTH)


def read_value(text: str, catalog: GuardCatalog) -> GuardNode:
    """Read a value function: an expression that gives a number. Raises ``InvalidGuard`` as `read_guard` does."""
    return _read(text, catalog, NUMBER)


def read_element(
    element: GuardedElement, catalog: GuardCatalog
) -> tuple[dict[str, GuardNode], dict[str, GuardNode]]:
    """Guards and the value functions of an element, by alternate, without empty guards and values that are numbers."""
    _require_alternates(element)
    guards, values = {}, {}
    for alternate in element.alternates:
        try:
            if alternate.guard.strip():
                guards[alternate.name] = read_guard(alternate.guard, catalog)
            if isinstance(alternate.value, str):
                values[alternate.name] = read_value(alternate.value, catalog)
            else:
                _require_value(alternate.value)
        except InvalidGuard as invalid:
            facts = {**invalid.facts, "element": element.name, "alternate": alternate.name}
            raise InvalidGuard(f"Of {alternate.name}: {invalid.message}", remedy=invalid.remedy, **facts) from invalid
    trees = [*guards.values(), *values.values()]
    if (parts := sum(tree.size for tree in trees)) > GUARD_PARTS.most:
        raise InvalidGuard(
            f"The guards of {element.name} have {parts:,} parts.", element=element.name,
            remedy=f"Use {GUARD_PARTS.most:,} at most: a comparison has three, and IN one for each value.")
    used = {node for tree in trees for node in tree.walk() if node.word in TEMPORAL}
    if len(used) > GUARD_WORDS.most:
        raise InvalidGuard(
            f"The guards of {element.name} have {len(used)} different temporal words.",
            remedy=f"Use {GUARD_WORDS.most} at most, or compute figures in a dataflow and name its output.",
            element=element.name)
    require_few_streams({name.rpartition(".")[0] for tree in trees for name in tree.figures()}, element.name)
    return guards, values


def require_few_streams(streams: Collection[str], element: str) -> None:
    """Raise ``InvalidGuard`` where an element looks at more streams than it may, or at more other dataflows."""
    if len(streams) > GUARD_STREAMS.most:
        raise InvalidGuard(
            f"The guards of {element} name {len(streams):,} tasks, dataflows or kinds of events.", element=element,
            remedy=f"Name {GUARD_STREAMS.most:,} at most, or compute figures in a dataflow and name its output.")


def _require_alternates(element: GuardedElement) -> None:
    names = [alternate.name for alternate in element.alternates]
    empty = [alternate.name for alternate in element.alternates if not alternate.guard.strip()]
    if element.kind not in (ACTIVATION, VALUE):
        raise InvalidGuard(f"{element.name} has guards of the kind “{element.kind}”.",
                           remedy=f"Its kind is {ACTIVATION} or {VALUE}.", element=element.name)
    if len(names) < 2:
        raise InvalidGuard(f"{element.name} has {len(names)} alternates.",
                           remedy="Give it two or more.", element=element.name)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidGuard(f"{element.name} has two alternates “{twice}”.",
                           remedy="Give each a name of its own.", element=element.name, alternate=twice)
    if element.kind == ACTIVATION and len(empty) > 1:
        raise InvalidGuard(
            f"{' and '.join(empty)} of {element.name} have no guard.",
            remedy="One alternate may have none: it is on where no other is. Give each other one a guard.",
            element=element.name, alternate=empty[1])


def _require_value(value: float) -> None:
    if isinstance(value, bool) or not isfinite(value) or value < 0:
        raise InvalidGuard(f"{value} is no value.", remedy="Give a number from 0 on, or a value function as text.")


def _read(text: str, catalog: GuardCatalog, expected: str) -> GuardNode:
    reader = _GuardReader(text, catalog)
    try:
        tree = reader.read(reader.parsed(), level=1)
    except RecursionError:  # of what is to be shown of it
        raise reader.wrong("it is nested too deep", None) from None
    if tree.kind != expected:
        expectation = "a guard is a condition" if expected == TRUTH else "a value function gives a number"
        raise reader.wrong(f"it gives {kind_in_words(tree.kind)}, and {expectation}", None,
                           f"Compare it: {str(tree)[:60]} > 0." if tree.kind == NUMBER else REMEDY)
    return tree


def named_in(text: str) -> frozenset[str]:
    """The names that a guard or value function has, of figures and of streams; none where it cannot be read."""
    if len(text) > GUARD_CHARACTERS.most:
        return frozenset()
    try:
        tree = sqlglot.parse_one(text, into=exp.Condition, dialect=Dialect)
    except (SqlglotError, RecursionError):
        return frozenset()
    return frozenset(".".join(part.name for part in column.parts) for column in tree.find_all(exp.Column))


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


class _GuardReader:
    """Makes a tree of one guard; its text gives places to errors."""

    def __init__(self, text: str, catalog: GuardCatalog) -> None:
        self.text, self.catalog = text, catalog

    def wrong(self, message: str, node: exp.Expression | None, remedy: str = REMEDY, *, at: int = 0) -> InvalidGuard:
        starts: list[int] = []
        while node is not None and not starts:  # sqlglot has no place for some: then that of what they are in
            starts, node = [part.meta["start"] for part in node.walk() if "start" in part.meta], node.parent
        at = min(starts, default=at)
        line, column = self.text.count("\n", 0, at) + 1, at - (self.text.rfind("\n", 0, at) + 1) + 1
        return InvalidGuard(f"The guard cannot be used: at line {line}, column {column}, {message}.",
                            remedy=remedy, guard=self.text[:200], line=line, column=column)

    def parsed(self) -> exp.Expression:
        if not self.text.strip():
            raise self.wrong("it is empty", None)
        if len(self.text) > GUARD_CHARACTERS.most:
            raise self.wrong(f"it has {len(self.text):,} characters", None,
                             f"Use {GUARD_CHARACTERS.most:,} at most.")
        try:
            return sqlglot.parse_one(self.text, into=exp.Condition, dialect=Dialect)
        except ParseError as error:
            facts = error.errors[0] if error.errors else {}
            lines = self.text.splitlines(keepends=True)
            shown = (facts.get("highlight") or "")[:40]
            before = sum(map(len, lines[:facts.get("line", 1) - 1])) + facts.get("col", 1) - len(shown)
            is_name = any(shown.lower() in name.lower().split(".") for name in self.catalog.names())
            raise self.wrong(f"it cannot be read near “{shown}”" if shown else "it cannot be read", None,
                             f"A name that is a word of SQL is written in backticks: `{shown}`." if is_name else REMEDY,
                             at=min(max(before, 0), len(self.text))) from None
        except TooManySteps:
            raise self.wrong(f"it takes more than {PARSER_STEPS.most} steps to read for each of its words", None,
                             "Nest less: a guard has no structs and lists.") from None
        except (SqlglotError, RecursionError):
            raise self.wrong("it cannot be read: a quote or a bracket has no end, or too many are nested",
                             None) from None

    def read(self, node: exp.Expression, *, level: int, within: str = "") -> GuardNode:
        """A part as a tree; ``within`` is the window that it is in."""
        if level > GUARD_LEVELS.most:
            raise self.wrong(f"it is nested more than {GUARD_LEVELS.most} levels deep", node,
                             "Make it shorter: IN takes many values, a window many terms.")
        part = self._part(node, level=level, within=within)
        if part.size > GUARD_PARTS.most:  # BETWEEN and IN hold a value more than once, and what that holds
            raise self.wrong(f"it has more than {GUARD_PARTS.most:,} parts, with BETWEEN and IN written out", node,
                             "Make it shorter: compare fewer values, and a CASE with fewer.")
        return part

    def _part(self, node: exp.Expression, *, level: int, within: str) -> GuardNode:
        if isinstance(node, exp.Paren):
            return self.read(node.this, level=level + 1, within=within)

        def inner(part: exp.Expression) -> GuardNode:
            return self.read(part, level=level + 1, within=within)

        if (value := number(node)) is not None:
            return GuardNode("literal", NUMBER, value=float(value))
        if isinstance(node, exp.Literal) and node.is_string:
            return GuardNode("literal", TEXT, value=node.this)
        if isinstance(node, exp.Boolean):
            return GuardNode("literal", TRUTH, value=bool(node.this))
        if isinstance(node, exp.Null):
            return GuardNode("literal", NOTHING)
        if isinstance(node, exp.Star) or any(isinstance(part, exp.Star) for part in getattr(node, "parts", ())):
            raise self.wrong("it has *", node, "Name one figure.")
        if isinstance(node, exp.Column):
            return self._figure(node, within)
        if isinstance(node, exp.And | exp.Or):
            parts = tuple(self._require_kind(TRUTH, inner(part), part) for part in node.flatten())
            return GuardNode("and" if isinstance(node, exp.And) else "or", TRUTH, parts)
        if isinstance(node, exp.Not):
            return GuardNode("not", TRUTH, (self._require_kind(TRUTH, inner(node.this), node.this),))
        if isinstance(node, exp.Neg):
            return GuardNode("negative", NUMBER, (self._require_kind(NUMBER, inner(node.this), node.this),))
        if type(node) in _CALCULATED:
            parts = tuple(self._require_kind(NUMBER, inner(part), part) for part in (node.this, node.expression))
            return GuardNode(_CALCULATED[type(node)], NUMBER, parts)
        if type(node) in _COMPARED:
            return self._alike(_COMPARED[type(node)], node, inner(node.this), inner(node.expression))
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null | exp.Boolean):
            is_null = isinstance(node.expression, exp.Null)
            part = inner(node.this) if is_null else self._require_kind(TRUTH, inner(node.this), node.this)
            return GuardNode("is null" if is_null else f"is {str(bool(node.expression.this)).lower()}", TRUTH, (part,))
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            value = inner(node.this)
            low, high = inner(node.args["low"]), inner(node.args["high"])
            return GuardNode("and", TRUTH, (self._alike(">=", node, value, low), self._alike("<=", node, value, high)))
        if isinstance(node, exp.In) and node.expressions:
            value = inner(node.this)
            return GuardNode("or", TRUTH, tuple(
                self._alike("=", node, value, inner(part)) for part in node.expressions))
        if isinstance(node, exp.Case) and node.this is None:
            return self._case(node, level=level, within=within)
        if (name := function_name(node)):
            return self._called(name, node, level=level, within=within)
        shown = node.sql(dialect=Dialect)[:60]
        raise self.wrong(f"it has {shown}, which a guard may not", node)

    def _require_kind(self, kind: str, part: GuardNode, node: exp.Expression) -> GuardNode:
        if part.kind not in (kind, NOTHING):
            raise self.wrong(f"{str(part)[:60]} is {kind_in_words(part.kind)}, not {kind_in_words(kind)}", node,
                             f"Compare it: {str(part)[:40]} > 0." if kind == TRUTH and part.kind == NUMBER else REMEDY)
        return part

    def _alike(self, sign: str, node: exp.Expression, left: GuardNode, right: GuardNode) -> GuardNode:
        if left.kind != right.kind or left.kind == NOTHING:
            is_null = NOTHING in (left.kind, right.kind)
            raise self.wrong(
                f"{str(left)[:60]} is {kind_in_words(left.kind)} and {str(right)[:60]} is "
                f"{kind_in_words(right.kind)}", node,
                "What is compared with NULL is never true: write IS NULL." if is_null
                else "Compare numbers with numbers and texts with texts.")
        if left.kind == TRUTH and sign not in ("=", "<>"):
            raise self.wrong(f"conditions are compared by {sign}", node, "Write AND, OR and NOT.")
        return GuardNode(sign, TRUTH, (left, right))

    def _case(self, node: exp.Case, *, level: int, within: str) -> GuardNode:
        parts: list[GuardNode] = []
        for branch in node.args["ifs"]:
            parts.append(self._require_kind(TRUTH, self.read(branch.this, level=level + 1, within=within), branch.this))
            parts.append(self.read(branch.args["true"], level=level + 1, within=within))
        default = node.args.get("default")
        parts.append(GuardNode("literal", NOTHING) if default is None
                     else self.read(default, level=level + 1, within=within))
        return GuardNode("case", self._kind_of([*parts[1::2], parts[-1]], node), tuple(parts))

    def _kind_of(self, parts: Iterable[GuardNode], node: exp.Expression) -> str:
        """The kind that values which stand for one another have in common."""
        kinds = {part.kind for part in parts} - {NOTHING}
        if len(kinds) != 1:
            kinds_given = " and ".join(sorted(map(kind_in_words, kinds))) or "nothing but NULL"
            raise self.wrong(f"{node.sql(dialect=Dialect)[:60]} gives {kinds_given}", node,
                             "Let it give values of one kind.")
        return kinds.pop()

    def _figure(self, node: exp.Column, within: str) -> GuardNode:
        name = ".".join(part.name for part in node.parts)
        kind = self.catalog.kind_of(name)
        if kind is None:
            alike = [figure for figure in self.catalog.names() if figure.lower() == name.lower()]
            if len(alike) == 1:
                name, kind = alike[0], self.catalog.kind_of(alike[0])
        if kind is not None:
            return GuardNode("figure", kind, value=name)
        if name and name in self.catalog.streams:
            if within == "count":
                return GuardNode("stream", NOTHING, value=name)
            figures = ", ".join(sorted(self.catalog.streams[name])[:5])
            raise self.wrong(f"{name} is a stream, not a figure", node,
                             f"Write count({name}, '5 min'){f', or one of its figures: {figures}' if figures else ''}.")
        near = nearest(name, [*self.catalog.names(), *filter(None, self.catalog.streams)])
        names = ", ".join(sorted(self.catalog.names())[:8])
        raise self.wrong(f"there is no {self.catalog.figure_noun} {name[:80]}", node,
                         f"{f'Did you mean {near}?' if near else f'There are: {names}.'} {self.catalog.hint}".strip())

    def _called(self, name: str, node: exp.Expression, *, level: int, within: str) -> GuardNode:
        arguments = node.expressions
        if name in SCALARS:
            parts = tuple(self.read(part, level=level + 1, within=within) for part in arguments)
            if not parts or (name == "abs") != (len(parts) == 1):
                raise self.wrong(f"{name} has {len(parts)} values", node,
                                 f"Write {'abs(a)' if name == 'abs' else f'{name}(a, b)'}.")
            if name != "coalesce":
                parts = tuple(self._require_kind(NUMBER, part, at) for part, at in zip(parts, arguments, strict=True))
            return GuardNode(name, self._kind_of(parts, node), parts)
        if name not in TEMPORAL:
            names = [*TEMPORAL, *SCALARS]
            near = SYNONYMS.get(name) or nearest(name, names)
            raise self.wrong(f"there is no {name[:60]}()", node,
                             f"Did you mean {EXAMPLES.get(near, near)}?" if near else f"There are {', '.join(names)}.")
        if within:
            raise self.wrong(f"{name} is within {within}", node,
                             f"{within} takes figures alone: write {EXAMPLES[within]}.")
        signature = TEMPORAL[name]
        if len(arguments) != len(signature):
            raise self.wrong(f"{name} has {len(arguments)} values", node, f"Write {EXAMPLES[name]}.")
        parts, written = [], []
        for taken, argument in zip(signature, arguments, strict=True):
            if taken == TRUTH:
                parts.append(self._require_kind(TRUTH, self.read(argument, level=level + 1), argument))
            elif taken in (words.SERIES, words.COUNTED):
                parts.append(self._series(name, argument, level=level))
            else:
                written.append(self._written(name, taken, argument))
        kind = NUMBER if name in words.WINDOWS else TRUTH
        return GuardNode(name, kind, tuple(parts), tuple(written))

    def _series(self, name: str, node: exp.Expression, *, level: int) -> GuardNode:
        """The input of a window: an expression over figures of one stream."""
        part = self.read(node, level=level + 1, within=name)
        streams = {figure.rpartition(".")[0] for figure in part.figures()}
        if len(streams) != 1:
            covered = "figures of several streams" if streams else "no figure"
            raise self.wrong(f"{name} is over {covered}", node,
                             f"A window is over figures of one stream: write {EXAMPLES[name]}, and calculate with "
                             "what windows give.")
        if name != "count":
            return self._require_kind(NUMBER, part, node)
        if part.kind == TRUTH and part.word != "figure":
            raise self.wrong("count is over a condition, and would count events where it is false, too", node,
                             f"Write sum(CASE WHEN {str(part)[:40]} THEN 1 ELSE 0 END, '5 min').")
        return part

    def _written(self, name: str, taken: str, node: exp.Expression) -> float | int | str:
        """A value that is written out: a duration in ms, a part of 1, a time of day, a zone, …"""
        if taken == words.SHARE:
            share = number(node)
            if share is None or not 0 <= share <= 1:
                raise self.wrong(f"{name} has {node.sql(dialect=Dialect)[:40]} as its part", node,
                                 f"Write a number from 0 to 1: {EXAMPLES[name]}.")
            return float(share)
        text = node.this if isinstance(node, exp.Literal) and node.is_string else None
        if text is None:
            raise self.wrong(f"{name} has {node.sql(dialect=Dialect)[:40]} where {taken} is written", node,
                             f"Write {EXAMPLES[name]}.")
        if taken == words.DURATION:
            return self._duration(text, node)
        names, name_written = {
            words.ZONE: (_zones(), text), words.WEEKDAY: (WEEKDAYS, text.lower()[:3]),
            words.CALENDAR: (self.catalog.calendars, text), words.CLOCK: ((), text)}[taken]
        if taken == words.CLOCK:
            if _CLOCK.fullmatch(text) is None:
                raise self.wrong(f"“{text[:40]}” is no time of day", node, "Write it from 00:00 to 24:00: '08:30'.")
            return text
        if name_written not in names:
            near = nearest(text, names)
            some = ", ".join(sorted(names)[:5]) or "none"
            raise self.wrong(f"there is no {taken.removeprefix('a ')} “{text[:60]}”", node,
                             f"Did you mean '{near}'?" if near else f"There are: {some}.")
        return name_written

    def _duration(self, text: str, node: exp.Expression) -> int:
        match = _DURATION.fullmatch(text)
        unit = match[2] if match else ""
        if match is None or unit not in UNITS_MS:
            near = nearest(unit, UNITS_MS) or next((symbol for symbol in UNITS_MS if unit[:1] == symbol[:1]), None)
            shown = f"{match[1]} {near}" if match and near else "5 min"
            raise self.wrong(f"“{text[:40]}” is no duration", node,
                             f"Write a whole number and s, min, h or d: '{shown}'.")
        duration_ms = int(match[1]) * UNITS_MS[unit]
        if not 0 < duration_ms <= LONGEST_MS:
            raise self.wrong(f"“{text[:40]}” is not from 1 s to 31 d", node, "Use a duration from 1 s to 31 d.")
        return duration_ms
