"""Isolating: the plan that cuts a slow task out of a query that others need, and the one that takes it back."""

from __future__ import annotations

from .model.errors import InvalidTransition, NothingToGain
from .model.fragment import Fragment, node_of
from .model.plan import Plan
from .model.plan_kinds import ISOLATE
from .model.ports import EstateView
from .model.prices import Prices
from .model.task_types import TaskTypes
from .plan_building import (
    heads_of,
    kept_outputs,
    plan_of_rearrangement,
    plan_taking_back,
    shown_outputs,
    submitted_in,
)
from .reuse.division import is_scheduled
from .reuse.handover import CutPiece, recut_in
from .reuse.isolation import cut_for_others


def plan_isolation(
    estate: EstateView, dataflow_id: str, *, slow: str, task_types: TaskTypes, prices: Prices, why: str = ""
) -> Plan:
    """Plan to split a query before its slow task, so that other users are not held back.

    Parameters
    ----------
    dataflow_id : str
        The dataflow that it is planned for: one that needs a part of the query.
    why : str, optional
        The measured reason, for those who look at the plan.

    Raises
    ------
    NotSubmitted
        The estate has no dataflow of that id.
    NothingToGain
        All who need the chain need its slow task, too, or it works no more.
    InvalidTransition
        The chain cannot be cut; the error says why.
    """
    submitted = submitted_in(estate, dataflow_id)
    fragment, position = _at_work(estate, slow)
    cut = None if fragment is None else cut_for_others(estate, fragment, slow=position, task_types=task_types)
    if fragment is None or cut is None:
        raise NothingToGain(
            "Nobody waits for that task who does not need it.", remedy="There is nothing to do.", dataflow=dataflow_id)
    if cut.why_not:
        raise InvalidTransition(
            f"The query cannot be cut: {cut.why_not}.",
            remedy="Pause or remove the dataflow with the slow task, or submit it fresh.", dataflow=dataflow_id)
    change = recut_in(
        estate, [fragment],
        [CutPiece(cut.position, fragment.slot), CutPiece(fragment.active - cut.position, fragment.slot)],
        outputs=shown_outputs(estate, [fragment], task_types))
    return plan_of_rearrangement(
        ISOLATE, estate, submitted, change, heads=heads_of([fragment]), task_types=task_types, prices=prices,
        queries_started=2, queries_stopped=1, why=why)


def plan_joining_back(estate: EstateView, plan: Plan) -> Plan:
    """Plan to undo an isolation: what it cut is one query again."""
    submitted = submitted_in(estate, plan.dataflow.id)
    pieces = [plan.fragments_after[step.fragment] for step in plan.steps]
    path = [estate.fragments[piece.id] for piece in pieces if piece.id in estate.fragments]
    changed = [(part.tasks, part.active, node_of(part.slot)) for part in path] != [
        (piece.tasks, piece.active, node_of(piece.slot)) for piece in pieces]
    if changed or any(is_scheduled(estate, part) for part in path):
        raise InvalidTransition(
            f"The queries of {submitted.name} were changed again since they were cut.",
            remedy="There is nothing left to undo.", dataflow=submitted.id)
    whole = CutPiece(sum(part.active for part in path), path[0].slot)
    return plan_taking_back(
        estate, plan, recut_in(estate, path, [whole], outputs=kept_outputs(path)), heads=heads_of(path))


def _at_work(estate: EstateView, task_id: str) -> tuple[Fragment | None, int]:
    """The fragment in which a task works, and its position there."""
    if task_id not in estate.places:
        return None, 0
    name, position = estate.places[task_id]
    fragment = estate.fragments[name]
    return (fragment, position) if position < fragment.active else (None, 0)
