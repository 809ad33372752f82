"""The newest events of streams: of a running task, and of a document's tasks beside the editor."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.explorer import source_looks, stream_searches, streams
from dashboard.pages.event_table import event_table
from dashboard.teams import selectors as teams
from dashboard.teams.models import Team
from scheduler.contracts.looks import FAILED, WAITS_S
from scheduler.model.errors import NotFound, WeirError

WORDS = {
    streams.RUNS: "runs", streams.RESTS: "paused", streams.RECORDED: "recorded", streams.NOT_YET: "does not run yet"}


@require_safe
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
def search_begin(request: HttpRequest, task_id: str) -> JsonResponse:
    """Search a running task's stream: the address of the results, or why it is not searched."""
    try:
        search_id = stream_searches.begin_search(
            actor=request.user, task_id=task_id, where=request.POST.get("where", ""))
    except NotFound:
        raise
    except WeirError as error:
        return JsonResponse({"address": "", "html": render_to_string("parts/events.html", {"problem": error})})
    return JsonResponse({"address": reverse("search", args=[search_id])})


@require_safe
def search(request: HttpRequest, search_id: str) -> HttpResponse:
    """The results of a search so far, as a table; it looks at what came since the last question."""
    try:
        progress = stream_searches.search(request.viewer, search_id)
    except NotFound:
        raise
    except WeirError as error:
        return render(request, "parts/events.html", {"problem": error})
    return render(request, "parts/search.html", {
        "search": progress, **event_table(progress.events, progress.types)})


@require_POST
def document_streams(request: HttpRequest) -> JsonResponse:
    """The streams of a document that is being written: of each task its state, and where its events are, or a table."""
    of_document = streams.streams_of(
        team_to_submit_for(request), request.POST.get("text", ""), format=request.POST.get("format") or None)
    return JsonResponse({"streams": [_row(request, stream) for stream in of_document]})


@require_POST
def look_begin(request: HttpRequest) -> JsonResponse:
    """Look at a live source of a document that is being written: the address of the results, or why there are none."""
    team = team_to_submit_for(request)
    try:
        look_id = source_looks.begin_look(
            actor=request.user, team=team, text=request.POST.get("text", ""),
            format=request.POST.get("format") or None, task_id=request.POST.get("task", ""))
    except WeirError as error:
        return JsonResponse({"address": "", "html": _look_html(request, {"problem": error})})
    return JsonResponse({
        "address": reverse("look", args=[look_id]), "end": reverse("look_end", args=[look_id]),
        "html": _look_html(request, {"is_under_way": True})})


@require_safe
def look(request: HttpRequest, look_id: str) -> JsonResponse:
    """The events of a look so far, as a table, and whether it is over; who asks again goes on looking."""
    try:
        source_look = source_looks.look(request.viewer, look_id)
    except WeirError as error:
        return JsonResponse({"over": True, "html": _look_html(request, {"problem": error})})
    return JsonResponse({"over": source_look.is_over, "html": _look_html(request, shown_look(source_look))})


def shown_look(source_look: source_looks.Look) -> dict[str, Any]:
    """The parts of ``parts/look.html`` for a look."""
    context: dict[str, Any] = {"look": source_look, "is_under_way": not source_look.is_over, "waits_s": WAITS_S}
    if source_look.state == FAILED:
        return {**context, "problem": source_look}
    return {**context, **event_table(source_look.events, source_look.types)}


@require_POST
def look_end(request: HttpRequest, look_id: str) -> HttpResponse:
    """End a look: who looked has left."""
    source_looks.end_look(request.viewer, look_id)
    return HttpResponse(status=204)


def team_to_submit_for(request: HttpRequest) -> Team:
    """The team that the document would be submitted for."""
    team = teams.teams_to_submit_for(request.viewer).filter(slug=request.POST.get("team", "")).first()
    if team is None:
        raise NotFound("You cannot submit for that team.", remedy="Choose one of yours.")
    return team


def _look_html(request: HttpRequest, context: dict[str, Any]) -> str:
    return render_to_string("parts/look.html", context, request=request)


def _row(request: HttpRequest, stream: streams.ShownStream) -> dict[str, str]:
    runs = stream.state == streams.RUNS
    context = {
        "task": stream.task, "note": stream.note, "remedy": stream.remedy, "recorded": stream.events,
        **event_table(stream.events, stream.columns.types)}
    return {
        "task": stream.task, "type": stream.type, "state": stream.state, "words": WORDS[stream.state],
        "address": reverse("running_task_events", args=[stream.running]) if runs else "",
        "look": stream.look,
        "page": reverse("running_task", args=[stream.running]) if stream.running else "",
        "html": "" if runs else render_to_string("parts/events.html", context, request=request)}
