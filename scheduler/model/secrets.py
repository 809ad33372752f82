"""Secrets in configs: named where they are used, ``{"secret": "name"}``, and never written out.

A name means something within a team. Planning says which: `with_scoped_secrets` adds the team to each reference, so
that a plan, a running task and its fingerprint hold the name and its scope, and two teams' secrets of one name are
two. What the name stands for is in none of them: the slot that compiles the task looks it up.

So it is with other names of what belongs to a team (``Parameter.of_team``): planning makes of each
``{"name": …, "team": …}``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from .dataflow import Dataflow, Task
from .errors import Problem
from .task_types import TaskType, TaskTypes

SECRET, TEAM = "secret", "team"  # the keys of a reference; the team's is added by planning
NAME = "name"  # with the team's: what belongs to a team, and is no secret
SECRET_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
# A key that is likely to hold a secret, whatever is around it: db_password, apiKey, X-Auth-Token.
SUSPICIOUS = re.compile(
    r"(?i)passw(or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential|authorization"
)


def is_reference(value: Any) -> bool:
    """True if a value names a secret: a mapping with the name, and the team where planning has added it."""
    return (
        isinstance(value, Mapping)
        and set(value) in ({SECRET}, {SECRET, TEAM})
        and all(isinstance(part, str) for part in value.values())
    )


def is_owned(value: Any) -> bool:
    """True if a value is the name of what belongs to a team, with that team."""
    return isinstance(value, Mapping) and set(value) == {NAME, TEAM} and all(
        isinstance(part, str) for part in value.values())


def without_teams(config: Mapping[str, Any], task_type: TaskType) -> dict[str, Any]:
    """The config as it was submitted: the names in it, of secrets and others, belong to no team."""
    named: dict[str, Any] = {
        parameter: {SECRET: reference[SECRET]} for parameter, reference in secrets_of(config, task_type)}
    named |= {
        parameter.name: config[parameter.name][NAME] for parameter in task_type.parameters
        if parameter.of_team and is_owned(config.get(parameter.name))}
    return {**config, **named}


def secrets_of(config: Mapping[str, Any], task_type: TaskType) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The secrets that a config names: parameter and reference."""
    for parameter in task_type.parameters:
        value = config.get(parameter.name)
        if parameter.secret and is_reference(value):
            yield parameter.name, value


def secret_names(dataflow: Dataflow, *, task_types: TaskTypes) -> dict[str, str]:
    """Every secret that a dataflow names, with the first task that does."""
    first_tasks: dict[str, str] = {}
    for task in dataflow.tasks:
        for _, reference in secrets_of(task.config, task_types[task.type]):
            first_tasks.setdefault(reference[SECRET], task.id)
    return first_tasks


def unknown_secrets(dataflow: Dataflow, team_secrets: Collection[str], *, task_types: TaskTypes) -> tuple[Problem, ...]:
    """A problem for each secret that a dataflow names and its team does not have."""
    position = {task.id: number for number, task in enumerate(dataflow.tasks)}
    return tuple(
        Problem(
            "unknown_secret", f"The team has no secret {name}.",
            "Let an admin of the team keep it under that name first, on the Teams page.",
            path=f"/tasks/{position[task_id]}/config", task_id=task_id,
        )
        for name, task_id in sorted(secret_names(dataflow, task_types=task_types).items()) if name not in team_secrets
    )


def with_scoped_secrets(dataflow: Dataflow, *, team: str, task_types: TaskTypes) -> Dataflow:
    """The dataflow with the team in each reference to what belongs to it; the very same where there is none."""
    tasks = tuple(_scoped(task, team, task_types[task.type]) for task in dataflow.tasks)
    return dataflow if tasks == dataflow.tasks else replace(dataflow, tasks=tasks)


def _scoped(task: Task, team: str, task_type: TaskType) -> Task:
    named = {
        parameter: {SECRET: reference[SECRET], TEAM: team}
        for parameter, reference in secrets_of(task.config, task_type)
    }
    named |= {
        parameter.name: {NAME: task.config[parameter.name], TEAM: team} for parameter in task_type.parameters
        if parameter.of_team and isinstance(task.config.get(parameter.name), str)}
    return replace(task, config={**task.config, **named}) if named else task
