"""Reading a task's config inside a build function: defaults filled in, and what is wrong said plainly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler.model.errors import WeirError
from scheduler.model.task_types import TaskType


class InvalidConfig(WeirError):
    """A task's config cannot be built, though each parameter alone is well typed."""

    code = "invalid_config"


def settings(task_type: TaskType, config: Mapping[str, Any]) -> dict[str, Any]:
    """Every declared parameter's value: the config's, else the declared default.

    Keys that the type does not declare (a source's ``rate_per_s``) are left out.
    """
    values: dict[str, Any] = {}
    for parameter in task_type.parameters:
        value = config.get(parameter.name)
        if value is None:
            if parameter.required:
                raise InvalidConfig(
                    f"{task_type.name} needs the parameter “{parameter.name}”.",
                    remedy=f"Give {parameter.name}: {parameter.doc}", parameter=parameter.name,
                )
            value = parameter.default
        values[parameter.name] = value
    return values


def require_columns(columns: list[str], needed: list[str], *, task_type: str, remedy: str) -> None:
    """Check that the task's input has the columns that it reads.

    Raises
    ------
    InvalidConfig
        A column is missing.
    """
    missing = [name for name in needed if name not in columns]
    if missing:
        raise InvalidConfig(
            f"{task_type} reads the columns {', '.join(needed)}; its input has no {', '.join(missing)}.",
            remedy=remedy, missing=missing, columns=columns,
        )
