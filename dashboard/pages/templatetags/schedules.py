"""Rates, times and bounds of schedules as the pages show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django import template

from dashboard.pages.templatetags.weir import NONE, percent
from scheduler.model.placement import Bound

register = template.Library()


@register.filter
def rough_rate(per_s: float | None) -> str:
    """Events per second with two digits: of an estimate no more are known."""
    return NONE if per_s in (None, "") else exact_rate(float(f"{per_s:.2g}"))


@register.filter
def exact_rate(per_s: float | None) -> str:
    """Events per second with four digits, so that what was asked for is read as it was asked."""
    if per_s in (None, ""):
        return NONE
    if per_s >= 10_000:
        return f"{round(per_s):,}/s".replace(",", "\u202f")
    return f"{float(f'{per_s:.4g}'):g}/s"


@register.filter
def seconds(value: float | None) -> str:
    """A time in the unit that suits it."""
    if value in (None, ""):
        return NONE
    if value < 1:
        return f"{round(value * 1000)} ms"
    if value < 120:
        return f"{value:.1f} s"
    hours = value / 3600
    return f"{round(value / 60)} min" if hours < 2 else f"{hours:.3g} h" if hours < 48 else f"{hours / 24:.3g} days"


@register.filter
def bound(limit: Bound | Mapping[str, Any], noun: str) -> str:
    """The certainty that no other mapping takes less of something, which ``noun`` names."""
    stated = limit if isinstance(limit, Bound) else Bound(**limit)
    if stated.proved:
        return f"least {noun}, proved"
    if stated.least:
        return f"{noun}: up to {percent(stated.gap)} fewer may be possible"
    return f"{noun}: not proved to be the least"


@register.filter
def slots_in(bundles: Iterable[Mapping[str, Any]]) -> int:
    """The number of slots that the bundles of a promise are on."""
    return len({bundle["slot"] for bundle in bundles})
