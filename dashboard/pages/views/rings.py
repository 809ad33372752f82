"""The page *Ring*: who has which keys of a task that is divided by key."""

from __future__ import annotations

from collections import Counter

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.operations.key_rings import TaskRing, ring_of
from dashboard.operations.selectors import one_look
from dashboard.pages.ring_drawing import arcs_of


@require_safe
@one_look()
def task_ring(request: HttpRequest, task_id: str) -> HttpResponse:
    """The ring of a running task, as a drawing and as tables, with its queries by their slots."""
    ring = ring_of(request.viewer, task_id)
    places = _places(ring)
    return render(request, "elements/ring.html", {
        "ring": ring, "changing": any(piece.change != "stays" for piece in ring.ranges),
        "arcs": [{"arc": arc, "place": places[arc.range.bundle]} for arc in arcs_of(ring.ranges)],
        "rows": [{"range": piece, "place": places[piece.bundle]} for piece in ring.ranges],
        "leaving": [{"range": old, "place": places[old.bundle], "to": [places.get(heir, heir) for heir in old.to]}
                    for old in ring.leaving],
        "keys": [{"key": key, "place": places.get(key.bundle, key.bundle)} for key in ring.keys],
        "zoned": any(part.zone for part in (*ring.ranges, *ring.losses))})


def _places(ring: TaskRing) -> dict[str, str]:
    """The name of each query of a ring on its page: its slot, and its number there where there are several."""
    slots = {piece.bundle: piece.slot for piece in (*ring.ranges, *ring.leaving)}
    several, met, places = Counter(slots.values()), Counter(), {}
    for bundle, slot in slots.items():
        met[slot] += 1
        places[bundle] = slot if several[slot] == 1 else f"{slot}, {met[slot]} of {several[slot]}"
    return places
