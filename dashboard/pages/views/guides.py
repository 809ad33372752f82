"""Help: the project's documents, short guides first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from dashboard.pages import markdown

DOCS = settings.ROOT / "docs"


@dataclass(frozen=True, slots=True)
class Guide:
    """A document by its place in the address and below ``docs``."""

    slug: str
    title: str
    path: PurePosixPath


def _guide(slug: str, title: str) -> Guide:
    return Guide(slug, title, PurePosixPath("guide", f"{slug}.md"))


def _reference(name: str, title: str) -> Guide:
    return Guide(f"{name.replace('_', '-')}-reference", title, PurePosixPath(f"{name}.md"))


GUIDES = (
    _guide("start", "Getting started"), _guide("documents", "Writing a dataflow"), _guide("reuse", "What is shared"),
    _guide("review", "Proposals and review"), _guide("profiles", "What tasks use"),
    _guide("schedules", "Slots for a rate"), _guide("live", "Live figures and failures"),
    _guide("dynamic", "Tasks done in several ways"), _guide("adaptation", "The most value for the money"),
    _guide("time", "Charts, problems and the wall"), _guide("bills", "Who pays"),
)
REFERENCES = (
    Guide("words", "Words", PurePosixPath("words.md")), _reference("dataflow_format", "Dataflow format"),
    _reference("dynamic", "Dynamic dataflows"), _reference("guards", "Guards"),
    _reference("demand_response", "Demand response"), _reference("adaptation", "Adaptation"),
    _reference("reuse", "Reuse"), _reference("approvals", "Approvals"), _reference("schedules", "Schedules"),
    _reference("profiles", "Profiles"), _reference("scheduling", "Scheduling"),
    _reference("controllers", "Controllers"), _reference("bills", "Bills"), _reference("alerts", "Alerts"),
    _reference("api", "API"),
    _reference("task_types", "Task types"), _reference("operations", "Operations"),
    _reference("settings", "Settings"), _reference("security", "Security"),
    _reference("architecture", "Architecture"), _reference("engine", "Engine"),
    _reference("channels", "Channels"),
)


@require_safe
def help_index(request: HttpRequest) -> HttpResponse:
    """The first guide."""
    return redirect("help_guide", GUIDES[0].slug)


@require_safe
def help_guide(request: HttpRequest, slug: str) -> HttpResponse:
    """One document, with the list of all."""
    guide = next((guide for guide in (*GUIDES, *REFERENCES) if guide.slug == slug), None)
    if guide is None:
        raise Http404(slug)
    path = DOCS / guide.path
    return render(request, "help.html", {
        "guide": guide, "guides": GUIDES, "references": REFERENCES,
        "content": _content(guide, path, path.stat().st_mtime_ns),
    })


@lru_cache(maxsize=64)
def _content(guide: Guide, path: Path, modified_ns: int) -> SafeString:
    """A document as HTML; ``modified_ns`` is its time of change, so that a changed one is rendered again."""
    addresses = {page.path: reverse("help_guide", args=[page.slug]) for page in (*GUIDES, *REFERENCES)}
    return markdown.render(
        path.read_text(encoding="utf-8"),
        address_of=lambda target: markdown.site_address(target, document=guide.path, addresses=addresses))
