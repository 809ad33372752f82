"""A dataflow of the estate as an elastic one: its tasks with what their alternates are worth, take and give."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.model.alternates import is_dynamic
from scheduler.model.estate import Submitted
from scheduler.model.ports import EstateView
from scheduler.model.prices import Prices
from scheduler.model.task_types import TaskTypes
from scheduler.simulation.elastic import Alternate, ElasticDataflow

from .alternate_costs import alternate_figures
from .alternates_at_work import AlternatesAtWork
from .rates import MICROSECONDS_PER_S

LEAST = 1e-9  # of seconds for an event, and of events for one: nothing takes or makes nothing


def elastic_dataflow(
    estate: EstateView, submitted: Submitted, *, task_types: TaskTypes, prices: Prices,
    selectivity: Mapping[str, float] | None = None,
) -> ElasticDataflow:
    """The tasks of a dataflow by their ids in its document, and the streams between them.

    Parameters
    ----------
    selectivity : mapping of str to float, optional
        Events out for each event in, by running task, as measured; of a task that is not named as its type declares.
    """
    names = {running: task for task, running in submitted.running.items()}
    at_work = AlternatesAtWork(estate, task_types=task_types, prices=prices)
    tasks: dict[str, dict[str, Alternate]] = {}
    for task, running in submitted.running.items():
        running_task = estate.tasks[running]
        if is_dynamic(running_task.type):
            tasks[task] = {figure.name: Alternate(
                figure.name, max(LEAST, 1.0 if figure.worth is None else figure.worth), max(LEAST, figure.event_s),
                max(LEAST, figure.selectivity))
                for figure in alternate_figures(estate, running, task_types=task_types, prices=prices)}
            continue
        steps = at_work.steps(running_task)
        declared = task_types[running_task.type].selectivity if running_task.type in task_types else 1.0
        out = 1.0 if not running_task.parents else (selectivity or {}).get(running, declared)
        tasks[task] = {"as it is": Alternate(
            "as it is", 1.0, max(LEAST, prices.costs.steps_event_us(steps) / MICROSECONDS_PER_S), max(LEAST, out))}
    streams = tuple((names[parent], task) for task, running in submitted.running.items()
                    for parent in estate.tasks[running].parents if parent in names)
    return ElasticDataflow(tasks, streams)
