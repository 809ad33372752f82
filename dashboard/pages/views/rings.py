"""The page *Ring*: who has which keys of a task that is divided by key."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.operations.key_rings import ring_of
from dashboard.operations.selectors import one_look
from dashboard.pages.ring_drawing import arcs_of
from dashboard.pages.views.elements import slot_url


@require_safe
@one_look()
def task_ring(request: HttpRequest, task_id: str) -> HttpResponse:
    """The ring of a running task, as a drawing and as tables."""
    ring = ring_of(request.viewer, task_id)
    return render(request, "elements/ring.html", {
        "ring": ring, "arcs": arcs_of(ring.ranges), "changing": any(own.change != "stays" for own in ring.ranges),
        "rows": [{"own": own, "slot_url": slot_url(own.slot)} for own in ring.ranges],
        "zoned": any(own.zone for own in ring.ranges)})
