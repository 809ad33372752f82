"""The routes of simulations. ``docs/api.md`` describes them."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Field, Query, Router, Status
from pydantic import WithJsonSchema

from dashboard.api.answers.common import Page, row_of
from dashboard.api.answers.simulations import SimulationAnswer, SimulationRow
from dashboard.api.request_schema import RequestSchema
from dashboard.api.schemas import page_of
from dashboard.approvals import selectors as approvals
from dashboard.approvals.replays import LONGEST_H
from dashboard.simulations import selectors, services
from dashboard.simulations.models import REPLAY, SIDE_BY_SIDE, SimulationRun
from scheduler.adaptation.side_by_side import MOST_HOURS, OFFERED, LoadKind, MachineSpeeds
from scheduler.simulation.problem import Billing

router = Router()
Algorithms = Annotated[list[str], WithJsonSchema({
    "type": "array", "items": {"type": "string", "enum": list(OFFERED)}, "minItems": 1, "uniqueItems": True})]


class SideBySideIn(RequestSchema):
    """The fields of `scheduler.adaptation.side_by_side.SimulationSetup`."""

    algorithms: Algorithms
    load: LoadKind = "recorded"
    times: float = Field(1.0, gt=0, le=1e6)
    hours: int = Field(12, ge=1, le=MOST_HOURS)
    billing: Billing = "hours"
    machines: MachineSpeeds = "made"
    least: float = Field(0.8, gt=0, le=1)
    forecast: Literal["learned", "known"] = "learned"
    error: float = Field(0.0, ge=0, le=2)
    seed: int = Field(1, ge=0, lt=2**31)


class ReplayIn(RequestSchema):
    """The hours of kept history to play."""

    hours: int = Field(24, ge=1, le=round(LONGEST_H))


@router.get("/dataflows/{uuid:dataflow_id}/simulations", response=Page[SimulationRow])
def simulations(request: HttpRequest, dataflow_id: UUID, page: int = Query(1, ge=1, le=10**6)) -> dict[str, Any]:
    """Simulations of a dataflow, the newest first."""
    return page_of(selectors.of_dataflow(request.viewer, dataflow_id), page, _row)


@router.post("/dataflows/{uuid:dataflow_id}/simulations", response={201: SimulationRow})
def simulate(request: HttpRequest, dataflow_id: UUID, setup: SideBySideIn) -> Status:
    """Start algorithms of adaptation side by side: 201; results come with time."""
    return Status(201, _row(services.start_side_by_side(
        actor=request.user, dataflow_id=dataflow_id, **setup.dict() | {"algorithms": tuple(setup.algorithms)})))


@router.get("/proposals/{uuid:proposal_id}/replays", response=Page[SimulationRow])
def replays(request: HttpRequest, proposal_id: UUID, page: int = Query(1, ge=1, le=10**6)) -> dict[str, Any]:
    """Replays of a proposal, the newest first."""
    proposal = approvals.proposal(request.viewer, proposal_id)
    return page_of(selectors.of_proposal(proposal.pk), page, _row)


@router.post("/proposals/{uuid:proposal_id}/replays", response={201: SimulationRow})
def replay(request: HttpRequest, proposal_id: UUID, setup: ReplayIn) -> Status:
    """Start a replay of a proposal: 201; results come with time."""
    return Status(201, _row(services.start_replay(
        actor=request.user, proposal_id=proposal_id, hours=setup.hours)))


@router.get("/simulations/{uuid:run_id}", response=SimulationAnswer)
def simulation(request: HttpRequest, run_id: UUID) -> dict[str, Any]:
    """A simulation, with what is there of its results."""
    run = selectors.simulation(request.viewer, run_id)
    return {**_row(run), "algorithms": run.results if run.kind == SIDE_BY_SIDE else [],
            "sides": selectors.sides_of(request.viewer, run) if run.kind == REPLAY else [],
            "forecasts": run.asked.get("forecasts", [])}


@router.post("/simulations/{uuid:run_id}/cancel", response=SimulationRow)
def cancel(request: HttpRequest, run_id: UUID) -> dict[str, Any]:
    """End a simulation."""
    return _row(services.cancel_simulation(actor=request.user, run_id=run_id))


def _row(run: SimulationRun) -> dict[str, Any]:
    return row_of(
        SimulationRow, run, dataflow=str(run.dataflow_id), proposal=str(run.proposal_id) if run.proposal_id else None,
        author=run.author.username, hours=run.asked["hours"])
