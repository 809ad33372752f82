"""Controllers: what teams let them do, every round and why it did or did not act, and dry runs over kept history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from dashboard.approvals.waiting_rounds import blocking
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import is_uuid, visible_to
from dashboard.controllers import selectors, services
from dashboard.controllers.merging import MergedReason, merged_reasons
from dashboard.controllers.models import RoundRow
from dashboard.controllers.selectors import ControllerSummary, TeamRow
from dashboard.controllers.stored_rounds import round_of
from dashboard.core.http_errors import BadInput
from dashboard.operations.estate_store.tenancy_choice import TENANCY_CHOICE
from dashboard.operations.latency_control.pacing_choice import PACING_CHOICE
from dashboard.pages import flash
from dashboard.profiles.models import ProfileRecord
from dashboard.profiles.permissions import known_to
from dashboard.teams.selectors import team as team_named
from scheduler.controllers.loop_values import (
    ASKED,
    BROKEN,
    DECLINED,
    KEPT,
    MODES,
    OPEN_PHASES,
    ROLLED_BACK,
    UNCHECKED,
    Policy,
    Round,
)
from scheduler.model.errors import NotFound

PER_PAGE = 25
REASONS = 30
PHASES = (ASKED, *sorted(OPEN_PHASES - {ASKED}), KEPT, BROKEN, ROLLED_BACK, UNCHECKED, DECLINED)
HOURS = {"1": "the last hour", "6": "the last 6 hours", "24": "the last 24 hours", "168": "the last 7 days"}


@require_safe
def controllers(request: HttpRequest) -> HttpResponse:
    """All controllers, and the newest rounds."""
    phase = request.GET.get("phase", "")
    records = selectors.rounds(request.viewer, phase=phase if phase in PHASES else "")
    page = Paginator(records, PER_PAGE).get_page(request.GET.get("page"))
    return render(request, "controllers/controllers.html", {
        "controllers": selectors.overview(request.viewer), "page": page, "phases": PHASES, "phase_chosen": phase,
        "rounds": _of_rows(request, page.object_list), "pacing": PACING_CHOICE.in_force(),
        "tenancy": TENANCY_CHOICE.in_force()})


@require_safe
def controller(request: HttpRequest, controller: str) -> HttpResponse:
    """One controller: its mode for each team, its rounds, and its reasons for leaving things alone."""
    row = _row(request, controller)
    team, phase = request.GET.get("team", ""), request.GET.get("phase", "")
    records = selectors.rounds(
        request.viewer, controller=controller, team=team, phase=phase if phase in PHASES else "")
    page = Paginator(records, PER_PAGE).get_page(request.GET.get("page"))
    return render(request, "controllers/controller.html", {
        "row": row, "controller": row.controller, "modes": MODES, "page": page, "phases": PHASES,
        "phase_chosen": phase, "team_chosen": team, "rounds": _of_rows(request, page.object_list),
        "reasons": selectors.reasons(request.viewer, controller=controller)[:REASONS]})


@require_safe
def dry_run(request: HttpRequest, controller: str) -> HttpResponse:
    """The decisions that a controller would have made over kept history, had it acted for a team."""
    row = _row(request, controller)
    chosen = _chosen_team(row, request.GET.get("team"))
    hours = request.GET.get("hours", "24")
    hours = hours if hours in HOURS else "24"
    policy = _policy(request.GET, chosen.policy)
    played = selectors.played(
        request.viewer, row.controller, team=chosen.slug, hours=float(hours), policy=policy)
    reasons = merged_reasons(played.reasons)[:REASONS]
    names = _Names(
        request, [loop_round.decision.target for loop_round in played.rounds] + [reason.target for reason in reasons])
    return render(request, "controllers/dry_run.html", {
        "row": row, "controller": row.controller, "team": chosen, "hours": HOURS, "hours_chosen": hours,
        "span": HOURS[hours],
        "policy": policy, "frames": played.frames,
        "rounds": [_described(loop_round, names) for loop_round in played.rounds],
        "reasons": [_described_reason(reason, names) for reason in reasons]})


@require_POST
def controller_set(request: HttpRequest, controller: str) -> HttpResponse:
    """Say what a controller may do for a team."""
    row = _row(request, controller)
    slug, mode = request.POST.get("team", ""), request.POST.get("mode", "")
    team = team_named(request.viewer, slug) if slug else None
    before = _chosen_team(row, slug)

    def act() -> None:
        policy = _policy(request.POST, before.policy)
        services.set_policy(
            actor=request.user, controller=controller, team=team,
            policy=Policy(mode or policy.mode, policy.changes_per_hour, policy.changes_per_day, policy.cool_down_s))

    flash.attempt(
        request, act, text=f"{row.controller.title} for {before.name}: {mode or before.policy.mode}.",
        code="controller-set")
    return redirect("controller", controller)


def _row(request: HttpRequest, name: str) -> ControllerSummary:
    services.controller_named(name)
    return next(row for row in selectors.overview(request.viewer) if row.controller.name == name)


def _chosen_team(row: ControllerSummary, slug: str | None) -> TeamRow:
    """The team of that slug, or the first one where none is named."""
    if slug is None:
        return row.teams[0]
    chosen = next((team for team in row.teams if team.slug == slug), None)
    if chosen is None:
        raise NotFound("You are in no such team.", remedy="Choose one of your teams.")
    return chosen


def _policy(numbers: Any, usual: Policy) -> Policy:
    """Limits as a form has them; what it leaves out is as usual."""
    try:
        return Policy(
            usual.mode, int(numbers.get("changes_per_hour", usual.changes_per_hour)),
            int(numbers.get("changes_per_day", usual.changes_per_day)),
            60 * float(numbers.get("cool_down_min", usual.cool_down_s / 60)))
    except (ValueError, OverflowError) as error:
        raise BadInput("A limit is not a number.", remedy="Give whole numbers of changes, and minutes.") from error


# Rows for templates ---------------------------------------------------------------------------------------------------


class _Names:
    """The names of targets, as far as the viewer may know of them."""

    def __init__(self, request: HttpRequest, targets: list[str]) -> None:
        ids = {target for target in targets if is_uuid(target)}
        self.dataflows = {str(record.pk): record for record in DataflowRecord.objects.filter(
            visible_to(request.viewer), pk__in=ids).select_related("team")}
        self.profiles = {str(record.pk): record for record in ProfileRecord.objects.filter(
            known_to(request.viewer), pk__in=ids).select_related("team")}


def _of_rows(request: HttpRequest, rows: Sequence[RoundRow]) -> list[dict[str, Any]]:
    """Rounds, each with the plan that it waits for, if any."""
    waits_for = blocking(request.viewer, rows)
    return [_of_row(request, row) | {"waits_for": waits_for.get(row.key)} for row in rows]


def _of_row(request: HttpRequest, row: RoundRow) -> dict[str, Any]:
    """A round with its links."""
    loop_round = round_of(row)
    return {
        "key": row.key, "turn": loop_round, "controller": row.controller, "team": row.team, "begun": row.begun,
        "dataflow": row.dataflow, "profile": row.profile, "proposal": getattr(row, "proposal", None),
        "sweep": row.sweep, "phase": row.phase}


def _described(loop_round: Round, names: _Names) -> dict[str, Any]:
    target = loop_round.decision.target
    return {
        "turn": loop_round, "controller": loop_round.controller,
        "begun": datetime.fromtimestamp(loop_round.begun_s, UTC),
        "dataflow": names.dataflows.get(target), "profile": names.profiles.get(target)}


def _described_reason(reason: MergedReason, names: _Names) -> dict[str, Any]:
    return {
        "why": reason.why, "times": reason.times, "until": datetime.fromtimestamp(reason.until_s, UTC),
        "since": datetime.fromtimestamp(reason.since_s, UTC),
        "dataflow": names.dataflows.get(reason.target), "profile": names.profiles.get(reason.target)}
