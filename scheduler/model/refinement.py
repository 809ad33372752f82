"""Refinements: submitted tasks that a plan makes from the streams of wider ones that run already."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .task_types import TaskType


@dataclass(frozen=True, slots=True)
class Refinement:
    """The submitted task, the id that the wider task has within the dataflow, and the running task that this is."""

    task: str
    wider: str
    running: str


@dataclass(frozen=True, slots=True)
class Refined:
    """The answer of a rule: the type and config of the task that makes the narrow output of the wide one's."""

    type: str
    config: Mapping[str, Any]


# (type, wide config, narrow config), both canonical; None where the narrow output cannot be had from the wide one.
Rule = Callable[[TaskType, Mapping[str, Any], Mapping[str, Any]], Refined | None]
