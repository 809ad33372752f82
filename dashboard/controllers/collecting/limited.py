"""The latency of a limit over kept history, as it counts: mean or percentile, of the whole or along a part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dashboard.controllers.collecting.lines import Kept, Line
from dashboard.operations.latency_problem import metric_of
from scheduler.history.series import TASK, Series
from scheduler.model.estate import Estate
from scheduler.model.latency import LatencyLimit

METRIC = "metric"  # in a decision's arguments, where its limit is looked at


def measured_by(estate: Estate, dataflow: str, limit: LatencyLimit) -> dict[str, str]:
    """What a decision notes of a limit, so that its effect can be measured: running tasks stay, whatever is fused."""
    submitted = estate.submitted[dataflow]
    ends = [submitted.running[limit.along[-1]]] if limit.along else [
        submitted.running[task] for task in submitted.sinks]
    heads = estate.tasks[submitted.running[limit.along[0]]].parents if limit.along else ()
    return {METRIC: metric_of(limit), "ends": " ".join(ends), "heads": " ".join(heads)}


@dataclass(frozen=True, slots=True)
class LimitSeries:
    """The series that a limit is measured by: at its ends, and in front of it where it is along a part."""

    ends: tuple[Series, ...]
    heads: tuple[Series, ...]

    @classmethod
    def of(cls, noted: Mapping[str, str]) -> LimitSeries:
        """From what `measured_by` noted; none where a decision is about no limit."""
        return cls(*(tuple(Series(TASK, task, noted.get(METRIC, "")) for task in noted.get(name, "").split())
                     for name in ("ends", "heads")))

    @property
    def all(self) -> tuple[Series, ...]:
        """Those that have to be read."""
        return (*self.ends, *self.heads)

    def latency_ms(self, history: Kept) -> Line:
        """The slowest end's latency since the slowest of what is in front, at each moment."""
        return np.maximum(0.0, history.most(self.ends) - np.nan_to_num(history.most(self.heads)))
