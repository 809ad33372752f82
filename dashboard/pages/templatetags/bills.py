"""Amounts of bills as the pages show them."""

from __future__ import annotations

from django import template

register = template.Library()


@register.filter
def core_hours(cpu_us: int) -> str:
    """CPU time in core-hours, or in seconds where that is little."""
    hours = cpu_us / 3_600_000_000
    if hours < 0.01:
        return f"{cpu_us / 1_000_000:.1f} s"
    return f"{hours:.2f} h" if hours >= 1 else f"{hours:.3f} h"


@register.filter
def hours_long(hours: float) -> str:
    """A time that is given in hours, in minutes where that is little."""
    return f"{hours:.1f} h" if hours >= 1 else f"{max(1, round(hours * 60))} min"


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
    """What was on disk over time."""
    hours = kb_s / 1_000_000 / 3600
    return f"{hours:.2f} GB·h" if hours >= 1 or not kb_s else f"{hours:.2g} GB·h"


@register.filter
def price(value: float) -> str:
    """A price with as many digits as it has."""
    return f"{value:.6f}".rstrip("0").rstrip(".")
