"""Permissions to read events: what a credential reads is for its team, and so is what follows (decision 0051)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dashboard.operations.models import RunningTaskRow
from dashboard.teams.models import Team
from dashboard.teams.permissions import Viewer
from scheduler.model.errors import PermissionDenied
from scheduler.model.estate import Estate
from scheduler.model.secrets import TEAM, is_reference


def require_readable(viewer: Viewer, task_id: str) -> None:
    """Raise ``PermissionDenied`` where a running task, or one upstream of it, uses a credential of a team that the
    viewer is not in."""
    if viewer.superuser:
        return
    owners = _credential_owners(task_id)
    teams = set(Team.objects.filter(pk__in=viewer.team_ids).values_list("slug", flat=True)) if owners else set()
    if owners - teams:
        raise PermissionDenied(
            "These events are read with another team's credential.",
            remedy="Only members of that team see them.", teams=sorted(owners - teams))


def is_readable(viewer: Viewer, task_id: str) -> bool:
    """True if a viewer may read what leaves a running task, as far as credentials go."""
    try:
        require_readable(viewer, task_id)
    except PermissionDenied:
        return False
    return True


def may_read_all(viewer: Viewer, estate: Estate, tasks: Iterable[str]) -> bool:
    """True if a viewer may read what leaves each of these running tasks, as far as credentials go.

    What a query says, as in a traceback, may show events of any of its tasks. Most are seen in the estate at hand.
    """
    return all(is_told_to_all(estate, task) or is_readable(viewer, task) for task in tasks)


def is_told_to_all(estate: Estate, task_id: str) -> bool:
    """True if everybody who may know of a running task may read its output: it is one team's alone, or uses no
    credential."""
    ring, visited = {task_id}, set()
    while ring and not estate.tasks[task_id].scope:
        visited |= ring
        tasks = [estate.tasks[name] for name in ring]
        if any(is_reference(value) and TEAM in value for task in tasks for value in task.config.values()):
            return False
        ring = {parent for task in tasks for parent in task.parents} - visited
    return True


def _credential_owners(task_id: str) -> set[str]:
    """The teams of all credentials of a running task and of what is upstream of it."""
    configs: list[Mapping[str, Any]] = []
    visited: set[str] = set()
    ring = {task_id}
    while ring:
        visited |= ring
        rows = RunningTaskRow.objects.filter(pk__in=ring).values_list("config", "parents")
        configs += [config for config, _ in rows]
        ring = {parent for _, parents in rows for parent in parents} - visited
    return {value[TEAM] for config in configs for value in config.values() if is_reference(value) and TEAM in value}
