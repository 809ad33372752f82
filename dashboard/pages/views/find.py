"""The search over everything: dataflows, running tasks, task types, teams and help, by words of their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.http import HttpRequest, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from dashboard import jobs
from dashboard.catalog import selectors as catalog
from dashboard.catalog.lifecycle import RUNNING
from dashboard.explorer.finding import tasks_named
from dashboard.operations.selectors import live_estate
from dashboard.pages.templatetags.weir import words
from dashboard.pages.views.guides import GUIDES, REFERENCES
from dashboard.teams import selectors as teams
from dashboard.teams.permissions import Viewer

if TYPE_CHECKING:
    from dashboard.catalog.models import DataflowRecord
    from dashboard.operations.live_view.live_documents import EstateDataflow

MOST = 6  # of each group


@require_safe
def find(request: HttpRequest) -> JsonResponse:
    """The matches of ``q``, in groups of at most ``MOST``; nothing where ``q`` is empty."""
    search = request.GET.get("q", "").replace("\0", "").strip()
    groups = _groups(request.viewer, search) if search else ()
    return JsonResponse({"groups": [
        {"title": title, "items": items[:MOST]} for title, items in groups if items]})


def _groups(viewer: Viewer, search: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    records = list(catalog.dataflows(viewer, search=search, by_name=True)[:MOST])
    running = live_estate(viewer)["dataflows"] if any(record.status == RUNNING for record in records) else {}
    yield "Dataflows", [
        _item(record.name, f"{record.team} · {words(_state(record, running))}", reverse("dataflow", args=[record.pk]))
        for record in records]
    yield "Running tasks", [
        _item(task["name"], f"{task['type']} of {task['dataflow']}", reverse("running_task", args=[task["id"]]))
        for task in tasks_named(viewer, search, most=MOST)]
    yield "Task types", [
        _item(name, declared.kind, f"{reverse('task_types')}?{urlencode({'q': name})}")
        for name, declared in sorted(jobs.task_types().items()) if _matches(search, name, declared.family)]
    yield "Teams", [
        _item(team.name, team.slug, f"{reverse('teams')}#team-{team.slug}")
        for team in teams.teams(viewer) if _matches(search, team.name, team.slug)]
    yield "Help", [
        _item(guide.title, "help", reverse("help_guide", args=[guide.slug]))
        for guide in (*GUIDES, *REFERENCES) if _matches(search, guide.title)]


def _state(record: DataflowRecord, running: Mapping[str, EstateDataflow]) -> str:
    """The state that its own page shows."""
    live = running.get(str(record.pk)) if record.status == RUNNING else None
    return live["state"] if live else record.status


def _item(name: str, about: str, address: str) -> dict[str, str]:
    return {"name": name, "about": about, "url": address}


def _matches(search: str, *names: str) -> bool:
    """True if each word is in one of the names."""
    text = " ".join(names).lower()
    return all(word in text for word in search.lower().split())
