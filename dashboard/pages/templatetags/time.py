"""Charts over time in a page: ``{% time_bar %}`` once, and ``{% charts kind subject %}`` for each subject."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django import template
from django.utils import timezone

from dashboard.pages.charts import CHARTS
from dashboard.pages.ranges import DEFAULT, OVERLAYS, RANGES, chosen_or_default, iso_minute

register = template.Library()


@register.inclusion_tag("parts/time_bar.html", takes_context=True)
def time_bar(context: dict[str, Any]) -> dict[str, Any]:
    """The choice of a range for all charts of a page."""
    now_s = int(timezone.now().timestamp())
    span = chosen_or_default(context["request"].GET, now_s=now_s)
    return {
        "ranges": RANGES.values(), "default": DEFAULT.name, "span": span, "overlays": OVERLAYS.items(),
        "begin": iso_minute(span.begin_s), "end": iso_minute(span.end_s)}


@register.inclusion_tag("parts/charts.html")
def charts(kind: str, subject: str, only: str = "", label: str = "") -> dict[str, Any]:
    """The charts of one subject; ``only`` names one of them, ``label`` says whose they are where a page has several."""
    shown = [chart for chart in CHARTS[kind] if not only or chart.name == only]
    asked = {"kind": kind, "subject": subject} | ({"only": only} if only else {})
    return {"charts": shown, "query": urlencode(asked), "label": label or "Charts over time",
            "key": kind + only}
