"""Conditions over the columns of events, in the language of guards without its words about time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..model.columns import NUMBERS
from ..model.errors import WeirError
from .guard_compiling import closure_of
from .guard_reading import REMEDY, read_guard
from .guard_tree import TEMPORAL
from .guard_values import NUMBER, TEXT, TRUTH, GuardCatalog, InvalidGuard

_REMEDY = "Write an SQL condition over columns, such as value > 100 AND sensor IN ('a', 'b')."
_WORDS = {
    "The guard cannot": "The condition cannot", "a guard is a condition": "a condition gives true or false",
    "which a guard may not": "which a condition may not"}


class InvalidEventCondition(WeirError):
    """A condition over the columns of events cannot be one; ``facts`` has its text."""

    code = "invalid_condition"


def event_condition(text: str, types: Mapping[str, str | None]) -> Callable[[Mapping[str, Any]], bool]:
    """The function that is true of an event, by its values by column, if the event meets a condition.

    Parameters
    ----------
    text : str
        SQL: comparisons, AND, OR, NOT, BETWEEN, IN, IS NULL, CASE, arithmetic, abs, coalesce, greatest, least.
    types : mapping
        The columns with their types in Spark's words; it may name numbers, texts and truth values.

    Raises
    ------
    InvalidEventCondition
        It cannot be read, names another column, or is about time.

    Examples
    --------
    >>> is_met = event_condition("n > 2 AND kind = 'a'", {"n": "bigint", "kind": "string"})
    >>> is_met({"n": 3, "kind": "a"}), is_met({"n": None, "kind": "a"})
    (True, False)
    """
    kinds = {name: kind for name, spark_type in types.items() if (kind := _kind(spark_type)) and "." not in name}
    catalog = GuardCatalog({"": kinds}, figure_noun="column")
    try:
        tree = read_guard(text, catalog)
    except InvalidGuard as error:
        message = error.message
        for of_guards, here in _WORDS.items():
            message = message.replace(of_guards, here, 1)
        raise InvalidEventCondition(
            message,
            remedy=_REMEDY if error.remedy == REMEDY else error.remedy, condition=text[:200]) from None
    nodes = list(dict.fromkeys(tree.walk()))
    if about_time := next((node for node in nodes if node.word in TEMPORAL), None):
        raise InvalidEventCondition(
            f"The condition cannot be used: {about_time.word} is about more than one event.", remedy=_REMEDY,
            condition=text[:200])
    columns = [node for node in nodes if node.word == "figure"]
    closure = closure_of(tree, {node: slot for slot, node in enumerate(columns)})
    named = [(str(node.value), node.kind) for node in columns]
    return lambda event: closure([_value(event.get(name), kind) for name, kind in named]) is True


def _kind(spark_type: str | None) -> str:
    if spark_type in NUMBERS or (spark_type or "").startswith("decimal"):
        return NUMBER
    return {"string": TEXT, "boolean": TRUTH}.get(spark_type or "", "")


def _value(value: Any, kind: str) -> Any:
    """A value as a condition takes it; None for a value of another kind, such as a decimal NaN."""
    if kind == NUMBER:
        try:
            number = value if isinstance(value, int) and not isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            return None
        return number if number == number and abs(number) != float("inf") else None
    return value if isinstance(value, str if kind == TEXT else bool) else None
