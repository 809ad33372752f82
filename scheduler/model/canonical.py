"""Canonical configs and canonical JSON: one spelling for each meaning."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .dataflow import Dataflow, Task
from .task_types import Parameter, TaskType

RATE_KEY = "rate_per_s"  # where a source's rate stands in its canonical config
DEFAULT_RATE_PER_S = 10.0  # of a source for which neither the document nor its type names a rate


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values, equal text."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_config(task_type: TaskType, config: Mapping[str, Any]) -> dict[str, Any]:
    """A config with every declared parameter present and every number in one form.

    Defaults are filled in from the declaration. Where a parameter is declared a number, ``1``, ``1.0`` and ``1e0``
    become the float 1.0; integers, and whatever is not declared, stay exactly as they were given.
    """
    canonical = {parameter.name: _in_form(parameter, parameter.default) for parameter in task_type.parameters}
    for name, value in config.items():
        parameter = task_type.parameter(name)
        if parameter is None:
            canonical[name] = plain(value)
        elif value is not None:
            canonical[name] = _in_form(parameter, value)
    return canonical


def source_rate_per_s(dataflow: Dataflow, task: Task, task_type: TaskType) -> float:
    """A source's rate: the document's, else its config's or its type's ``rate_per_s``, else 10 events/s."""
    stated = dataflow.rates_per_s.get(task.id)
    if stated is None:
        stated = canonical_config(task_type, task.config).get(RATE_KEY)
    return DEFAULT_RATE_PER_S if stated is None else _as_number(stated)


def identity_config(dataflow: Dataflow, task: Task, task_type: TaskType) -> dict[str, Any]:
    """The config that a running task has: canonical, a source's with its rate in it.

    A source's rate is part of what it is, because the same source at another rate is another stream.
    """
    config = canonical_config(task_type, task.config)
    if task_type.kind == "source":
        config[RATE_KEY] = source_rate_per_s(dataflow, task, task_type)
    return config


def _in_form(parameter: Parameter, value: Any) -> Any:
    if parameter.type == "number":
        return _as_number(value)
    if parameter.type == "list" and parameter.items == "number" and isinstance(value, list | tuple):
        return [_as_number(element) for element in value]
    return plain(value)


def _as_number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    try:
        return float(value) + 0.0  # adding zero makes -0.0 the same as 0.0
    except OverflowError:
        return value


def plain(value: Any) -> Any:
    """Plain dicts and lists, whatever read-only views they came as."""
    if isinstance(value, Mapping):
        return {key: plain(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [plain(element) for element in value]
    return value
