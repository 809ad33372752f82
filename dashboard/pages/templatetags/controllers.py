"""Spans and figures as the pages of controllers show them."""

from __future__ import annotations

from django import template

from scheduler.model.figure_words import in_digits
from scheduler.model.latency_limits import in_words

register = template.Library()


@register.filter
def minutes(seconds: float) -> str:
    """A span in the unit that suits it: ``15 minutes``, ``6 hours``."""
    for size_s, name in ((3600.0, "hour"), (60.0, "minute")):
        if seconds >= size_s:
            return f"{seconds / size_s:.3g} {name}{'' if seconds == size_s else 's'}"
    return f"{seconds:.3g} second{'' if seconds == 1 else 's'}"


@register.filter
def threshold(value: float, unit: str) -> str:
    """A threshold of a rule with its unit: ``30 s``, ``1 restart``, ``20%``."""
    if unit in ("ms", "s"):
        return in_words(value / 1000 if unit == "ms" else value)
    number = f"{value:,.2f}".rstrip("0").rstrip(".")
    return f"{number}%" if unit == "%" else f"{number} {unit.removesuffix('s') if value == 1 else unit}".strip()


@register.filter
def round_of(key: str) -> str:
    """The controller of a round, by the round's key: ``open batches``."""
    return key.rpartition("-")[0].replace("_", " ") or key


@register.filter
def as_minutes(seconds: float) -> str:
    """Minutes as a form's field takes them."""
    return f"{seconds / 60:g}"


@register.filter
def figure(value: float) -> str:
    """Three digits that count."""
    return in_digits(value)
