"""The estate: what runs, against what would run without sharing, on which slots, and how well."""

from __future__ import annotations

from django.conf import settings
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.audit import selectors as trail
from dashboard.catalog.lifecycle import RUNNING
from dashboard.operations import selectors as operations
from dashboard.operations.diagnosis.fragmentation_reader import fragmentations
from dashboard.operations.diagnosis.health import verdict_of
from dashboard.operations.latency_control.latency_view import worst_states
from dashboard.operations.live_view.survival import more_in_words
from dashboard.pages.finding_rows import finding_rows
from scheduler.latency.limits_met import MET
from scheduler.model.fragment import node_of

RECENT = 8
LISTED = 25  # dataflows on the first page
PER_PAGE = 50
BOOKKEEPING = (
    "dataflow.store", "proposal.prepare", "proposal.overtaken", "proposal.renew", "plan.carry_over", "plan.renew",
    "controller.asked", "controller.enacting", "controller.checking", "controller.withdrawing", "controller.carry_out",
    "estate.set")
SPARK_MINUTES = 15


@require_safe
def estate(request: HttpRequest) -> HttpResponse:
    """The first page."""
    document = operations.live_estate(request.viewer)
    counts = document["counts"]
    limits = worst_states(document["dataflows"])
    late = {row["name"]: row for row in document["health"].values() if row["part"] == "limit"}
    waiting = sum(state != MET and key not in late for key, state in limits.items())
    rows = [{"id": key, "limit": late.get(key), **row} for key, row in document["dataflows"].items()]
    return render(request, "estate.html", {
        "doc": document,
        "counts": counts, "one_more": more_in_words(counts),
        "limits": len(limits), "limits_settled": (settled := len(limits) - waiting), "limits_waiting": waiting,
        "limits_held": settled - len(late),
        "limits_late": any(row["severity"] != "note" for row in late.values()),
        "saved": counts["without_reuse"] - counts["running_tasks"],
        "rows": listed(rows), "more": max(0, len(rows) - LISTED),
        "slots": [{"name": key, "node": node_of(key), "index": int(key.rpartition("/")[2]), **row,
                   "of_mb": _memory(document, key)}
                  for key, row in document["slots"].items()],
        "spares": [{"node": name, **node["spare"]} for name, node in document["nodes"].items() if node["spare"]],
        "health": finding_rows(document["health"].values()),
        "failing": sum(1 for row in document["health"].values() if row["part"] == "query" and row["severity"] == "bad"),
        "verdict": verdict_of(document),
        "activity": _activity(request),
        "live_topic": "estate",
    })


@require_safe
def estate_history(request: HttpRequest) -> JsonResponse:
    """Events per second over the last minutes, for the line beside the figure."""
    return JsonResponse(operations.estate_history(request.viewer, minutes=SPARK_MINUTES))


@require_safe
def fragmentation(request: HttpRequest) -> HttpResponse:
    """The fragmentation of running dataflows, the most fragmented first."""
    rows = fragmentations(request.viewer)
    page = Paginator(rows, PER_PAGE).get_page(request.GET.get("page"))
    return render(request, "fragmentation.html", {
        "page": page, "rows": page.object_list, "total": len(rows), "currency": settings.CURRENCY,
        "fragmented": sum(1 for row in rows if row["steps"]),
    })


def listed(rows: list[dict]) -> list[dict]:
    """All dataflows by team and name; where they are too many, those with something wrong, then the busiest."""
    if len(rows) > LISTED:
        rows = sorted(rows, key=lambda row: (
            row["status"] == RUNNING and row["state"] == RUNNING and row["limit"] is None,
            -(row["events_in_per_s"] or 0.0), row["name"]))[:LISTED]
    return sorted(rows, key=lambda row: (row["team"], row["name"]))


def _activity(request: HttpRequest) -> object:
    """Recent actions of people and Weir, without the bookkeeping in between and roles that Weir set; the audit trail
    has it all."""
    entries = trail.entries_for(request.viewer).exclude(verb__startswith="plan.")
    return entries.exclude(verb__in=BOOKKEEPING).exclude(actor=None, verb__startswith="team.")[:RECENT]


def _memory(document: dict, slot: str) -> float | None:
    """A slot's even share of its node's memory, where the node tells it."""
    node = node_of(slot)
    total = document["nodes"].get(node, {}).get("memory_mb")
    slots = sum(1 for name in document["slots"] if node_of(name) == node)
    return total / slots if total else None
