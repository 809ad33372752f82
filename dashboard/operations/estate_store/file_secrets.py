"""Secrets that stand for a file of a node: what reads one stays there, though no config says so."""

from __future__ import annotations

from collections.abc import Iterable

from dashboard import jobs
from dashboard.teams.models import Secret
from scheduler.model.fragment import RunningTask
from scheduler.model.secrets import SECRET, TEAM, secrets_of


def file_secrets(tasks: Iterable[RunningTask]) -> frozenset[tuple[str, str]]:
    """Team and name of those secrets of these tasks that stand for a file. One that cannot be opened here is none."""
    types = jobs.task_types()
    named = {
        (reference[TEAM], reference[SECRET]) for task in tasks if task.type in types
        for _, reference in secrets_of(task.config, types[task.type]) if TEAM in reference}
    if not named:
        return frozenset()
    rows = Secret.objects.filter(team__slug__in={team for team, _ in named}, name__in={name for _, name in named})
    return frozenset(
        (team, name) for team, name, sealed in rows.values_list("team__slug", "name", "sealed")
        if (team, name) in named and jobs.names_a_file(sealed))
