"""Recorded figures of adaptation: throughput, value, cost and profit of dataflows with goals, and what was expected to
come."""

from __future__ import annotations

from datetime import UTC, datetime

import structlog

from dashboard.controllers.site_world import StoredWorld
from dashboard.operations.live_view.estate_view import View
from dashboard.operations.live_view.recording import Values, series_of
from scheduler.controllers.evidence.adaptations import points_now
from scheduler.controllers.evidence.expected_rates import expected_minutes
from scheduler.history.series import DATAFLOW, TEN_SECONDS

log = structlog.get_logger(__name__)


class AdaptationRecorder:
    """Works the figures out every ten seconds, and gives them again until then."""

    def __init__(self) -> None:
        self._values: Values = {}
        self._due_s = 0

    def values_of(self, view: View, now_s: int) -> Values:
        """The figures of every dataflow with goals; nothing of one that is not measured.

        What goes wrong is logged: whoever keeps the rest is not held up by it.
        """
        if now_s >= self._due_s:
            self._due_s = now_s + TEN_SECONDS.step_s
            try:
                self._values = _values(StoredWorld(datetime.fromtimestamp(now_s, UTC), view=view))
            except Exception:
                log.exception("adaptation_not_recorded")
                self._values = {}
        return self._values


def _values(world: StoredWorld) -> Values:
    if not world.goals:
        return {}
    values: Values = {}
    for name, point in points_now(world).items():
        figures = {"throughput": point.throughput, "value": point.value, "per_hour": point.per_hour,
                   "profit": point.profit}
        values |= {series_of(DATAFLOW, name, f"adapted_{metric}"): figure
                   for metric, figure in figures.items() if figure is not None}
        if minutes := expected_minutes(world, name):
            # The newest forecast is made for the minute that has begun.
            values |= {
                series_of(DATAFLOW, name, "expected_per_s"): minutes[0].per_s,
                series_of(DATAFLOW, name, "expected_low_per_s"): minutes[0].low_per_s,
                series_of(DATAFLOW, name, "expected_high_per_s"): minutes[0].high_per_s}
    return values
