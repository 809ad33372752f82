"""Events through an estate: what each query works at in a step, what waits in front of it, and the CPU that it takes.

Queues follow the equations of ``scheduler.simulation.problem`` (Kumbhare 2016, 4.4 to 4.6), with a running task as a
task that has one way to do it, on a part of its slot's core. A slot's queries share its core fairly, after what their
batches take however few events they have: one that has too much to do does not keep the others from their part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduler.latency.real_time import BatchModes
from scheduler.latency.triggers import BatchCost
from scheduler.model.alternates import is_dynamic, on_in, selectivity_at_work, types_at_work
from scheduler.model.costs import Costs
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningBundle
from scheduler.model.settings_of_fragments import USUAL
from scheduler.model.task_types import TaskTypes
from scheduler.simulation.elastic import Alternate, ElasticDataflow, ElasticPlacement, RentedVm, VmClass
from scheduler.simulation.problem import Conditions, SimulatedStep, work_out

LEAST = 1e-9  # seconds for an event, or events out for one: what is less counts as that
MOST_FIXED = 0.9  # of what a slot has: more than that batches do not take before events have their turn
PASSES = 4  # of shares and flows, where a core is short
_ONLY = "as it is"


@dataclass(frozen=True, slots=True)
class QueryLoad:
    """The load of a query in a step: its CPU in cores, events in a second, events that wait, and for how long they do.

    ``tasks`` is its CPU for events, task by task in their order.
    """

    cores: float
    in_per_s: float
    waiting: float
    waits_s: float
    tasks: tuple[float, ...] = ()


@dataclass(frozen=True)
class EstateFlow:
    """The running tasks of an estate as one dataflow of the simulation, each on its part of a core.

    ``selectivity`` is of tasks that are not as their type declares.
    """

    estate: Estate
    task_types: TaskTypes
    costs: Costs
    selectivity: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        working = {name: fragment for name, fragment in self.estate.fragments.items() if fragment.active_tasks}
        tasks = [task for fragment in working.values() for task in fragment.active_tasks]
        alternates = {task: {_ONLY: self._alternate(task)} for task in tasks}
        streams = tuple(
            (parent, task) for task in tasks for parent in self.estate.tasks[task].parents if parent in alternates)
        kinds = {task: RentedVm(VmClass(task, 1, 1.0, 1e15, 0.0)) for task in tasks}
        object.__setattr__(self, "_working", working)
        object.__setattr__(self, "_dataflow", ElasticDataflow(alternates, streams))
        object.__setattr__(self, "_placement", ElasticPlacement(
            dict.fromkeys(tasks, _ONLY), kinds, {task: {task: 1} for task in tasks}))

    _working: Mapping[str, Fragment] = field(init=False, repr=False)
    _dataflow: ElasticDataflow = field(init=False, repr=False)
    _placement: ElasticPlacement = field(init=False, repr=False)

    def _alternate(self, task: str) -> Alternate:
        """A task as it is done now: of a dynamic one by the alternate that is on."""
        running = self.estate.tasks[task]
        chosen = self.estate.settings.get(self.estate.places[task][0], USUAL).alternates.get(task)
        on = on_in(running.type, running.config, chosen) if is_dynamic(running.type) else ""
        steps = types_at_work(running.type, running.config, self.task_types, on=on)
        declared = selectivity_at_work(running.type, running.config, self.task_types, on=on)
        events_out = self.selectivity.get(task, declared if running.parents else 1.0)
        return Alternate(_ONLY, 1.0, max(LEAST, self.costs.steps_event_us(steps) / 1e6), max(LEAST, events_out))

    def selectivity_of(self, task: str) -> float:
        """Events out of a task for each event in."""
        return self._dataflow.tasks[task][_ONLY].selectivity

    def event_s(self, task: str) -> float:
        """Seconds of a core that a task takes for an event."""
        return self._dataflow.tasks[task][_ONLY].event_s

    def unhindered(self, rates_per_s: Mapping[str, float]) -> dict[str, float]:
        """Events a second into each task if nothing were short anywhere."""
        in_per_s: dict[str, float] = {}
        for task in self._dataflow.upstream_first:
            in_per_s[task] = rates_per_s.get(task, 0.0) + sum(
                in_per_s[parent] * self.selectivity_of(parent)
                for parent in self._dataflow.parents[task])
        return in_per_s

    def fixed_cores(
        self, chosen: BatchModes, batches: Mapping[str, BatchCost], into_per_s: Mapping[str, float]
    ) -> dict[str, float]:
        """Cores that each query takes for its batches, or groups of events, whatever is in them, by events into tasks.
        """
        return {
            name: chosen.cores(name, replace(
                batches[name], rate_per_s=into_per_s.get(fragment.tasks[0], 0.0), event_cpu_s=0.0))
            for name, fragment in self._working.items()}

    def work(
        self, conditions: Conditions, asked_per_s: Mapping[str, float], fixed: Mapping[str, float],
        came_per_s: Mapping[str, float],
    ) -> tuple[SimulatedStep, dict[str, QueryLoad]]:
        """A step of time, from the rates of sources and what waits for tasks.

        ``asked_per_s`` are the events that each task would have to do if nothing were short, ``came_per_s`` those that
        came to it in the step before; ``fixed`` what queries take beside events, in cores.
        """
        fixed = self._fitting(fixed)
        shares, is_short = self._shares(conditions, asked_per_s, fixed)
        if is_short:  # less comes to what is downstream of it than would: shares and flows follow from each other
            expected_per_s = {
                task: min(rate, came_per_s.get(task, rate)) if self._dataflow.parents[task] else rate
                for task, rate in asked_per_s.items()}
            for _ in range(PASSES):
                shares, _ = self._shares(conditions, expected_per_s, fixed)
                into_per_s = work_out(self._dataflow, self._placement, replace(conditions, speeds=shares)).in_per_s
                expected_per_s = {task: (rate + into_per_s[task]) / 2 for task, rate in expected_per_s.items()}
            shares, _ = self._shares(conditions, expected_per_s, fixed)
        worked = work_out(self._dataflow, self._placement, replace(conditions, speeds=shares))
        loads = {}
        for name, fragment in self._working.items():
            done = {task: worked.out_per_s[task] / self.selectivity_of(task) for task in fragment.active_tasks}
            busy = tuple(done[task] * self.event_s(task) for task in fragment.active_tasks)
            waits_s = max(
                (worked.waiting[task] / max(done[task], LEAST) for task in fragment.active_tasks
                 if worked.waiting[task] > LEAST), default=0.0)
            loads[name] = QueryLoad(
                fixed[name] + sum(busy), worked.in_per_s[fragment.tasks[0]],
                sum(worked.waiting[task] for task in fragment.active_tasks), waits_s, busy)
        return worked, loads

    def _fitting(self, fixed: Mapping[str, float]) -> dict[str, float]:
        """Cores that queries take beside events where a slot has too little for it: batches are as much rarer then."""
        taken: dict[str, float] = {}
        for name, bundle, part in self._parts():
            taken[bundle.slot] = taken.get(bundle.slot, 0.0) + part * fixed[name]
        most = MOST_FIXED * (1.0 - self.costs.slot_cores)
        fitting = dict.fromkeys(fixed, 0.0)
        for name, bundle, part in self._parts():
            fitting[name] += part * fixed[name] * min(1.0, most / max(LEAST, taken[bundle.slot]))
        return fitting

    def _parts(self) -> Iterator[tuple[str, RunningBundle, float]]:
        """Each query with its bundles and what part of it each is."""
        for name, fragment in self._working.items():
            total = sum(bundle.weight for bundle in fragment.queries) or 1.0
            for bundle in fragment.queries:
                yield name, bundle, bundle.weight / total

    def _shares(
        self, conditions: Conditions, asked_per_s: Mapping[str, float], fixed: Mapping[str, float]
    ) -> tuple[dict[str, float], bool]:
        """Each task's part of a core: of what its query gets of its slots' cores, as much as it has to do of that; and
        whether a slot is short of it."""
        parts: dict[str, list[tuple[str, float]]] = {}  # by slot: its queries, and what part of each it has
        taken: dict[str, float] = {}
        for name, bundle, part in self._parts():
            parts.setdefault(bundle.slot, []).append((name, part))
            taken[bundle.slot] = taken.get(bundle.slot, 0.0) + part * fixed[name]
        shares, is_short = dict[str, float](), False
        for slot, queries in parts.items():
            left_cores = 1.0 - self.costs.slot_cores - taken[slot]
            needed_cores = self._needed_cores(queries, conditions, asked_per_s)
            totals = {name: sum(cores.values()) for name, cores in needed_cores.items()}
            is_short = is_short or sum(totals.values()) > left_cores
            for name, cores in shared_out(totals, left_cores).items():
                for task, asked_cores in needed_cores[name].items():
                    shares[task] = shares.get(task, 0.0) + cores * asked_cores / totals[name]
        return shares, is_short

    def _needed_cores(
        self, queries: Sequence[tuple[str, float]], conditions: Conditions, asked_per_s: Mapping[str, float]
    ) -> dict[str, dict[str, float]]:
        """Cores that the tasks of a slot's queries need for what comes and what waits, by query and task."""
        needed_cores: dict[str, dict[str, float]] = {}
        for name, part in queries:
            by_task = needed_cores.setdefault(name, {})
            for task in self._working[name].active_tasks:
                events = asked_per_s.get(task, 0.0) + conditions.waiting.get(task, 0.0) / conditions.seconds
                by_task[task] = by_task.get(task, 0.0) + part * max(LEAST, events * self.event_s(task))
        return needed_cores


def shared_out(needed_cores: Mapping[str, float], cores: float) -> dict[str, float]:
    """A core among queries, as an operating system does it: none gets less than another that wants no more.

    Who wants less than an equal part gets that, and others the rest in equal parts (max-min fairness); what nobody
    wants is theirs in proportion.

    Examples
    --------
    >>> shared_out({"a": 0.1, "b": 2.0, "c": 0.6}, 0.9)
    {'a': 0.1, 'c': 0.4, 'b': 0.4}
    """
    total = sum(needed_cores.values())
    if total <= cores:
        return {name: wanted_cores * cores / total for name, wanted_cores in needed_cores.items()}
    shares: dict[str, float] = {}
    for number, name in enumerate(sorted(needed_cores, key=lambda query: needed_cores[query])):
        shares[name] = min(needed_cores[name], (cores - sum(shares.values())) / (len(needed_cores) - number))
    return shares
