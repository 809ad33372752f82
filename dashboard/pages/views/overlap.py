"""Overlap: the heat map of what dataflows share, and one pair of them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import numpy as np
from django.conf import settings
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard import jobs
from dashboard.explorer import overlap_reader as explorer
from dashboard.pages.graphs import pair_graph
from dashboard.teams import selectors as teams

PER_PAGE = 25


@require_safe
def overlap(request: HttpRequest) -> HttpResponse:
    """The heat map, and beside it the strongest pairs as a table."""
    team, search = _team_and_search(request)
    by = "share" if request.GET.get("by") == "share" else "shared"
    overlap = explorer.overlap_map(request.viewer, team=team, search=search)
    pairs = overlap.pairs(by=by)
    page = Paginator(pairs, PER_PAGE).get_page(request.GET.get("page"))
    return render(request, "overlap.html", {
        "map": overlap, "page": page, "rows": [_row(overlap, first, second) for first, second in page.object_list],
        "pairs": len(pairs), "by": by, "search": search, "team_chosen": team, "filtered": bool(team or search),
        "teams": teams.all_teams(), "most": explorer.MOST_DATAFLOWS,
    })


@require_safe
def overlap_matrix(request: HttpRequest) -> JsonResponse:
    """The map's figures: dataflows in order, and of each row what is behind the diagonal."""
    team, search = _team_and_search(request)
    overlap = explorer.overlap_map(request.viewer, team=team, search=search)
    size = len(overlap.dataflows)
    return JsonResponse({
        "dataflows": [
            {"id": compared.id, "name": compared.name, "team": compared.team, "tasks": compared.tasks,
             "matches": compared.matches} for compared in overlap.dataflows],
        "shared": overlap.shared[np.triu_indices(size, 1)].tolist(),
    }, json_dumps_params={"separators": (",", ":")})


@require_safe
def overlap_pair(request: HttpRequest, one: UUID, other: UUID) -> HttpResponse:
    """Two dataflows, both graphs in one, and the part that they share."""
    pair = explorer.overlap_pair(request.viewer, one, other)
    return render(request, "overlap_pair.html", {
        "pair": pair, "currency": settings.CURRENCY,
        "tasks": sorted(pair["tasks"], key=lambda task: not (task["one"] and task["other"])),
    })


@require_safe
def overlap_pair_graph(request: HttpRequest, one: UUID, other: UUID) -> JsonResponse:
    """Both graphs in one, as JSON."""
    return JsonResponse(pair_graph(explorer.overlap_pair(request.viewer, one, other), task_types=jobs.task_types()))


def _team_and_search(request: HttpRequest) -> tuple[str, str]:
    return request.GET.get("team", "").strip(), request.GET.get("q", "").strip()


def _row(overlap: explorer.OverlapMap, first: int, second: int) -> dict[str, Any]:
    return {
        "one": overlap.dataflows[first],
        "other": overlap.dataflows[second],
        "shared": int(overlap.shared[first, second]),
        "share": float(overlap.share[first, second]),
    }
