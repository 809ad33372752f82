"""The choice of an element's alternate by its guards: a pure function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .guard_values import ACTIVATION, FigureValue, GuardedElement

BOTH_ON, NONE_ON = "both_on", "none_on"


@dataclass(frozen=True, slots=True)
class AlternateChoice:
    """The alternate that is on, and why.

    ``trouble``: ``BOTH_ON`` if the guards of several alternates are true that should exclude each other, ``NONE_ON`` if
    no alternate may be on, else empty; with trouble the current ``alternate`` is kept. ``allowed``: the alternates
    whose guards are true.
    """

    alternate: str
    why: str
    trouble: str = ""
    allowed: tuple[str, ...] = ()


def decide(
    element: GuardedElement, guards: Mapping[str, bool | None], current: str | None,
    values: Mapping[str, FigureValue] | None = None,
) -> AlternateChoice:
    """Choose the alternate that is on.

    By activation guards: the alternate whose guard is true. If several guards are true, the current alternate if it is
    among them, else the first of them in the document's order. If no guard is true, the alternate without a guard; if
    every alternate has a guard, the current one, and before there is one, the first.

    By value-based guards: the allowed alternate of the highest value; among equals the current one, else the first.
    Unknown values rank last. If no alternate is allowed, the current one, and before there is one, the first.

    Parameters
    ----------
    guards : mapping
        The value of each guard, by alternate; None is NULL, which allows nothing. Empty guards need not be in it.
    current : str or None
        The alternate that is on; None, or one that the element lacks: none is yet.
    values : mapping, optional
        The values of value functions; None is NULL. An alternate that is absent has the number of the document.

    Examples
    --------
    >>> from scheduler.guards.guard_values import GuardedAlternate
    >>> parse = GuardedElement("parse", (GuardedAlternate("exact", "rate < 5"), GuardedAlternate("fast")))
    >>> decide(parse, {"exact": True}, None).alternate, decide(parse, {"exact": None}, "exact").alternate
    ('exact', 'fast')
    """
    names = [alternate.name for alternate in element.alternates]
    empty = [alternate.name for alternate in element.alternates if not alternate.guard.strip()]
    current = current if current in names else None
    on = [name for name in names if name not in empty and guards.get(name) is True]
    if element.kind == ACTIVATION:
        return _activated(names, on, empty, current)
    allowed = [name for name in names if name in on or name in empty]
    if not allowed:
        return AlternateChoice(*_unchanged(names, current, "no alternate is allowed"), NONE_ON)
    worth = {alternate.name: (values or {}).get(alternate.name, alternate.value) for alternate in element.alternates}
    worth = {name: value if _is_known(value) else None for name, value in worth.items()}
    numbers = [value for name in allowed if (value := worth[name]) is not None]
    best = [name for name in allowed if worth[name] == max(numbers, default=None)]
    chosen = current if current in best else best[0]
    shown = "not known" if worth[chosen] is None else f"{worth[chosen]:.4g}"
    return AlternateChoice(
        chosen, f"{chosen} is allowed and has the highest value ({shown})", allowed=tuple(allowed))


def _is_known(value: object) -> bool:
    return isinstance(value, int | float) and value - value == 0


def _activated(names: list[str], on: list[str], empty: list[str], current: str | None) -> AlternateChoice:
    if len(on) == 1:
        return AlternateChoice(on[0], f"the guard of {on[0]} is true", allowed=tuple(on))
    if on:
        chosen = current if current in on else on[0]
        return AlternateChoice(
            chosen, f"the guards of {' and '.join(on)} are true; {chosen} {'stays' if chosen == current else 'is'} on",
            BOTH_ON, tuple(on))
    if empty:
        return AlternateChoice(empty[0], f"no other guard is true, and {empty[0]} has none", allowed=tuple(empty))
    return AlternateChoice(*_unchanged(names, current, "no guard is true"), NONE_ON)


def _unchanged(names: list[str], current: str | None, reason: str) -> tuple[str, str]:
    if current is None:
        return names[0], f"{reason}; {names[0]} is on because it is the first"
    return current, f"{reason}; {current} stays on"
