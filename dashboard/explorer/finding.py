"""Running tasks by their names, for the search over everything."""

from __future__ import annotations

from django.db.models import Q

from dashboard.catalog.permissions import visible_to
from dashboard.operations.models import Use
from dashboard.teams.permissions import Viewer


def tasks_named(viewer: Viewer, search: str, *, most: int) -> list[dict[str, str]]:
    """Running tasks of dataflows that the viewer may know of, by words of the task's name or type.

    Returns
    -------
    list of dict
        ``id`` (the running task's), ``name``, ``type`` and ``dataflow``; each running task once, at most ``most``.
    """
    uses = Use.objects.filter(visible_to(viewer, through="dataflow__")).select_related("running_task", "dataflow")
    for word in search.replace("\0", "").split()[:8]:
        uses = uses.filter(Q(task_id__icontains=word) | Q(running_task__type__icontains=word))
    tasks: dict[str, dict[str, str]] = {}
    for use in uses.order_by("task_id", "pk")[:20 * most]:
        tasks.setdefault(use.running_task_id, {
            "id": use.running_task_id, "name": use.task_id, "type": use.running_task.type,
            "dataflow": use.dataflow.name})
    return list(tasks.values())[:most]
