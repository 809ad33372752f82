"""The routes of controllers: what teams let them do, rounds and why there were none, dry runs; see ``docs/api.md``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router

from dashboard.api import schemas
from dashboard.api.answers.common import Page, row_of
from dashboard.api.answers.controllers import (
    BoundRow,
    ControllerRow,
    DryRunAnswer,
    MachinesAnswer,
    ReasonAnswer,
    RoundAnswer,
    TeamPolicy,
)
from dashboard.api.query_parameters import ControllerName
from dashboard.api.request_schema import RequestSchema
from dashboard.approvals.services import machine_ordering
from dashboard.controllers import selectors, services
from dashboard.controllers.machines_told import machines_told
from dashboard.controllers.merging import merged_reasons
from dashboard.controllers.models import ReasonRow, RoundRow
from dashboard.controllers.stored_rounds import policies_of, round_of
from dashboard.teams import selectors as teams
from scheduler.controllers.loop_values import DAY_S, Policy, Round

router = Router()


class PolicyIn(RequestSchema):
    """A team's permission for a controller; an empty team stands for what belongs to all."""

    team: str = ""
    mode: ControllerName
    changes_per_hour: int
    changes_per_day: int
    cool_down_s: float


@router.get("/controllers", response=list[ControllerRow])
def controllers(request: HttpRequest) -> list[dict[str, Any]]:
    """Every controller, with what the caller's teams let it do and what is left of their budgets."""
    return [_controller(row) for row in selectors.overview(request.viewer)]


@router.get("/machines", response=MachinesAnswer)
def machines(request: HttpRequest) -> dict[str, Any]:
    """Machines that were ordered for adaptation, the newest first, and what bounds them."""
    return machines_told(with_errors=request.viewer.administers)


@router.post("/machines/{slug:node}/order", response=MachinesAnswer)
def order_machine(request: HttpRequest, node: str) -> dict[str, Any]:
    """Order a machine that is recommended; by an administrator."""
    machine_ordering.order_machine(actor=request.user, node=node, at=timezone.now())
    return machines_told(with_errors=True)


@router.post("/machines/{slug:node}/decline", response=MachinesAnswer)
def decline_machine(request: HttpRequest, node: str) -> dict[str, Any]:
    """Decline a machine that is recommended: none is for a day; by an administrator."""
    machine_ordering.decline_machine(actor=request.user, node=node, at=timezone.now())
    return machines_told(with_errors=True)


@router.put("/controllers/{slug:controller}", response=ControllerRow)
def set_controller(request: HttpRequest, controller: str, chosen: PolicyIn) -> dict[str, Any]:
    """Say what a controller may do for a team; by an admin of it, or of the installation for what belongs to all."""
    named_controller = services.controller_named(controller)
    team = teams.team(request.viewer, chosen.team) if chosen.team else None
    services.set_policy(
        actor=request.user, controller=named_controller.name, team=team,
        policy=services.policy_of(
            mode=chosen.mode, changes_per_hour=chosen.changes_per_hour, changes_per_day=chosen.changes_per_day,
            cool_down_s=chosen.cool_down_s))
    return next(
        _controller(row) for row in selectors.overview(request.viewer) if row.controller.name == named_controller.name)


@router.get("/controllers/{slug:controller}/rounds", response=Page[RoundAnswer])
def rounds(
    request: HttpRequest, controller: str, team: str = "", phase: str = "", page: int = Query(1, ge=1, le=10**6)
) -> dict[str, Any]:
    """Rounds of a controller, the newest first."""
    named_controller = services.controller_named(controller)
    records = selectors.rounds(request.viewer, controller=named_controller.name, team=team, phase=phase)
    return schemas.page_of(records, page, _round)


@router.get("/controllers/{slug:controller}/reasons", response=Page[ReasonAnswer])
def reasons(request: HttpRequest, controller: str, page: int = Query(1, ge=1, le=10**6)) -> dict[str, Any]:
    """The reasons why a controller left things as they are, the newest first; the same again and again is one."""
    named_controller = services.controller_named(controller)
    return schemas.page_of(selectors.reasons(request.viewer, controller=named_controller.name), page, _reason)


@router.get("/controllers/{slug:controller}/dry-run", response=DryRunAnswer)
def dry_run(
    request: HttpRequest, controller: str, team: str = "",
    hours: float = Query(24.0, ge=1, le=selectors.LONGEST_DRY_RUN_H),
    changes_per_hour: int | None = Query(None, ge=0, le=services.MOST_CHANGES),
    changes_per_day: int | None = Query(None, ge=0, le=services.MOST_CHANGES),
    cool_down_s: float | None = Query(None, ge=0, le=DAY_S),
) -> dict[str, Any]:
    """The decisions that a controller would have made for a team over kept history, had it acted; by its limits, or
    others."""
    named_controller = services.controller_named(controller)
    usual = policies_of(named_controller).get(team, named_controller.usual)
    policy = Policy(
        usual.mode,
        usual.changes_per_hour if changes_per_hour is None else changes_per_hour,
        usual.changes_per_day if changes_per_day is None else changes_per_day,
        usual.cool_down_s if cool_down_s is None else cool_down_s)
    played = selectors.played(request.viewer, named_controller, team=team, hours=hours, policy=policy)
    return {
        "frames": played.frames, "rounds": [_turn(loop_round) for loop_round in played.rounds],
        "reasons": [
            row_of(ReasonAnswer, reason, since=_iso(reason.since_s), until=_iso(reason.until_s))
            for reason in merged_reasons(played.reasons)]}


def _controller(row: selectors.ControllerSummary) -> dict[str, Any]:
    return row_of(
        ControllerRow, row.controller, decided=row.decided.isoformat() if row.decided else None,
        promises_kept=row.promises_kept, promises_broken=row.promises_broken, in_flight=row.open, teams=[
            row_of(TeamPolicy, team.policy, team=team.slug, left_in_hour=team.left.in_hour,
                   left_in_day=team.left.in_day)
            for team in row.teams])


def _round(row: RoundRow) -> dict[str, Any]:
    proposal = getattr(row, "proposal", None)
    return _turn(round_of(row)) | {
        "key": row.key, "proposal": str(proposal.pk) if proposal else None,
        "digest": proposal.plan.digest or None if proposal else None,
        "sweep": str(row.sweep_id) if row.sweep_id else None}


def _turn(loop_round: Round) -> dict[str, Any]:
    decision = loop_round.decision
    return {
        "key": None, "controller": loop_round.controller, "team": decision.team, "target": decision.target,
        "mode": loop_round.mode, "phase": loop_round.phase, "reason": decision.why, "promise": decision.promise.text,
        "bounds": [row_of(BoundRow, bound) for bound in decision.promise.bounds],
        "within_s": decision.promise.within_s, "why": loop_round.why, "begun": _iso(loop_round.begun_s),
        "changed": _iso(loop_round.changed_s), "ended": _iso(loop_round.ended_s), "proposal": None, "digest": None,
        "sweep": None}


def _reason(row: ReasonRow) -> dict[str, Any]:
    return row_of(ReasonAnswer, row, team=row.team.slug if row.team else "")


def _iso(moment_s: float | None) -> str | None:
    return None if moment_s is None else datetime.fromtimestamp(moment_s, UTC).isoformat()
