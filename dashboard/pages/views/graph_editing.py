"""The document beside its graph: what it would reuse, the graph as the text has it, edits as changes of the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.template.loader import render_to_string
from django.views.decorators.http import require_POST

from dashboard import jobs
from dashboard.approvals.near_miss_search import near_misses_in
from dashboard.approvals.savepoints_told import beginnings_told
from dashboard.catalog import selectors as catalog
from dashboard.catalog.document_checks import FORMATS
from dashboard.explorer.preview import preview_submission
from dashboard.pages.graph_forms import GraphForm, changes_to, document_of, graph_form
from dashboard.pages.graphs import preview_graph, written_graph
from dashboard.pages.views.streams import team_to_submit_for
from dashboard.teams import selectors as teams
from scheduler.model.documents import Format
from scheduler.model.text_changes import TextChange

WIDE = "\uffff"  # characters beyond count as two in a browser


@require_POST
def preview(request: HttpRequest) -> JsonResponse:
    """The reused tasks of the document if it were submitted now, or the states with which it would begin from a
    savepoint: as markup; and the graph."""
    team = team_to_submit_for(request)
    text, format = request.POST.get("text", ""), request.POST.get("format") or None
    of, savepoint = request.POST.get("of", ""), request.POST.get("from", "").strip()
    changed = catalog.dataflow(request.viewer, of) if of else None
    begun = beginnings_told(team, savepoint, text, format=format) if savepoint else None
    context: dict[str, Any] = {"begun": begun, "currency": settings.CURRENCY}
    if begun is not None and begun.refused:
        return JsonResponse({
            "html": render_to_string("parts/beginnings.html", context, request=request), "near_misses": "",
            "graph": written_graph(document_of(*_text(request)), task_types=jobs.task_types()), "reused": 0,
            "tasks": len(begun.tasks)})
    preview = context["preview"] = preview_submission(
        request.viewer, team=team, text=text, format=format, fresh=request.POST.get("fresh") == "1", changed=changed,
        begin_from=begun and begun.saved)
    context["near_misses"] = [] if changed or begun else near_misses_in(team, text, format=format)
    return JsonResponse({
        "html": render_to_string("parts/preview.html", context, request=request),
        "near_misses": render_to_string("parts/near_misses.html", context, request=request),
        "graph": preview_graph(preview, task_types=jobs.task_types()), "reused": preview.reused,
        "tasks": preview.tasks})


@require_POST
def document_graph(request: HttpRequest) -> JsonResponse:
    """The graph of a document that is being written, as its text has it."""
    team_to_submit_for(request)
    document = document_of(*_text(request))
    return JsonResponse({"graph": written_graph(document, task_types=jobs.task_types())})


@require_POST
def graph_edit(request: HttpRequest, edit: str) -> JsonResponse:
    """The form of an edit; where it is sent, the changes of the text, the graph after them and the task to choose."""
    team = team_to_submit_for(request)
    text, format = _text(request)
    document = document_of(text, format)
    secrets = [secret.name for secret in teams.secrets(team)]
    form = graph_form(edit, document, request.POST, secrets=secrets, applies=request.POST.get("apply") == "1")
    changes: Sequence[TextChange] = ()
    if form.meant is not None:
        changes, form = changes_to(text, format, form)
    if form.meant is None:
        html = render_to_string("parts/graph_form.html", {"form": form, "team": team, "chosen": form.chosen}, request)
        return JsonResponse({"html": html}, status=422 if form.errors else 200)
    return JsonResponse({
        "changes": _as_in_a_browser(text, changes), "task": form.after, "told": _edit_notes(form, document),
        "graph": written_graph(form.meant, task_types=jobs.task_types())})


def _text(request: HttpRequest) -> tuple[str, Format]:
    """The text with the ends of lines that the editor counts, which a form sends as two characters, and its format."""
    format: Any = request.POST.get("format", "")
    return request.POST.get("text", "").replace("\r\n", "\n"), format if format in FORMATS else "yaml"


def _edit_notes(form: GraphForm, document: dict[str, Any]) -> str:
    """The notes on an edit that are not seen where it was made."""
    before, after = (version.get("latency", []) for version in (document, form.meant or {}))
    before, after = (limits if isinstance(limits, list) else [limits] for limits in (before, after))
    gone = "Latency limits along its streams were removed with it." if len(after) < len(before) else ""
    return f"{form.notes} {gone}".strip()


def _as_in_a_browser(text: str, changes: Sequence[TextChange]) -> list[dict[str, Any]]:
    """Changes by the units that a browser counts text in (UTF-16)."""
    places = sorted({index for change in changes for index in (change.start, change.end)})
    counted, before, units = {}, 0, 0
    for index in places:
        units += index - before + sum(character > WIDE for character in text[before:index])
        counted[index], before = units, index
    return [{"from": counted[change.start], "to": counted[change.end], "insert": change.written} for change in changes]
