"""Defragmenting: the plan that makes one query of several, a step at a time, and the one that takes it back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from .model.errors import InvalidTransition, NothingToGain
from .model.plan import Plan
from .model.plan_kinds import DEFRAGMENT
from .model.ports import EstateView, expect
from .model.prices import Prices
from .model.task_types import TaskTypes
from .performance.pricing import query_cores
from .plan_building import (
    heads_of,
    kept_outputs,
    plan_of_rearrangement,
    plan_taking_back,
    shown_outputs,
    submitted_in,
)
from .reuse.defragment import DefragmentEvidence, DefragmentRule, fusions, in_words, step_of, worth_of
from .reuse.division import is_scheduled
from .reuse.handover import CutPiece, recut_in


def plan_defragmentation(
    estate: EstateView, dataflow_id: str, *, task_types: TaskTypes, prices: Prices,
    evidence: DefragmentEvidence | None = None, rule: DefragmentRule | None = None, busy: Collection[str] = (),
    apart: Collection[str] = (), path: Sequence[str] | None = None,
) -> Plan:
    """Plan the step of defragmentation among a dataflow's fragments that gains most.

    Parameters
    ----------
    evidence : DefragmentEvidence, optional
        The measurements; by default estimates.
    busy : collection of str
        Fragments that are being handed over, and are left alone until that is done.
    apart : collection of str
        Running tasks that stay in queries of their own, because they were too slow for the rest of a query.
    path : sequence of str, optional
        The fragments to be made one, upstream first; by default any step of the smallest kind.

    Returns
    -------
    Plan
        With ``why``: gain and disruption in words.
    """
    submitted, rule, evidence = submitted_in(
        estate, dataflow_id), rule or DefragmentRule(), evidence or DefragmentEvidence()
    fragments = {estate.places[task_id][0] for task_id in submitted.running.values()}
    for_query = query_cores(prices)
    limits: dict[str, Any] = {"task_types": task_types, "query_cores": for_query, "busy": busy, "apart": apart}
    if path is None:
        possible = fusions(estate, fragments, **limits)
    else:
        step = step_of(estate, path, **limits) if fragments.issuperset(path) else None
        possible = [] if step is None else [step]
    expect(prices.paces_ms, fragments)
    ranked = [
        (worth_of(estate, candidate, prices=prices, query_cores=for_query, evidence=evidence, rule=rule), candidate)
        for candidate in possible]
    if not ranked:
        raise NothingToGain(
            f"The queries of {submitted.name} are as few as they can be.", remedy="There is nothing to do.",
            dataflow=dataflow_id,
        )
    worth, fusion = max(ranked, key=lambda entry: (entry[0].gain - entry[0].disruption, entry[1].path[::-1]))
    reason = in_words(fusion, worth, prices=prices, rule=rule)
    if not worth.satisfies(rule):
        raise NothingToGain(
            reason, remedy="Try again when it has run for longer, or change the settings of the rule.",
            dataflow=dataflow_id,
        )
    fused = [estate.fragments[fragment_id] for fragment_id in fusion.path]
    whole = CutPiece(sum(fragment.active for fragment in fused), fusion.slot)
    return plan_of_rearrangement(
        DEFRAGMENT, estate, submitted,
        recut_in(estate, fused, [whole], outputs=shown_outputs(estate, fused, task_types)), heads=heads_of(fused),
        task_types=task_types, prices=prices, queries_started=1, queries_stopped=len(fused),
        cores_delta=-worth.cores, why=reason)


def plan_cutting_back(estate: EstateView, plan: Plan) -> Plan:
    """Plan to undo a defragmentation, at once or long after: the fused queries are cut again where they were.

    Parameters
    ----------
    plan : Plan
        The defragmentation, as it was enacted. Other plans may have come since, and new readers with them.

    Raises
    ------
    NotSubmitted
        The dataflow that it was for has left the estate.
    InvalidTransition
        The fused queries were changed since: fused further, cut, paused, relieved of tasks, or read by a divided
        query.
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
        estate, path, [CutPiece(part.active, part.slot) for part in pieces], outputs=kept_outputs(path))
    return plan_taking_back(estate, plan, change, heads=heads_of(path))
