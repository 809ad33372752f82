"""Dynamic tasks outside of an estate, as where a task behind one is measured: the alternate that is on first does it.

In a query of an estate all alternates are compiled, and switched (``workers.engine.spark.compile``), and what several
tasks of a path read is worked out once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.guards.element_policies import stated_policy
from scheduler.guards.guard_checks import NEVER_ON, check_element
from scheduler.guards.guard_values import InvalidGuard
from scheduler.guards.task_figures import TASK_CATALOG
from scheduler.model.alternates import LEARNED, alternates_in, first_on, guards_kind
from scheduler.model.paths import path_in
from scheduler.model.task_types import DYNAMIC

from .config import InvalidConfig
from .predict import FORECAST
from .registry import resolve, task_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def dynamic_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where a guard is none, or alternates could never be on, or a learned one knows nothing of
    what they do."""
    alternates = alternates_in(DYNAMIC, config)
    others = [alternate for alternate in alternates if alternate.type != FORECAST.name]
    if config.get(LEARNED) is not None and others:
        raise InvalidConfig(
            f"A learned guard chooses among forecasts, and alternate {others[0].name} is of type {others[0].type}.",
            remedy=f"Give it the type {FORECAST.name}, or leave {LEARNED} away.", alternate=others[0].name)
    element = stated_policy(alternates, guards_kind(config)).element("the task", alternates)
    try:
        findings = check_element(element, TASK_CATALOG)
    except InvalidGuard as invalid:
        raise InvalidConfig(invalid.message, remedy=invalid.remedy, **invalid.facts) from invalid
    for finding in findings:
        if finding.what == NEVER_ON and finding.is_certain:
            raise InvalidConfig(finding.message, remedy=finding.remedy, alternate=finding.alternates[0])


def dynamic(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The output of the alternate of the highest value."""
    on = first_on(alternates_in(DYNAMIC, config))
    return resolve(task_types()[on.type])(inputs, on.config)


def path(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The output of a path for these inputs."""
    return path_in(config).follow(
        inputs, work=lambda task, events: resolve(task_types()[task.type])(events, task.config), join=joined)


def joined(left: DataFrame, right: DataFrame) -> DataFrame:
    """Two streams that enter one task: of a batch the events of the one, then of the other."""
    return left.unionByName(right, allowMissingColumns=True)
