"""The present use of CPU and memory by each dataflow: its share of every query that it works in."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dashboard.operations.live_view.estate_view import View
from scheduler.contracts.reports import QueryReport
from scheduler.model.fragment import node_of


def taken_by_dataflows(view: View) -> Mapping[str, Mapping[str, float]]:
    """``cpu`` (cores) and ``memory_mb`` by dataflow id; what nobody reports is left out.

    What a query takes is divided evenly among its working tasks, and a task's part evenly among the dataflows that
    share it: so the shares of all dataflows add up to what their queries take.
    """
    cores: dict[str, float] = {}
    memory_mb: dict[str, float] = {}
    for fragment in view.estate.fragments.values():
        parts = parts_of(fragment.active_tasks, view.estate.users)
        for bundle in fragment.queries:
            run = view.reading.reports.query(bundle.slot, bundle.id)
            if run is not None:
                _add(cores, parts, run.cpu)
                _add(memory_mb, parts, _in_mb(view, bundle.slot, run))
    return {"cpu": cores, "memory_mb": memory_mb}


def parts_of(tasks: Collection[str], users: Mapping[str, Collection[str]]) -> Mapping[str, float]:
    """The part of a query that each dataflow answers for, by its working tasks and who uses them; together 1."""
    parts: dict[str, float] = {}
    needed = [task for task in tasks if users.get(task)]
    for task in needed:
        for user in users[task]:
            parts[user] = parts.get(user, 0.0) + 1 / len(needed) / len(users[task])
    return parts


def _add(taken: dict[str, float], parts: Mapping[str, float], whole: float | None) -> None:
    if whole is not None:
        for user, part in parts.items():
            taken[user] = taken.get(user, 0.0) + part * whole


def _in_mb(view: View, slot: str, run: QueryReport) -> float | None:
    """A query's memory, which is reported as a part of its slot's, in MB."""
    node = node_of(slot)
    report = view.reading.reports.node(node)
    has_memory = run.memory is not None and report is not None and report.memory_mb and view.slots_of[node]
    return run.memory * report.memory_mb / view.slots_of[node] if has_memory else None
