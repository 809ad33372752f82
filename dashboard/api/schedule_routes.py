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

from dashboard.api.schemas import ScheduleIn, proposal_row
from dashboard.approvals import selectors as proposals
from dashboard.approvals.services import propose_schedule
from dashboard.catalog import selectors as catalog
from dashboard.plans.scheduling import QUICK, Choice, question_of
from dashboard.plans.selectors import plan_of
from dashboard.schedules.selectors import outcome_of
from dashboard.schedules.slots import SlotCell, slots_grid
from scheduler.model.encoding import to_json
from scheduler.scheduling import PAIRS, Schedule

router = Router()
MOST_POINTS = 200  # of a curve


@router.get("/dataflows/{uuid:dataflow_id}/schedules")
def schedules(
    request: HttpRequest, dataflow_id: UUID, rate_per_s: float | None = None, routing: str = "slot_aware"
) -> dict[str, Any]:
    """All pairs of allocation and mapping at a rate: schedules, or why there is none."""
    choice = Choice.of(pair=PAIRS[0], rate_per_s=rate_per_s, routing=routing)
    question = question_of(catalog.dataflow(request.viewer, dataflow_id), routing=choice.routing)
    found = question.compare(choice.rate_per_s)
    rows = {one.pair: schedule_row(one) for one in found.schedules}
    rows |= {pair: {"pair": pair, "error": error.as_dict()} for pair, error in found.errors.items()}
    return {
        "currency": settings.CURRENCY, "routing": choice.routing, "blocked": question.blocked,
        "free_slots": sum(len(node.slots) for node in question.supply.free) - len(question.supply.taken),
        "shared_slots": len(question.supply.taken),
        "schedules": [rows[pair] for pair in PAIRS]}


@router.get("/dataflows/{uuid:dataflow_id}/what-if")
def what_if(
    request: HttpRequest, dataflow_id: UUID, most_per_s: float, points: int = Query(20, ge=1, le=MOST_POINTS),
    routing: str = "slot_aware",
) -> list[dict[str, Any]]:
    """What each quick pair takes and gives, at rates from ``most_per_s / points`` up to that."""
    choice = Choice.of(pair=PAIRS[0], rate_per_s=most_per_s, routing=routing)
    question = question_of(catalog.dataflow(request.viewer, dataflow_id), routing=choice.routing)
    return question.what_if([most_per_s * number / points for number in range(1, points + 1)], pairs=QUICK)


@router.post("/dataflows/{uuid:dataflow_id}/schedule", response={201: dict})
def propose(request: HttpRequest, dataflow_id: UUID, schedule: ScheduleIn) -> Status:
    """Propose a schedule: 201 with the proposal, whose plan is being computed."""
    return Status(201, proposal_row(propose_schedule(
        actor=request.user, dataflow_id=dataflow_id, choice=schedule.choice())))


@router.delete("/dataflows/{uuid:dataflow_id}/schedule")
def without(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """Plan a submission that is not decided yet without a schedule."""
    return proposal_row(propose_schedule(actor=request.user, dataflow_id=dataflow_id, choice=None))


@router.get("/dataflows/{uuid:dataflow_id}/schedule/outcome")
def outcome(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """What the schedule in force promised, what was measured, and what was missed and why."""
    found = outcome_of(request.viewer, dataflow_id)
    return {
        "proposal": str(found.kept.proposal_id) if found.kept else None,
        "since": found.kept.since if found.kept else None, "readings": found.readings, "judged": found.judged,
        "promise": json.loads(to_json(found.kept.promise)) if found.kept else None,
        "seen": asdict(found.seen) if found.kept else None,
        "missed": [asdict(miss) for miss in found.missed]}


@router.get("/slots")
def slots(request: HttpRequest, proposal: UUID | None = None) -> list[dict[str, Any]]:
    """Every slot with its bundles; with ``proposal`` as before and after its plan."""
    record = proposals.proposal(request.viewer, proposal) if proposal else None
    grid = slots_grid(request.viewer, plan=plan_of(record.plan) if record else None)
    return [slot_row(slot) for slot in grid.slots]


def slot_row(slot: SlotCell) -> dict[str, Any]:
    """One slot: planned before and after, measured, and its bundles."""
    return {
        "name": slot.name, "state": slot.state, "reserved_for": slot.reserved_for,
        "planned": asdict(slot.before), "planned_after": asdict(slot.after), "measured": asdict(slot.taken),
        "whole": asdict(slot.whole),
        "bundles": [
            {"id": one.id, "fragment": one.fragment, "tasks": one.tasks, "users": one.users, "change": one.change,
             "threads": one.threads, "weight": one.weight, "planned": asdict(one.planned),
             "measured": asdict(one.measured), "state": one.state} for one in slot.bundles],
    }


def schedule_row(found: Schedule) -> dict[str, Any]:
    """One schedule with what it takes, costs and promises."""
    limit = found.prediction.routed.limit
    return {
        "pair": found.pair, "rate_per_s": found.rate_per_s, "slots": found.slots, "extra": found.placement.extra,
        "machines": [
            {"name": node.name, "slots": len(node.slots), "size": node.size.name if node.size else None,
             "to_buy": node.new} for node in found.acquisition.nodes],
        "per_hour": found.acquisition.per_hour, "per_month": found.acquisition.per_month,
        "sustained_per_s": found.sustained_per_s, "keeps": found.prediction.keeps,
        "limit": limit.reason if limit else None, "latency_s": found.latency_s,
        "between_nodes_per_s": found.between_nodes_per_s, "unmeasured": found.prediction.unmeasured,
        "loads": [
            {"slot": one.slot.name, "cpu": one.cpu, "memory": one.memory} for one in found.prediction.slots],
        "bundles": [
            {"task": one.task, "slot": one.slot.name, "threads": one.threads, "share": one.share,
             "rate_per_s": one.rate_per_s,
             "sustains_per_s": None if isinf(one.sustains_per_s) else one.sustains_per_s, "cpu": one.cpu,
             "memory": one.memory, "basis": one.basis}
            for one in found.prediction.bundles],
    }
