"""Dynamic tasks outside of an estate, as where a task behind one is measured: the alternate that is on first does it.

In a query of an estate all alternates are compiled, and switched (``workers.engine.spark.compile``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.model.alternates import alternates_in, first_on
from scheduler.model.task_types import DYNAMIC

from .registry import resolve, task_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def dynamic(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """What the alternate of the highest value makes."""
    on = first_on(alternates_in(DYNAMIC, config))
    return resolve(task_types()[on.type])(inputs, on.config)
