"""The newest events of streams: of a running task, and of a document's tasks beside the editor."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.explorer import streams
from dashboard.pages.event_table import event_table
from dashboard.teams import selectors as teams
from scheduler.model.errors import NotFound, WeirError

WORDS = {
    streams.RUNS: "runs", streams.RESTS: "paused", streams.RECORDED: "recorded", streams.NOT_YET: "does not run yet"}


@require_safe
@login_required
def running_task_events(request: HttpRequest, task_id: str) -> HttpResponse:
    """The newest events of a running task's stream, as a table; who asks again goes on looking."""
    context: dict[str, Any] = {}
    try:
        newest = streams.stream_events(request.viewer, task_id)
        context |= event_table(newest.events, newest.types)
    except NotFound:
        raise
    except WeirError as error:
        context["problem"] = error
    return render(request, "parts/events.html", context)


@require_POST
@login_required
def document_streams(request: HttpRequest) -> JsonResponse:
    """The streams of a document that is being written: of each task its state, and where its events are, or a table."""
    team = teams.teams_to_submit_for(request.viewer).filter(slug=request.POST.get("team", "")).first()
    if team is None:
        raise NotFound("You cannot submit for that team.", remedy="Choose one of yours.")
    of_document = streams.streams_of(team, request.POST.get("text", ""), format=request.POST.get("format") or None)
    return JsonResponse({"streams": [_row(request, stream) for stream in of_document]})


def _row(request: HttpRequest, stream: streams.Stream) -> dict[str, str]:
    runs = stream.state == streams.RUNS
    context = {
        "task": stream.task, "note": stream.note, "remedy": stream.remedy, "recorded": stream.events,
        **event_table(stream.events, stream.columns.types)}
    return {
        "task": stream.task, "type": stream.type, "state": stream.state, "words": WORDS[stream.state],
        "address": reverse("running_task_events", args=[stream.running]) if runs else "",
        "page": reverse("running_task", args=[stream.running]) if stream.running else "",
        "html": "" if runs else render_to_string("parts/events.html", context, request=request)}
