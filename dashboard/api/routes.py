"""The JSON API: its parts, and the routes of the library, the estate and the trail.

``docs/api.md`` describes all of them; ``/api/openapi.json`` is made from them.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Status
from ninja.responses import NinjaJSONEncoder

from dashboard import jobs
from dashboard.api import schemas
from dashboard.api.alert_routes import router as alert_router
from dashboard.api.answers.common import Page
from dashboard.api.answers.dataflows import (
    CheckedAnswer,
    DataflowFragmentation,
    StreamAnswer,
    StreamEvents,
    TaskRingAnswer,
)
from dashboard.api.answers.deployment import DeploymentAnswer
from dashboard.api.answers.looks import Look, LookBegun
from dashboard.api.answers.proposals import NearMissOfText
from dashboard.api.answers.site import AuditRow, Estate, EstateHistory, Sample, TaskTypeRow
from dashboard.api.api_errors import WeirAPI, install
from dashboard.api.auth import BearerToken, Session
from dashboard.api.bill_routes import router as bill_router
from dashboard.api.controller_routes import router as controller_router
from dashboard.api.dataflow_routes import router as dataflow_router
from dashboard.api.estate_choice_routes import router as estate_choice_router
from dashboard.api.history_routes import router as history_router
from dashboard.api.log_routes import router as log_router
from dashboard.api.measuring_routes import router as measuring_router
from dashboard.api.node_routes import router as node_router
from dashboard.api.people_routes import router as people_router
from dashboard.api.profile_routes import router as profile_router
from dashboard.api.proposal_routes import router as proposal_router
from dashboard.api.savepoint_routes import router as savepoint_router
from dashboard.api.schedule_routes import router as schedule_router
from dashboard.api.search_routes import router as search_router
from dashboard.api.simulation_routes import router as simulation_router
from dashboard.api.team_routes import router as team_router
from dashboard.approvals.move_previews import deployment_with_suggestion
from dashboard.approvals.near_miss_search import near_misses_in
from dashboard.audit.selectors import entries_for
from dashboard.catalog.document_checks import check_document
from dashboard.explorer import source_looks, streams
from dashboard.operations import key_rings
from dashboard.operations import selectors as operations
from dashboard.operations.diagnosis import fragmentation_reader
from dashboard.teams import selectors as teams
from scheduler.model.schema import dataflow_schema

api = WeirAPI(
    title="Weir", version="1", docs_url=None, openapi_url=None, auth=[BearerToken(), Session()],
    urls_namespace="api")
install(api)
for router in (
        team_router, people_router, dataflow_router, schedule_router, proposal_router, bill_router, profile_router,
        measuring_router, history_router, controller_router, alert_router, node_router, estate_choice_router,
        simulation_router, log_router, search_router, savepoint_router):
    api.add_router("", router)


@api.get("/openapi.json", auth=None, include_in_schema=False)
def openapi(request: HttpRequest) -> HttpResponse:
    """The API's own document, for everybody."""
    return HttpResponse(_openapi(), content_type="application/json")


@cache
def _openapi() -> bytes:
    """The document as it is sent; making it takes 0.2 s of CPU, and it changes with the code alone."""
    return json.dumps(api.get_openapi_schema(), cls=NinjaJSONEncoder).encode()


@api.get("/task-types", response=list[TaskTypeRow])
def task_types(request: HttpRequest) -> list[dict[str, Any]]:
    """Every installed task type with its parameters."""
    return [schemas.task_type_row(declared) for declared in jobs.task_types().values()]


@api.get("/samples", response=list[Sample])
def samples(request: HttpRequest) -> list[dict[str, Any]]:
    """Documents to start from."""
    return list(jobs.samples())


@api.get("/document-schema", response=dict[str, Any])
def document_schema(request: HttpRequest) -> dict[str, Any]:
    """The JSON Schema of a dataflow's document."""
    return dataflow_schema()


@api.post("/validate", response=CheckedAnswer)
def validate(request: HttpRequest, document: schemas.DocumentIn) -> dict[str, Any]:
    """Every problem of a document, with its place and remedy; nothing is stored."""
    return schemas.checked_row(check_document(document.text, format=document.format))


@api.post("/near-misses", response=list[NearMissOfText])
def near_misses(request: HttpRequest, submission: schemas.SubmissionIn) -> list[dict[str, Any]]:
    """The near misses of a document, best first, each with the document changed; nothing is stored."""
    team = teams.team(request.viewer, submission.team)
    return near_misses_in(team, submission.text, format=submission.format)


@api.post("/streams", response=list[StreamAnswer])
def document_streams(request: HttpRequest, submission: schemas.SubmissionIn) -> list[dict[str, Any]]:
    """The running tasks of a document, and what can be shown of the others' streams; nothing is stored."""
    team = teams.team(request.viewer, submission.team)
    return [
        asdict(stream) | {"columns": schemas.columns_row(stream.columns)}
        for stream in streams.streams_of(team, submission.text, format=submission.format)]


@api.post("/streams/looks", response={202: LookBegun})
def look_begin(request: HttpRequest, source: schemas.LookIn) -> Status:
    """Let a node look at a live source of a document that does not run, for some seconds; nothing is stored.

    It takes an engineer of the team; with a secret to where nothing approved goes with it, an approver. A later look
    of the same user ends it.
    """
    team = teams.team(request.viewer, source.team)
    return Status(202, {"id": source_looks.begin_look(
        actor=request.user, team=team, text=source.text, format=source.format, task_id=source.task,
        proposes=source.proposes)})


@api.get("/streams/looks/{str:look_id}", response=Look)
def look(request: HttpRequest, look_id: str) -> dict[str, Any]:
    """The events that a look has seen so far; who does not ask for four seconds ends it."""
    return asdict(source_looks.look(request.viewer, look_id))


@api.delete("/streams/looks/{str:look_id}", response={204: None})
def look_end(request: HttpRequest, look_id: str) -> Status:
    """End a look."""
    source_looks.end_look(request.viewer, look_id)
    return Status(204, None)


@api.get("/estate/tasks/{str:task_id}/events", response=StreamEvents)
def running_task_events(
    request: HttpRequest, task_id: str, count: int = Query(streams.EVENTS, ge=1, le=streams.MOST_EVENTS)
) -> dict[str, Any]:
    """The newest events of a running task's stream; who asks again within 15 seconds goes on looking."""
    return asdict(streams.stream_events(request.viewer, task_id, count=count))


@api.get("/estate/tasks/{str:task_id}/ring", response=TaskRingAnswer)
def task_ring(request: HttpRequest, task_id: str) -> dict[str, Any]:
    """The owners of the keys of a running task that is divided by key, and the effect of the loss of a node."""
    return asdict(key_rings.ring_of(request.viewer, task_id))


@api.get("/fragmentation", response=list[DataflowFragmentation])
def fragmentation(request: HttpRequest) -> list[dict[str, Any]]:
    """The fragmentation of the dataflows in the estate, the most fragmented first."""
    return fragmentation_reader.fragmentations(request.viewer)


@api.get("/deployment", response=DeploymentAnswer)
def deployment(request: HttpRequest) -> dict[str, Any]:
    """The queries of each slot, the traffic between slots, and a move that is worth it."""
    rows = deployment_with_suggestion(request.user)
    return rows | {"suggestion": rows["suggestion"] and asdict(rows["suggestion"])}


@api.get("/estate", response=Estate)
def estate(request: HttpRequest) -> dict[str, Any]:
    """The estate's live document."""
    return operations.live_estate(request.viewer)


@api.get("/estate/history", response=EstateHistory)
def estate_history(request: HttpRequest, minutes: int = Query(60, ge=1, le=360)) -> dict[str, list]:
    """Rates and running tasks of the estate over time, as columns."""
    return operations.estate_history(request.viewer, minutes=minutes)


@api.get("/audit", response=Page[AuditRow])
def audit(request: HttpRequest, page: int = Query(1, ge=1, le=10**6)) -> dict[str, Any]:
    """The caller's part of the audit trail, newest first."""
    return schemas.page_of(entries_for(request.viewer), page, schemas.audit_row)
