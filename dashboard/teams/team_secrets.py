"""Secrets that dataflows and running tasks name. What they stand for is nobody's business here."""

from __future__ import annotations

from dashboard import jobs
from dashboard.operations.models import RunningTaskRow
from dashboard.teams.models import Team
from scheduler.model.dataflow import Dataflow
from scheduler.model.errors import InvalidDataflow
from scheduler.model.secrets import SECRET, TEAM, secrets_of, unknown_secrets


def require_secrets(team: Team, dataflow: Dataflow) -> None:
    """Raise ``InvalidDataflow`` where a dataflow names a secret that its team does not have."""
    secrets = set(team.secrets.values_list("name", flat=True))
    if problems := unknown_secrets(dataflow, secrets, task_types=jobs.task_types()):
        raise InvalidDataflow(problems=problems)


def running_tasks_with(team: Team, name: str) -> int:
    """The number of running tasks that name a team's secret."""
    takers = {
        task_type.name: task_type
        for task_type in jobs.task_types().values()
        if any(parameter.secret for parameter in task_type.parameters)
    }
    secret_reference = {SECRET: name, TEAM: team.slug}
    rows = RunningTaskRow.objects.filter(type__in=takers)
    return sum(
        any(dict(reference) == secret_reference for _, reference in secrets_of(row.config, takers[row.type]))
        for row in rows)
