"""Adaptation of a dataflow: its goals and what they cost, what it reached over time, and what was decided and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from dashboard.approvals.lifecycle import PENDING
from dashboard.approvals.selectors import review_of
from dashboard.approvals.services.machine_ordering import decline_machine, order_machine
from dashboard.catalog import selectors as catalog
from dashboard.catalog.document_checks import InvalidGoals, goals_of
from dashboard.catalog.lifecycle import RUNNING
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.services import choose_goals
from dashboard.controllers.adaptation_told import (
    ToldDecision,
    course_told,
    decisions_told,
    expected_of,
    goals_told,
    offer_told,
)
from dashboard.controllers.machines_told import machines_told, paid_between
from dashboard.operations.live_view.chart_marks import Mark, marks_of
from dashboard.pages import flash
from dashboard.pages.adaptation_charts import MACHINES, adaptation_figure, machines_figure
from dashboard.pages.adaptation_charts import adaptation_charts as charts_of
from dashboard.pages.charts import group_marks, mark_rows
from dashboard.pages.ranges import chosen
from scheduler.history.series import DATAFLOW
from scheduler.model.dataflow_goals import DataflowGoals
from scheduler.model.errors import NotFound

_ANSWERS = {"order": (order_machine, "It is ordered: its slots are used once its agent reports."),
            "decline": (decline_machine, "It is declined: no machine is recommended for a day.")}
GOALS = ("throughput", "tolerance", "most_per_hour", "least_per_hour", "hours")


@require_safe
def adaptation(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """The page."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    return render(request, "adaptation.html", {
        "record": record, "goals": goals_told(request.viewer, dataflow_id), "is_running": record.status == RUNNING,
        "decisions": [_answerable(request, decision) for decision in decisions_told(request.viewer, dataflow_id)],
        "charts": charts_of(settings.CURRENCY), "administers": request.viewer.administers,
        "ordered": machines_told(with_errors=request.viewer.administers)})


def _answerable(request: HttpRequest, decision: ToldDecision) -> dict[str, Any]:
    """A decision, and whether the viewer may carry it out or decline it now."""
    proposal = getattr(decision.row, "proposal", None)
    review = {} if proposal is None or proposal.status != PENDING else review_of(request.viewer, proposal)
    return {"row": decision.row, "why": decision.why, "looked_at": decision.looked_at,
            "may_approve": review.get("may_approve", False), "may_reject": review.get("may_reject", False)}


@require_POST
def machine_answer(request: HttpRequest, dataflow_id: UUID, node: str, way: str) -> HttpResponse:
    """Order a machine that is recommended, or decline it; then the page of the dataflow that it was asked from."""
    catalog.dataflow(request.viewer, dataflow_id)
    if way not in _ANSWERS:
        raise NotFound("There is no such action.", remedy="Use the buttons of the page.")
    answer, text = _ANSWERS[way]
    flash.attempt(request, lambda: answer(actor=request.user, node=node, at=timezone.now()), text=text, code=way)
    return redirect("adaptation", dataflow_id)


@require_safe
def adaptation_charts(request: HttpRequest, dataflow_id: UUID) -> JsonResponse:
    """The charts of the page over a range (``only`` names some)."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    now_s = int(timezone.now().timestamp())
    span = chosen(request.GET, now_s=now_s)
    begin_s, end_s = span.begin_s, span.end_s
    marks = [*marks_of(request.viewer, DATAFLOW, str(dataflow_id), begin_s=begin_s, end_s=end_s + 1),
             *_decided(request, dataflow_id, begin_s, end_s)]
    marks.sort(key=lambda mark: mark.at_s)
    course = course_told(request.viewer, dataflow_id, span.span(now_s=now_s))
    expected = expected_of(request.viewer, dataflow_id) if span.name else ()  # not behind a time that is long past
    only = request.GET.getlist("only")
    return JsonResponse({
        "range": {"name": span.name, "title": span.title, "from_ms": 1000 * begin_s, "to_ms": 1000 * end_s,
                  "every_s": span.every_s, "step_s": course.history.step_s, "over": "", "over_empty": False},
        "charts": [
            *(adaptation_figure(
                chart, course, record.goals_in_force, marks=marks, begin_s=begin_s, end_s=end_s, expected=expected)
              for chart in charts_of(settings.CURRENCY) if not only or chart.name in only),
            *([machines_figure(paid_between(begin_s, end_s), begin_s=begin_s, end_s=end_s)]
              if not only or MACHINES in only else [])],
        "marks": mark_rows(group_marks(marks, begin_s, end_s))}, json_dumps_params={"separators": (",", ":")})


def _decided(request: HttpRequest, dataflow_id: UUID, begin_s: int, end_s: int) -> list[Mark]:
    """Each decision of the time as a mark, with its reasons."""
    decided = decisions_told(request.viewer, dataflow_id)
    name = catalog.dataflow(request.viewer, dataflow_id).name
    return [Mark(int(decision.row.begun.timestamp()), "decision", DATAFLOW, name, decision.why, "change")
            for decision in decided if begin_s <= decision.row.begun.timestamp() <= end_s]


@require_POST
def dataflow_goals(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """Choose the goals of a dataflow."""
    record, way = catalog.dataflow(request.viewer, dataflow_id), request.POST.get("as", "")
    flash.attempt(
        request, lambda: choose_goals(
            actor=request.user, dataflow_id=record.pk, goals=None if way else goals_of(_goals_in_form(request.POST)),
            as_document=way == "document"),
        text=_chosen_in_words, code="goals")
    return redirect("dataflow", dataflow_id)


@require_safe
def dataflow_goals_prices(request: HttpRequest, dataflow_id: UUID) -> JsonResponse:
    """The cost and the effect of goals at the present load; ``why`` where that is not known."""
    catalog.dataflow(request.viewer, dataflow_id)
    try:
        return JsonResponse(offer_told(request.viewer, dataflow_id, goals_of(_goals_in_form(request.GET))))
    except (NotFound, InvalidGoals) as error:
        return JsonResponse({"why": error.full_message})


def goals_form(state: Mapping[str, Any]) -> dict[str, float]:
    """The values and ends of the sliders: to four times what is spent or allowed now."""
    goals = state["goals"] or {}
    spent = 0.0 if state["now"] is None else state["now"]["per_hour"]
    usual = DataflowGoals(most_per_hour=max(2 * spent, settings.CORE_HOUR_PRICE, 0.001))
    form = {name: goals.get(name, getattr(usual, name)) for name in GOALS}
    end = 4 * max(spent, form["most_per_hour"])
    return {**form, "end": end, "step": end / 200}


def _goals_in_form(form: Mapping[str, str]) -> dict[str, float]:
    stated_goals: dict[str, Any] = {}
    for name in GOALS:
        if form.get(name, "").strip():
            try:
                stated_goals[name] = float(form[name])
            except ValueError:
                stated_goals[name] = form[name]
    return stated_goals


def _chosen_in_words(record: DataflowRecord) -> str:
    goals = record.goals_in_force
    return f"{record.name} has no goals: adaptation leaves it alone." if goals is None else (
        f"{record.name}: {goals.words} ({settings.CURRENCY}).")
