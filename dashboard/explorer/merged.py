"""The estate as one merged graph with the dataflows that it serves, in several sheets if it is too large for one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from dashboard.catalog.permissions import dataflow_for, visible_to
from dashboard.explorer.generation_cache import cached
from dashboard.explorer.overlap_reader import running_dataflows
from dashboard.operations.models import FragmentRow, RunningTaskRow, Use
from dashboard.teams.models import Team
from dashboard.teams.permissions import Viewer
from scheduler.reuse.outline import Outline, outline, sheets
from scheduler.reuse.running import connected_parts

MOST_TASKS = 2000
MOST_DATAFLOWS = 500
MOST_FOUND = 12


@dataclass(frozen=True)
class Shape:
    """The running tasks that a viewer may know of and how they hang together; nothing of what they are."""

    parents: Mapping[str, tuple[str, ...]]

    @cached_property
    def children(self) -> Mapping[str, tuple[str, ...]]:
        """Children by task id."""
        children: dict[str, list[str]] = {task_id: [] for task_id in self.parents}
        for task_id, above in self.parents.items():
            for parent in above:
                children[parent].append(task_id)
        return {task_id: tuple(below) for task_id, below in children.items()}

    @cached_property
    def running(self) -> list[tuple[str, ...]]:
        """The running dataflows as tuples of tasks, the largest first."""
        return sorted(connected_parts(self.parents), key=lambda part: (-len(part), part[0]))

    @cached_property
    def sheets(self) -> list[range]:
        """The running dataflows that are drawn together."""
        return sheets((len(part) for part in self.running), most=MOST_TASKS)

    def sheet_of(self, task_id: str) -> int:
        """The number of the sheet that this task is on, from 1; the first where it is on none."""
        index = next((i for i, part in enumerate(self.running) if task_id in part), 0)
        return next((number for number, sheet in enumerate(self.sheets, 1) if index in sheet), 1)


def tasks_for(viewer: Viewer) -> QuerySet[RunningTaskRow]:
    """The running tasks that a viewer may know of: the shared ones, and the private ones of the own teams."""
    if viewer.superuser:
        return RunningTaskRow.objects.all()
    teams = Team.objects.filter(pk__in=viewer.team_ids).values("slug")
    return RunningTaskRow.objects.filter(Q(scope="") | Q(scope__in=teams))


def tasks_working(viewer: Viewer) -> int:
    """The number of running tasks that the viewer may know of and that work, as on the estate's page: those that rest
    do not count.

    A task works where its fragment's working part reaches it.
    """
    active = dict(FragmentRow.objects.values_list("pk", "active"))
    places = tasks_for(viewer).exclude(fragment="").values_list("fragment", "position")
    return sum(position < active.get(fragment, 0) for fragment, position in places.iterator(2000))


def shape_for(viewer: Viewer) -> Shape:
    """The shape of what the viewer may know of, kept until the estate changes."""
    return cached(("shape", viewer.scope), lambda: Shape({
        task_id: tuple(parents)
        for task_id, parents in tasks_for(viewer).order_by("pk").values_list("pk", "parents").iterator(2000)}))


def sheet(viewer: Viewer, *, number: int = 1, dataflow_id: UUID | str = "") -> dict[str, Any]:
    """One sheet of the merged graph.

    Parameters
    ----------
    number : int
        From 1; the nearest that there is.
    dataflow_id : UUID or str
        Take the sheet that this dataflow is on instead, and show all of its part.

    Returns
    -------
    dict
        ``number``, ``sheets``; ``running_dataflows``, ``tasks_running``: in the whole estate; ``tasks``: ``id``,
        ``type``, ``config``, ``cores``, ``parents``, ``name`` (what most call it), ``users`` (how many), ``of``
        (positions in ``dataflows``); ``dataflows``: ``id``, ``name``, ``team``, ``tasks``, the largest part of the
        sheet first; ``dataflows_left_out``; ``branches``: ``parents``, ``tasks`` (how many are left out there);
        ``lit``: the id of the dataflow that was asked for, or "".
    """
    shape = shape_for(viewer)
    highlighted: set[str] = set()
    lit = ""
    if dataflow_id:
        record = dataflow_for(viewer, dataflow_id)
        uses = Use.objects.filter(dataflow=record)
        highlighted = set(uses.values_list("running_task_id", flat=True)) & set(shape.parents)
        lit = str(record.pk) if highlighted else ""
        number = shape.sheet_of(min(highlighted)) if highlighted else number
    number = max(1, min(number, len(shape.sheets) or 1))
    return cached(("sheet", viewer.scope, number, lit), lambda: _sheet(viewer, shape, number, highlighted, lit))


def found_in_estate(viewer: Viewer, search: str) -> list[dict[str, str]]:
    """Dataflows in the estate by words of their name or team: ``id``, ``name``, ``team``; the first few."""
    records = running_dataflows(viewer)
    for word in search.replace("\0", "").split()[:8]:
        records = records.filter(Q(name__icontains=word) | Q(team__name__icontains=word))
    return [
        {"id": str(record.pk), "name": record.name, "team": record.team.name}
        for record in records.select_related("team").order_by("name", "pk")[:MOST_FOUND]]


def _sheet(viewer: Viewer, shape: Shape, number: int, highlighted: set[str], lit: str) -> dict[str, Any]:
    places = shape.sheets[number - 1] if shape.sheets else range(0)
    drawn = _outline(shape, [task_id for index in places for task_id in shape.running[index]], highlighted)
    dataflows, left_out, names, of = _served(viewer, drawn.shown, lit)
    rows = RunningTaskRow.objects.in_bulk(list(drawn.shown))
    users = _users(drawn.shown)
    return {
        "number": number, "sheets": len(shape.sheets), "running_dataflows": len(shape.running),
        "tasks_running": tasks_working(viewer), "dataflows": dataflows, "dataflows_left_out": left_out, "lit": lit,
        "tasks": [
            {"id": key, "type": rows[key].type, "config": rows[key].config,
             "parents": shape.parents[key], "users": users.get(key, 0), "of": of.get(key, []),
             "name": names.get(key, rows[key].type)}
            for key in drawn.shown if key in rows],
        "branches": [{"parents": branch.parents, "tasks": branch.tasks} for branch in drawn.branches],
    }


def _outline(shape: Shape, tasks: list[str], highlighted: Collection[str]) -> Outline:
    parents = {task_id: shape.parents[task_id] for task_id in tasks}
    if len(tasks) <= MOST_TASKS:
        return outline(parents, {}, most=MOST_TASKS)
    counted = Use.objects.order_by().values("running_task").annotate(users=Count("id")).filter(users__gt=1)
    return outline(
        parents, dict(counted.values_list("running_task", "users")), most=MOST_TASKS,
        required_tasks=set(highlighted) & set(parents))


def _users(tasks: Iterable[str]) -> dict[str, int]:
    counted = Use.objects.filter(running_task__in=list(tasks)).order_by().values("running_task").annotate(n=Count("id"))
    return dict(counted.values_list("running_task", "n"))


def _served(
    viewer: Viewer, tasks: tuple[str, ...], lit: str
) -> tuple[list[dict[str, Any]], int, dict[str, str], dict[str, list[int]]]:
    """The dataflows with the largest parts here, how many more there are, names of tasks, and who uses which."""
    uses = Use.objects.filter(visible_to(viewer, through="dataflow__"), running_task__in=list(tasks)).order_by()
    counted = uses.values("dataflow", "dataflow__name", "dataflow__team__name").annotate(tasks=Count("id"))
    largest = list(counted.order_by("-tasks", "dataflow__name", "dataflow")[:MOST_DATAFLOWS])
    if lit and all(str(row["dataflow"]) != lit for row in largest):
        largest += list(counted.filter(dataflow=lit))
    position = {row["dataflow"]: index for index, row in enumerate(largest)}
    total = counted.count() if len(largest) >= MOST_DATAFLOWS else len(largest)
    called: dict[str, Counter[str]] = {}
    of: dict[str, list[int]] = {}
    named = uses.filter(dataflow__in=list(position)).values_list("dataflow_id", "running_task_id", "task_id")
    for dataflow_id, running_task, name in named.iterator(5000):
        of.setdefault(running_task, []).append(position[dataflow_id])
        called.setdefault(running_task, Counter())[name] += 1
    names = {task: min(count, key=lambda name, count=count: (-count[name], name)) for task, count in called.items()}
    dataflows = [
        {"id": str(row["dataflow"]), "name": row["dataflow__name"], "team": row["dataflow__team__name"],
         "tasks": row["tasks"]} for row in largest]
    return dataflows, total - len(largest), names, {task: sorted(positions) for task, positions in of.items()}
