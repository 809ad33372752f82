"""Schedules: slots with what they hold; all pairs for a rate, what another rate would take, and proposing one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.approvals import selectors as approvals
from dashboard.approvals import services
from dashboard.approvals.lifecycle import PENDING
from dashboard.catalog import selectors as catalog
from dashboard.catalog.lifecycle import RUNNING
from dashboard.core.http_errors import http_status
from dashboard.operations.latency_control.latency_view import offer_of
from dashboard.operations.live_reader import dataflow_survival
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.live_view.learned_costs import costs_here
from dashboard.operations.live_view.survival import more_in_words
from dashboard.pages import flash
from dashboard.pages.plots import curve_figure
from dashboard.pages.templatetags.schedules import exact_rate
from dashboard.pages.templatetags.weir import words
from dashboard.pages.views.missing_profiles import may_measure_for, measure_address, missing_part
from dashboard.plans.choices import LEAST_RATE_PER_S, ScheduleChoice
from dashboard.plans.selectors import plan_of
from dashboard.schedules import options, selectors
from dashboard.schedules.as_it_runs import as_it_runs
from dashboard.schedules.comparison import ComparisonRow, best_of
from dashboard.schedules.slot_details import slots_grid
from dashboard.teams.models import Role
from scheduler.model.errors import NotFound, WeirError
from scheduler.model.plan_kinds import PLAN_KINDS, names_where
from scheduler.model.resources import TOLERANCE
from scheduler.pairs import MODEL_BASED, PAIRS, QUICK_PAIRS, pair_of, quick_pair
from scheduler.performance.routing import Routing

if TYPE_CHECKING:
    from dashboard.approvals.models import Proposal
    from dashboard.catalog.models import DataflowRecord

OPEN_UP_TO = 24  # slots whose bundles are listed at once; with more, each is opened by itself
STEPS = 400  # of the slider
ROUTINGS: tuple[Routing, ...] = ("slot_aware", "shuffle")


@require_safe
def slots(request: HttpRequest) -> HttpResponse:
    """Nodes and slots with their bundles; with ``proposal``, before and after its plan."""
    proposal, plan = _looked_at(request)
    grid = slots_grid(request.viewer, plan=plan)
    changed = [slot for slot in grid.slots if slot.changes]
    only = request.GET.get("only") == "changed" and plan is not None
    return render(request, "slots/slots.html", {
        "grid": grid, "proposal": proposal, "changed": len(changed), "only": only,
        "opened": len(changed if only else grid.slots) <= OPEN_UP_TO,
        "bundles": sum(len(slot.bundles) for slot in grid.slots),
        "free": sum(slot.free for slot in grid.slots),
        "live": {"available": grid.reading.available, "reason": grid.reading.reason}, "live_topic": "estate",
    })


@require_safe
def schedule(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """All pairs side by side at a rate, and the slider that moves it."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    refused: WeirError | None = None
    try:
        answer = _ask(request, record)
    except WeirError as error:  # no rate, or no routing: the page shows what it would without
        refused, answer = error, options.ask(record, None)
    failure = refused or answer.failure
    return render(request, "schedules/compare.html", {
        "record": record, "failure": failure, **missing_part(request, record, answer),
        **_answer(request, record, answer), **_frame(request, record, answer), **offer_of(record),
        "trigger_ms": settings.TRIGGER_MS, **_survival(request, record),
    }, status=http_status(refused) if refused else 200)


def _survival(request: HttpRequest, record: DataflowRecord) -> dict[str, Any]:
    """The losses of machines that a running dataflow survives, and the cost of one more copy of its state."""
    if record.status != RUNNING:
        return {}
    survival = dataflow_survival(view_for(request.viewer), str(record.pk))
    return {"survival": survival, "one_more": more_in_words(survival)}


@require_safe
def schedule_pairs(request: HttpRequest, dataflow_id: UUID) -> JsonResponse:
    """The pairs at a rate, as markup: asked while the slider moves; with ``complete`` also those that take seconds."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    answer = _ask(request, record)
    if answer.failure is not None:
        raise answer.failure
    context = _answer(request, record, answer)
    return JsonResponse({
        "rate": context["rate_asked"], "together_per_s": context["together_per_s"], "shown": context["at"],
        "chosen": context["chosen"],
        "rates": {task: exact_rate(rate_per_s) for task, rate_per_s in answer.job.rates_per_s.items()},
        "pairs": render_to_string("schedules/pairs.html", context, request=request),
    })


@require_safe
def schedule_curve(request: HttpRequest, dataflow_id: UUID) -> JsonResponse:
    """Slots and price of one pair over rates, as a figure."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    most_per_s = options.rate_of(request.GET.get("most", ""))
    pair = pair_of(request.GET.get("pair", "")) or MODEL_BASED
    if most_per_s is None:
        raise NotFound("There is no curve without an end.", remedy="Give most: the highest rate.")
    rows = options.curve(record, pair, most_per_s=most_per_s, routing=_routing(request))
    bounded_by = "" if pair in QUICK_PAIRS else quick_pair(pair)[1]
    return JsonResponse({"curve": curve_figure(rows, currency=settings.CURRENCY, bounded_by=bounded_by)})


@require_POST
def schedule_propose(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """Propose the chosen schedule: an ordinary proposal, with a plan to review."""
    catalog.dataflow(request.viewer, dataflow_id)
    form, address = request.POST, reverse("schedule", args=[dataflow_id])
    try:
        choice = None if form.get("without") == "1" else ScheduleChoice.of(
            pair=form.get("pair", "").split("-"), rate_per_s=options.rate_of(form.get("rate", "")),
            routing=form.get("routing", ROUTINGS[0]))
        if choice is not None:  # what is refused is seen where it was chosen
            query = {name: form[name] for name in ("rate", "pair", "routing") if form.get(name)}
            address = reverse("schedule", args=[dataflow_id], query=query)
        proposal = services.propose_schedule(actor=request.user, dataflow_id=dataflow_id, choice=choice)
    except WeirError as error:
        flash.failure(request, error)
        return redirect(address)
    if proposal.status == PENDING:  # the same choice was proposed before
        before = "This schedule was proposed" if choice else "The dataflow was submitted without a schedule"
        flash.success(request, f"{before} before. This is its plan.", code="proposed-before")
    else:
        flash.success(
            request, "The plan is being computed. Nothing changes until it is approved.", code="computing")
    return redirect("proposal", proposal.pk)


def _ask(request: HttpRequest, record: DataflowRecord) -> options.ScheduleOptions:
    """The options in the address; raises where its rate is none."""
    pairs = PAIRS if request.GET.get("complete") == "1" else QUICK_PAIRS
    return options.ask(
        record, options.rate_of(request.GET.get("rate", "")), pairs=pairs, routing=_routing(request))


def _routing(request: HttpRequest) -> Routing:
    """The routing that the address names; slot-aware if it names none or an unknown one."""
    named = request.GET.get("routing", "")
    return next((routing for routing in ROUTINGS if routing == named), ROUTINGS[0])


def _answer(request: HttpRequest, record: DataflowRecord, answer: options.ScheduleOptions) -> dict[str, Any]:
    """The table and the figures of the chosen pair; ``rate_asked`` asks for the same again."""
    rates = options.own_rates(answer.problem)
    rate_per_s = answer.rate_per_s or rates[0]
    at, rate_text = exact_rate(rate_per_s), _plain(rate_per_s)
    if answer.rate_per_s is None and len(rates) > 1:  # each has another one: no rate stands for them
        at, rate_text = f"each source's own rate, {exact_rate(sum(rates))} in total", ""
    best = best_of(answer.rows)
    wanted_pair = pair_of(request.GET.get("pair", ""))
    shown_row = (
        next((row for row in answer.rows if row.pair == wanted_pair), None) or best or (answer.rows or (None,))[0])
    chosen = shown_row or ComparisonRow(PAIRS[0], error=answer.failure)
    return {
        "sources_make": sorted(rates, reverse=True),
        "more_than_made": answer.rate_per_s is not None and answer.rate_per_s > max(rates) * (1 + TOLERANCE),
        "rows": answer.rows, "at": at, "rate_asked": rate_text, "together_per_s": sum(rates),
        "chosen": chosen.key if shown_row else "", "cannot": chosen.cannot, "chosen_row": chosen,
        "best": best.key if best and best.keeps else "", "currency": settings.CURRENCY, "waiting": True,
        "routing": _routing(request), "now": as_it_runs(request.viewer, record),
    }


def _frame(request: HttpRequest, record: DataflowRecord, answer: options.ScheduleOptions) -> dict[str, Any]:
    """The parts around the table: the slider's scale, free slots, profiles, and whether one may propose."""
    rates = options.own_rates(answer.problem)
    mean = sum(rates) / len(rates)
    rate_per_s = answer.rate_per_s or mean
    most = options.scale_of(max(rate_per_s, mean))
    basis = options.basis_of(answer.problem, answer.job) if answer.job else []
    may = request.viewer.has_role(record.team_id, Role.ENGINEER)
    may_measure = may_measure_for(request, record)
    proposal = _replaced(record)
    submitted = proposal is not None and PLAN_KINDS[proposal.plan.kind].has_document
    scheduled = proposal is not None and "schedule" in proposal.plan.options
    why_not = answer.problem.blocked or ("" if submitted else _not_running(record)) or (
        "" if may else f"Only engineers of {record.team} can propose a schedule.")
    return {
        "sources": len(rates), "own_rate": rates[0], "is_own": answer.rate_per_s is None, "most": most, "steps": STEPS,
        "least": f"{LEAST_RATE_PER_S:f}", "step": max(1, round(rate_per_s / most * STEPS)), "tasks": basis,
        "remarks": [
            {"remark": note, "url": measure_address(record, note.tasks[0]) if may_measure else ""}
            for note in options.notes_of(basis)],
        "learned": costs_here(), "selectivities": len(answer.problem.measured),
        "room": options.room_of(answer.problem), "buys": answer.problem.supply.catalogue is not None,
        "may_propose": not why_not, "why_not": why_not,
        "may_drop": may and submitted and scheduled, "cut": answer.problem.cut,
        "proposed": proposal if scheduled else None, "runs_by": selectors.runs_by(record),
    }


def _plain(rate_per_s: float) -> float | int:
    """A rate as a form shows it: six digits, and none behind the point where there need be none."""
    shown = float(f"{rate_per_s:.6g}")
    return int(shown) if shown.is_integer() else shown


def _replaced(record: DataflowRecord) -> Proposal | None:
    """The proposal that is planned anew by a choice: a submission in review, or a schedule of what runs."""
    open_proposals = record.proposals.open().filter(plan__kind__in=names_where("takes_schedule"))
    return open_proposals.select_related("plan", "author", "chosen_by").first()


def _not_running(record: DataflowRecord) -> str:
    """The reason why no schedule can be proposed of a dataflow that is not in review, whoever asks; empty where one
    can."""
    if record.status == RUNNING:
        return ""
    return f"The dataflow is {words(record.status)}. Only submissions in review and running dataflows get a schedule."


def _looked_at(request: HttpRequest) -> tuple[Any, Any]:
    """The proposal that the address names, with its plan."""
    named = request.GET.get("proposal", "")
    if not named:
        return None, None
    proposal = approvals.proposal(request.viewer, named)
    plan = plan_of(proposal.plan)
    if plan is None:
        raise NotFound(
            "This proposal has no plan.", remedy="Wait until it is computed. Details of old proposals are not kept.")
    return proposal, plan
