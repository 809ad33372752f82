"""The routes of the JSON API. ``docs/api.md`` describes them; ``/api/openapi.json`` is made from them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import NinjaAPI, Query, Status

from dashboard import jobs
from dashboard.api import schemas
from dashboard.api.auth import BearerToken, Session
from dashboard.api.problems import install
from dashboard.api.profile_routes import router as profile_router
from dashboard.api.schedule_routes import router as schedule_router
from dashboard.approvals import selectors as approvals
from dashboard.approvals import services
from dashboard.approvals.difference import difference
from dashboard.approvals.near_misses import near_miss_row, near_misses_in, near_misses_of
from dashboard.audit.selectors import entries_for
from dashboard.bills import selectors as bill_selectors
from dashboard.bills.periods import period_of
from dashboard.catalog import selectors as catalog
from dashboard.catalog.documents import check_document
from dashboard.operations import fragments
from dashboard.operations import selectors as operations
from dashboard.teams import selectors as teams
from dashboard.teams.models import Role
from dashboard.teams.services import (
    create_token,
    delete_secret,
    revoke_token,
    set_containment,
    set_defragmentation,
    set_secret,
)
from scheduler.model.errors import NotFound
from scheduler.model.schema import dataflow_schema

api = NinjaAPI(
    title="Weir", version="1", docs_url=None, openapi_url="/openapi.json", auth=[BearerToken(), Session()],
    urls_namespace="api")
install(api)
api.add_router("", profile_router)
api.add_router("", schedule_router)


@api.get("/me")
def me(request: HttpRequest) -> dict[str, Any]:
    """Who calls, and the role in each team."""
    roles = {team.slug: Role(request.viewer.roles[team.pk]).label for team in teams.teams(request.viewer)
             if team.pk in request.viewer.roles}
    return {"username": request.user.username, "administrator": request.viewer.superuser, "roles": roles}


@api.get("/task-types")
def task_types(request: HttpRequest) -> list[dict[str, Any]]:
    """Every installed task type with its parameters."""
    return [schemas.task_type_row(declared) for declared in jobs.task_types().values()]


@api.get("/samples")
def samples(request: HttpRequest) -> list[dict[str, Any]]:
    """Documents to start from."""
    return list(jobs.samples())


@api.get("/document-schema")
def document_schema(request: HttpRequest) -> dict[str, Any]:
    """The JSON Schema of a dataflow's document."""
    return dataflow_schema()


@api.post("/validate")
def validate(request: HttpRequest, document: schemas.DocumentIn) -> dict[str, Any]:
    """Every problem of a document, with its place and remedy; nothing is stored."""
    return schemas.checked_row(check_document(document.text, format=document.format))


@api.post("/near-misses")
def near_misses(request: HttpRequest, submission: schemas.SubmissionIn) -> list[dict[str, Any]]:
    """What would let a document reuse more, best first, each with the document changed; nothing is stored."""
    team = teams.team(request.viewer, submission.team)
    return near_misses_in(team, submission.text, format=submission.format)


@api.get("/dataflows")
def dataflows(
    request: HttpRequest, search: str = "", team: str = "", status: str = "", page: int = Query(1, ge=1, le=10**6)
) -> dict[str, Any]:
    """Dataflows that the caller may know of, newest first."""
    found = catalog.dataflows(request.viewer, search=search, team=team, status=status)
    return schemas.page_of(found, page, schemas.dataflow_row)


@api.post("/dataflows", response={201: dict})
def submit(request: HttpRequest, submission: schemas.SubmissionIn) -> Status:
    """Submit a dataflow: 201 with the dataflow and its proposal, whose plan is being computed."""
    proposal = services.submit_dataflow(
        actor=request.user, team=teams.team(request.viewer, submission.team), text=submission.text,
        format=submission.format, fresh=submission.fresh, begin=submission.begin,
        schedule=submission.schedule.choice() if submission.schedule else None)
    return Status(201, {
        "dataflow": schemas.dataflow_row(proposal.dataflow), "proposal": schemas.proposal_row(proposal)})


@api.get("/dataflows/{uuid:dataflow_id}")
def dataflow(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """One dataflow with its document and graph."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    version = catalog.current_version(record)
    return schemas.dataflow_row(record) | {
        "document": version.document, "text": version.text, "format": version.format,
        "graph": catalog.graph_of(record)}


@api.post("/dataflows/{uuid:dataflow_id}/remove")
def remove(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """Propose to remove a running dataflow."""
    return schemas.proposal_row(services.remove_dataflow(actor=request.user, dataflow_id=dataflow_id))


@api.post("/dataflows/{uuid:dataflow_id}/pause")
def pause(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """Propose that a running dataflow rests."""
    return schemas.proposal_row(services.pause_dataflow(actor=request.user, dataflow_id=dataflow_id))


@api.post("/dataflows/{uuid:dataflow_id}/resume")
def resume(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """Propose that a paused dataflow goes on."""
    return schemas.proposal_row(services.resume_dataflow(actor=request.user, dataflow_id=dataflow_id))


@api.post("/dataflows/{uuid:dataflow_id}/defragment")
def defragment(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """Propose a step of defragmentation."""
    return schemas.proposal_row(services.defragment_dataflow(actor=request.user, dataflow_id=dataflow_id))


@api.get("/dataflows/{uuid:dataflow_id}/fragmentation")
def dataflow_fragmentation(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """How a dataflow in the estate is cut into queries."""
    found = fragments.fragmentation_of(request.viewer, dataflow_id)
    if found is None:
        raise NotFound("This dataflow is not in the estate.", remedy="Submit it first.")
    return found


@api.get("/fragmentation")
def fragmentation(request: HttpRequest) -> list[dict[str, Any]]:
    """How the dataflows in the estate are cut into queries, the most fragmented first."""
    return fragments.fragmentations(request.viewer)


@api.get("/dataflows/{uuid:dataflow_id}/live")
def dataflow_live(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """A dataflow's live document."""
    return operations.live_dataflow(request.viewer, dataflow_id)


@api.get("/dataflows/{uuid:dataflow_id}/history")
def dataflow_history(
    request: HttpRequest, dataflow_id: UUID, minutes: int = Query(60, ge=1, le=360)
) -> dict[str, list]:
    """Rates and latency of a dataflow over time, as columns."""
    return operations.dataflow_history(request.viewer, dataflow_id, minutes=minutes)


@api.get("/dataflows/{uuid:dataflow_id}/outputs")
def outputs(request: HttpRequest, dataflow_id: UUID) -> list[dict[str, str]]:
    """Named outputs of a running dataflow."""
    return operations.outputs(request.viewer, dataflow_id)


@api.get("/dataflows/{uuid:dataflow_id}/outputs/{str:task_id}")
def output_events(
    request: HttpRequest, dataflow_id: UUID, task_id: str, count: int = Query(20, ge=1, le=200)
) -> list[dict[str, Any]]:
    """The newest events of a named output, newest first."""
    return operations.output_tail(request.viewer, dataflow_id, task_id, count=count)


@api.get("/proposals")
def proposals(
    request: HttpRequest, status: str = "", search: str = "", page: int = Query(1, ge=1, le=10**6)
) -> dict[str, Any]:
    """Proposals that the caller may know of, newest first; ``status=open`` for those not yet decided."""
    return schemas.page_of(
        approvals.proposals(request.viewer, status=status, search=search), page, schemas.proposal_row)


@api.get("/proposals/{uuid:proposal_id}")
def proposal(request: HttpRequest, proposal_id: UUID) -> dict[str, Any]:
    """One proposal with its difference and where its review stands."""
    record = approvals.proposal(request.viewer, proposal_id)
    return schemas.proposal_row(record) | {
        "difference": difference(request.viewer, record), "review": approvals.review_of(request.viewer, record)}


@api.get("/proposals/{uuid:proposal_id}/near-misses")
def proposal_near_misses(request: HttpRequest, proposal_id: UUID) -> list[dict[str, Any]]:
    """What would let a proposed dataflow reuse more, best first."""
    return [near_miss_row(miss) for miss in near_misses_of(approvals.proposal(request.viewer, proposal_id))]


@api.post("/proposals/{uuid:proposal_id}/adopt", response={201: dict})
def adopt(request: HttpRequest, proposal_id: UUID, adoption: schemas.AdoptionIn) -> Status:
    """Adopt a near miss: 201 with the proposal of a new version, whose plan is being computed."""
    return Status(201, schemas.proposal_row(services.adopt_near_miss(
        actor=request.user, proposal_id=proposal_id, key=adoption.key)))


@api.get("/teams/{slug:slug}/secrets")
def team_secrets(request: HttpRequest, slug: str) -> list[dict[str, Any]]:
    """The names of a team's secrets, and who set them when; never the values."""
    return [schemas.secret_row(secret) for secret in teams.secrets(teams.team(request.viewer, slug))]


@api.put("/teams/{slug:slug}/secrets/{str:name}")
def put_secret(request: HttpRequest, slug: str, name: str, secret: schemas.SecretIn) -> dict[str, Any]:
    """Keep a value under a name, or another value; by an admin of the team."""
    return schemas.secret_row(set_secret(
        actor=request.user, team=teams.team(request.viewer, slug), name=name, value=secret.value))


@api.delete("/teams/{slug:slug}/secrets/{str:name}", response={204: None})
def drop_secret(request: HttpRequest, slug: str, name: str) -> Status:
    """Delete a secret that no running task needs; by an admin of the team."""
    delete_secret(actor=request.user, team=teams.team(request.viewer, slug), name=name)
    return Status(204, None)


@api.post("/teams/{slug:slug}/containment")
def containment(request: HttpRequest, slug: str, choice: schemas.ContainmentIn) -> dict[str, Any]:
    """Let plans of the team make tasks from wider ones that run, or not; by an admin of the team."""
    team = set_containment(actor=request.user, team=teams.team(request.viewer, slug), on=choice.on)
    return {"team": team.slug, "containment": team.containment}


@api.post("/proposals/{uuid:proposal_id}/approve")
def approve(request: HttpRequest, proposal_id: UUID, approval: schemas.ApprovalIn) -> dict[str, Any]:
    """Approve the plan of this digest, for the caller's teams; the last approval executes it."""
    return schemas.proposal_row(services.approve_proposal(
        actor=request.user, proposal_id=proposal_id, digest=approval.digest, comment=approval.comment))


@api.post("/proposals/{uuid:proposal_id}/reject")
def reject(request: HttpRequest, proposal_id: UUID, rejection: schemas.RejectionIn) -> dict[str, Any]:
    """Reject a proposal, with a comment."""
    return schemas.proposal_row(services.reject_proposal(
        actor=request.user, proposal_id=proposal_id, comment=rejection.comment))


@api.post("/proposals/{uuid:proposal_id}/cancel")
def cancel(request: HttpRequest, proposal_id: UUID) -> dict[str, Any]:
    """Take a proposal back."""
    return schemas.proposal_row(services.cancel_proposal(actor=request.user, proposal_id=proposal_id))


@api.post("/proposals/{uuid:proposal_id}/recompute")
def recompute(request: HttpRequest, proposal_id: UUID) -> dict[str, Any]:
    """Compute the plan of a stale proposal anew."""
    return schemas.proposal_row(services.recompute_proposal(actor=request.user, proposal_id=proposal_id))


@api.post("/proposals/{uuid:proposal_id}/joining")
def joining(request: HttpRequest, proposal_id: UUID, choice: schemas.JoiningIn) -> dict[str, Any]:
    """Join what is under way in another way: a new plan is computed, and reviews start anew."""
    return schemas.proposal_row(services.choose_joining(
        actor=request.user, proposal_id=proposal_id, fresh=choice.fresh, begin=choice.begin))


@api.post("/teams/{slug:slug}/defragmentation")
def defragmentation(request: HttpRequest, slug: str, choice: schemas.ControllerIn) -> dict[str, Any]:
    """Say whether Weir defragments the team's dataflows: off, recommends or acts; by an admin of the team."""
    team = set_defragmentation(actor=request.user, team=teams.team(request.viewer, slug), choice=choice.choice)
    return {"team": team.slug, "defragmentation": team.defragmentation}


@api.post("/proposals/{uuid:proposal_id}/roll-back")
def roll_back(request: HttpRequest, proposal_id: UUID) -> dict[str, Any]:
    """Take back a plan that is being executed or fails."""
    return schemas.proposal_row(services.roll_back_proposal(actor=request.user, proposal_id=proposal_id))


@api.get("/estate")
def estate(request: HttpRequest) -> dict[str, Any]:
    """The estate's live document."""
    return operations.live_estate(request.viewer)


@api.get("/estate/history")
def estate_history(request: HttpRequest, minutes: int = Query(60, ge=1, le=360)) -> dict[str, list]:
    """Rates and running tasks of the estate over time, as columns."""
    return operations.estate_history(request.viewer, minutes=minutes)


@api.get("/bills")
def bills(
    request: HttpRequest, team: str = "", period: str = "", first: str = Query("", alias="from"),
    last: str = Query("", alias="to"),
) -> dict[str, Any]:
    """What the caller's dataflows used and pay in a period, together and one by one."""
    span = period_of(period, first=first, last=last, now=timezone.now())
    slug = teams.team(request.viewer, team).slug if team else ""
    return schemas.bills_row(bill_selectors.bills(request.viewer, span, team=slug), span)


@api.get("/bills/{uuid:dataflow_id}")
def bill(
    request: HttpRequest, dataflow_id: UUID, period: str = "", first: str = Query("", alias="from"),
    last: str = Query("", alias="to"),
) -> dict[str, Any]:
    """One dataflow's bill, task by task."""
    span = period_of(period, first=first, last=last, now=timezone.now())
    record, rows = bill_selectors.bill_of(request.viewer, dataflow_id, span)
    return schemas.bill_row(record, rows, span)


@api.get("/audit")
def audit(request: HttpRequest, page: int = Query(1, ge=1, le=10**6)) -> dict[str, Any]:
    """The caller's part of the audit trail, newest first."""
    return schemas.page_of(entries_for(request.viewer), page, schemas.audit_row)


@api.post("/tokens", response={201: dict}, auth=Session())
def make_token(request: HttpRequest, token: schemas.TokenIn) -> Status:
    """A new API token; its secret is shown this once. Needs a session: a token makes no tokens."""
    made, secret = create_token(actor=request.user, name=token.name)
    return Status(201, {"id": made.pk, "name": made.name, "secret": secret})


@api.delete("/tokens/{int:token_id}", response={204: None}, auth=Session())
def drop_token(request: HttpRequest, token_id: int) -> Status:
    """Revoke one of the caller's API tokens."""
    revoke_token(actor=request.user, token_id=token_id)
    return Status(204, None)
