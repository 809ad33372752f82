"""The estate as one merged graph, and one running task."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard import jobs
from dashboard.explorer import merged
from dashboard.explorer import task as explorer
from dashboard.operations.elements import queries_with
from dashboard.operations.key_rings import is_ring
from dashboard.operations.selectors import one_look
from dashboard.pages.graphs import merged_graph, task_graph

COMPACT = {"separators": (",", ":")}


@require_safe
def estate_graph(request: HttpRequest) -> HttpResponse:
    """The running tasks as one graph, with the dataflows of the sheet beside it; ``q`` looks in the whole estate."""
    search = request.GET.get("q", "").strip()
    return render(request, "estate_graph.html", {
        "sheet": _sheet(request), "search": search,
        "found": merged.found_in_estate(request.viewer, search) if search else None,
    })


@require_safe
def estate_graph_json(request: HttpRequest) -> JsonResponse:
    """One sheet of the merged graph."""
    graph = merged_graph(_sheet(request), task_types=jobs.task_types())
    return JsonResponse(graph, json_dumps_params=COMPACT)


@require_safe
@one_look()
def running_task(request: HttpRequest, task_id: str) -> HttpResponse:
    """One running task: users, cost, surroundings, and what stops if it goes."""
    task = explorer.running_task(request.viewer, task_id)
    live, around = task["live"], explorer.around(request.viewer, task_id)
    return render(request, "running_task.html", {
        "task": task, "around": around, "live": live, "streams": _streams(around["tasks"], task_id),
        "queries": queries_with(request.viewer, task_id), "ring": is_ring(request.viewer, task_id),
        "declared": jobs.task_types().get(task["type"]), "currency": settings.CURRENCY,
        "more_users": task["user_count"] - len(task["users"]),
        "live_topic": f"dataflow:{live['dataflow']}" if live else None,
    })


@require_safe
def running_task_graph(request: HttpRequest, task_id: str) -> JsonResponse:
    """The graph up- and downstream of a running task."""
    return JsonResponse(task_graph(explorer.around(request.viewer, task_id), task_types=jobs.task_types()))


def _streams(around: list[dict], task_id: str) -> list[dict[str, str]]:
    """The streams that a task reads, then those that it writes, each by its ends and the name of the other one."""
    named = {task["id"]: task for task in around}
    reads = [{"parent": parent, "child": task_id, "name": named[parent]["name"]}
             for parent in named[task_id]["parents"] if parent in named]
    return reads + [{"parent": task_id, "child": task["id"], "name": task["name"]}
                    for task in around if task_id in task["parents"]]


def _sheet(request: HttpRequest) -> dict:
    number = request.GET.get("page", "1")
    return merged.sheet(
        request.viewer, number=int(number) if number.isdecimal() and len(number) < 7 else 1,
        dataflow_id=request.GET.get("dataflow", ""))
