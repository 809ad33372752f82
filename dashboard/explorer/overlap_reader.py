"""Overlap between the dataflows that run: the heat map's figures, the strongest pairs, and one pair."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import numpy as np
from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import dataflow_for, visible_to
from dashboard.explorer.generation_cache import cached
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.operations.models import RunningTaskRow, Use
from dashboard.plans.dataflow_figures import task_figures
from dashboard.teams.permissions import Viewer
from scheduler.model.cost_figures import total_cost
from scheduler.model.errors import NotFound
from scheduler.reuse.overlap import cluster_order, share_of_smaller, shared_tasks

MOST_DATAFLOWS = 500

Measure = Literal["shared", "share"]


@dataclass(frozen=True, slots=True)
class Compared:
    """A dataflow of the map."""

    id: str
    name: str
    team: str
    tasks: int
    matches: bool  # it is what was asked for, not only a neighbour of that


@dataclass(frozen=True)
class OverlapMap:
    """Dataflows in an order that shows clusters, and the tasks that each two share.

    ``shared`` has each dataflow's own tasks on its diagonal; a pair of which neither was asked for has 0.
    """

    dataflows: tuple[Compared, ...]
    shared: np.ndarray
    share: np.ndarray  # of the smaller one's tasks
    running: int  # dataflows that run, as far as the viewer may know
    matching: int  # of these, what was asked for

    @property
    def left_out(self) -> int:
        """Dataflows that were asked for and found no room."""
        return self.matching - sum(compared.matches for compared in self.dataflows)

    def pairs(self, *, by: Measure = "shared") -> np.ndarray:
        """Positions of the pairs that share something, strongest first, one row each."""
        row_index, column_index = np.nonzero(np.triu(self.shared, 1))
        first, second = (self.shared, self.share) if by == "shared" else (self.share, self.shared)
        order = np.lexsort((column_index, row_index, -second[row_index, column_index], -first[row_index, column_index]))
        return np.stack((row_index[order], column_index[order]), axis=1)


def running_dataflows(viewer: Viewer) -> QuerySet[DataflowRecord]:
    """Dataflows in the estate that the viewer may know of."""
    uses = Use.objects.filter(dataflow=OuterRef("pk"))
    return DataflowRecord.objects.filter(visible_to(viewer)).filter(Exists(uses))


def overlap_map(viewer: Viewer, *, team: str = "", search: str = "") -> OverlapMap:
    """The shared tasks of the dataflows of a team, or of a search, with each other and with everybody else.

    At most ``MOST_DATAFLOWS`` are compared: those that share the most.
    """
    words = tuple(search.replace("\0", "").split()[:8])
    return cached(("overlap", viewer.scope, team, words), lambda: _build(viewer, team, words))


def _build(viewer: Viewer, team: str, words: Sequence[str]) -> OverlapMap:
    running = running_dataflows(viewer)
    selected = running.filter(team__slug=team) if team else running
    for word in words:
        selected = selected.filter(Q(name__icontains=word) | Q(team__name__icontains=word))
    matching = selected.count()
    chosen = (
        set(selected.values_list("pk", flat=True)) if matching <= MOST_DATAFLOWS else _sharing_most(running, selected)
    )
    neighbours = _neighbours(running, selected, room=MOST_DATAFLOWS - len(chosen)) if team or words else set()
    records = list(DataflowRecord.objects.filter(pk__in=chosen | neighbours).select_related("team").order_by(
        "team__name", "name", "pk"))
    tasks_of = _tasks_of(record.pk for record in records)
    shared = shared_tasks([tasks_of[record.pk] for record in records])
    order = list(cluster_order(share_of_smaller(shared)))
    compared = tuple(
        Compared(id=str(record.pk), name=record.name, team=record.team.name, tasks=len(tasks_of[record.pk]),
                 matches=record.pk in chosen)
        for record in (records[position] for position in order))
    shared = shared[np.ix_(order, order)]
    share = share_of_smaller(shared)
    beside = ~np.array([compared_row.matches for compared_row in compared], dtype=bool)
    hidden = np.logical_and.outer(beside, beside)
    np.fill_diagonal(hidden, False)
    shared[hidden], share[hidden] = 0, 0.0
    return OverlapMap(
        dataflows=compared, shared=shared, share=share, running=running.count(), matching=matching)


def _tasks_of(dataflow_ids: Iterable[UUID]) -> dict[UUID, set[str]]:
    tasks: dict[UUID, set[str]] = {dataflow_id: set() for dataflow_id in dataflow_ids}
    uses = Use.objects.filter(dataflow__in=list(tasks)).order_by().values_list("dataflow_id", "running_task_id")
    for dataflow_id, running_task in uses.iterator(chunk_size=5000):
        tasks[dataflow_id].add(running_task)
    return tasks


def _sharing_most(running: QuerySet, selected: QuerySet) -> set[UUID]:
    """The dataflows of too many that share the most tasks with any other that the viewer may know of."""
    several = Use.objects.filter(dataflow__in=running).order_by().values("running_task").annotate(
        users=Count("dataflow")).filter(users__gt=1).values("running_task")
    return _first(Use.objects.filter(dataflow__in=selected, running_task__in=several), MOST_DATAFLOWS)


def _neighbours(running: QuerySet, selected: QuerySet, *, room: int) -> set[UUID]:
    """Dataflows that share tasks with what was asked for, those that share the most first."""
    tasks = Use.objects.filter(dataflow__in=selected).values("running_task")
    beside = running.exclude(pk__in=selected.values("pk"))
    return _first(Use.objects.filter(dataflow__in=beside, running_task__in=tasks), room)


def _first(uses: QuerySet[Use], most: int) -> set[UUID]:
    counted = uses.order_by().values("dataflow").annotate(tasks=Count("id")).order_by("-tasks", "dataflow")
    return {row["dataflow"] for row in counted[:most]}


def overlap_pair(viewer: Viewer, one: UUID | str, other: UUID | str) -> dict[str, Any]:
    """Two running dataflows and what they share.

    Returns
    -------
    dict
        ``one``, ``other``: the records; ``tasks``: running tasks of either, upstream first: ``id``, ``type``,
        ``config``, ``parents``, ``one`` and ``other`` (the name there, or ""); ``shared``, ``tasks_one``,
        ``tasks_other``: how many; ``share``: of the smaller one; ``cost``: what the shared tasks cost, as a figure.
    """
    records = [dataflow_for(viewer, dataflow_id) for dataflow_id in (one, other)]
    names = [dict(Use.objects.filter(dataflow=record).values_list("running_task_id", "task_id")) for record in records]
    if records[0] == records[1] or not all(names):
        raise NotFound("At least one of these two dataflows does not run.", remedy="Choose a pair of the overlap page.")
    rows = RunningTaskRow.objects.in_bulk(list(names[0] | names[1]))
    common_names = names[0].keys() & names[1].keys()
    return {
        "one": records[0], "other": records[1],
        "tasks": [
            {"id": key, "type": rows[key].type, "config": rows[key].config, "parents": rows[key].parents,
             "one": names[0].get(key, ""), "other": names[1].get(key, "")}
            for key in names[0] | names[1]],
        "shared": len(common_names), "tasks_one": len(names[0]), "tasks_other": len(names[1]),
        "share": len(common_names) / min(len(names[0]), len(names[1])),
        "cost": total_cost(task_figures(current_estate(), sorted(common_names), records[0]).values()),
    }
