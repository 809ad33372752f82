"""Dataflows: the list, submitting one, and one dataflow with its graph, outputs, plots and history."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard import jobs
from dashboard.approvals import selectors as approvals
from dashboard.approvals import services
from dashboard.approvals.emergency_stops import emergency_stops
from dashboard.approvals.services.reader_choices import choose_when_behind
from dashboard.audit import selectors as trail
from dashboard.bills.dataflow_costs import cost_of
from dashboard.catalog import selectors as catalog
from dashboard.catalog.lifecycle import AT_REST, LIFECYCLE, PAUSED, RUNNING
from dashboard.controllers.adaptation_told import goals_told
from dashboard.controllers.latency_told import latency_card_told
from dashboard.core.http_errors import http_status
from dashboard.explorer.offered_samples import offered_samples
from dashboard.explorer.version_comparison import compared
from dashboard.operations import selectors as operations
from dashboard.operations.diagnosis.fragmentation_reader import fragmentation_of
from dashboard.operations.elements import queries_of
from dashboard.operations.live_view.dynamic_reader import dynamic_tasks
from dashboard.operations.live_view.failing_queries import failures
from dashboard.operations.live_view.query_states import GAVE_UP, SILENT_SOURCE
from dashboard.operations.live_view.survival import more_in_words, oldest_in_words
from dashboard.operations.services import try_again
from dashboard.pages import flash, own_data_answers
from dashboard.pages.editor_words import GUARD_LANGUAGE
from dashboard.pages.event_table import event_table
from dashboard.pages.finding_rows import finding_rows, moment_of
from dashboard.pages.graphs import brought_along, dataflow_graph, pair_graph
from dashboard.pages.line_changes import line_changes
from dashboard.pages.value_charts import value_figure
from dashboard.pages.views.adaptation import goals_form
from dashboard.savepoint_records.selectors import names_of_whole, version_saved
from dashboard.teams import selectors as teams
from dashboard.teams.models import Role
from scheduler.contracts.reports import FAILING
from scheduler.model.alternates import is_dynamic
from scheduler.model.behind import WORDS
from scheduler.model.errors import InvalidDataflow, NotFound, WeirError

if TYPE_CHECKING:
    from dashboard.approvals.models import Proposal
    from dashboard.catalog.models import DataflowRecord, DataflowVersion
    from dashboard.operations.live_view.live_documents import LiveDataflow
    from dashboard.teams.models import Team

PER_PAGE = 25
TABS = {"overview": "Overview", "data": "Data", "performance": "Performance", "costs": "Cost", "versions": "Versions",
        "settings": "Settings"}  # by the name in the address; "cost" is the card's
EVENTS_SHOWN = 10
LETTERS_SHOWN = 100
OUTPUTS_SHOWN = 20  # of a dataflow at once: each is read every second


@require_safe
def dataflows(request: HttpRequest) -> HttpResponse:
    """The list, searched and filtered, with live rates of those that run."""
    search, team, status = (request.GET.get(name, "").strip() for name in ("q", "team", "status"))
    records = catalog.dataflows(
        request.viewer, search=search, team=team, status=status if status in LIFECYCLE.states else "")
    page = Paginator(records, PER_PAGE).get_page(request.GET.get("page"))
    running = operations.live_estate(request.viewer)["dataflows"]
    return render(request, "dataflows.html", {
        "page": page, "rows": [{"record": record, "live": running.get(str(record.pk))} for record in page.object_list],
        "search": search, "team_chosen": team, "status_chosen": status, "filtered": bool(search or team or status),
        "teams": teams.all_teams(), "statuses": LIFECYCLE.states, "live_topic": "estate",
    })


@require_http_methods(["GET", "HEAD", "POST"])
def dataflow_new(request: HttpRequest) -> HttpResponse:
    """The editor, and what it sends: a document for one of the viewer's teams."""
    may = teams.teams_to_submit_for(request.viewer)
    record = _record_to_renew(request)
    changed = _record_to_change(request)
    if changed is not None:
        may, record = may.filter(pk=changed.team_id), changed
    if request.method != "POST":
        editor_context = own_data_answers.written(request) if request.GET.get("own") else _start_with(
            record, _savepoint_of(request))
        return render(request, "dataflow_new.html", _editor(request, may, record, **editor_context))
    text, form_format = request.POST.get("text", ""), request.POST.get("format") or None
    team = may.filter(slug=request.POST.get("team", "")).first()
    try:
        if team is None:
            raise NotFound("You cannot submit for that team.", remedy="Choose one of yours.")
        proposal = _submit(request, team, changed, text, form_format)
    except InvalidDataflow as error:
        context = _editor(request, may, record, text=text, format=form_format or "yaml", problems=error.problems)
        return render(request, "dataflow_new.html", context, status=http_status(error))
    except WeirError as error:
        context = _editor(request, may, record, text=text, format=form_format or "yaml", failure=error)
        return render(request, "dataflow_new.html", context, status=http_status(error))
    own_data_answers.forget(request)
    flash.proposed(request, proposal, code="submitted")
    return redirect("proposal", proposal.pk)


def _submit(
    request: HttpRequest, team: Team, changed: DataflowRecord | None, text: str, form_format: str | None
) -> Proposal:
    """Submit what the editor sends, or propose it as a new version of a dataflow that runs."""
    options = {"fresh": request.POST.get("fresh") == "1", "begin": request.POST.get("begin", "now"),
               "begin_from": _savepoint_of(request)}
    if changed is not None:
        return services.change_dataflow(
            actor=request.user, dataflow_id=changed.pk, text=text, format=form_format, **options)
    return services.submit_dataflow(
        actor=request.user, team=team, text=text, format=form_format, **options)


@require_safe
def sample(request: HttpRequest, slug: str) -> HttpResponse:
    """The text of a sample."""
    chosen = next((sample for sample in catalog.samples() if sample.slug == slug), None)
    if chosen is None:
        raise NotFound("There is no such sample.", remedy="Choose one from the list.")
    return HttpResponse(chosen.text, content_type="text/plain; charset=utf-8")


def found_or_problem(read: Callable[[], list[Any]]) -> tuple[list[Any], WeirError | None]:
    """The result of a reading, or why it cannot be shown now; what is not there is ``NotFound`` still."""
    try:
        return read(), None
    except NotFound:
        raise
    except WeirError as error:
        return [], error


@require_safe
@operations.one_look()
def dataflow(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """One dataflow."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    live, graph = operations.live_dataflow(request.viewer, dataflow_id), catalog.graph_of(record)
    proposals = list(approvals.proposals(request.viewer, dataflow_id=record.pk)[:10])
    may = request.viewer.has_role(record.team_id, Role.ENGINEER)
    tasks = [{**task, "live": live["tasks"].get(task["id"], {})} for task in graph["tasks"]]
    for sink in live["sinks"].values():
        sink["waiting_since"] = moment_of(sink["waiting_since_ms"])
    queries = queries_of(request.viewer, dataflow_id)
    return render(request, "dataflow.html", {
        "record": record, "live": live, "tasks": tasks, "tabs": TABS,
        "graph": brought_along(_graph_as_it_runs(graph, live)), "site": request.build_absolute_uri("/").rstrip("/"),
        "queries": queries, "survives": any(query.survives for query in queries),
        "oldest_copy": oldest_in_words(live["survival"]), "one_more": more_in_words(live["survival"]),
        **_outputs(request, record, live),
        "document": catalog.current_version(record), "proposals": proposals,
        "versions": catalog.versions(record)[:catalog.VERSIONS_SHOWN],
        "entries": trail.entries_of(record, *proposals)[:30],
        "failing": failures(request.viewer, dataflow_id), "may_try_again": may,
        "findings": finding_rows(
            row for row in live["health"].values()
            if (row["severity"] != "note" or row["state"] == SILENT_SOURCE)
            and not (row["part"] == "query" and row["state"] in (FAILING, GAVE_UP))),
        "notable": operations.notable_events(request.viewer, dataflow_id),
        "shared": _sharing(tasks), "may_remove": may and record.status in {RUNNING, PAUSED},
        "may_change": may and record.status == RUNNING,
        "may_read_log": record.status == RUNNING and request.viewer.sees_private_of(record.team_id),
        "may_pause": may and record.status == RUNNING, "may_resume": may and record.status == PAUSED,
        "is_dynamic": any(is_dynamic(task["type"]) for task in tasks),
        "dynamic": dynamic_tasks(request.viewer, dataflow_id), "may_switch": may and record.status == RUNNING,
        "fragmentation": fragmentation_of(request.viewer, dataflow_id), "currency": settings.CURRENCY,
        "cost": cost_of(request.viewer, dataflow_id),
        "may_renew": may and record.status in AT_REST, "is_running": record.status == RUNNING,
        "may_read_bill": request.viewer.sees_private_of(record.team_id),
        "live_topic": f"dataflow:{record.pk}", "hold_s": settings.HOLD_S,
        "stop": emergency_stops([record.pk]).get(str(record.pk)),
        "limit_severity": next((row["severity"] for row in live["health"].values() if row["part"] == "limit"), "note"),
        "latency": latency_card_told(request.viewer, record), "longest_ms": settings.LONGEST_TRIGGER_MS,
        "goals": (goals := goals_told(request.viewer, dataflow_id)) | {"form": goals_form(goals)},
        "may_choose_latency": may, "may_choose_behind": request.viewer.has_role(record.team_id, Role.APPROVER),
        "when_behind_choices": WORDS, "when_behind_words": WORDS[record.behind_choice],
    })


@require_POST
def dataflow_when_behind(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """Choose what becomes of a dataflow that is too slow for a stream that others need."""
    choice, record = request.POST.get("choice", ""), catalog.dataflow(request.viewer, dataflow_id)
    flash.attempt(
        request, lambda: choose_when_behind(actor=request.user, dataflow_id=record.pk, choice=choice),
        text=lambda record: f"If it is too slow for others, {record.name} {WORDS[record.behind_choice]}.",
        code="when-behind")
    return redirect("dataflow", dataflow_id)


@require_safe
def dataflow_version(request: HttpRequest, dataflow_id: UUID, number: int) -> HttpResponse:
    """The document of one version, how it differs from another (``with``: the one before), and its proposals."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    version, before = _two_versions(request, record, number)
    comparison = compared(before, version) if before else None
    return render(request, "dataflow_version.html", {
        "record": record, "version": version, "before": before, "comparison": comparison,
        "changes": line_changes(before.text, version.text) if before else [],
        "may_propose": request.viewer.has_role(record.team_id, Role.ENGINEER) and record.status == RUNNING
        and number != record.version,
        "versions": catalog.versions(record)[:catalog.VERSIONS_SHOWN],
        "proposals": approvals.proposals(request.viewer, dataflow_id=record.pk).filter(plan__version=number)[:10],
    })


@require_safe
def dataflow_version_graph(request: HttpRequest, dataflow_id: UUID, number: int) -> JsonResponse:
    """A version and another (``with``) in one graph."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    version, before = _two_versions(request, record, number)
    return JsonResponse(pair_graph(compared(before or version, version), task_types=jobs.task_types()))


@require_POST
def dataflow_version_propose(request: HttpRequest, dataflow_id: UUID, number: int) -> HttpResponse:
    """Propose that a dataflow that runs goes back, or forward, to one of its versions."""
    catalog.dataflow(request.viewer, dataflow_id)
    try:
        proposal = services.propose_version(actor=request.user, dataflow_id=dataflow_id, number=number)
    except WeirError as error:
        flash.failure(request, error)
        return redirect("dataflow_version", dataflow_id, number)
    flash.proposed(request, proposal)
    return redirect("proposal", proposal.pk)


def _two_versions(
    request: HttpRequest, record: DataflowRecord, number: int
) -> tuple[DataflowVersion, DataflowVersion | None]:
    """A version, and the one that it is compared with: that of the address, else the one before; None for the first."""
    version, other_number = catalog.version(record, number), request.GET.get("with", "")
    if other_number.isdecimal() and len(other_number) < 9:
        return version, catalog.version(record, int(other_number))
    return version, catalog.versions(record).filter(number__lt=number).first()


@require_safe
def dataflow_graph_json(request: HttpRequest, dataflow_id: UUID) -> JsonResponse:
    """The graph of a dataflow, with what its tasks are shared with."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    live = operations.live_dataflow(request.viewer, dataflow_id)
    return JsonResponse(_graph_as_it_runs(catalog.graph_of(record), live))


def _graph_as_it_runs(graph: dict[str, list[dict[str, Any]]], live: LiveDataflow) -> dict[str, Any]:
    return dataflow_graph(
        graph, shared_with={task: live_task["shared_with"] for task, live_task in live["tasks"].items()},
        on={task: live_task["on"] for task, live_task in live["tasks"].items()})


@require_safe
def output_events(request: HttpRequest, dataflow_id: UUID, task: str) -> HttpResponse:
    """The newest events of one output, as a table."""
    events, problem = found_or_problem(
        lambda: operations.output_tail(request.viewer, dataflow_id, task, count=EVENTS_SHOWN))
    return render(request, "parts/events.html", {"task": task, "problem": problem, **event_table(events)})


@require_safe
def output_chart(request: HttpRequest, dataflow_id: UUID, task: str) -> JsonResponse:
    """A column (``value``) of the newest events of one output as a chart, with a line for each value of ``by``."""
    events, problem = found_or_problem(
        lambda: operations.output_tail(request.viewer, dataflow_id, task, count=operations.MOST_EVENTS))
    figure = value_figure(events[::-1], value=request.GET.get("value", ""), by=request.GET.get("by", ""))
    return JsonResponse(figure | ({"empty": f"{problem.message} {problem.remedy}".strip()} if problem else {}))


@require_safe
def dead_letters(request: HttpRequest, dataflow_id: UUID, task: str) -> HttpResponse:
    """The messages that a live source could not read, newest first."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    letters, problem = found_or_problem(
        lambda: operations.dead_letters(request.viewer, dataflow_id, task, count=LETTERS_SHOWN))
    source = operations.live_dataflow(request.viewer, dataflow_id)["sources"].get(task, {})
    return render(request, "dead_letters.html", {
        "record": record, "task": task, "letters": letters, "problem": problem, "source": source})


@require_POST
def dataflow_retry(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """Try the failing queries of a dataflow again now."""
    catalog.dataflow(request.viewer, dataflow_id)
    flash.attempt(
        request, lambda: try_again(actor=request.user, dataflow_id=dataflow_id),
        text="Trying again. This page shows the result.", code="try-again")
    return redirect("dataflow", dataflow_id)


@require_POST
def dataflow_pause_at_once(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """Emergency stop: pause a dataflow without an approval."""
    catalog.dataflow(request.viewer, dataflow_id)
    flash.attempt(
        request, lambda: services.pause_at_once(
            actor=request.user, dataflow_id=dataflow_id, reason=request.POST.get("reason", "")),
        text=lambda proposal: f"{proposal.dataflow.name} is being paused. An alert tells its team.",
        code="paused-at-once")
    return redirect("dataflow", dataflow_id)


@require_POST
def dataflow_rearrange(request: HttpRequest, dataflow_id: UUID, way: str) -> HttpResponse:
    """Propose to pause, resume, defragment or remove a dataflow."""
    catalog.dataflow(request.viewer, dataflow_id)
    if way not in services.REARRANGEMENTS:
        raise NotFound("There is no such action.", remedy="Use the buttons of the dataflow's page.")
    try:
        proposal = services.REARRANGEMENTS[way](actor=request.user, dataflow_id=dataflow_id)
    except WeirError as error:
        flash.failure(request, error)
        return redirect("dataflow", dataflow_id)
    flash.proposed(request, proposal)
    return redirect("proposal", proposal.pk)


def _record_to_renew(request: HttpRequest) -> DataflowRecord | None:
    """The dataflow that is submitted again, where the address names one."""
    renewed = request.GET.get("again", "")
    return catalog.dataflow(request.viewer, renewed) if renewed else None


def _record_to_change(request: HttpRequest) -> DataflowRecord | None:
    """The dataflow of which a new version is written, where the address or the form names one."""
    changed = request.POST.get("of", "") or request.GET.get("of", "")
    return catalog.dataflow(request.viewer, changed) if changed else None


def _start_with(record: DataflowRecord | None, savepoint: str) -> dict[str, Any]:
    """The document that is edited: of the version that a savepoint of it was taken of, else the current one."""
    if record is None:
        return {}
    number = version_saved(record, savepoint) if savepoint else None
    version = catalog.version(record, number) if number else catalog.current_version(record)
    return {"text": version.text, "format": version.format}


def _editor(request: HttpRequest, may: Any, record: DataflowRecord | None, **context: Any) -> dict[str, Any]:
    chosen = request.POST.get("team") or (record.team.slug if record else context.pop("team", ""))
    changed, savepoint, savepoints = _record_to_change(request), _savepoint_of(request), names_of_whole(may)
    return {"teams": may, "record": record, "format": "yaml",
            "samples": () if changed else offered_samples(request.viewer),
            "chosen_team": chosen, "changed": changed, "guard_language": GUARD_LANGUAGE,
            "savepoint": savepoint, "savepoints": savepoints,
            "other_savepoint": savepoint if (chosen, savepoint) not in savepoints else "", **context}


def _savepoint_of(request: HttpRequest) -> str:
    """The name of the savepoint from which a submission begins; the form counts before the address."""
    return (request.POST if request.method == "POST" else request.GET).get("from", "").strip()


def _outputs(request: HttpRequest, record: DataflowRecord, live: LiveDataflow) -> dict[str, Any]:
    """The outputs that are shown, the one first that the address names, and the names of all where these are more."""
    outputs = operations.outputs(request.viewer, record.pk) if record.status == RUNNING else []
    chosen = request.GET.get("output", "")
    shown = sorted(outputs, key=lambda output: output["task"] != chosen)[:OUTPUTS_SHOWN]
    return {
        "outputs": [{**output, "live": live["tasks"].get(output["task"], {})} for output in shown],
        "outputs_in_all": [output["task"] for output in outputs] if len(outputs) > OUTPUTS_SHOWN else []}


def _sharing(tasks: list[dict[str, Any]]) -> dict[str, Any]:
    """The number of shared tasks, and their users."""
    shared = [task for task in tasks if task["live"].get("shared_with")]
    users = {user["id"]: user for task in shared for user in task["live"]["shared_with"]}
    return {"count": len(shared), "users": sorted(users.values(), key=lambda user: user["name"])}
