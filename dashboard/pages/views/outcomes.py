"""Planned against actual: what came of a dataflow's schedules."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from statistics import mean
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from dashboard.catalog import selectors as catalog
from dashboard.pages.plots import outcome_rate_figure
from dashboard.pages.views.missing_profiles import measure_address
from dashboard.schedules import selectors
from scheduler.performance.outcome import MissReason
from scheduler.performance.rates import KEEPS_UP

STILL = timedelta(minutes=1)  # without a reading: it is said that nothing is measured just now
BLURRED = 0.1  # of its rate: where more may be missing by chance, it is said


@require_safe
def outcome(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """Planned, predicted and measured: the dataflow, each task, each slot; what was missed, why, and what helps.

    Of the schedule in force, or of the one of ``proposal``.
    """
    outcome = _outcome_for(request, dataflow_id)
    graph, ends = catalog.graph_of(outcome.record), outcome.measured.ends
    return render(request, "schedules/outcome.html", {
        "record": outcome.record, "outcome": outcome, "promise": outcome.planned.promise if outcome.planned else None,
        "missed": [{"miss": miss, "help": _help(miss.reason, outcome, graph)} for miss in outcome.missed],
        "deviations": [
            {"deviation": deviation, "help": _help(deviation.reason, outcome, graph)}
            for deviation in outcome.deviations],
        "blur": outcome.blur if outcome.blur > BLURRED else None, "together": len(_sources(graph)) > 1,
        "enough": selectors.ENOUGH, "runs": selectors.schedules_of(request.viewer, dataflow_id),
        "still": outcome.status.what == "running" and ends is not None and timezone.now() - ends > STILL,
    })


@require_safe
def outcome_plots(request: HttpRequest, dataflow_id: UUID) -> JsonResponse:
    """The measured rate over time beside what was planned and predicted."""
    outcome = _outcome_for(request, dataflow_id)
    promise = outcome.planned.promise if outcome.planned else None
    return JsonResponse({"rate": outcome_rate_figure(
        outcome.measured.history, planned_per_s=promise.rate_per_s if promise else None,
        predicted_per_s=promise.sustained_per_s if promise else None)})


def _outcome_for(request: HttpRequest, dataflow_id: UUID) -> selectors.ScheduleOutcome:
    return selectors.outcome_of(request.viewer, dataflow_id, proposal_id=request.GET.get("proposal", ""))


def _help(
    reason: MissReason, outcome: selectors.ScheduleOutcome, graph: Mapping[str, list[dict]]
) -> dict[str, Any] | None:
    """The link that helps: what it says and where it goes."""
    compare = reverse("schedule", args=[outcome.record.pk])
    types = {task["id"]: task["type"] for task in graph["tasks"]}
    if reason.remedy == "measure":
        return {"text": f"Measure {types.get(reason.task, reason.task)} again",
                "url": measure_address(outcome.record, reason.task)}
    if reason.cause == "selectivity":
        planned = _of_each(
            _sources(graph), outcome.planned.promise.rates_per_s if outcome.planned else {}, whole_per_s=None
        )
        return {"text": "Compare schedules with the measured rates", "url": compare + _at(planned)}
    if reason.remedy == "compare":
        return {"text": "Compare schedules for the actual rate", "url": compare}
    if reason.remedy == "source":
        comes = _of_each(_sources(graph), outcome.seen.read_per_s, whole_per_s=outcome.seen.rate_per_s)
        return {"text": "Compare schedules for the actual rate" if comes else "Compare schedules",
                "url": compare + _at(comes)}
    if reason.remedy == "threads":
        return {"text": "How to give a slot more threads", "url": f"{reverse('help_guide', args=['schedules'])}#limits"}
    if reason.remedy == "slots":
        return {"text": "See what else is on the slot", "url": reverse("slots")}
    return {"text": "See the dataflow", "url": reverse("dataflow", args=[outcome.record.pk])}


def _sources(graph: Mapping[str, list[dict]]) -> list[str]:
    targets = {stream["target"] for stream in graph["streams"]}
    return [task["id"] for task in graph["tasks"] if task["id"] not in targets]


def _of_each(sources: list[str], rates: Mapping[str, float], *, whole_per_s: float | None) -> float | None:
    """The rate of each source, where they are alike: schedules are compared for one that all of them have."""
    if len(sources) == 1:
        return rates.get(sources[0], whole_per_s)
    values = [rates[source] for source in sources if source in rates]
    return mean(values) if values and len(values) == len(sources) and min(values) >= KEEPS_UP * max(values) else None


def _at(rate_per_s: float | None) -> str:
    return f"?{urlencode({'rate': f'{rate_per_s:.4g}'})}" if rate_per_s else ""
