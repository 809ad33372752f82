"""Amounts of bills as the pages show them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django import template

from scheduler.model.cost_figures import CostFigure, money_change, money_signed, money_text

register = template.Library()
register.filter("money_text", money_text)
register.filter(money_signed)
register.filter(money_change)


@register.filter
def core_hours(cpu_us: int) -> str:
    """CPU time in core-hours, or in seconds where that is little."""
    hours = cpu_us / 3_600_000_000
    if hours < 0.01:
        return f"{cpu_us / 1_000_000:.1f} s"
    return f"{hours:.2f} h" if hours >= 1 else f"{hours:.3f} h"


@register.inclusion_tag("parts/cost_figure.html")
def cost_figure(figure: CostFigure, currency: str) -> dict[str, Any]:
    """The cost of something: cores with their range, money (where a currency is named), its basis and since when."""
    since = None if figure.since_ms is None else datetime.fromtimestamp(figure.since_ms / 1000, UTC)
    return {"figure": figure, "currency": currency, "since": since}


@register.filter
def gib_hours(memory_mb_s: int) -> str:
    """Memory held over time."""
    hours = memory_mb_s / 1024 / 3600
    return f"{hours:.2f} GiB·h" if hours >= 1 else f"{hours:.3f} GiB·h"


@register.filter
def traffic(count: int) -> str:
    """Bytes in the unit that suits them."""
    value, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


@register.filter
def disk(kb_s: int) -> str:
    """The use of disk over time."""
    hours = kb_s / 1_000_000 / 3600
    return f"{hours:.2f} GB·h" if hours >= 1 or not kb_s else f"{hours:.2g} GB·h"


@register.filter
def price(value: float) -> str:
    """A price with all its digits."""
    return f"{value:.6f}".rstrip("0").rstrip(".")
