"""Charts over time in a page: ``{% time_bar %}`` once, and ``{% charts kind subject %}`` for its subject; in its head
``{% charts_ahead kind subject %}``."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django import template
from django.utils import timezone

from dashboard.pages.limit_charts import charts_of
from dashboard.pages.ranges import DEFAULT, OVERLAYS, RANGES, chosen_or_default, iso_minute

register = template.Library()
RANGE_NAMES = ("range", "from", "to", "over")  # as static/js/time_range.js has them


@register.inclusion_tag("parts/time_bar.html", takes_context=True)
def time_bar(context: dict[str, Any], *, over: bool = True) -> dict[str, Any]:
    """The choice of a range for all charts of a page; with ``over``, of an earlier one to lay over it."""
    now_s = int(timezone.now().timestamp())
    span = chosen_or_default(context["request"].GET, now_s=now_s)
    return {
        "ranges": RANGES.values(), "default": DEFAULT.name, "span": span, "overlays": OVERLAYS.items() if over else (),
        "begin": iso_minute(span.begin_s), "end": iso_minute(span.end_s)}


@register.inclusion_tag("parts/charts.html")
def charts(kind: str, subject: str) -> dict[str, Any]:
    """The charts of one subject."""
    return {"charts": charts_of(kind, str(subject)), "kind": kind, "query": _query(kind, subject)}


@register.inclusion_tag("parts/preload_plotly.html", takes_context=True)
def charts_ahead(context: dict[str, Any], kind: str, subject: str) -> dict[str, Any]:
    """The scripts for the head of a page that shows these charts at once: what they need comes while the page itself
    does.

    Figures are asked for ahead where the address has no range of its own: they must be asked for by just this address.
    """
    has_range = any(name in context["request"].GET for name in RANGE_NAMES)
    return {"query": "" if has_range else _query(kind, subject)}


def _query(kind: str, subject: str) -> str:
    return urlencode({"kind": kind, "subject": subject})
