"""By what a dynamic task is switched: its policy, versions, and what guards look at; trying and proposing another;
holding an alternate, and releasing it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from dashboard.approvals import services
from dashboard.approvals.policy_drafts import PolicyDraft, trial_of
from dashboard.catalog import selectors as catalog
from dashboard.operations.guard_dry_runs import GuardTrial, TriedSwitch
from dashboard.operations.policy_reader import ToldPolicy, known_to, policy_told
from dashboard.pages import flash
from dashboard.teams.models import Role
from scheduler.guards.figure_streams import DATAFLOW_FIGURES
from scheduler.guards.guard_values import ACTIVATION, VALUE
from scheduler.guards.task_figures import TASK_FIGURES
from scheduler.model.errors import WeirError

SPANS = {1: "the last hour", 6: "the last 6 hours", 24: "the last day", 168: "the last week"}
KINDS = {VALUE: "of those that are allowed the one that is worth most", ACTIVATION: "the one whose guard is true"}
HOLDS = {900: "15 minutes", 3600: "an hour", 14400: "4 hours", 86400: "a day", 604800: "a week"}


@require_GET
@login_required
def guards(request: HttpRequest, dataflow_id: UUID, task: str) -> HttpResponse:
    """One dynamic task; with ``hours`` the dry run of the policy in the form."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    policy = policy_told(request.viewer, dataflow_id, task)
    hours = int(request.GET["hours"]) if request.GET.get("hours") in {str(span) for span in SPANS} else 0
    draft = _draft(request.GET, policy)
    trial, refused = None, None
    if hours:
        try:
            trial = trial_of(request.viewer, dataflow_id, task, hours=hours, draft=draft)
        except WeirError as error:
            refused = error
    return render(request, "guards.html", {
        "record": record, "task": policy, "spans": SPANS, "kinds": KINDS, "holds": HOLDS, "hours": hours or 24,
        "trial": trial, "refused": refused, "kind": draft.kind,
        "alternates": [(each, draft.guards[each.name], draft.values[each.name]) for each in policy.guards],
        "may_propose": request.viewer.has_role(record.team_id, Role.ENGINEER),
        "held_until": _moment(policy.held_until_ms),
        "versions": [(each, _moment(each.at_ms)) for each in policy.versions],
        "known": known_to(record.team.slug),
        "switches": _moments(trial), "shares": _shares(trial),
        "figures": [(name, figure.doc, policy.readings.get(name)) for name, figure in TASK_FIGURES.items()],
        "others": [(name, value) for name, value in policy.readings.items() if name not in TASK_FIGURES],
        "dataflow_figures": [(name, figure.doc) for name, figure in DATAFLOW_FIGURES.items()],
    }, status=400 if refused else 200)


@require_POST
@login_required
def propose_policy(request: HttpRequest, dataflow_id: UUID, task: str) -> HttpResponse:
    """Propose the policy in the form, or a version again."""
    version, policy = request.POST.get("version", ""), policy_told(request.viewer, dataflow_id, task)
    try:
        proposal = services.propose_policy(
            actor=request.user, dataflow_id=dataflow_id, task=task, reason=request.POST.get("reason", ""),
            version=int(version) if version.isdecimal() and len(version) < 10 else None,
            draft=None if version else _draft(request.POST, policy))
    except WeirError as error:
        flash.failure(request, error)
        return redirect("guards", dataflow_id, task)
    flash.proposed(request, proposal)
    return redirect("proposal", proposal.pk)


@require_POST
@login_required
def hold(request: HttpRequest, dataflow_id: UUID, task: str) -> HttpResponse:
    """Propose that an alternate is on and stays so for a time; or let the policy decide again."""
    catalog.dataflow(request.viewer, dataflow_id)
    try:
        if "release" in request.POST:
            services.release_alternate(actor=request.user, dataflow_id=dataflow_id, task=task)
            return redirect("guards", dataflow_id, task)
        chosen = request.POST.get("hold_s", "")
        proposal = services.switch_alternate(
            actor=request.user, dataflow_id=dataflow_id, task=task, alternate=request.POST.get("alternate", ""),
            hold_s=float(chosen) if chosen.isdecimal() and len(chosen) < 10 else None)
    except WeirError as error:
        flash.failure(request, error)
        return redirect("guards", dataflow_id, task)
    flash.proposed(request, proposal)
    return redirect("proposal", proposal.pk)


def _draft(form: Mapping[str, str], policy: ToldPolicy) -> PolicyDraft:
    """The policy of a form; what it lacks is as it is in force."""
    return PolicyDraft(
        {each.name: form.get(f"guard_{each.name}", each.guard) for each in policy.guards},
        {each.name: _value(form.get(f"value_{each.name}", str(each.value))) for each in policy.guards},
        form.get("kind", policy.policy.kind))


def _value(text: str) -> float | str:
    """A number, or a value function."""
    try:
        return float(text)
    except ValueError:
        return text


def _moment(at_ms: int | None) -> datetime | None:
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC)


def _moments(trial: GuardTrial | None) -> list[tuple[datetime, TriedSwitch]]:
    return [(datetime.fromtimestamp(each.at_ms / 1000, UTC), each) for each in trial.switches] if trial else []


def _shares(trial: GuardTrial | None) -> list[tuple[str, float]]:
    whole = sum(trial.on_ms.values()) if trial else 0
    return [(name, 100 * ms / whole) for name, ms in trial.on_ms.items()] if trial and whole else []
