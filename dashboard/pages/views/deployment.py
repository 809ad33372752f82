"""Deployment: which slot runs which query, what passes between slots, and moving a query to another slot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from dashboard.approvals import services
from dashboard.approvals.move_previews import MovePreview, deployment_with_suggestion, preview_of
from dashboard.approvals.recent_moves import recent_moves
from dashboard.catalog import selectors as catalog
from dashboard.operations.live_view.deployment_reader import thresholds
from dashboard.pages import flash
from dashboard.pages.charts import CHARTS
from scheduler.history.series import ESTATE
from scheduler.model.errors import WeirError

PAIRS_SHOWN = 100


@require_safe
def deployment(request: HttpRequest) -> HttpResponse:
    """Slots with their queries, the traffic between them, a move that is worth it, and what a chosen one would bring.
    """
    rows = deployment_with_suggestion(request.user)
    for slot in rows["slots"]:
        for query in slot["queries"]:
            query["refusing"] = [
                other_row["slot"] for other_row in rows["slots"]
                if other_row is not slot and other_row["slot"] not in query["targets"]]
    names = {query["id"]: query["name"] for slot in rows["slots"] for query in slot["queries"]}
    placed = {query["id"]: f"{query['name']} on {slot['slot']}" for slot in rows["slots"] for query in slot["queries"]}
    preview, suggestion = _preview(request), rows["suggestion"]
    return render(request, "deployment.html", {
        "deployment": rows, "suggestion": suggestion, "preview": preview, "matrix": _matrix(rows),
        "previewed": _named(preview, names), "suggested": _named(suggestion and suggestion.move, names),
        "thresholds": thresholds(), "between_nodes_percent": 100 * rows["between_nodes"],
        "pairs": [row | {"kb_per_s": row["bytes_per_s"] / 1000, "source": placed.get(row["source"], row["source"]),
                         "target": placed.get(row["target"], row["target"])} for row in rows["pairs"][:PAIRS_SHOWN]],
        "more_pairs": max(0, len(rows["pairs"]) - PAIRS_SHOWN),
        "moves": recent_moves(request.viewer), "rate": CHARTS[ESTATE][0]})


def _named(move: MovePreview | None, names: Mapping[str, str]) -> list[str]:
    """The queries of a move by their tasks."""
    return [names.get(query, query) for query in (move.query, *move.along)] if move else []


def _preview(request: HttpRequest) -> MovePreview | None:
    """The effects of the move that the address names; None where it names none."""
    chosen = request.GET
    if not all(chosen.get(name) for name in ("dataflow", "query", "slot")):
        return None
    try:
        return preview_of(
            request.user, chosen["dataflow"], query=chosen["query"], slot=chosen["slot"],
            along=chosen.getlist("along"))
    except WeirError as error:
        flash.failure(request, error)
        return None


@require_POST
def dataflow_move(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """Propose that one of a dataflow's queries, or several, go on in another slot."""
    catalog.dataflow(request.viewer, dataflow_id)
    try:
        proposal = services.move_query(
            actor=request.user, dataflow_id=dataflow_id, query=request.POST.get("query", ""),
            slot=request.POST.get("slot", ""), along=request.POST.getlist("along"))
    except WeirError as error:
        flash.failure(request, error)
        return redirect("deployment")
    flash.proposed(request, proposal)
    return redirect("proposal", proposal.pk)


def _matrix(rows: dict[str, Any]) -> dict[str, Any]:
    """Traffic in kB a second by pair of slots, for the slots that exchange something."""
    rates = {(row["source"], row["target"]): row["bytes_per_s"] / 1000 for row in rows["traffic"]}
    slots = sorted({slot for pair in rates for slot in pair})
    return {"columns": slots, "rows": [
        {"slot": source, "values": [rates.get((source, target), 0.0) for target in slots]} for source in slots]}
