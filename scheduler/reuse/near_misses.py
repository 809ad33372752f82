"""Near misses: which small changes of a submitted dataflow would let it reuse more of what runs.

Exact matches miss sharing by accident: a window of 61 where 60 runs already. A task can be reused only below reused
parents, so the search is at the edge of the reused tasks: a task that does not run though all its parents do, and its
siblings (`siblings`), which differ from it in their configs alone; or a dynamic task with the task as an alternate, or
an alternate of the task. Taking over a sibling's config moves the edge downstream, where more tasks may match, exactly
or nearly. Each step is a look-up, however much runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from itertools import combinations, islice
from typing import Any

from scheduler.model.alternates import ALTERNATES, alternates_in, is_dynamic, logic_version
from scheduler.model.canonical import RATE_KEY, canonical_json, identity_config
from scheduler.model.dataflow import Dataflow, Task
from scheduler.model.fragment import RunningTask
from scheduler.model.prices import Prices
from scheduler.model.task_types import DYNAMIC, TaskTypes
from scheduler.performance.pricing import charged_query_cores, task_cores

from .containment import Containment, contain
from .fingerprint import fingerprint
from .fragments import cut_into_chains
from .merge import merge
from .nearness import ConfigDifference, difference_of_kind, differences
from .siblings import Siblings, expect, kin

MOST_SUGGESTIONS = 5
MOST_TASKS_CHANGED = 3  # that one suggestion combines
MOST_TRIALS = 400  # combinations that are looked at
MOST_LOOKED_AT = 100_000  # tasks and streams in all of these: of a wide dataflow fewer are tried, the nearest first
MOST_PLANNED = 40  # combinations whose refinements are planned, where containment is on
MOST_NEIGHBOURS = 12  # near siblings of one task, the nearest first

Substitution = tuple[str, str]  # submitted task id, running task id whose config it takes over


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A change of the submitted configs, and what it would save. Cores and money are estimates, as a plan's price."""

    differences: tuple[ConfigDifference, ...]
    reused: tuple[str, ...]  # submitted ids of the tasks that would be reused more
    cores_saved: float
    money_per_hour_saved: float

    @property
    def key(self) -> str:
        """A name for the change: equal changes of equal dataflows have equal ones."""
        changes = [[difference.task, difference.parameter, difference.running] for difference in self.differences]
        return hashlib.sha256(canonical_json(changes).encode()).hexdigest()[:16]

    @property
    def distance(self) -> float:
        """The distance of the near miss: the sum of the differences' distances."""
        return sum(difference.distance for difference in self.differences)

    @property
    def why_beside(self) -> str:
        """The reason why the running task is not read instead, where it is an alternate or has one; empty elsewhere."""
        if not any(difference.becomes for difference in self.differences):
            return ""
        reason = (
            "As it is, the two run beside each other: an alternate that is off is no part of its query's batches, so "
            "its events are there only while it is on.")
        if any(is_dynamic(difference.becomes) for difference in self.differences):
            return f"{reason} Switches of the shared task would hold for this dataflow, too."
        return f"{reason} Containment lets the dynamic task read the other one where all alternates follow from that."

    @property
    def text(self) -> str:
        """``window 60 instead of 61 would reuse 4 more tasks and save 0.8 cores``."""
        many = "s" if len(self.reused) != 1 else ""
        changes_text = ", ".join(f"{difference.text} in {difference.task}" for difference in self.differences)
        return f"{changes_text} would reuse {len(self.reused)} more task{many} and save {self.cores_saved:.3g} cores"


def near_misses(
    running: Mapping[str, RunningTask], dataflow: Dataflow, *, siblings: Siblings, task_types: TaskTypes,
    prices: Prices, scope: str = "", containment: Containment | None = None, most: int = MOST_SUGGESTIONS,
    waking: Callable[[Collection[str]], tuple[frozenset[str], int]] = lambda running_tasks: (frozenset(), 0),
) -> tuple[NearMiss, ...]:
    """The changes that would save most, best first.

    A suggestion takes over the configs of up to three running tasks that are near by their types' declarations. One
    that changes several tasks is made only where it reuses more than its parts do each by itself. None would make two
    of the dataflow's tasks the same.

    Parameters
    ----------
    running : mapping of str to RunningTask
        The running tasks, closed under parents; looked up, never walked.
    task_types, prices
        Declarations of all its types; what a core and hour costs.
    scope : str
        "" for a shared dataflow, else the team whose private dataflow it is. Only tasks of this scope are looked at,
        so nothing of another team's private dataflows shows.
    containment : Containment, optional
        If the team has turned it on: savings are told against the plan with refinements.
    waking : callable, optional
        Of running tasks that would be reused, those that rest, and how many queries begin again with them
        (`scheduler.reuse.activity.waking`): what is woken saves no more than what is started.

    Returns
    -------
    tuple of NearMiss
        By money saved, then by how little they ask for. Only such as save something.
    """
    search = _Search(running, dataflow, siblings, task_types, scope)

    expected = task_cores(dataflow, task_types=task_types, prices=prices)

    def cores_of(trial: _Trial) -> float:
        changed = search.changed(trial)
        if containment is not None:
            changed = contain(
                running, changed, task_types=task_types, containment=containment, scope=scope,
                works=lambda running_task: not waking([running_task])[0]).dataflow
            merged = merge(running, changed, task_types=task_types, scope=scope)
            started, ids = merged.started, merged.running
        else:  # the trial knows what would start: nothing is fingerprinted once more
            started, ids = search.started(trial), trial.ids
        cores = expected
        if containment is not None or changed.rates_per_s != dataflow.rates_per_s or any(
                difference.parameter == ALTERNATES for difference in search.differences(trial)):
            cores = task_cores(changed, task_types=task_types, prices=prices)
        names = {running_id: task_id for task_id, running_id in ids.items()}
        begun = {task.id for task in started}
        woken, queries_woken = waking([running_id for running_id in names if running_id not in begun])
        unchained = [ids[task_id] for task_id in dataflow.unchained]
        queries = len(cut_into_chains(started, task_types=task_types, unchained=unchained)) + queries_woken
        return sum(cores[names[task_id]] for task_id in begun | woken) + queries * charged_query_cores(prices)

    before = cores_of(search.as_it_is)
    misses = []
    trials = search.worthwhile()
    if containment is not None:  # each is planned anew: those that reuse most
        trials = sorted(trials, key=lambda trial: -len(trial.reused))[:min(MOST_PLANNED, search.most_trials)]
    for trial in trials:
        saved = before - cores_of(trial)
        if saved > 1e-9:
            misses.append(
                NearMiss(
                    differences=search.differences(trial), reused=search.more(trial), cores_saved=round(saved, 6),
                    money_per_hour_saved=round(saved * prices.core_hour, 6),
                )
            )
    ranked = sorted(misses, key=lambda miss: (-miss.money_per_hour_saved, miss.distance, -len(miss.reused), miss.key))
    return tuple(ranked[:most])


@dataclass(frozen=True, slots=True)
class _Trial:
    """The reused tasks when some tasks take over running configs."""

    taken: frozenset[Substitution]
    ids: Mapping[str, str] = field(compare=False, hash=False)  # submitted task id -> running task id
    reused: frozenset[str] = field(compare=False, hash=False)  # submitted task ids


class _Search:
    def __init__(
        self, running: Mapping[str, RunningTask], dataflow: Dataflow, siblings: Siblings, task_types: TaskTypes,
        scope: str,
    ) -> None:
        self.running, self.dataflow, self.task_types, self.scope = running, dataflow, task_types, scope
        self.look_up = siblings
        self.tasks = {task.id: task for task in dataflow.tasks}
        self.parents = dataflow.parents()
        self.order = tuple(TopologicalSorter(self.parents).static_order())
        size = len(self.order) + sum(map(len, self.parents.values()))
        self.most_trials = min(MOST_TRIALS, max(MOST_SUGGESTIONS, MOST_LOOKED_AT // max(1, size)))
        self.configs = {
            task.id: identity_config(dataflow, task, task_types[task.type]) for task in dataflow.tasks}
        self.neighbours: dict[Substitution, tuple[ConfigDifference, ...]] = {}
        self.siblings: dict[str, RunningTask] = {}
        self.nearest_siblings: dict[tuple[str, str], list[str]] = {}  # (task, kin) -> near siblings, nearest first
        [self.as_it_is] = self.trials({frozenset(): None})

    def worthwhile(self) -> list[_Trial]:
        """Every combination within the bounds that keeps tasks apart and reuses more than its parts do."""
        trials = {self.as_it_is.taken: self.as_it_is}
        latest, looked_at = [self.as_it_is], 0
        for _ in range(MOST_TASKS_CHANGED):
            edges = [(trial, task_id) for trial in latest for task_id in self.edge(trial)]
            expect(self.look_up, (kin_id for trial, task_id in edges for kin_id in self.kins_of(trial, task_id)))
            wanted_trials: dict[frozenset[Substitution], _Trial] = {}
            for trial, task_id in edges:
                for running_id in self.near(trial, task_id):
                    wanted_trials.setdefault(trial.taken | {(task_id, running_id)}, trial)
            made = self.trials(dict(islice(wanted_trials.items(), self.most_trials - looked_at)))
            looked_at += len(made)
            # A task that was set apart from its equals (fresh state) is found, and then not reused.
            latest = [trial for trial in made if trial.reused.issuperset(task for task, _ in trial.taken)]
            trials |= {trial.taken: trial for trial in latest if len(set(trial.ids.values())) == len(trial.ids)}
        return [trial for trial in trials.values() if trial.taken and not self.is_sum_of_parts(trial, trials)]

    def edge(self, trial: _Trial) -> Iterator[str]:
        """The tasks that do not run, though all their parents do."""
        changed = {task_id for task_id, _ in trial.taken}
        for task_id in self.order:
            if task_id not in trial.reused | changed and trial.reused.issuperset(self.parents[task_id]):
                yield task_id

    def kins_of(self, trial: _Trial, task_id: str) -> list[str]:
        """The kins of its siblings; then of the dynamic tasks beside it, or of what its alternates do."""
        task, above = self.tasks[task_id], [trial.ids[parent] for parent in self.parents[task_id]]
        alternate_types = sorted({way.type for way in alternates_in(task.type, task.config)}) or [DYNAMIC] * bool(above)
        return [kin(name, parents=above, scope=self.scope) for name in (task.type, *alternate_types)]

    def near(self, trial: _Trial, task_id: str) -> list[str]:
        task_type = self.task_types[self.tasks[task_id].type]
        kins = self.kins_of(trial, task_id)
        shared = kins[0]
        if (task_id, shared) not in self.nearest_siblings:
            nearest = []
            for running in (running for kin_id in kins for running in self.look_up.siblings(kin_id)):
                apart: tuple[ConfigDifference, ...] | None
                if running.type == task_type.name:
                    apart = differences(task_type, self.configs[task_id], running.config, task=task_id)
                else:
                    kind_difference = difference_of_kind(task_type.name, self.configs[task_id], running, task=task_id)
                    apart = None if kind_difference is None else (kind_difference,)
                if apart:
                    nearest.append((sum(difference.distance for difference in apart), running.id))
                    self.neighbours[task_id, running.id], self.siblings[running.id] = apart, running
            self.nearest_siblings[task_id, shared] = [running_id for _, running_id in sorted(nearest)[:MOST_NEIGHBOURS]]
        return self.nearest_siblings[task_id, shared]

    def trials(self, wanted_trials: Mapping[frozenset[Substitution], _Trial | None]) -> list[_Trial]:
        """The reused tasks with the configs that are taken over, each from a trial that takes over one less."""
        ids = {taken: self.identities(taken, base) for taken, base in wanted_trials.items()}
        expect(self.running, {running_id for running_ids in ids.values() for running_id in running_ids.values()})
        return [
            _Trial(
                taken,
                running_ids,
                frozenset(task_id for task_id, running_id in running_ids.items() if running_id in self.running),
            )
            for taken, running_ids in ids.items()
        ]

    def identities(self, taken: frozenset[Substitution], base: _Trial | None) -> dict[str, str]:
        """Running task ids with the configs that are taken over: what is not downstream of a change keeps its own."""
        takes, ids = dict(taken), {}
        base_ids = {} if base is None else base.ids
        new = set(takes) if base is None else {task_id for task_id, _ in taken - base.taken}
        for task_id in self.order:
            if (
                base_ids
                and task_id not in new
                and all(ids[parent] == base_ids[parent] for parent in self.parents[task_id])
            ):
                ids[task_id] = base_ids[task_id]
                continue
            taken_over = self.siblings[takes[task_id]] if task_id in takes else None
            task_type = self.task_types[(taken_over or self.tasks[task_id]).type]
            config = self.configs[task_id] if taken_over is None else taken_over.config
            ids[task_id] = fingerprint(
                task_type.name, version=logic_version(task_type, config, self.task_types), config=config,
                parents=(ids[parent] for parent in self.parents[task_id]), scope=self.scope,
            )
        return ids

    def is_sum_of_parts(self, trial: _Trial, trials: Mapping[frozenset[Substitution], _Trial]) -> bool:
        by_parts: set[str] = set()
        for size in range(len(trial.taken)):
            for part in map(frozenset, combinations(trial.taken, size)):
                by_parts |= trials[part].reused if part in trials else set()
        return by_parts >= trial.reused

    def started(self, trial: _Trial) -> list[RunningTask]:
        """The tasks that would start, as far as cutting them into queries needs to know."""
        return [
            RunningTask(
                id=trial.ids[task_id], type=self.tasks[task_id].type, config={}, scope=self.scope,
                parents=tuple(sorted(trial.ids[parent] for parent in self.parents[task_id])))
            for task_id in self.order if task_id not in trial.reused
        ]

    def more(self, trial: _Trial) -> tuple[str, ...]:
        return tuple(task_id for task_id in self.order if task_id in trial.reused - self.as_it_is.reused)

    def differences(self, trial: _Trial) -> tuple[ConfigDifference, ...]:
        position_of = {task_id: position for position, task_id in enumerate(self.order)}
        return tuple(
            neighbour
            for taken in sorted(trial.taken, key=lambda taken: position_of[taken[0]])
            for neighbour in self.neighbours[taken]
        )

    def changed(self, trial: _Trial) -> Dataflow:
        return adopted(self.dataflow, self.differences(trial))


def adopted(dataflow: Dataflow, changes: tuple[ConfigDifference, ...]) -> Dataflow:
    """The dataflow with a suggestion's values in place of its own."""
    configs: dict[str, dict[str, Any]] = {}
    others: dict[str, tuple[str, Any]] = {}  # what becomes of another type
    rates = dict(dataflow.rates_per_s)
    for change in changes:
        if change.becomes:
            others[change.task] = change.becomes, change.running
        elif change.parameter == RATE_KEY:
            rates[change.task] = change.running
        else:
            configs.setdefault(change.task, {})[change.parameter] = change.running

    def with_changes(task: Task) -> Task:
        if task.id in others:
            kind, config = others[task.id]
            return replace(task, type=kind, config=config)
        return replace(task, config={**task.config, **configs[task.id]}) if task.id in configs else task

    return replace(dataflow, tasks=tuple(map(with_changes, dataflow.tasks)), rates_per_s=rates)
