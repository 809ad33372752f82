"""The dynamic tasks of a dataflow: which alternate of each is on and why, what guards saw, and what others would do."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard import jobs
from dashboard.approvals.services.guarded_switches import held_until
from dashboard.catalog import selectors as catalog
from dashboard.catalog.lifecycle import RUNNING
from dashboard.operations.dynamic_reader import DynamicTask, dynamic_tasks, with_switches
from dashboard.operations.guard_dry_runs import MOST_HOURS, replayed
from dashboard.operations.live_view.chart_marks import marks_of
from dashboard.pages.charts import group_marks, mark_rows
from dashboard.pages.dynamic_charts import (
    AlternateSpan,
    alternates_figure,
    chart_names,
    figure_charts,
    spans_on,
    spans_tried,
)
from dashboard.pages.ranges import ChosenRange, chosen, chosen_or_default
from dashboard.teams.models import Role
from scheduler.guards.guard_dry_run import GuardDryRun
from scheduler.guards.guard_traces import GuardTrace
from scheduler.guards.guard_values import InvalidGuard
from scheduler.guards.task_figures import TASK_FIGURES
from scheduler.history.series import DATAFLOW
from scheduler.model.alternates import TaskAlternate, first_on
from scheduler.model.errors import NotFound
from scheduler.model.task_types import DYNAMIC

LONGEST_S = MOST_HOURS * 3600  # of what is played again
SWITCHES_SHOWN = 100


@dataclass(frozen=True, slots=True)
class ElementPanel:
    """A dynamic task as its page shows it."""

    task: DynamicTask
    alternates: list[tuple[TaskAlternate, str, float | None]]  # each with the guard in the form, and its cost in µs
    charts: list[tuple[str, str, str]]
    charts_address: str
    held_until: datetime | None
    failure: InvalidGuard | None  # why guards cannot be played
    run: GuardDryRun | None  # the dry run, where one was asked for
    shares: list[tuple[str, float]]  # for how much of the time each alternate would have been on, in percent

    @property
    def rows(self) -> int:
        """How many rows its chart of alternates is made high for."""
        return min(max(len(self.alternates), 2), 6)

    @property
    def switches(self) -> list[tuple[datetime, Any]]:
        """What the dry run would have switched, the newest first."""
        changes = self.run.switches if self.run else ()
        return [(datetime.fromtimestamp(each.at_ms / 1000, UTC), each) for each in reversed(changes)][:SWITCHES_SHOWN]


@require_safe
@login_required
def dynamic(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """The page; ``try`` names the task of which the guards in the form (``guard_…``) are played over the range."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    span = chosen_or_default(request.GET, now_s=int(timezone.now().timestamp()))
    panels = [_panel(request, dataflow_id, task, span) for task in dynamic_tasks(request.viewer, dataflow_id)]
    named = [task["id"] for task in catalog.graph_of(record)["tasks"] if task["type"] == DYNAMIC]
    is_refused = any(panel.failure and panel.task.task == request.GET.get("try") for panel in panels)
    return render(request, "dynamic.html", {
        "record": record, "panels": panels, "named": named, "tried": request.GET.get("try", ""),
        "may_switch": request.viewer.has_role(record.team_id, Role.ENGINEER) and record.status == RUNNING,
        "figures": TASK_FIGURES.items(), "range_query": span.query,
        "range_fields": parse_qsl(span.query),
    }, status=400 if is_refused else 200)


@require_safe
@login_required
def dynamic_charts(request: HttpRequest, dataflow_id: UUID, task: str) -> JsonResponse:
    """The charts of one dynamic task over a range: its alternates, then what guards saw (``only`` names some)."""
    now_s = int(timezone.now().timestamp())
    found = next((each for each in dynamic_tasks(request.viewer, dataflow_id) if each.task == task), None)
    if found is None:
        raise NotFound("There is no such task with alternates that runs.",
                       remedy="Choose one on the dataflow's page.", task=task)
    span = chosen(request.GET, now_s=now_s)
    marks = marks_of(request.viewer, DATAFLOW, str(dataflow_id), begin_s=span.begin_s, end_s=span.end_s + 1)
    tried = _tried(request, found)
    run, trace = _played(request, dataflow_id, found, span, tried)
    drawn = {"marks": marks, "begin_s": span.begin_s, "end_s": span.end_s}
    would = spans_tried(run, first_on(found.alternates).name) if tried else ()
    charts = [
        alternates_figure([each.name for each in found.alternates], on=_on(found, span), trace=trace, tried=would,
                          **drawn),
        *figure_charts(trace, **drawn)]
    only = request.GET.getlist("only")
    return JsonResponse({
        "range": {"name": span.name, "title": span.title, "from_ms": 1000 * span.begin_s, "to_ms": 1000 * span.end_s,
                  "every_s": span.every_s, "step_s": 1, "over": "", "over_empty": False},
        "charts": [chart for chart in charts if not only or chart["name"] in only],
        "marks": mark_rows(group_marks(marks, span.begin_s, span.end_s))}, json_dumps_params={"separators": (",", ":")})


def _panel(request: HttpRequest, dataflow_id: UUID, task: DynamicTask, span: ChosenRange) -> ElementPanel:
    """Guards that are tried and cannot be read are told, and the charts are of those in force."""
    types, tried = jobs.task_types(), _tried(request, task)
    failure = None
    try:
        run, trace = _played(request, dataflow_id, task, span, tried)
    except InvalidGuard as error:
        failure, run, trace = error, None, None
    if trace is None and tried:
        with suppress(InvalidGuard):
            _, trace = _played(request, dataflow_id, task, span, {})
    whole = sum(run.on_ms.values()) if run else 0
    return ElementPanel(
        task,
        [(each, tried.get(each.name, each.guard), types[each.type].cost_us if each.type in types else None)
         for each in task.alternates],
        chart_names(trace) if trace else [], _charts_address(dataflow_id, task, tried if run else {}),
        held_until([(str(dataflow_id), task.task)], at=timezone.now()), failure, run if tried else None,
        [(name, 100 * ms / whole) for name, ms in run.on_ms.items()] if run and whole else [])


def _charts_address(dataflow_id: UUID, task: DynamicTask, tried: Mapping[str, str]) -> str:
    address = reverse("dynamic_charts", args=[dataflow_id, task.task])
    guards = {f"guard_{name}": guard for name, guard in tried.items()}
    return f"{address}?{urlencode({'try': task.task, **guards})}" if tried else address


def _tried(request: HttpRequest, task: DynamicTask) -> Mapping[str, str]:
    """The guards in the form, by alternate; none where this task's are not tried."""
    if request.GET.get("try") != task.task:
        return {}
    return {each.name: request.GET.get(f"guard_{each.name}", each.guard) for each in task.alternates}


def _played(
    request: HttpRequest, dataflow_id: UUID, task: DynamicTask, span: ChosenRange, guards: Mapping[str, str]
) -> tuple[GuardDryRun, GuardTrace]:
    """The guards in force, but for those given, over a range; of a longer one over its last week."""
    return replayed(
        request.viewer, dataflow_id, task.task, begin_s=max(span.begin_s, span.end_s - LONGEST_S), end_s=span.end_s,
        guards=guards)


def _on(task: DynamicTask, span: ChosenRange) -> list[AlternateSpan]:
    """Which alternate was on when; nothing where the broker cannot be asked."""
    try:
        [noted] = with_switches([task])
    except jobs.BrokerAway:
        return []
    return spans_on(noted.switches, begin_ms=1000 * span.begin_s, end_ms=1000 * span.end_s)

