"""The routes of dataflows: submitting, reading and steering them, and what runs of them (``docs/api.md``)."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Router, Status

from dashboard.api import schemas
from dashboard.api.answers.adaptation import GoalsAnswer, GoalsOffer
from dashboard.api.answers.common import Page, row_of
from dashboard.api.answers.dataflows import (
    AskedToWrite,
    DataflowCost,
    DataflowDetail,
    DataflowHistory,
    DataflowRow,
    DeadLetterAnswer,
    DynamicTaskAnswer,
    FailingQuery,
    FragmentationAnswer,
    GuardTrialAnswer,
    LiveDataflow,
    Output,
    PolicyAnswer,
    SubmittedAnswer,
    TriedAgain,
    VersionDetail,
    VersionRow,
    WhenBehind,
)
from dashboard.api.answers.deployment import MovePreview
from dashboard.api.answers.latency import DataflowLatency, LatencyPrices
from dashboard.api.answers.proposals import ProposalRow
from dashboard.api.request_schema import RequestSchema
from dashboard.api.switch_schemas import SwitchIn
from dashboard.approvals import services
from dashboard.approvals.move_previews import preview_of
from dashboard.approvals.policy_drafts import trial_of
from dashboard.approvals.services.reader_choices import choose_when_behind
from dashboard.bills.dataflow_costs import cost_of
from dashboard.catalog import selectors as catalog
from dashboard.catalog.document_checks import goals_of, limits_for
from dashboard.catalog.services import choose_goals, choose_latency
from dashboard.controllers.adaptation_told import goals_told, offer_told
from dashboard.controllers.latency_told import latency_prices_told, latency_told
from dashboard.operations import selectors as operations
from dashboard.operations.diagnosis import fragmentation_reader
from dashboard.operations.live_view import dynamic_reader
from dashboard.operations.live_view import failing_queries as failing
from dashboard.operations.live_view.sink_statuses import write_again
from dashboard.operations.policies.policy_reader import policy_told, running_element
from dashboard.operations.services import try_again
from dashboard.plans.alternate_figures import with_figures
from dashboard.teams import selectors as teams
from scheduler.model.encoding import to_json
from scheduler.model.errors import NotFound

router = Router()
OF_KEY = Query([], description="The values of a key's columns: it is for that key alone.")


class GoalsIn(RequestSchema):
    """Goals by the keys of a document; null for none. With ``as_document`` those of the dataflow's document."""

    goals: dict[str, float | None] | None = None
    as_document: bool = False


class PauseAtOnceIn(RequestSchema):
    """The reason for a pause without an approval: 1 to 300 characters on one line."""

    reason: str = Field(min_length=1, max_length=300)


@router.get("/dataflows", response=Page[DataflowRow])
def dataflows(
    request: HttpRequest, search: str = "", team: str = "", status: str = "", page: int = Query(1, ge=1, le=10**6)
) -> dict[str, Any]:
    """Dataflows that the caller may know of, newest first."""
    records = catalog.dataflows(request.viewer, search=search, team=team, status=status)
    return schemas.page_of(records, page, schemas.dataflow_row)


@router.post("/dataflows", response={201: SubmittedAnswer})
def submit(request: HttpRequest, submission: schemas.SubmissionIn) -> Status:
    """Submit a dataflow: 201 with the dataflow and its proposal, whose plan is being computed."""
    proposal = services.submit_dataflow(
        actor=request.user, team=teams.team(request.viewer, submission.team), text=submission.text,
        format=submission.format, fresh=submission.fresh, begin=submission.begin,
        schedule=submission.schedule.choice() if submission.schedule else None, begin_from=submission.begin_from)
    return Status(201, {
        "dataflow": schemas.dataflow_row(proposal.dataflow), "proposal": schemas.proposal_row(proposal)})


@router.get("/dataflows/{uuid:dataflow_id}", response=DataflowDetail)
def dataflow(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """One dataflow with its document and graph."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    version = catalog.current_version(record)
    return schemas.dataflow_row(record) | {
        "document": version.document, "text": version.text, "format": version.format,
        "graph": catalog.graph_of(record)}


@router.get("/dataflows/{uuid:dataflow_id}/versions", response=Page[VersionRow])
def versions(request: HttpRequest, dataflow_id: UUID, page: int = Query(1, ge=1, le=10**6)) -> dict[str, Any]:
    """The versions of a dataflow's document, newest first, and which of them counts."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    return schemas.page_of(catalog.versions(record), page, partial(schemas.version_row, record))


@router.get("/dataflows/{uuid:dataflow_id}/versions/{int:number}", response=VersionDetail)
def version(request: HttpRequest, dataflow_id: UUID, number: int) -> dict[str, Any]:
    """One version with its document."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    chosen = catalog.version(record, number)
    return schemas.version_row(record, chosen) | {"document": chosen.document, "text": chosen.text}


@router.post("/dataflows/{uuid:dataflow_id}/versions", response={201: SubmittedAnswer})
def change(request: HttpRequest, dataflow_id: UUID, version: schemas.VersionIn) -> Status:
    """Propose a new version of a dataflow that runs: 201 with its proposal, whose plan is being computed."""
    proposal = services.change_dataflow(
        actor=request.user, dataflow_id=dataflow_id, text=version.text, format=version.format, fresh=version.fresh,
        begin=version.begin, begin_from=version.begin_from)
    return Status(201, {
        "dataflow": schemas.dataflow_row(proposal.dataflow), "proposal": schemas.proposal_row(proposal)})


@router.post("/dataflows/{uuid:dataflow_id}/versions/{int:number}/propose", response={201: ProposalRow})
def propose_version(request: HttpRequest, dataflow_id: UUID, number: int) -> Status:
    """Propose that a dataflow that runs goes back, or forward, to a version that it has."""
    return Status(201, schemas.proposal_row(services.propose_version(
        actor=request.user, dataflow_id=dataflow_id, number=number)))


@router.post("/dataflows/{uuid:dataflow_id}/remove", response=ProposalRow)
def remove(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """Propose to remove a running dataflow."""
    return schemas.proposal_row(services.remove_dataflow(actor=request.user, dataflow_id=dataflow_id))


@router.post("/dataflows/{uuid:dataflow_id}/pause", response=ProposalRow)
def pause(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """Propose that a running dataflow rests."""
    return schemas.proposal_row(services.pause_dataflow(actor=request.user, dataflow_id=dataflow_id))


@router.post("/dataflows/{uuid:dataflow_id}/pause-at-once", response=ProposalRow)
def pause_at_once(request: HttpRequest, dataflow_id: UUID, stop: PauseAtOnceIn) -> dict[str, Any]:
    """Emergency stop: pause a running dataflow as soon as that is planned; nobody has to approve it."""
    return schemas.proposal_row(services.pause_at_once(
        actor=request.user, dataflow_id=dataflow_id, reason=stop.reason))


@router.post("/dataflows/{uuid:dataflow_id}/resume", response=ProposalRow)
def resume(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """Propose that a paused dataflow goes on."""
    return schemas.proposal_row(services.resume_dataflow(actor=request.user, dataflow_id=dataflow_id))


@router.post("/dataflows/{uuid:dataflow_id}/defragment", response=ProposalRow)
def defragment(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """Propose a step of defragmentation."""
    return schemas.proposal_row(services.defragment_dataflow(actor=request.user, dataflow_id=dataflow_id))


@router.post("/dataflows/{uuid:dataflow_id}/move", response=ProposalRow)
def move(request: HttpRequest, dataflow_id: UUID, choice: schemas.MoveIn) -> dict[str, Any]:
    """Propose that one of the dataflow's queries, or several, go on in another slot."""
    return schemas.proposal_row(services.move_query(
        actor=request.user, dataflow_id=dataflow_id, query=choice.query, slot=choice.slot, along=choice.along))


@router.get("/dataflows/{uuid:dataflow_id}/alternates", response=list[DynamicTaskAnswer])
def alternates(request: HttpRequest, dataflow_id: UUID) -> list[dict[str, Any]]:
    """The dynamic tasks of a dataflow that runs: their alternates, which is on, and which got which first event.

    Of each alternate in ``figures``: what it is worth against the best, core-seconds for each event, events out for
    each event in, and what the task costs with it on.
    """
    tasks = with_figures(
        request.viewer, dataflow_id, dynamic_reader.dynamic_tasks(request.viewer, dataflow_id))
    return json.loads(to_json(dynamic_reader.with_switches(request.viewer, tasks)))


@router.get("/dataflows/{uuid:dataflow_id}/switches.jsonl")
def switches(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """The recorded sequence of its dynamic tasks, one switch a line: from which event which alternate worked."""
    tasks = dynamic_reader.with_switches(
        request.viewer, dynamic_reader.dynamic_tasks(request.viewer, dataflow_id))
    lines = [json.dumps({"task": task.task, **asdict(switch)}) + "\n" for task in tasks for switch in task.switches]
    return HttpResponse("".join(lines), content_type="application/x-ndjson")


@router.post("/dataflows/{uuid:dataflow_id}/alternates", response=ProposalRow)
def switch(request: HttpRequest, dataflow_id: UUID, choice: SwitchIn) -> dict[str, Any]:
    """Propose that a dynamic task, or several, are done by another of their alternates, and held so for a time: an hour
    where none is said, whatever its policy wants; or that the task is for one ``key`` alone."""
    if choice.key:
        return schemas.proposal_row(services.switch_key(
            actor=request.user, dataflow_id=dataflow_id, task=choice.task, key=choice.key, alternate=choice.alternate,
            hold_s=choice.hold_s))
    return schemas.proposal_row(services.switch_alternate(
        actor=request.user, dataflow_id=dataflow_id, task=choice.task, alternate=choice.alternate,
        along=choice.along, hold_s=choice.hold_s, at_once=choice.at_once))


@router.post("/dataflows/{uuid:dataflow_id}/alternates/{task}/release", response=PolicyAnswer)
def release(
    request: HttpRequest, dataflow_id: UUID, task: str, key: list[str] = OF_KEY
) -> dict[str, Any]:
    """Let the policy of a dynamic task decide again that somebody holds, or whatever chooses for keys about one that
    somebody has set; by an engineer of the dataflow's team."""
    if key:
        services.release_key(actor=request.user, dataflow_id=dataflow_id, task=task, key=key)
    else:
        services.release_alternate(actor=request.user, dataflow_id=dataflow_id, task=task)
    return policy(request, dataflow_id, task)


@router.get("/dataflows/{uuid:dataflow_id}/alternates/{task}/policy", response=PolicyAnswer)
def policy(request: HttpRequest, dataflow_id: UUID, task: str) -> dict[str, Any]:
    """The policy of a dynamic task: its policy, what each guard saw, who holds it, and all versions."""
    return json.loads(to_json(policy_told(request.viewer, dataflow_id, task)))


@router.post("/dataflows/{uuid:dataflow_id}/alternates/{task}/policy", response=ProposalRow)
def change_policy(
    request: HttpRequest, dataflow_id: UUID, task: str, choice: schemas.ElementPolicyIn
) -> dict[str, Any]:
    """Propose another policy for a dynamic task, or one of its versions again; no query is touched."""
    return schemas.proposal_row(services.propose_policy(
        actor=request.user, dataflow_id=dataflow_id, task=task, version=choice.version, reason=choice.reason,
        draft=choice.draft() if choice.version is None else None))


@router.post("/dataflows/{uuid:dataflow_id}/alternates/{task}/try", response=GuardTrialAnswer)
def try_guards(request: HttpRequest, dataflow_id: UUID, task: str, tried: schemas.GuardTrialIn) -> dict[str, Any]:
    """The choices that a policy of a dynamic task would have made over the history that is kept; nothing is switched.

    Guards and values that are left out are those of the policy that is in force.
    """
    element = running_element(request.viewer, dataflow_id, task)
    return json.loads(to_json(trial_of(
        request.viewer, dataflow_id, task, hours=tried.hours, draft=tried.draft_over(element.policy))))


@router.get("/dataflows/{uuid:dataflow_id}/move", response=MovePreview)
def move_preview(
    request: HttpRequest, dataflow_id: UUID, query: str, slot: str,
    along: list[str] = Query([]),  # noqa: B008
) -> dict[str, Any]:
    """The effects of a move, for members of the dataflow's team: gain, pause, risks, who has to agree; or why it is
    refused. Nothing is proposed."""
    return asdict(preview_of(request.user, dataflow_id, query=query, slot=slot, along=along))


@router.post("/dataflows/{uuid:dataflow_id}/when-behind", response=WhenBehind)
def when_behind(request: HttpRequest, dataflow_id: UUID, choice: schemas.WhenBehindIn) -> dict[str, Any]:
    """Say what becomes of a dataflow that reads a stream too slowly that others need; by an approver of its team."""
    record = choose_when_behind(actor=request.user, dataflow_id=dataflow_id, choice=choice.choice)
    return {"id": str(record.pk), "chosen": record.when_behind, "when_behind": record.behind_choice}


@router.get("/dataflows/{uuid:dataflow_id}/latency", response=DataflowLatency)
def latency(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """The latency limits of a dataflow: whether they are met, where the time goes, and what would meet them."""
    return latency_told(request.viewer, dataflow_id)


@router.get("/dataflows/{uuid:dataflow_id}/latency/prices", response=LatencyPrices)
def prices_of_latency(request: HttpRequest, dataflow_id: UUID, scheduled: bool = False) -> dict[str, Any]:
    """The cost of the dataflow's batches at other limits, and its part of that; or as by a schedule."""
    return latency_prices_told(request.viewer, dataflow_id, scheduled=scheduled)


@router.post("/dataflows/{uuid:dataflow_id}/latency", response=DataflowLatency)
def choose_limits(request: HttpRequest, dataflow_id: UUID, choice: schemas.LatencyIn) -> dict[str, Any]:
    """Say how late a dataflow's events may be; by an engineer of its team. Intervals restart nothing."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    choose_latency(actor=request.user, dataflow_id=record.pk, limits=limits_for(record, choice.latency))
    return latency_told(request.viewer, dataflow_id)


@router.get("/dataflows/{uuid:dataflow_id}/goals", response=GoalsAnswer)
def goals(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """The goals of adaptation for a dataflow, its present results, and why it is left as it is."""
    return goals_told(request.viewer, dataflow_id)


@router.get("/dataflows/{uuid:dataflow_id}/goals/prices", response=GoalsOffer)
def prices_of_goals(
    request: HttpRequest, dataflow_id: UUID, most_per_hour: float, least_per_hour: float = 0.0,
    throughput: float = 0.8, tolerance: float = 0.05, hours: float = 12.0
) -> dict[str, Any]:
    """The alternates of a dataflow for such goals, with their cost and worth at the present load."""
    return offer_told(request.viewer, dataflow_id, goals_of({
        "most_per_hour": most_per_hour, "least_per_hour": least_per_hour, "throughput": throughput,
        "tolerance": tolerance, "hours": hours}))


@router.post("/dataflows/{uuid:dataflow_id}/goals", response=GoalsAnswer)
def choose_goals_of(request: HttpRequest, dataflow_id: UUID, choice: GoalsIn) -> dict[str, Any]:
    """Say what adaptation is to reach for a dataflow; by an engineer of its team. Nothing changes by it at once."""
    choose_goals(
        actor=request.user, dataflow_id=dataflow_id, goals=None if choice.goals is None else goals_of(choice.goals),
        as_document=choice.as_document)
    return goals_told(request.viewer, dataflow_id)


@router.get("/dataflows/{uuid:dataflow_id}/fragmentation", response=FragmentationAnswer)
def dataflow_fragmentation(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """The fragmentation of a dataflow in the estate."""
    document = fragmentation_reader.fragmentation_of(request.viewer, dataflow_id)
    if document is None:
        raise NotFound("This dataflow is not in the estate.", remedy="Submit it first.")
    return document


@router.get("/dataflows/{uuid:dataflow_id}/cost", response=DataflowCost)
def dataflow_cost(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """The cost of a dataflow in the estate in an hour: estimated, measured, paid, and kept of slots."""
    cost = cost_of(request.viewer, dataflow_id)
    if cost is None:
        raise NotFound("This dataflow is not in the estate.", remedy="Submit it first.")
    return asdict(cost)


@router.get("/dataflows/{uuid:dataflow_id}/live", response=LiveDataflow)
def dataflow_live(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """A dataflow's live document."""
    return operations.live_dataflow(request.viewer, dataflow_id)


@router.get("/dataflows/{uuid:dataflow_id}/failures", response=list[FailingQuery])
def failures(request: HttpRequest, dataflow_id: UUID) -> list[dict[str, Any]]:
    """The queries of a dataflow that fail, with their tracebacks for members of its team."""
    return [asdict(failure) for failure in failing.failures(request.viewer, dataflow_id)]


@router.post("/dataflows/{uuid:dataflow_id}/retry", response=TriedAgain)
def retry(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """Try the failing queries of a dataflow again now, also those that were given up."""
    return {"queries": try_again(actor=request.user, dataflow_id=dataflow_id)}


@router.get("/dataflows/{uuid:dataflow_id}/history", response=DataflowHistory)
def dataflow_history(
    request: HttpRequest, dataflow_id: UUID, minutes: int = Query(60, ge=1, le=360)
) -> dict[str, list]:
    """Rates and latency of a dataflow over time, as columns."""
    return operations.dataflow_history(request.viewer, dataflow_id, minutes=minutes)


@router.get("/dataflows/{uuid:dataflow_id}/outputs", response=list[Output])
def outputs(request: HttpRequest, dataflow_id: UUID) -> list[dict[str, str]]:
    """Named outputs of a running dataflow."""
    return operations.outputs(request.viewer, dataflow_id)


@router.get("/dataflows/{uuid:dataflow_id}/outputs/{str:task_id}", response=list[dict[str, Any]])
def output_events(
    request: HttpRequest, dataflow_id: UUID, task_id: str, count: int = Query(20, ge=1, le=200)
) -> list[dict[str, Any]]:
    """The newest events of a named output, newest first."""
    return operations.output_tail(request.viewer, dataflow_id, task_id, count=count)


@router.get("/dataflows/{uuid:dataflow_id}/sources/{str:task_id}/dead-letters", response=list[DeadLetterAnswer])
def source_dead_letters(
    request: HttpRequest, dataflow_id: UUID, task_id: str, count: int = Query(50, ge=1, le=200)
) -> list[dict[str, str]]:
    """The newest messages that a live source could not read, newest first."""
    letters = operations.dead_letters(request.viewer, dataflow_id, task_id, count=count)
    return [row_of(DeadLetterAnswer, letter) for letter in letters]


@router.get("/dataflows/{uuid:dataflow_id}/sinks/{str:task_id}/refused", response=list[DeadLetterAnswer])
def sink_refused(
    request: HttpRequest, dataflow_id: UUID, task_id: str, count: int = Query(50, ge=1, le=200)
) -> list[dict[str, str]]:
    """The newest events that the other system of a sink refused, newest first."""
    letters = operations.refused_events(request.viewer, dataflow_id, task_id, count=count)
    return [row_of(DeadLetterAnswer, letter) for letter in letters]


@router.post("/dataflows/{uuid:dataflow_id}/sinks/{str:task_id}/write-again", response={202: AskedToWrite})
def sink_write_again(request: HttpRequest, dataflow_id: UUID, task_id: str, order: schemas.WriteAgainIn) -> Status:
    """Let a sink write again what is kept: 202, and its state tells what comes of it."""
    write_again(
        actor=request.user, dataflow_id=dataflow_id, task_id=task_id, extent=order.what, since=order.since,
        understood=order.understood)
    return Status(202, {"asked": order.what})
