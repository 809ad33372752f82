"""Logs: of a dataflow and its tasks, and of a process of a node; their lines as they come, and as a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from dashboard.catalog import selectors as catalog
from dashboard.operations.live_view import log_reading
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.live_view.query_names import names_of_queries
from dashboard.operations.selectors import one_look
from dashboard.pages.views.dataflows import moment_of
from dashboard.teams.permissions import require_superuser
from scheduler.model.errors import NotFound, PermissionDenied, WeirError

Read = Callable[[log_reading.LogQuestion], log_reading.ReadLog]


@require_safe
def dataflow_log(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """The log of a dataflow, or of one of its tasks."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    tasks = [task["id"] for task in catalog.graph_of(record)["tasks"]]
    return _page(request, {"record": record, "tasks": tasks, "task": request.GET.get("task", "")},
                 lines=reverse("dataflow_log_lines", args=[dataflow_id]),
                 file=reverse("dataflow_log_file", args=[dataflow_id]))


@require_safe
@one_look()
def dataflow_log_lines(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """Its newest lines; who asks again follows it."""
    return _lines(request, _of_dataflow(request, dataflow_id))


@require_safe
def dataflow_log_file(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """Its lines as a text."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    return _file(request, _of_dataflow(request, dataflow_id), f"{record.pk}.log")


@require_safe
def process_log(request: HttpRequest, node: str, process: str) -> HttpResponse:
    """The log of a slot, of a spare driver, or of the host of connectors of a node."""
    require_superuser(request.viewer)
    return _page(request, {"node": node, "process": process},
                 lines=reverse("process_log_lines", args=[node, process]),
                 file=reverse("process_log_file", args=[node, process]))


@require_safe
@one_look()
def process_log_lines(request: HttpRequest, node: str, process: str) -> HttpResponse:
    """Its newest lines; who asks again follows it."""
    return _lines(request, _of_process(request, node, process))


@require_safe
def process_log_file(request: HttpRequest, node: str, process: str) -> HttpResponse:
    """Its lines as a text."""
    return _file(request, _of_process(request, node, process), f"{node}-{process}.log")


def _of_dataflow(request: HttpRequest, dataflow_id: UUID) -> Read:
    task = request.GET.get("task", "")
    return lambda question: log_reading.dataflow_log(request.viewer, dataflow_id, question, task=task)


def _of_process(request: HttpRequest, node: str, process: str) -> Read:
    return lambda question: log_reading.process_log(request.viewer, node, process, question)


def _question(request: HttpRequest, *, count: int) -> log_reading.LogQuestion:
    return log_reading.LogQuestion(request.GET.get("level", log_reading.INFO), request.GET.get("search", ""), count)


def _page(request: HttpRequest, context: dict[str, Any], *, lines: str, file: str) -> HttpResponse:
    parameters = {name: value for name in ("task", "level", "search") if (value := request.GET.get(name, ""))}
    query = f"?{urlencode(parameters)}" if parameters else ""
    return render(request, "log.html", {
        **context, "levels": log_reading.LEVELS, "level": parameters.get("level", log_reading.INFO),
        "search": parameters.get("search", ""),
        "lines": f"{lines}{query}", "file": f"{file}{query}"})


def _lines(request: HttpRequest, read: Read) -> HttpResponse:
    context: dict[str, Any] = {}
    try:
        log = read(_question(request, count=log_reading.LINES))
        named = names_of_queries(view_for(request.viewer), {line.query for line in log.lines if line.query})
        called = {query: name for query, name in named.items() if name != query}
        context = {"log": log, "lines": [
            (line, moment_of(line.at_ms), called.get(line.query, "")) for line in reversed(log.lines)]}
    except (NotFound, PermissionDenied):
        raise
    except WeirError as error:
        context["problem"] = error
    return render(request, "parts/log_lines.html", context)


def _file(request: HttpRequest, read: Read, name: str) -> HttpResponse:
    log = read(_question(request, count=log_reading.MOST_LINES))
    return StreamingHttpResponse(log_reading.as_text(log), content_type="text/plain; charset=utf-8", headers={
        "Content-Disposition": f'attachment; filename="{name}"'})
