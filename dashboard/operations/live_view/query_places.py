"""Present place of a query: itself, or the one that took its place by a move, a fusion, a cut or another version."""

from __future__ import annotations

from dashboard.history import query_lines
from dashboard.operations.live_view.estate_view import View
from scheduler.model.fragment import Fragment, RunningBundle


def query_now(view: View, query_id: str) -> tuple[Fragment, RunningBundle] | None:
    """The fragment and the bundle of a query, or of the one that has its place; None where the viewer may know of
    neither."""
    places = {bundle.id: (fragment, bundle) for fragment in view.fragments() for bundle in fragment.queries}
    if query_id in places:
        return places[query_id]
    return next((places[heir] for heir in query_lines.after(query_id) if heir in places), None)
