"""Events that nodes reported of a dataflow's queries: failures, and readers that came too late for what they asked."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from uuid import UUID

from dashboard import jobs
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.operations.live_view.estate_view import WITHHELD, View, view_for
from dashboard.operations.live_view.query_names import names_of_queries
from dashboard.operations.live_view.query_places import query_now
from dashboard.teams.permissions import Viewer

FAILED = "fragment_failed"


@dataclass(frozen=True, slots=True)
class Notable:
    """One thing that happened to a query, in words: its ``kind``, as the node reports it, and the ``query`` by name."""

    fragment: str
    at: datetime
    what: str
    kind: str = ""
    query: str = ""


def notable_events(viewer: Viewer, dataflow_id: UUID | str) -> list[Notable]:
    """The twenty newest events of the queries that a dataflow runs in, newest first; none where the broker is away.

    The broker keeps the last thousand of the whole estate. ``NotFound`` where the viewer may not know of the dataflow.
    """
    record = dataflow_for(viewer, dataflow_id)
    estate = current_estate()
    submitted = estate.submitted.get(str(record.pk))
    if submitted is None:
        return []
    fragments = {estate.places[task_id][0] for task_id in submitted.running.values()}
    queries = {bundle.id for fragment in fragments for bundle in estate.fragments[fragment].queries}
    view = view_for(viewer)
    told_events = (_notable_of(event, view) for event in jobs.notable_events() if event.get("fragment") in queries)
    newest = list(islice((event for event in told_events if event is not None), 20))
    names = names_of_queries(view, {event.fragment for event in newest})
    return [replace(event, what=view.in_words(event.what, str(record.pk)), query=names[event.fragment])
            for event in newest]


def notable_of(view: View, queries: Collection[str], *, count: int, kind: str = "") -> list[Notable]:
    """The newest events of these queries, newest first; none where the broker is away."""
    told_events = (
        _notable_of(event, view) for event in jobs.notable_events()
        if event.get("fragment") in queries and kind in ("", event["kind"]))
    newest = islice((event for event in told_events if event is not None), count)
    return [replace(event, what=view.in_words(event.what)) for event in newest]


def _notable_of(event: dict[str, Any], view: View) -> Notable | None:
    match event["kind"]:
        case "fragment_failed" if event.get("retry_at_ms") is None:
            text = f"failed and is not tried again: {_why(event, view)}"
        case "fragment_failed":
            text = f"failed and restarts from its checkpoint: {_why(event, view)}"
        case "joined_late" if event["kept_since_ms"] is None:
            text = "asked for older events than its stream has; it has none, so the query starts with the next event"
        case "joined_late":
            since = _at(event["kept_since_ms"])
            text = f"asked for older events than its stream has; it starts with those of {since:%H:%M:%S} UTC"
        case "handed_over":
            queries = "a query" if len(event["from_"]) == 1 else f"{len(event['from_'])} queries"
            text = f"continues the work of {queries}, {event['gap_ms']} ms after that had ended"
        case "sink_found_otherwise":
            text = event["what"]
        case _:
            return None
    return Notable(event["fragment"], _at(event["at_ms"]), text, event["kind"])


def _why(event: dict[str, Any], view: View) -> str:
    place = query_now(view, event["fragment"])
    return event["error"] if place is not None and view.may_quote(place[0]) else WITHHELD


def _at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
