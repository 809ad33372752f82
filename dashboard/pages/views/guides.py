"""Help: short guides, each a template."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe


@dataclass(frozen=True, slots=True)
class Guide:
    """A guide by its place in the address."""

    slug: str
    title: str


GUIDES = (
    Guide("start", "Getting started"),
    Guide("documents", "Writing a dataflow"),
    Guide("reuse", "What is shared"),
    Guide("review", "Proposals and review"),
    Guide("profiles", "What tasks take"),
    Guide("schedules", "Slots for a rate"),
    Guide("live", "Live figures and failures"),
    Guide("bills", "Who pays"),
)


@require_safe
@login_required
def help_index(request: HttpRequest) -> HttpResponse:
    """The first guide."""
    return redirect("help_guide", GUIDES[0].slug)


@require_safe
@login_required
def help_guide(request: HttpRequest, slug: str) -> HttpResponse:
    """One guide, with the list of all."""
    guide = next((guide for guide in GUIDES if guide.slug == slug), None)
    if guide is None:
        raise Http404(slug)
    return render(request, f"help/{guide.slug}.html", {"guide": guide, "guides": GUIDES})
