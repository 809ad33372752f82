"""Rearranging what runs: the plans to pause a dataflow and to resume it."""

from __future__ import annotations

from dataclasses import replace

from .model.errors import NotPaused
from .model.estate import Submitted
from .model.plan import Plan
from .model.plan_kinds import PAUSE, RESUME
from .model.ports import EstateView
from .model.prices import Prices
from .model.task_types import TaskTypes
from .performance.running_costs import turned_cost
from .plan_building import heads_of, plan_of_rearrangement, running_of, submitted_in
from .reuse.activity import adjust, crowding_note, is_working, queries_begun, queries_ceased
from .reuse.bill_changes import bill_changes
from .reuse.unmerge import unmerge


def plan_pause(
    estate: EstateView, dataflow_id: str, *, task_types: TaskTypes, prices: Prices, why: str = ""
) -> Plan:
    """Plan that a submitted dataflow rests: what no other working dataflow needs ceases to work and keeps its state.

    Nothing that works on is restarted. While it rests, its tasks get no events, and none of those later on.
    """
    submitted = submitted_in(estate, dataflow_id)
    if submitted.paused:
        raise NotPaused(f"{submitted.name} is paused already.", remedy="Resume it, or remove it.", dataflow=dataflow_id)
    unmerged = unmerge(estate, dataflow_id, paused=True)
    rested = unmerged.rested(estate)
    change = adjust(estate, unmerged.activities)
    return plan_of_rearrangement(
        PAUSE, estate, _turned(submitted), change, heads=heads_of(change.after.values()),
        reused=unmerged.staying,
        rested=rested,
        task_types=task_types, prices=prices, queries_stopped=queries_ceased(change),
        ceases=turned_cost(estate, rested, task_types=task_types, prices=prices),
        bill_changes=bill_changes(
            estate, unmerged.staying, team=submitted.team, comes=False, task_types=task_types, prices=prices),
        why=why)


def plan_resumption(estate: EstateView, dataflow_id: str, *, task_types: TaskTypes, prices: Prices) -> Plan:
    """Plan that a paused dataflow goes on, with the state that it has and the events from then on."""
    submitted = submitted_in(estate, dataflow_id)
    if not submitted.paused:
        raise NotPaused(f"{submitted.name} is not paused.", remedy="There is nothing to resume.", dataflow=dataflow_id)
    tasks = running_of(submitted)
    resumed = tuple(task_id for task_id in tasks if not is_working(estate, task_id))
    change = adjust(estate, dict.fromkeys(tasks, "works"))
    return plan_of_rearrangement(
        RESUME, estate, _turned(submitted), change, heads=heads_of(change.after.values()),
        resumed=resumed,
        task_types=task_types, prices=prices, queries_started=queries_begun(change),
        begins=turned_cost(estate, resumed, task_types=task_types, prices=prices),
        bill_changes=bill_changes(
            estate, tasks, team=submitted.team, comes=True, task_types=task_types, prices=prices, is_paused_user=True),
        notes=tuple(filter(None, [crowding_note(estate, change, tasks=tasks)])))


def _turned(submitted: Submitted) -> Submitted:
    return replace(submitted, paused=not submitted.paused)
