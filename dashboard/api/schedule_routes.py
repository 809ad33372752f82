"""The routes of schedules. ``docs/api.md`` describes them."""

from __future__ import annotations

import json
from dataclasses import asdict
from math import isinf
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest
from ninja import Query, Router, Status

from dashboard.api.answers.common import row_of
from dashboard.api.answers.proposals import ProposalRow
from dashboard.api.answers.schedules import (
    BoundAnswer,
    ComparisonAnswer,
    Outcome,
    PredictedBundle,
    Run,
    SlotBundle,
    SlotBundleSide,
    SlotDetail,
    SlotLoadAnswer,
    TaskBasisAnswer,
    WhatIf,
)
from dashboard.api.query_parameters import Rate, RateOrNone, RoutingName
from dashboard.api.schemas import ScheduleIn, proposal_row
from dashboard.approvals import selectors as proposals
from dashboard.approvals.services import propose_schedule
from dashboard.catalog import selectors as catalog
from dashboard.plans.choices import ScheduleChoice
from dashboard.plans.scheduling_problem import problem_of
from dashboard.plans.selectors import plan_of
from dashboard.schedules import options
from dashboard.schedules.comparison import ComparisonRow
from dashboard.schedules.selectors import outcome_of, schedules_of
from dashboard.schedules.slot_details import SlotCell, slots_grid
from scheduler.allocation.acquisition import Acquisition
from scheduler.model.encoding import to_json
from scheduler.model.fragment import RunningBundle
from scheduler.model.placement import Bound
from scheduler.pairs import PAIRS, QUICK_PAIRS
from scheduler.scheduling import Schedule

router = Router()
MOST_POINTS = 200  # of a curve


@router.get("/dataflows/{uuid:dataflow_id}/schedules", response=ComparisonAnswer, exclude_unset=True)
def schedules(
    request: HttpRequest, dataflow_id: UUID, rate_per_s: RateOrNone = None, routing: RoutingName = "slot_aware"
) -> dict[str, Any]:
    """All pairs of allocation and mapping at a rate: schedules, or why there is none."""
    choice = ScheduleChoice.of(pair=PAIRS[0], rate_per_s=rate_per_s, routing=routing)
    problem = problem_of(catalog.dataflow(request.viewer, dataflow_id), routing=choice.routing)
    schedule_options = options.answer(problem, choice.rate_per_s)
    if schedule_options.failure is not None:
        raise schedule_options.failure
    room = options.room_of(problem)
    return {
        "currency": settings.CURRENCY,
        "routing": choice.routing,
        "blocked": problem.blocked,
        "free_slots": room.free,
        "own_slots": room.own_slots,
        "shared_slots": room.shared,
        "tasks": [task_row(profiled) for profiled in options.basis_of(problem, schedule_options.job)]
        if schedule_options.job
        else [],
        "schedules": [pair_row(row) for row in schedule_options.rows],
    }


@router.get("/dataflows/{uuid:dataflow_id}/what-if", response=list[WhatIf], exclude_unset=True)
def what_if(
    request: HttpRequest, dataflow_id: UUID, most_per_s: Rate, points: int = Query(20, ge=1, le=MOST_POINTS),
    routing: RoutingName = "slot_aware",
) -> list[dict[str, Any]]:
    """The cost and rate of each quick pair, at rates from ``most_per_s / points`` up to that."""
    choice = ScheduleChoice.of(pair=PAIRS[0], rate_per_s=most_per_s, routing=routing)
    problem = problem_of(catalog.dataflow(request.viewer, dataflow_id), routing=choice.routing)
    return problem.what_if([most_per_s * number / points for number in range(1, points + 1)], pairs=QUICK_PAIRS)


@router.post("/dataflows/{uuid:dataflow_id}/schedule", response={201: ProposalRow})
def propose(request: HttpRequest, dataflow_id: UUID, schedule: ScheduleIn) -> Status:
    """Propose a schedule: 201 with the proposal, whose plan is being computed."""
    return Status(201, proposal_row(propose_schedule(
        actor=request.user, dataflow_id=dataflow_id, choice=schedule.choice())))


@router.delete("/dataflows/{uuid:dataflow_id}/schedule", response=ProposalRow)
def without(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """Plan a submission that is not decided yet without a schedule."""
    return proposal_row(propose_schedule(actor=request.user, dataflow_id=dataflow_id, choice=None))


@router.get("/dataflows/{uuid:dataflow_id}/schedule/outcome", response=Outcome, exclude_unset=True)
def outcome(request: HttpRequest, dataflow_id: UUID, proposal: UUID | None = None) -> dict[str, Any]:
    """The promise of the schedule in force, or of a proposal's, the measurements, and the misses with their reasons."""
    outcome = outcome_of(request.viewer, dataflow_id, proposal_id=proposal or "")
    current, status = outcome.planned, outcome.status
    return {
        "proposal": str(current.proposal_id) if current else None,
        "since": current.since if current else None,
        "status": status.what if current else None,
        "status_since": status.at,
        "status_by": str(status.by) if status.by else None,
        "readings": outcome.measured.readings,
        "begins": outcome.measured.begins,
        "ends": outcome.measured.ends,
        "judged": outcome.judged,
        "promise": json.loads(to_json(current.promise)) if current else None,
        "seen": asdict(outcome.seen) if current else None,
        "missed": [asdict(miss) for miss in outcome.missed],
        "deviations": [asdict(deviation) for deviation in outcome.deviations],
        "blur": outcome.blur,
    }


@router.get("/dataflows/{uuid:dataflow_id}/schedule/runs", response=list[Run])
def runs(request: HttpRequest, dataflow_id: UUID) -> list[dict[str, Any]]:
    """The schedules that a dataflow has run by, newest first, with what is kept of those that are over."""
    return [
        {"proposal": str(run.planned.proposal_id), "since": run.planned.since, "pair": run.planned.promise.pair,
         "rate_per_s": run.planned.promise.rate_per_s, "in_force": run.in_force, "measured_until": run.ends,
         "missed": None if run.missed is None else [asdict(miss) for miss in run.missed]}
        for run in schedules_of(request.viewer, dataflow_id)]


@router.get("/slots", response=list[SlotDetail])
def slots(request: HttpRequest, proposal: UUID | None = None) -> list[dict[str, Any]]:
    """Every slot with its bundles; with ``proposal`` as before and after its plan."""
    record = proposals.proposal(request.viewer, proposal) if proposal else None
    grid = slots_grid(request.viewer, plan=plan_of(record.plan) if record else None)
    return [slot_row(slot, unpinned=node.unpinned) for node in grid.nodes for slot in node.slots]


def slot_row(slot: SlotCell, *, unpinned: str = "") -> dict[str, Any]:
    """One slot: planned before and after, measured, and its bundles."""
    return row_of(
        SlotDetail, slot, planned=asdict(slot.before), planned_after=asdict(slot.after), measured=asdict(slot.taken),
        whole=asdict(slot.whole), unpinned=unpinned or None, bundles=[
            row_of(
                SlotBundle, bundle, was=_side(bundle.was), now=_side(bundle.now),
                planned_before=asdict(bundle.planned_before), planned=asdict(bundle.planned),
                measured=asdict(bundle.measured))
            for bundle in slot.bundles])


def task_row(basis: options.TaskBasis) -> dict[str, Any]:
    """The basis of a task's part of all schedules."""
    return row_of(
        TaskBasisAnswer, basis, task=basis.id, profile=basis.origin, peak=asdict(basis.peak) if basis.peak else None,
        warnings=[asdict(warning) for warning in basis.warnings])


def pair_row(row: ComparisonRow) -> dict[str, Any]:
    """A pair: its schedule, and what that would change of the bundles that run; or why it has none."""
    if row.schedule is None or row.changes is None:
        return {"pair": row.pair, "error": row.error.as_dict() if row.error else None}
    return schedule_row(row.schedule) | {"changes": asdict(row.changes), "note": row.note}


def _machines(acquisition: Acquisition) -> list[dict[str, Any]]:
    return [
        {"name": node.name, "slots": len(node.slots), "size": node.size.name if node.size else None,
         "to_buy": node.new} for node in acquisition.nodes]


def _published(acquisition: Acquisition | None) -> dict[str, Any] | None:
    """Machines and price by the paper's rule, where they would cost more."""
    return None if acquisition is None else {"machines": _machines(acquisition), "per_hour": acquisition.per_hour}


def schedule_row(schedule: Schedule) -> dict[str, Any]:
    """One schedule with what it takes, costs and promises."""
    limit = schedule.prediction.routed.limit
    return {
        "pair": schedule.pair,
        "rate_per_s": schedule.rate_per_s,
        "slots": schedule.slots,
        "extra": schedule.placement.extra,
        "machines": _machines(schedule.acquisition),
        "published_machines": _published(schedule.published_acquisition),
        "per_hour": schedule.acquisition.per_hour,
        "per_month": schedule.acquisition.per_month,
        "sustained_per_s": schedule.sustained_per_s,
        "keeps": schedule.prediction.keeps,
        "limit": limit.reason if limit else None,
        "limited_by": limit.what if limit else None,
        "latency_s": schedule.latency_s,
        "between_nodes_per_s": schedule.between_nodes_per_s,
        "unmeasured": schedule.prediction.unmeasured,
        "slots_bound": _bound(schedule.placement.slots_bound),
        "traffic_bound": _bound(schedule.placement.traffic_bound),
        "loads": [row_of(SlotLoadAnswer, load, slot=load.slot.name) for load in schedule.prediction.slots],
        "bundles": [
            row_of(PredictedBundle, bundle, slot=bundle.slot.name,
                   sustains_per_s=None if isinf(bundle.sustains_per_s) else bundle.sustains_per_s)
            for bundle in schedule.prediction.bundles],
    }


def _side(bundle: RunningBundle | None) -> dict[str, Any] | None:
    """A bundle of a slot before or after a plan; None where it is not there then."""
    return None if bundle is None else row_of(SlotBundleSide, bundle)


def _bound(bound: Bound | None) -> dict[str, Any] | None:
    """The distance of a mapping from the best one, where it knows."""
    return None if bound is None else row_of(BoundAnswer, bound)
