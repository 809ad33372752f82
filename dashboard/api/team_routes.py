"""The routes of teams and users: secrets, what Weir may do for a team, who calls.

``docs/api.md`` describes them.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from dashboard.api import schemas
from dashboard.api.answers.site import (
    ApprovalRules,
    CalendarRow,
    ContainmentAnswer,
    DefragmentationAnswer,
    EventStreamRow,
    Me,
    Models,
    PostedEventRow,
    SecretRow,
    TeamFreshness,
    TeamWhenBehind,
)
from dashboard.api.query_parameters import SecretName
from dashboard.approvals.services import agree_to_rules, decline_rules, set_rules
from dashboard.approvals.services.reader_choices import set_when_behind
from dashboard.controllers.services import set_mode
from dashboard.operations.policies.policy_streams import event_figures
from dashboard.operations.policies.posted_events import post_event
from dashboard.teams import selectors as teams
from dashboard.teams.models import Role
from dashboard.teams.services import (
    delete_calendar,
    delete_secret,
    set_calendar,
    set_containment,
    set_freshness,
    set_secret,
)
from scheduler.approving import rules_of
from scheduler.controllers.defragmentation import Defragmentation as Defragmenting

router = Router()


@router.get("/me", response=Me)
def me(request: HttpRequest) -> dict[str, Any]:
    """The caller, and the role in each team."""
    roles = {team.slug: Role(request.viewer.roles[team.pk]).label for team in teams.teams(request.viewer)
             if team.pk in request.viewer.roles}
    return {"username": request.user.username, "administrator": request.viewer.superuser, "roles": roles}


@router.get("/teams/{slug:slug}/secrets", response=list[SecretRow])
def team_secrets(request: HttpRequest, slug: str) -> list[dict[str, Any]]:
    """The names of a team's secrets, and who set them when; never the values."""
    return [schemas.secret_row(secret) for secret in teams.secrets(teams.team(request.viewer, slug))]


@router.put("/teams/{slug:slug}/secrets/{str:name}", response=SecretRow)
def put_secret(request: HttpRequest, slug: str, name: SecretName, secret: schemas.SecretIn) -> dict[str, Any]:
    """Keep a value under a name, or another value; by an admin of the team."""
    return schemas.secret_row(set_secret(
        actor=request.user, team=teams.team(request.viewer, slug), name=name, value=secret.value))


@router.delete("/teams/{slug:slug}/secrets/{str:name}", response={204: None})
def drop_secret(request: HttpRequest, slug: str, name: str) -> Status:
    """Delete a secret that no running task needs; by an admin of the team."""
    delete_secret(actor=request.user, team=teams.team(request.viewer, slug), name=name)
    return Status(204, None)


@router.get("/teams/{slug:slug}/calendars", response=list[CalendarRow])
def team_calendars(request: HttpRequest, slug: str) -> list[dict[str, Any]]:
    """The calendars that policies of a team may name."""
    return [{"name": row.name, "days": row.days} for row in teams.team(request.viewer, slug).calendars.all()]


@router.put("/teams/{slug:slug}/calendars/{str:name}", response=CalendarRow)
def put_calendar(request: HttpRequest, slug: str, name: str, body: schemas.CalendarIn) -> dict[str, Any]:
    """Keep days under a name, in place of those that it had; by an approver of the team."""
    row = set_calendar(actor=request.user, team=teams.team(request.viewer, slug), name=name, days=body.days)
    return {"name": row.name, "days": row.days}


@router.delete("/teams/{slug:slug}/calendars/{str:name}", response={204: None})
def drop_calendar(request: HttpRequest, slug: str, name: str) -> Status:
    """Forget a calendar; by an approver of the team."""
    delete_calendar(actor=request.user, team=teams.team(request.viewer, slug), name=name)
    return Status(204, None)


@router.get("/teams/{slug:slug}/events", response=list[EventStreamRow])
def event_streams(request: HttpRequest, slug: str) -> list[dict[str, Any]]:
    """The streams to which a team posts events for its policies."""
    team = teams.team(request.viewer, slug)
    return [{"name": name, "figures": figures} for name, figures in event_figures(team.slug).items()]


@router.post("/teams/{slug:slug}/events/{str:stream}", response={201: PostedEventRow})
def post_team_event(request: HttpRequest, slug: str, stream: str, event: schemas.EventIn) -> Status:
    """Post an event that policies of the team name as ``events.stream.field``; by an engineer of the team."""
    row = post_event(
        actor=request.user, team=teams.team(request.viewer, slug), stream=stream, values=event.values,
        at_ms=event.at_ms)
    return Status(201, {"id": row.pk, "stream": stream, "at_ms": row.at_ms})


@router.get("/teams/{slug:slug}/models", response=Models)
def team_models(request: HttpRequest, slug: str) -> dict[str, Any]:
    """The models that the team's dataflows have learned and keep, with their versions."""
    return schemas.models_row(teams.models(teams.team(request.viewer, slug)))


@router.get("/teams/{slug:slug}/approval-rules", response=ApprovalRules)
def approval_rules(request: HttpRequest, slug: str) -> dict[str, Any]:
    """The rules by which a team approves; version null is the default: one approver, for everything, at any time."""
    return schemas.approval_rules_row(teams.team(request.viewer, slug))


@router.put("/teams/{slug:slug}/approval-rules", response=ApprovalRules)
def set_approval_rules(request: HttpRequest, slug: str, body: schemas.ApprovalRulesIn) -> dict[str, Any]:
    """Let a team ask by these rules; by an approver of it. Every change is a version of its own.

    Where they ask for less in any case, they wait for a second person (``waiting``).
    """
    team = teams.team(request.viewer, slug)
    set_rules(actor=request.user, team=team, rules=rules_of(body.rules), note=body.note)
    return schemas.approval_rules_row(team)


@router.post("/teams/{slug:slug}/approval-rules/{int:number}/agree", response=ApprovalRules)
def agree_to_approval_rules(request: HttpRequest, slug: str, number: int) -> dict[str, Any]:
    """Let rules hold that ask for less; by an approver of the team who did not write them, or an administrator."""
    team = teams.team(request.viewer, slug)
    agree_to_rules(actor=request.user, team=team, number=number)
    return schemas.approval_rules_row(team)


@router.post("/teams/{slug:slug}/approval-rules/{int:number}/decline", response=ApprovalRules)
def decline_approval_rules(request: HttpRequest, slug: str, number: int) -> dict[str, Any]:
    """Let rules not hold that wait; by an approver of the team."""
    team = teams.team(request.viewer, slug)
    decline_rules(actor=request.user, team=team, number=number)
    return schemas.approval_rules_row(team)


@router.post("/teams/{slug:slug}/containment", response=ContainmentAnswer)
def containment(request: HttpRequest, slug: str, choice: schemas.ContainmentIn) -> dict[str, Any]:
    """Let plans of the team make tasks from wider ones that run, or not; by an admin of the team."""
    team = set_containment(actor=request.user, team=teams.team(request.viewer, slug), on=choice.on)
    return {"team": team.slug, "containment": team.containment}


@router.post("/teams/{slug:slug}/defragmentation", response=DefragmentationAnswer)
def defragmentation(request: HttpRequest, slug: str, choice: schemas.ControllerIn) -> dict[str, Any]:
    """Say whether Weir defragments the team's dataflows: off, recommends or acts; by an admin of the team."""
    team = teams.team(request.viewer, slug)
    set_mode(actor=request.user, controller=Defragmenting.name, team=team, mode=choice.choice)
    return {"team": team.slug, "defragmentation": choice.choice}


@router.post("/teams/{slug:slug}/when-behind", response=TeamWhenBehind)
def when_behind(request: HttpRequest, slug: str, choice: schemas.TeamWhenBehindIn) -> dict[str, Any]:
    """Say what becomes of the team's dataflows that read a stream too slowly that others need; by an admin of the team.

    It is ``spill`` or ``pause``: what loses events is chosen for one dataflow at a time.
    """
    team = set_when_behind(actor=request.user, team=teams.team(request.viewer, slug), choice=choice.choice)
    return {"team": team.slug, "when_behind": team.when_behind}


@router.post("/teams/{slug:slug}/freshness", response=TeamFreshness)
def freshness(request: HttpRequest, slug: str, choice: schemas.FreshnessIn) -> dict[str, Any]:
    """Say how late events may be, in the mean, in the team's dataflows that ask for nothing themselves; by an admin of
    the team."""
    team = set_freshness(actor=request.user, team=teams.team(request.viewer, slug), limit_s=choice.freshness_s)
    return {"team": team.slug, "freshness_s": team.freshness_s}
