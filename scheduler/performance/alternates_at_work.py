"""Alternates at work: what running tasks do now, and at which rates, by the alternates that are on of dynamic ones.

The rate of a running task was noted when it started, with the alternates upstream that are on at first. Another one may
give more events, or fewer: by as much as what is measured of the two differs, or, where one of them has not been on
for long enough, as what their types declare.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from scheduler.model.alternates import (
    BY,
    alternates_in,
    first_on,
    is_dynamic,
    on_in,
    selectivity_at_work,
    types_at_work,
)
from scheduler.model.cost_figures import CostMeter
from scheduler.model.fragment import RunningTask
from scheduler.model.ports import EstateView
from scheduler.model.prices import Prices
from scheduler.model.settings_of_fragments import USUAL
from scheduler.model.task_types import TaskType, TaskTypes

LEAST_METERED_S = 120.0  # before that a meter says nothing
NOTHING: Mapping[str, str] = MappingProxyType({})


def meter_key(task_id: str, alternate: str = "") -> str:
    """The key of a running task's meter: a dynamic task has one for each alternate."""
    return f"{task_id}/{alternate}" if alternate else task_id


class AlternatesAtWork:
    """The alternates of running tasks of an estate that work.

    Parameters
    ----------
    on : mapping of str to str, optional
        By running task the alternate that is taken to be on, instead of the one that is.
    """

    def __init__(
        self, estate: EstateView, *, task_types: TaskTypes, prices: Prices, on: Mapping[str, str] = NOTHING
    ) -> None:
        self.estate, self.task_types, self.prices, self.on = estate, task_types, prices, on
        self._times: dict[str, float] = {}
        self._prices_at = {prices.trigger_ms: prices}

    def paced(self, query: str) -> Prices:
        """The prices with that query's interval of batches, if it is known."""
        trigger_ms = self.prices.paces_ms.get(query, self.prices.trigger_ms)
        if trigger_ms not in self._prices_at:
            self._prices_at[trigger_ms] = replace(self.prices, trigger_ms=trigger_ms)
        return self._prices_at[trigger_ms]

    def alternate(self, task: RunningTask) -> str:
        """The alternate that is on; empty of a task that is not dynamic."""
        if not is_dynamic(task.type):
            return ""
        if task.id in self.on:
            return self.on[task.id]
        query, _ = self.estate.places[task.id]
        return on_in(task.type, task.config, self.estate.settings.get(query, USUAL).alternates.get(task.id))

    def meter_key(self, task: RunningTask) -> str:
        """The key of its meter. Where each key has an alternate of its own, one meter has all that work."""
        is_of_all = task.config.get(BY) and task.id not in self.on
        return meter_key(task.id, "" if is_of_all else self.alternate(task))

    def steps(self, task: RunningTask) -> tuple[tuple[TaskType, float], ...]:
        """The types by which its cost goes, each with how many events it gets for each that the task gets; none where
        its own is not installed any more."""
        if task.type not in self.task_types:
            return ()
        return types_at_work(task.type, task.config, self.task_types, on=self.alternate(task))

    def types(self, task_ids: Iterable[str]) -> set[str]:
        """The names of the types by which the cost of tasks goes."""
        tasks = [self.estate.tasks[task_id] for task_id in task_ids]
        return {name for task in tasks for name in [step.name for step, _ in self.steps(task)] or [task.type]}

    def rate_per_s(self, task: RunningTask) -> float | None:
        """Events per second that it is expected to work on; None where nobody noted that."""
        return None if task.rate_per_s is None else task.rate_per_s * self.times_rate(task.id)

    def times_rate(self, task_id: str) -> float:
        """The expected factor on the rate at which a task started, by the alternates that are on upstream.

        Of several parents each counts with as much as it gave then.
        """
        if task_id not in self._times:
            whole = now = 0.0
            for parent in (self.estate.tasks[name] for name in self.estate.tasks[task_id].parents):
                gave = self._rate_given(parent)
                whole += gave
                now += gave * self.times_rate(parent.id) * self._times_selectivity(parent)
            self._times[task_id] = now / whole if whole else 1.0
        return self._times[task_id]

    def selectivity(self, task: RunningTask, alternate: str) -> tuple[float, bool]:
        """Events out for each event in of a dynamic task with an alternate on, and whether that was measured."""
        measured = _selectivity_metered(self.prices.meters.get(meter_key(task.id, alternate)))
        if measured is not None:
            return measured, True
        return selectivity_at_work(task.type, task.config, self.task_types, on=alternate), False

    def _rate_given(self, task: RunningTask) -> float:
        if task.type not in self.task_types:
            return task.rate_per_s or 0.0
        return (task.rate_per_s or 0.0) * selectivity_at_work(task.type, task.config, self.task_types)

    def _times_selectivity(self, task: RunningTask) -> float:
        on = self.alternate(task)
        first = first_on(alternates_in(task.type, task.config)).name if on else ""
        if on == first:
            return 1.0
        pair = [self.selectivity(task, name) for name in (on, first)]
        if not all(is_measured for _, is_measured in pair):  # like is held against like
            pair = [(selectivity_at_work(task.type, task.config, self.task_types, on=name), False)
                    for name in (on, first)]
        (now, _), (then, _) = pair
        return now / then if then else 1.0


def _selectivity_metered(meter: CostMeter | None) -> float | None:
    if meter is None or meter.seconds < LEAST_METERED_S or not meter.in_per_s:
        return None
    return meter.out_per_s / meter.in_per_s
