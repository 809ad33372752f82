"""Rearranging what runs: plans to pause a dataflow, to resume it, and to defragment it a step at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from .applying import reversed_plan
from .model.encoding import freeze_plan
from .model.errors import InvalidTransition, NothingToGain, NotPaused
from .model.estate import Submitted
from .model.plan import Plan
from .model.plan_kinds import DEFRAGMENT, PAUSE, RESUME
from .model.ports import EstateView
from .model.prices import Prices
from .model.task_types import TaskTypes
from .performance.pricing import query_cores, running_cores
from .plan_building import plan_of_change, price_of_rearrangement, submitted_in, touched_by
from .reuse.activity import adjust, crowding_note, is_working, queries_begun, queries_ceased
from .reuse.bill_changes import bill_changes
from .reuse.defragment import Evidence, Fusion, Rule, Worth, fusions, in_words, step_of, worth_of
from .reuse.division import is_scheduled
from .reuse.fragments import LONGEST_CHAIN
from .reuse.handover import Piece, recut_in
from .reuse.unmerge import unmerge


def plan_pause(
    estate: EstateView, dataflow_id: str, *, task_types: TaskTypes, prices: Prices, why: str = ""
) -> Plan:
    """Plan that a submitted dataflow rests: what no other working dataflow needs ceases to work and keeps its state.

    Nothing that works on is restarted. While it rests, its tasks get no events, and none of those later on.

    Parameters
    ----------
    estate : EstateView
        What runs, for whom and where, as the decision sees it.
    dataflow_id : str
        The dataflow's id.
    task_types : TaskTypes
        The catalogue, by type name.
    prices : Prices
        What a core, a query and what they take cost an hour.
    why : str, optional
        Why, for those who look at the plan.

    Raises
    ------
    NotSubmitted
        The estate has no dataflow of that id.
    NotPaused
        It is paused already.
    """
    submitted = submitted_in(estate, dataflow_id)
    if submitted.paused:
        raise NotPaused(f"{submitted.name} is paused already.", remedy="Resume it, or remove it.", dataflow=dataflow_id)
    unmerged = unmerge(estate, dataflow_id, paused=True)
    rested = unmerged.rested(estate)
    change = adjust(estate, unmerged.activities)
    return freeze_plan(plan_of_change(
        PAUSE, estate, _turned(submitted), change,
        heads=(fragment.tasks[0] for fragment in change.after.values()),
        reused=unmerged.kept,
        rested=rested,
        price=price_of_rearrangement(
            estate, submitted, task_types=task_types, prices=prices, queries_stopped=queries_ceased(change),
            task_cores_delta=-sum(
                running_cores(estate.tasks[task_id], task_types=task_types, prices=prices) for task_id in rested)),
        bill_changes=bill_changes(
            estate, unmerged.kept, team=submitted.team, comes=False, task_types=task_types, prices=prices),
        why=why,
    ))


def plan_resumption(estate: EstateView, dataflow_id: str, *, task_types: TaskTypes, prices: Prices) -> Plan:
    """Plan that a paused dataflow goes on, with the state that it has and the events from then on.

    Parameters
    ----------
    estate : EstateView
        What runs, for whom and where, as the decision sees it.
    dataflow_id : str
        The dataflow's id.
    task_types : TaskTypes
        The catalogue, by type name.
    prices : Prices
        What a core, a query and what they take cost an hour.

    Raises
    ------
    NotSubmitted
        The estate has no dataflow of that id.
    NotPaused
        It is not paused.
    """
    submitted = submitted_in(estate, dataflow_id)
    if not submitted.paused:
        raise NotPaused(f"{submitted.name} is not paused.", remedy="There is nothing to resume.", dataflow=dataflow_id)
    own = tuple(sorted(set(submitted.running.values())))
    resumed = tuple(task_id for task_id in own if not is_working(estate, task_id))
    change = adjust(estate, dict.fromkeys(own, "works"))
    return freeze_plan(plan_of_change(
        RESUME, estate, _turned(submitted), change,
        heads=(fragment.tasks[0] for fragment in change.after.values()),
        reused=own,
        resumed=resumed,
        price=price_of_rearrangement(
            estate, submitted, task_types=task_types, prices=prices, queries_started=queries_begun(change),
            task_cores_delta=sum(
                running_cores(estate.tasks[task_id], task_types=task_types, prices=prices) for task_id in resumed)),
        bill_changes=bill_changes(
            estate, own, team=submitted.team, comes=True, task_types=task_types, prices=prices, is_paused_user=True),
        notes=tuple(filter(None, [crowding_note(estate, change, own=own)])),
    ))


def plan_defragmentation(
    estate: EstateView,
    dataflow_id: str,
    *,
    task_types: TaskTypes,
    prices: Prices,
    evidence: Evidence | None = None,
    rule: Rule | None = None,
    longest_chain: int = LONGEST_CHAIN,
    busy: Collection[str] = (),
    apart: Collection[str] = (),
    path: Sequence[str] | None = None,
) -> Plan:
    """Plan one step of defragmentation among the fragments that a submitted dataflow runs in: the one that gains most.

    Parameters
    ----------
    evidence : Evidence, optional
        What is measured; without it estimates take its place.
    rule : Rule, optional
        When a step is worth it.
    longest_chain : int, optional
        Most tasks in a fragment.
    busy : collection of str
        Fragments that are being handed over, and are left alone until that is done.
    apart : collection of str
        Running tasks that were cut out of a query because they were too slow for the rest of it.
    path : sequence of str, optional
        The very fragments to be made one, upstream first, however many; any step of the smallest kind without it.

    Returns
    -------
    Plan
        With ``why``: what it gains against what it disturbs, in words.

    Raises
    ------
    NotSubmitted
        The estate has no dataflow of that id.
    NothingToGain
        No step is possible, or none is worth it by the rule.
    """
    submitted, rule, evidence = submitted_in(estate, dataflow_id), rule or Rule(), evidence or Evidence()
    own = {estate.places[task_id][0] for task_id in submitted.running.values()}
    for_query = query_cores(prices)
    limits: dict[str, Any] = {
        "task_types": task_types, "query_cores": for_query, "longest_chain": longest_chain, "busy": busy,
        "apart": apart}
    if path is None:
        possible = fusions(estate, own, **limits)
    else:
        step = step_of(estate, path, **limits) if own.issuperset(path) else None
        possible = [] if step is None else [step]
    ranked = [
        (worth_of(estate, candidate, prices=prices, query_cores=for_query, evidence=evidence, rule=rule), candidate)
        for candidate in possible]
    if not ranked:
        raise NothingToGain(
            f"The queries of {submitted.name} are as few as they can be.", remedy="There is nothing to do.",
            dataflow=dataflow_id,
        )
    worth, fusion = max(ranked, key=lambda entry: (entry[0].gain - entry[0].disruption, entry[1].path[::-1]))
    why = in_words(fusion, worth, prices=prices, rule=rule)
    if not worth.satisfies(rule):
        raise NothingToGain(
            why, remedy="Try again when it has run for longer, or change the settings of the rule.",
            dataflow=dataflow_id,
        )
    return _fused(estate, submitted, fusion, worth, why, task_types=task_types, prices=prices)


def plan_cutting_back(estate: EstateView, plan: Plan) -> Plan:
    """Plan to undo a defragmentation, at once or long after: what it fused is cut again where it was.

    Parameters
    ----------
    plan : Plan
        The defragmentation, as it was enacted. Other plans may have come since, and new readers with them.

    Raises
    ------
    NotSubmitted
        The dataflow that it was for has left the estate.
    InvalidTransition
        What it fused was changed since: fused further, cut, paused, rid of tasks, or read by what a schedule divides.
    """
    submitted = submitted_in(estate, plan.dataflow.id)
    fused = [plan.fragments_after[step.fragment] for step in plan.steps]
    path = [estate.fragments[piece.id] for piece in fused if piece.id in estate.fragments]
    changed = [(fragment.tasks, fragment.active) for fragment in path] != [
        (piece.tasks, piece.active) for piece in fused
    ]
    if changed or any(is_scheduled(estate, fragment) for fragment in path):
        raise InvalidTransition(
            f"The queries of {submitted.name} were changed again since they were fused.",
            remedy="There is nothing left to undo; remove and submit the dataflow to run it in other pieces.",
            dataflow=submitted.id,
        )
    pieces = [
        plan.fragments_before[ancestor]
        for ancestor in dict.fromkeys(fragment_id for part in fused for fragment_id in part.inherits)
    ]
    change = recut_in(
        estate, path, [Piece(part.active, part.slot) for part in pieces],
        outputs={task_id for part in path for task_id in part.channels if task_id not in part.outlets})
    return freeze_plan(
        replace(
            reversed_plan(plan, change), generation=estate.generation, dataflow=submitted,
            **touched_by(estate, (part.tasks[0] for part in path), besides=submitted),
        )
    )


def _fused(
    estate: EstateView,
    submitted: Submitted,
    fusion: Fusion,
    worth: Worth,
    why: str,
    *,
    task_types: TaskTypes,
    prices: Prices,
) -> Plan:
    path = [estate.fragments[fragment_id] for fragment_id in fusion.path]
    tasks = [task_id for fragment in path for task_id in fragment.active_tasks]
    outputs = {task_id for task_id in tasks if task_types[estate.tasks[task_id].type].terminal == "output"}
    change = recut_in(estate, path, [Piece(len(tasks), fusion.slot)], outputs=outputs)
    return freeze_plan(plan_of_change(
        DEFRAGMENT, estate, submitted, change,
        heads=(fragment.tasks[0] for fragment in path),
        reused=tuple(sorted(set(submitted.running.values()))),
        price=price_of_rearrangement(
            estate, submitted, task_types=task_types, prices=prices, queries_started=1, queries_stopped=len(path),
            # What is left over once queries are counted: the dead tasks.
            task_cores_delta=(len(path) - 1) * query_cores(prices) - worth.cores),
        why=why,
    ))


def _turned(submitted: Submitted) -> Submitted:
    return replace(submitted, paused=not submitted.paused)
