"""Settings: what a fragment's queries are set to while they run, beside what they are made of.

Settings change while a query runs and never change its outputs. A plan of kind ``set`` changes them as it changes
fragments; intervals alone follow latency limits, which were approved with their dataflows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from .dataflow import _frozen
from .fragment import Fragment
from .saved_states import SavedTask

if TYPE_CHECKING:
    from .plan import Plan

MOST_OPEN_A_SLOT = 100  # queries of one slot whose batches stay open: each holds a thread of its driver
LEAST_THREADS = MOST_OPEN_A_SLOT + 28  # of a driver some of whose queries leave their batches open
# For how long a batch stays open that has taken many events, and any; between the two it ends with so many events or
# blocks: they are read again where it is repeated, and channels keep them meanwhile.
OPEN_S, LONGEST_OPEN_S = 10.0, 300.0
OPEN_EVENTS, OPEN_BLOCKS = 3_000, 800


@dataclass(frozen=True, slots=True)
class FragmentSettings:
    """The settings of the queries of one fragment.

    ``trigger_ms``: the interval of their batches, or of the groups of events in an open batch; None for the
    installation's. ``real_time``: their batches stay open. ``alternates``: by running task, the alternate that is on,
    and the one that warms up (`warm_up.working`), if they differ from the first ones (`alternates.first_on`).
    ``policies``: by running task, the policy as a document (`guards.element_policies`), if it differs from the
    dataflow's. ``restores``: by running task, the part of a named savepoint that it begins with; it never changes, and
    heirs of the fragment begin with the fragment's own savepoint.
    """

    trigger_ms: int | None = None
    real_time: bool = False
    alternates: Mapping[str, str] = field(default_factory=dict)
    policies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    restores: Mapping[str, SavedTask] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "alternates", _frozen(self.alternates))
        object.__setattr__(self, "policies", _frozen(self.policies))
        object.__setattr__(self, "restores", _frozen({task: SavedTask(*row) for task, row in self.restores.items()}))


USUAL = FragmentSettings()
SETTINGS = tuple(setting.name for setting in fields(FragmentSettings))
OF_TASKS = ("alternates", "policies")  # settings of single tasks of a fragment


def open_in_slots(fragments: Mapping[str, Fragment], settings: Mapping[str, FragmentSettings]) -> Counter[str]:
    """The number of queries of each slot that are to leave their batches open."""
    return Counter(
        fragments[name].slot for name, chosen in settings.items() if chosen.real_time and name in fragments)


def settings_of_new(
    before: Mapping[str, Fragment], after: Mapping[str, Fragment], settings: Mapping[str, FragmentSettings],
    open_in_slot: Mapping[str, int], planned: Mapping[str, FragmentSettings] = MappingProxyType({}),
) -> dict[str, FragmentSettings]:
    """The settings with which new fragments begin.

    One that goes on with the work of others (a moved, fused or cut query) has the shortest interval of its
    predecessors, and their alternates and policies. Its batches stay open if all of theirs do. A fragment that begins
    anew has the settings of its plan. Either way batches stay open only if the slot has room. Without this a query
    would begin with micro-batches, and be restarted a moment later.

    Parameters
    ----------
    before, after : mapping of str to Fragment
        The fragments that a plan touches, as they were and as they are.
    open_in_slot : mapping of str to int
        The number of queries of each slot with open batches, those that the plan ends left out.
    planned : mapping of str to FragmentSettings, optional
        The settings of fragments in the plan; those that are not new are left out.

    Returns
    -------
    dict of str to FragmentSettings
        By new fragment; usual settings are left out.
    """
    opened = Counter(open_in_slot)
    made = {}
    for name, fragment in after.items():
        if name in before:
            continue
        if not fragment.inherits:
            fragment_settings = planned.get(name, USUAL)
            if fragment_settings.real_time and opened[fragment.slot] >= MOST_OPEN_A_SLOT:
                fragment_settings = replace(fragment_settings, trigger_ms=None, real_time=False)
            opened[fragment.slot] += fragment_settings.real_time
            if fragment_settings != USUAL:
                made[name] = fragment_settings
            continue
        earlier = [settings.get(ancestor, USUAL) for ancestor in fragment.inherits if ancestor in before]
        intervals = [former.trigger_ms for former in earlier if former.trigger_ms is not None]
        stays_open = bool(earlier) and not fragment.divided and all(former.real_time for former in earlier) and (
            opened[fragment.slot] < MOST_OPEN_A_SLOT)
        opened[fragment.slot] += stays_open
        alternates, policies = (
            {task: chosen for former in earlier for task, chosen in getattr(former, of).items()
             if task in fragment.tasks}
            for of in OF_TASKS)
        fragment_settings = FragmentSettings(min(intervals, default=None), stays_open, alternates, policies)
        if fragment_settings != USUAL:
            made[name] = fragment_settings
    return made


def first_settings(
    before: Mapping[str, Fragment], after: Mapping[str, Fragment], running: Mapping[str, str],
    of_tasks: Mapping[str, FragmentSettings], *, restores: Mapping[str, SavedTask] = MappingProxyType({}),
) -> dict[str, FragmentSettings]:
    """The planned settings of a coming dataflow's new fragments: open where all of their tasks are.

    Parameters
    ----------
    before, after : mapping of str to Fragment
        The fragments that a plan touches, as they were and as they are.
    running : mapping of str to str
        The running task of each task of the dataflow.
    of_tasks : mapping of str to FragmentSettings
        By task of the dataflow: how its query is set if the dataflow runs alone; usual settings are left out.
    restores : mapping of str to SavedTask, optional
        By running task: what it begins with of a named savepoint.
    """
    by_task = {running[task]: task_settings for task, task_settings in of_tasks.items() if task in running}
    planned = {}
    for name, fragment in after.items():
        settings_of_tasks = [by_task.get(task, USUAL) for task in fragment.tasks]
        if name not in before and not fragment.inherits and not fragment.divided and all(
                task_settings.real_time for task_settings in settings_of_tasks):
            planned[name] = min(settings_of_tasks, key=lambda task_settings: task_settings.trigger_ms or 0)
        if name not in before and (begun := {task: restores[task] for task in fragment.tasks if task in restores}):
            planned[name] = replace(planned.get(name, USUAL), restores=begun)
    return planned


def changed_settings(
    before: Mapping[str, FragmentSettings], after: Mapping[str, FragmentSettings],
    now: Mapping[str, FragmentSettings],
) -> dict[str, FragmentSettings]:
    """The settings of the fragments that a plan sets: its changes, and otherwise the present settings, which may differ
    from those when the plan was made.

    Parameters
    ----------
    before, after : mapping of str to FragmentSettings
        The settings in the plan, before it and after it.
    """
    changed = {}
    for name, planned in after.items():
        was, is_now = before.get(name, USUAL), now.get(name, USUAL)
        of_tasks = {of: _changed_tasks(getattr(was, of), getattr(planned, of), getattr(is_now, of)) for of in OF_TASKS}
        is_of_tasks = any(getattr(planned, of) != getattr(was, of) for of in OF_TASKS)
        changed[name] = replace(is_now if is_of_tasks else planned, **of_tasks)
    return changed


def _changed_tasks(was: Mapping[str, Any], after: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    others = {task: chosen for task, chosen in now.items() if task in after or task not in was}
    return others | {task: chosen for task, chosen in after.items() if was.get(task) != chosen}


def settings_applied(plan: Plan, settings: Mapping[str, FragmentSettings], fragments: Mapping[str, Fragment]) -> (
        dict[str, FragmentSettings]):
    """All settings of an estate once a plan is applied.

    Parameters
    ----------
    settings, fragments : mapping
        Of the estate before.
    """
    before, after = plan.fragments_before, plan.fragments_after
    ended = before.keys() - after.keys()
    staying = {name: chosen for name, chosen in settings.items() if name not in ended}
    new = settings_of_new(before, after, settings, open_in_slots(fragments, staying), plan.settings_after)
    requested_settings = changed_settings(plan.settings_before, plan.settings_of_others, settings)
    return {name: chosen for name, chosen in {**staying, **new, **requested_settings}.items() if chosen != USUAL}
