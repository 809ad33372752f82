"""Pages of the estate's parts over time: a query, a stream, a slot, a node, the estate; its problems, and the wall."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.approvals.drains import drain_of
from dashboard.controllers.adaptation_told import told_speed
from dashboard.operations import elements as parts
from dashboard.operations import selectors as operations
from dashboard.operations.diagnosis.health import verdict_of
from dashboard.operations.diagnosis.problems import EstateProblem
from dashboard.operations.diagnosis.problems import problems as problems_of
from dashboard.operations.live_view.estate_view import View
from dashboard.operations.live_view.findings import NOTE, verdict
from dashboard.operations.live_view.query_names import names_of_queries
from dashboard.operations.services import NothingElsewhere, drain_node, undrain_node
from dashboard.pages import flash
from dashboard.pages.charts import CHARTS
from dashboard.pages.finding_rows import element_url, finding_rows, moment_of, slot_url, url_of_part
from scheduler.history.series import ESTATE, QUERY
from scheduler.model.errors import PermissionDenied

LINKED = 12  # dataflows of a problem by name; of more only how many
LISTED = 100
STEADY = {"new": "just begun", "lasting": "lasts", "comes_and_goes": "comes and goes"}
WAYS = {"worse": "getting worse", "better": "getting better", "same": "stable"}


@require_safe
def query(request: HttpRequest, query_id: str) -> HttpResponse:
    """One query: how it does, its batches by phase, its newest error with the traceback, and its log."""
    shown = parts.query_of(request.viewer, query_id)
    return render(request, "elements/query.html", {
        "query": shown, "report": shown.report, "since": moment_of(shown.report.since_ms),
        "retry_at_ms": shown.report.retry_at_ms, "slot_url": slot_url(shown.slot)})


@require_safe
def stream(request: HttpRequest, parent: str, child: str) -> HttpResponse:
    """One stream between two running tasks."""
    return render(request, "elements/stream.html", {
        "stream": parts.stream_of(request.viewer, parent, child), "subject": f"{parent}>{child}"})


@require_safe
def slot(request: HttpRequest, node: str, index: int) -> HttpResponse:
    """One slot: its queries, its load and its findings."""
    shown = parts.slot_of(request.viewer, f"{node}/{index}")
    return render(request, "elements/slot.html", {
        "spark_page": reverse("driver_page", args=[node, index])
        if shown.report.has_spark_page and request.viewer.administers else "",
        "log_page": reverse("process_log", args=[node, str(index)]) if request.viewer.administers else "",
        "slot": shown, "report": shown.report, "since": moment_of(shown.report.since_ms),
        "problems": finding_rows(map(asdict, shown.findings)), "live_topic": "estate"})


@require_safe
def node(request: HttpRequest, node: str) -> HttpResponse:
    """One node: its slots, what they take together, and what is wrong."""
    shown = parts.node_place(request.viewer, node)
    return render(request, "elements/node.html", {
        "node": shown, "report": shown.report, "if_lost": shown.if_lost,
        "speed": told_speed(node),
        "slots": [{"name": key, "report": report, "url": slot_url(key)} for key, report in shown.slots],
        "drain": drain_of(node, request.viewer), "may_drain": request.viewer.administers,
        "problems": finding_rows(map(asdict, shown.findings)), "live_topic": "estate"})


@require_POST
def drain(request: HttpRequest, node: str) -> HttpResponse:
    """Drain a node, or use it again."""
    change = undrain_node if request.POST.get("back") else drain_node
    try:
        change(name=node, actor=request.user)
    except (NothingElsewhere, PermissionDenied) as error:
        flash.failure(request, error)
    return redirect("node", node)


@require_safe
def estate_time(request: HttpRequest) -> HttpResponse:
    """The estate over time."""
    return render(request, "elements/estate_time.html")


@require_safe
def problems(request: HttpRequest) -> HttpResponse:
    """The findings, the worst first, the recent ones, and the newest errors of queries."""
    report = problems_of(request.viewer)
    live = {"available": report.view.reading.available, "reason": report.view.reading.reason}
    rows = [_row(report.view, problem) for problem in report.now[:LISTED]]
    named = names_of_queries(report.view, {error.fragment for error in report.errors})
    return render(request, "problems.html", {
        "rows": rows, "left": max(0, len(report.now) - LISTED), "live": live,
        "verdict": verdict((problem.finding.severity for problem in report.now), is_heard=live["available"]),
        "past": [{"row": row, "begun": moment_of(row.begun_s and 1000 * row.begun_s),
                  "over": moment_of(1000 * row.over_s), "url": element_url(row.kind, row.subject)}
                 for row in report.past],
        "errors": [{"error": error, "name": named[error.fragment],
                    "url": reverse("query", args=[error.fragment]),
                    "dataflows": _users(report.view, error.fragment)} for error in report.errors],
        "runs": bool(report.view.records), "live_topic": "estate"})


@require_safe
def wall(request: HttpRequest) -> HttpResponse:
    """The screen on the wall: how much flows, how well, and what is wrong; no navigation."""
    document = operations.live_estate(request.viewer)
    return render(request, "wall.html", {
        "doc": document, "counts": document["counts"], "health": list(document["health"].values())[:4],
        "verdict": verdict_of(document),
        "wall_charts": [(chart.name, chart.title) for chart in CHARTS[ESTATE][:2]], "live_topic": "estate"})


def _row(view: View, problem: EstateProblem) -> dict[str, Any]:
    finding, course = problem.finding, problem.course
    direction = "" if finding.severity == NOTE else problem.direction  # a note is no harm that grows
    subjects = {*problem.causes, *([problem.subject] if problem.kind == QUERY else [])}
    named = names_of_queries(view, subjects)
    return {
        "finding": finding, "since": moment_of(course.since_s and 1000 * course.since_s),
        "steady": STEADY[course.kind], "course": course, "way": WAYS.get(direction, ""),
        "name": named.get(problem.subject, problem.name),
        "direction": direction, "url": url_of_part(finding.part, finding.name),
        "causes": [{"name": named[query_id], "url": reverse("query", args=[query_id])} for query_id in problem.causes],
        "slot_url": slot_url(finding.slot) if finding.slot and finding.slot != finding.name else "",
        "dataflows": finding.dataflows[:LINKED], "more": max(0, len(finding.dataflows) - LINKED),
        "traceback": problem.traceback}


def _users(view: View, query_id: str) -> list[dict[str, str]]:
    fragment = view.fragment_of.get(query_id)
    return view.users(fragment.active_tasks)[:LINKED] if fragment is not None else []
