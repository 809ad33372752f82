"""Proposals: what a plan would change, its review, and its enactment as it goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from dashboard import jobs
from dashboard.approvals import selectors, services
from dashboard.approvals.comments import threads_of
from dashboard.approvals.demands import still_needed
from dashboard.approvals.difference import difference
from dashboard.approvals.lifecycle import LIFECYCLE, OPEN, PENDING, STALE, UNDER_WAY
from dashboard.approvals.near_miss_search import near_miss_row, near_misses_of
from dashboard.approvals.review_decisions import decision_of, pause_of, usual_steps_s
from dashboard.approvals.services.alternate_holds import held_for
from dashboard.approvals.version_changes import names_in
from dashboard.approvals.wording import step_text
from dashboard.audit import selectors as trail
from dashboard.catalog import selectors as catalog
from dashboard.pages import flash
from dashboard.pages.graphs import brought_along, difference_graph
from dashboard.pages.line_changes import LineChange, line_changes
from dashboard.plans.selectors import plan_of
from dashboard.teams.models import Role
from scheduler.model.errors import NotFound, WeirError
from scheduler.model.plan_kinds import PLAN_KINDS

if TYPE_CHECKING:
    from dashboard.approvals.models import Proposal

PER_PAGE = 25
_WAYS = {"approve", "reject", "cancel", "recompute", "roll_back"}


@require_safe
def proposals(request: HttpRequest) -> HttpResponse:
    """All proposals that the viewer may know of, newest first; ``for=me`` those that wait for the viewer."""
    search, status = request.GET.get("q", "").strip(), request.GET.get("status", "")
    mine = request.GET.get("for") == "me"
    records = selectors.awaiting(request.viewer) if mine else selectors.proposals(
        request.viewer, status=status if status in {"open", *LIFECYCLE.states} else "", search=search)
    page = Paginator(records, PER_PAGE).get_page(request.GET.get("page"))
    return render(request, "proposals.html", {
        "page": page, "search": search, "status_chosen": status, "statuses": LIFECYCLE.states, "mine": mine,
        "filtered": bool(search or status or mine), "live_topic": "estate",
    })


@require_safe
def proposal(request: HttpRequest, proposal_id: UUID) -> HttpResponse:
    """One proposal."""
    record = selectors.proposal(request.viewer, proposal_id)
    services.see_mentions(actor=request.user, proposal=record)
    diff, live = difference(request.viewer, record), selectors.live_proposal(request.viewer, proposal_id)
    tasks = diff["tasks"] if diff else []
    review, steps = selectors.review_of(request.viewer, record), _steps(record, live["steps"])
    return render(request, "proposal.html", {
        "proposal": record, "kind": PLAN_KINDS[record.plan.kind], "diff": diff, "live": live,
        "pause": pause_of(plan_of(record.plan)),
        "review": review, "decision": decision_of(record, diff=diff, review=review), "held_for": held_for(record),
        "graph": brought_along(difference_graph(diff, task_types=jobs.task_types())) if diff else {},
        "groups": {status: [task for task in tasks if task["status"] == status]
                   for status in ("started", "reused", "stopped", "neighbour")},
        "has_alternates": any(task["on"] for task in tasks),
        "failing": _failing(record, live["failing"]),
        "steps": steps, "current_step": next((step for step in steps if step["state"] != "done"), None),
        "is_open": record.status in OPEN,
        "is_under_way": record.status in UNDER_WAY,
        "threads": threads_of(request.viewer, record),
        "task_names": sorted({task["name"] for task in tasks if task["status"] != "neighbour"}),
        **_near_misses(request, record), "text_changes": _text_changes(record, diff),
        "may_choose": _may_choose(request, record),
        "money_error": diff["price"]["cores_error"] * settings.CORE_HOUR_PRICE if diff and diff["price"] else 0.0,
        "currency": settings.CURRENCY, "entries": trail.entries_of(record, record.plan)[:20],
        "together": sum(task["kind"] == "source" for task in tasks) > 1, "live_topic": f"proposal:{record.pk}",
    })


@require_safe
def proposal_graph(request: HttpRequest, proposal_id: UUID) -> JsonResponse:
    """The graph of a proposal's difference."""
    diff = difference(request.viewer, selectors.proposal(request.viewer, proposal_id))
    if diff is None:
        raise NotFound("There is no plan yet.", remedy="Wait until it is computed.")
    return JsonResponse(difference_graph(diff, task_types=jobs.task_types()))


@require_POST
def proposal_act(request: HttpRequest, proposal_id: UUID, way: str) -> HttpResponse:
    """Approve, reject, cancel, recompute or roll back; then the proposal's page, with what came of it."""
    if way not in _WAYS:
        raise NotFound("There is no such action.", remedy="Use the buttons of the proposal's page.")
    selectors.proposal(request.viewer, proposal_id)  # whoever may not know of it gets a 404, not a message
    try:
        record = _act(way)(request, proposal_id)
    except WeirError as error:
        flash.failure(request, error)
    else:
        flash.success(request, _outcome_text(way, record), code=record.status)
    return redirect("proposal", proposal_id)


@require_POST
def proposal_adopt(request: HttpRequest, proposal_id: UUID) -> HttpResponse:
    """Adopt a near miss: a new version of the dataflow, with a proposal of its own."""
    selectors.proposal(request.viewer, proposal_id)
    try:
        adopted = services.adopt_near_miss(
            actor=request.user, proposal_id=proposal_id, key=request.POST.get("key", ""))
    except WeirError as error:
        flash.failure(request, error)
        return redirect("proposal", proposal_id)
    flash.success(
        request, f"Adopted as version {adopted.plan.version}. The plan is being computed.", code="adopted")
    return redirect("proposal", adopted.pk)


@require_POST
def proposal_comment(request: HttpRequest, proposal_id: UUID) -> HttpResponse:
    """Say something, reply, edit one's own, resolve a thread or open it again."""
    selectors.proposal(request.viewer, proposal_id)
    try:
        _comment(request, proposal_id)
    except WeirError as error:
        flash.failure(request, error)
    return redirect(f"{reverse('proposal', args=[proposal_id])}#comments")


def _comment(request: HttpRequest, proposal_id: UUID) -> None:
    way, text, whole = request.POST.get("way", ""), request.POST.get("text", ""), request.POST.get("comment", "")
    number = int(whole) if whole.isdecimal() and len(whole) < 12 else 0
    if way == "edit":
        services.edit_comment(actor=request.user, proposal_id=proposal_id, comment_id=number, text=text)
    elif way in ("resolve", "reopen"):
        services.resolve_thread(
            actor=request.user, proposal_id=proposal_id, comment_id=number, resolved=way == "resolve")
    else:
        services.comment_on(
            actor=request.user, proposal_id=proposal_id, text=text, task=request.POST.get("task", ""),
            reply_to=number or None)


@require_POST
def proposal_joining(request: HttpRequest, proposal_id: UUID) -> HttpResponse:
    """Join what is under way in another way; a new plan is computed."""
    selectors.proposal(request.viewer, proposal_id)
    try:
        services.choose_joining(
            actor=request.user, proposal_id=proposal_id, fresh=request.POST.get("fresh") == "1",
            begin=request.POST.get("begin", "now"))
    except WeirError as error:
        flash.failure(request, error)
    else:
        flash.success(request, "A new plan is being computed. Reviews start again.", code="computing")
    return redirect("proposal", proposal_id)


def _act(way: str) -> Callable[[HttpRequest, UUID], Proposal]:
    comment = "comment"
    return {
        "approve": lambda request, key: services.approve_proposal(
            actor=request.user, proposal_id=key, digest=request.POST.get("digest", ""),
            comment=request.POST.get(comment, "")),
        "reject": lambda request, key: services.reject_proposal(
            actor=request.user, proposal_id=key, comment=request.POST.get(comment, "")),
        "cancel": lambda request, key: services.cancel_proposal(actor=request.user, proposal_id=key),
        "recompute": lambda request, key: services.recompute_proposal(actor=request.user, proposal_id=key),
        "roll_back": lambda request, key: services.roll_back_proposal(actor=request.user, proposal_id=key),
    }[way]


def _text_changes(record: Proposal, diff: dict[str, Any] | None) -> list[LineChange]:
    """The changes of another version to the document of the one that runs, line by line."""
    if not diff or not diff["version"]:
        return []
    former, new = (catalog.version(record.dataflow, diff["version"][name]).text for name in ("former", "number"))
    return line_changes(former, new)


def _near_misses(request: HttpRequest, record: Proposal) -> dict[str, Any]:
    """The near misses, and where a click adopts one, for who may submit for its team."""
    may = request.viewer.has_role(record.dataflow.team_id, Role.ENGINEER)
    return {
        "near_misses": [near_miss_row(miss) for miss in near_misses_of(record)],
        "adopt_url": reverse("proposal_adopt", args=[record.pk]) if may else "",
    }


def _may_choose(request: HttpRequest, record: Proposal) -> bool:
    """True if the viewer may still say how the submission joins what is under way."""
    engineer = request.viewer.has_role(record.dataflow.team_id, Role.ENGINEER)
    return engineer and PLAN_KINDS[record.plan.kind].joins and record.status in {PENDING, STALE}


def _outcome_text(way: str, record: Proposal) -> str:
    if way == "approve":
        return {
            "executing": "Approved. The plan is being carried out.",
            "stale": "The estate or a profile has changed since the plan was computed. Recompute the plan.",
        }.get(record.status, f"Approved. {still_needed(record, at=timezone.now())}".strip())
    return {
        "reject": "Rejected.", "cancel": "Cancelled. Nothing has changed.",
        "recompute": "A new plan is being computed.", "roll_back": "The change is being rolled back.",
    }[way]


def _failing(record: Proposal, causes: dict[str, dict[str, str]]) -> list[dict[str, str]]:
    """The failures, by the names of its tasks."""
    plan = plan_of(record.rollback_plan or record.plan)
    if plan is None:
        return []
    names, fragments = names_in(plan), {**plan.fragments_before, **plan.fragments_after}
    return [
        {"id": key, "name": " → ".join(names.get(task, "a task") for task in fragments[key].active_tasks), **cause}
        for key, cause in causes.items()]


def _steps(record: Proposal, states: dict[str, str]) -> list[dict[str, Any]]:
    """The steps in words with how far each is, and how many seconds after the approval it was in force, or usually is;
    while and after a roll-back, those of the reverse plan."""
    plan = plan_of(record.rollback_plan or record.plan)
    if plan is None:
        return []
    names, seen_s = names_in(plan), record.progress.get("in_force_s", {})
    is_over = all(states.get(step.key) == "done" for step in plan.steps)
    usual_s = {} if is_over else usual_steps_s()
    return [
        {"key": step.key, "text": step_text(plan, step, names), "state": states.get(step.key, "waiting"),
         "in_force_s": seen_s.get(step.key), "usual_s": usual_s.get(step.kind)}
        for step in plan.steps
    ]
