"""Setting: the plan that sets running queries to something else, and that which takes it back.

A query whose batches are to stay open, or no longer, restarts from its checkpoint: everything else about it stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from .model.errors import InvalidTransition, NotFound
from .model.fragment import Fragment
from .model.plan import Plan, Step
from .model.plan_kinds import SET
from .model.ports import EstateView
from .model.prices import Prices
from .model.settings_of_fragments import USUAL, FragmentSettings
from .model.task_types import TaskTypes
from .plan_building import heads_of, plan_of_rearrangement, plan_taking_back, submitted_in
from .reuse.activity import FragmentChange
from .step_kinds import SET_FRAGMENT


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
        How far apart batches, or groups of events, begin until intervals are chosen again; else as usual.
    cores_delta : float, optional
        CPU cores that the queries are expected to take more, their readers' included.
    why : str, optional
        What it is for, for those who look at the plan.

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
    own = {estate.places[task_id][0]: None for task_id in submitted.running.values()}
    for name, stays_open in real_time.items():
        if name not in own:
            raise NotFound(
                f"{submitted.name} has no query {name}.", remedy=f"Name one of {', '.join(sorted(own))}.",
                dataflow=dataflow_id, query=name)
        if stays_open and estate.fragments[name].divided:
            raise InvalidTransition(
                f"The batches of {name} cannot stay open: a schedule divides it.",
                remedy="Leave it as it is, or defragment the dataflow.", dataflow=dataflow_id, query=name)
    before = {name: estate.settings.get(name, USUAL) for name in real_time}
    after = {
        name: FragmentSettings(trigger_ms.get(name), stays_open) for name, stays_open in real_time.items()
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


def plan_setting_back(estate: EstateView, plan: Plan) -> Plan:
    """Plan to undo a setting: queries that are still set so are set to what they were before.

    Raises
    ------
    NotSubmitted
        The dataflow that it was for has left the estate.
    InvalidTransition
        All of its queries have gone, or were set to something else since.
    """
    submitted = submitted_in(estate, plan.dataflow.id)
    now = {name: estate.settings.get(name, USUAL) for name in plan.settings_after if name in estate.fragments}
    back = {
        name: replace(plan.settings_before[name], trigger_ms=None) for name, own in now.items()
        if own.real_time == plan.settings_after[name].real_time}
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
