"""Setting: the plan that sets running queries to something else, and that which takes it back.

A query whose batches are to stay open, or no longer, restarts from its checkpoint: everything else about it stays. One
that has a dynamic task done by another alternate, or by another policy, runs on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from .guards.element_policies import ElementPolicy
from .model.alternates import BY, alternates_in, is_dynamic, working_in
from .model.errors import InvalidTransition, NotFound
from .model.estate import Submitted
from .model.fragment import Fragment, RunningTask
from .model.plan import Plan, Step
from .model.plan_kinds import SET
from .model.ports import EstateView
from .model.prices import Prices
from .model.settings_of_fragments import USUAL, FragmentSettings
from .model.task_types import TaskTypes
from .model.warm_up import on_of, warm_s, warming_of, working
from .performance.alternate_costs import switched_cost
from .plan_building import heads_of, plan_of_rearrangement, plan_taking_back, submitted_in
from .reuse.activity import FragmentChange
from .step_kinds import POLICY, SET_FRAGMENT, SWITCH, SWITCH_KEY, StepKind, kind_of


def plan_settings(
    estate: EstateView, dataflow_id: str, *, real_time: Mapping[str, bool],
    trigger_ms: Mapping[str, int] = MappingProxyType({}), cores_delta: float = 0.0, task_types: TaskTypes,
    prices: Prices, why: str = "",
) -> Plan:
    """Plan that batches of a dataflow's queries stay open, or are micro-batches again.

    Parameters
    ----------
    real_time : mapping of str to bool
        By fragment: whether its batches are to stay open.
    trigger_ms : mapping of str to int, optional
        The interval of batches, or groups of events, in ms, until intervals are chosen again; else as usual.
    cores_delta : float, optional
        CPU cores that the queries are expected to take more, their readers' included.

    Raises
    ------
    NotSubmitted
        The estate has no dataflow of that id.
    NotFound
        The dataflow has no such query.
    InvalidTransition
        The queries are set so already, or a schedule divides one that is to stay open.
    """
    submitted = submitted_in(estate, dataflow_id)
    queries = {estate.places[task_id][0]: None for task_id in submitted.running.values()}
    for name, stays_open in real_time.items():
        if name not in queries:
            raise NotFound(
                f"{submitted.name} has no query {name}.", remedy=f"Name one of {', '.join(sorted(queries))}.",
                dataflow=dataflow_id, query=name)
        if stays_open and estate.fragments[name].divided:
            raise InvalidTransition(
                f"The batches of {name} cannot stay open: a schedule divides it.",
                remedy="Leave it as it is, or defragment the dataflow.", dataflow=dataflow_id, query=name)
    before = {name: estate.settings.get(name, USUAL) for name in real_time}
    after = {
        name: replace(before[name], trigger_ms=trigger_ms.get(name), real_time=stays_open)
        for name, stays_open in real_time.items()
        if before[name].real_time != stays_open}
    if not after:
        raise InvalidTransition(
            f"The queries of {submitted.name} are set so already.", remedy="There is nothing to change.",
            dataflow=dataflow_id)
    fragments = {name: estate.fragments[name] for name in after}
    return plan_of_rearrangement(
        SET, estate, submitted, _change(fragments), heads=heads_of(fragments.values()), task_types=task_types,
        prices=prices, cores_delta=cores_delta,
        settings_before={name: before[name] for name in after}, settings_after=after, why=why)


def plan_switch(
    estate: EstateView, dataflow_id: str, *, task: str, alternate: str, along: Mapping[str, str] = MappingProxyType({}),
    task_types: TaskTypes, prices: Prices, stays: bool = False, at_once: bool = False, warmed: bool = False,
    why: str = "",
) -> Plan:
    """Plan that a dynamic task is done by another of its alternates, for all who use it; or several tasks are.

    If the task's alternates warm up, the new one warms up first. Naming the alternate that is on ends a warm-up.

    Parameters
    ----------
    along : mapping of str to str, optional
        The alternates of other tasks that switch with it; tasks that switch in waves do so in one wave.
    stays : bool, optional
        True if the alternate may be the present one, or the one that warms up, because it is to be held.
    at_once : bool, optional
        True if it is on without warming up, or before that is over.
    warmed : bool, optional
        True if it has warmed up for its time.

    Raises
    ------
    NotSubmitted
        The estate has no dataflow of that id.
    NotFound
        The dataflow has no such dynamic task, or the task no such alternate.
    InvalidTransition
        That alternate is on or warms up already; its warm-up was cancelled (with ``warmed``); or tasks that are one
        running task would get different alternates.
    """
    submitted = submitted_in(estate, dataflow_id)
    before: dict[str, FragmentSettings] = {}
    after: dict[str, FragmentSettings] = {}
    switched: dict[str, str] = {}
    named: dict[str, str] = {}  # the task by whose name each running task is switched
    for name, chosen in [(task, alternate), *along.items()]:
        running, was, becomes = _switched(
            estate, submitted, name, chosen, stays=stays, at_once=at_once, warmed=warmed)
        first = named.setdefault(running.id, name)
        if switched.get(running.id, chosen) != chosen:
            task_named = name if name == first else f"{first} and {name}, which are one running task,"
            raise InvalidTransition(
                f"{task_named} cannot be done by {switched[running.id]} and {chosen} at once.",
                remedy="Name one alternate for it.", dataflow=dataflow_id, task=name, alternate=chosen)
        home = estate.places[running.id][0]
        for settings, which in ((before, was), (after, becomes)):
            now = settings.get(home, estate.settings.get(home, USUAL))
            settings[home] = replace(now, alternates={**now.alternates, running.id: which})
        switched[running.id] = chosen
    ceases, begins = switched_cost(estate, switched, task_types=task_types, prices=prices)
    return plan_of_rearrangement(
        SET, estate, submitted, _of_tasks(SWITCH, estate, list(switched)), heads=list(switched), task_types=task_types,
        prices=prices, begins=begins, ceases=ceases, settings_before=before, settings_after=after, why=why)


def plan_key_switch(
    estate: EstateView, dataflow_id: str, *, task: str, alternate: str, of_key: str, task_types: TaskTypes,
    prices: Prices,
) -> Plan:
    """Plan that a dynamic task is done by an alternate for one of its keys, for all who use it; whoever switches keys
    tells the queries.

    Parameters
    ----------
    of_key : str
        The text of the key (`key_texts`).
    """
    submitted = submitted_in(estate, dataflow_id)
    running = _dynamic_task(estate, submitted, task)
    _require_alternate(running, alternate, submitted, task)
    if not running.config.get(BY):
        raise InvalidTransition(
            f"{task} has one alternate for all keys.", remedy="Switch the task, or name a key in its by.",
            dataflow=submitted.id, task=task)
    fragment = estate.fragments[estate.places[running.id][0]]
    settings = {fragment.id: estate.settings.get(fragment.id, USUAL)}
    step = Step(SWITCH_KEY.name, fragment.id, task=running.id, of_key=of_key, alternate=alternate)
    return plan_of_rearrangement(
        SET, estate, submitted, FragmentChange({fragment.id: fragment}, {fragment.id: fragment}, (step,)),
        heads=[running.id], task_types=task_types, prices=prices, cores_delta=0.0, settings_before=settings,
        settings_after=settings)


def _require_alternate(running: RunningTask, alternate: str, submitted: Submitted, task: str) -> None:
    names = [way.name for way in alternates_in(running.type, running.config)]
    if alternate not in names:
        raise NotFound(
            f"Task {task} has no alternate {alternate}.", remedy=_one_of(alternate, names), dataflow=submitted.id,
            task=task, alternate=alternate)


def _switched(
    estate: EstateView, submitted: Submitted, task: str, alternate: str, *, stays: bool, at_once: bool, warmed: bool
) -> tuple[RunningTask, str, str]:
    """The running task to switch, what is to work there if the switch is taken back, and what works there after it."""
    running = _dynamic_task(estate, submitted, task)
    _require_alternate(running, alternate, submitted, task)
    settings = estate.settings.get(estate.places[running.id][0], USUAL)
    was = working_in(running.type, running.config, settings.alternates.get(running.id))
    on, warming = on_of(was), warming_of(was)
    if warmed and warming != alternate:
        raise InvalidTransition(
            f"Alternate {alternate} of {task} no longer warms up.", remedy="There is nothing to change.",
            dataflow=submitted.id, task=task)
    warms = alternate != on and not (at_once or warmed) and warm_s(running.type, running.config) > 0
    becomes = working(on, alternate) if warms else alternate
    if becomes == was and not stays:
        raise InvalidTransition(
            f"Alternate {alternate} of {task} {'warms up' if warming else 'is on'} already.",
            remedy="Wait, or switch at once." if warming else "There is nothing to change.",
            dataflow=submitted.id, task=task)
    return running, was if becomes in (on, was) else on, becomes


def plan_policy(
    estate: EstateView, dataflow_id: str, *, task: str, policy: ElementPolicy | None, task_types: TaskTypes,
    prices: Prices, why: str = "",
) -> Plan:
    """Plan that a dynamic task is switched by another policy, for all who use it.

    Parameters
    ----------
    policy : ElementPolicy or None
        None: what the document says.

    Raises
    ------
    NotSubmitted
        The estate has no dataflow of that id.
    NotFound
        The dataflow has no such dynamic task.
    InvalidTransition
        The task is switched by that policy already.
    """
    submitted = submitted_in(estate, dataflow_id)
    running = _dynamic_task(estate, submitted, task)
    fragment = estate.fragments[estate.places[running.id][0]]
    settings = estate.settings.get(fragment.id, USUAL)
    after = _with(settings, "policies", running.id, None if policy is None else policy.document())
    if after == settings:
        raise InvalidTransition(
            f"{task} is switched by that policy already.", remedy="There is nothing to change.",
            dataflow=dataflow_id, task=task)
    return plan_of_rearrangement(
        SET, estate, submitted, _of_tasks(POLICY, estate, [running.id]), heads=[running.id], task_types=task_types,
        prices=prices, cores_delta=0.0, settings_before={fragment.id: settings}, settings_after={fragment.id: after},
        why=why)


def _dynamic_task(estate: EstateView, submitted: Submitted, task: str) -> RunningTask:
    dynamic = {
        name: estate.tasks[running] for name, running in submitted.running.items()
        if is_dynamic(estate.tasks[running].type)}
    if task not in dynamic:
        raise NotFound(
            f"{submitted.name} has no task {task} with alternates.",
            remedy=_one_of(task, dynamic) or "None of its tasks has any.", dataflow=submitted.id, task=task)
    return dynamic[task]


def _one_of(name: str, names: Collection[str]) -> str:
    near = get_close_matches(name, names, n=1)
    return f"Did you mean {near[0]}?" if near else f"Name one of {', '.join(sorted(names))}." if names else ""


def _of_tasks(kind: StepKind, estate: EstateView, tasks: Collection[str]) -> FragmentChange:
    homes = {task: estate.fragments[estate.places[task][0]] for task in tasks}
    fragments = {fragment.id: fragment for fragment in homes.values()}
    steps = tuple(Step(kind.name, fragment.id, task=task) for task, fragment in homes.items())
    return FragmentChange(fragments, fragments, steps)


def _with(settings: FragmentSettings, of: str, task: str, chosen: Any) -> FragmentSettings:
    """Settings of which one of a task is chosen otherwise; None: as usual."""
    others = {name: choice for name, choice in getattr(settings, of).items() if name != task}
    return replace(settings, **{of: others if chosen is None else {**others, task: chosen}})


def _plan_tasks_back(estate: EstateView, plan: Plan, submitted: Submitted, steps: Sequence[Step]) -> Plan:
    kind = kind_of(steps[0])
    if steps[0].of_key is not None:  # what was held is held no longer
        fragments = {name: estate.fragments[name] for step in steps if (name := step.fragment) in estate.fragments}
        unchanged = {name: estate.settings.get(name, USUAL) for name in fragments}
        return plan_taking_back(
            estate, plan, FragmentChange(fragments, fragments, tuple(steps)), heads=[step.task or "" for step in steps],
            settings_before=unchanged, settings_after=unchanged)
    of = "policies" if kind.of_policy else "alternates"
    before: dict[str, FragmentSettings] = {}
    after: dict[str, FragmentSettings] = {}
    tasks = [step.task or "" for step in steps]
    for step, task in zip(steps, tasks, strict=True):
        was, made = (
            getattr(settings.get(step.fragment, USUAL), of).get(task)
            for settings in (plan.settings_before, plan.settings_after))
        home = estate.places[task][0] if task in estate.tasks else ""
        now = before.setdefault(home, estate.settings.get(home, USUAL))
        if not home or getattr(now, of).get(task) != made:
            since = "is switched by another policy" if kind.of_policy else "was switched to another alternate"
            raise InvalidTransition(
                f"{submitted.name} {since} since.", remedy="There is nothing left to undo.", dataflow=submitted.id)
        after[home] = _with(after.get(home, now), of, task, was)
    return plan_taking_back(
        estate, plan, _of_tasks(kind, estate, tasks), heads=tasks, settings_before=before, settings_after=after)


def plan_setting_back(estate: EstateView, plan: Plan) -> Plan:
    """Plan to undo a setting: queries that still have it get their former settings.

    Raises
    ------
    NotSubmitted
        The dataflow that it was for has left the estate.
    InvalidTransition
        All of its queries have gone, or were set to something else since.
    """
    submitted = submitted_in(estate, plan.dataflow.id)
    if switched := [step for step in plan.steps if step.task]:
        return _plan_tasks_back(estate, plan, submitted, switched)
    now = {name: estate.settings.get(name, USUAL) for name in plan.settings_after if name in estate.fragments}
    back = {
        name: replace(plan.settings_before[name], trigger_ms=None) for name, set_now in now.items()
        if set_now.real_time == plan.settings_after[name].real_time}
    if not back:
        raise InvalidTransition(
            f"The queries of {submitted.name} were set to something else since.",
            remedy="There is nothing left to undo.", dataflow=submitted.id)
    fragments = {name: estate.fragments[name] for name in back}
    return plan_taking_back(
        estate, plan, _change(fragments), heads=heads_of(fragments.values()),
        settings_before={name: now[name] for name in back}, settings_after=back)


def _change(fragments: Mapping[str, Fragment]) -> FragmentChange:
    """The fragments stay as they are: what changes is what they are set to."""
    return FragmentChange(fragments, fragments, tuple(Step(SET_FRAGMENT.name, name) for name in sorted(fragments)))
