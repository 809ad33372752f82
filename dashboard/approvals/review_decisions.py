"""The facts that reviewers decide on: what a plan costs others besides money, and which approvals it still lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from django.conf import settings

from dashboard import jobs
from dashboard.approvals.difference import counts_of
from dashboard.approvals.lifecycle import DONE, OPEN, PENDING
from dashboard.approvals.models import Proposal
from dashboard.approvals.version_changes import names_in
from dashboard.operations.live_view.handover_pauses import expected_pause_ms
from dashboard.plans.selectors import plan_of
from scheduler.model.cost_figures import money_change, money_text
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import PLAN_KINDS, UNDISTURBED, PlanKind
from scheduler.step_kinds import kind_of

LOOKED_AT, LEAST = 20, 3  # proposals of a kind that tell how long one takes


@dataclass(frozen=True, slots=True)
class ReviewDecision:
    """The decision before the reviewers. ``summary``: how many tasks start, stop, go on; ``warnings`` by what they are
    of: ``state``, ``pause``, ``bill`` or ``note``; ``lacking``: a sentence for each approval that is still missing;
    ``usual_s``: how many seconds such plans took to be in force of late, None where too few did."""

    summary: str
    warnings: Sequence[tuple[str, str]]
    lacking: Sequence[str]
    usual_s: float | None


def decision_of(proposal: Proposal, *, diff: Mapping[str, Any] | None, review: Mapping[str, Any]) -> ReviewDecision:
    """The decision about a proposal."""
    plan = plan_of(proposal.plan) if diff else None
    return ReviewDecision(
        counts_in_words(diff["counts"], PLAN_KINDS[proposal.plan.kind]) if diff else "",
        _warnings(plan, diff) if plan is not None and diff and proposal.status in OPEN else (),
        [_lacking(team) for team in review["teams"] if team["needed"] and not team["verdict"]]
        if proposal.status == PENDING else (),
        usual_s(proposal.plan.kind))


def counts_in_words(counts: Mapping[str, int], kind: PlanKind) -> str:
    """The number of tasks that a plan starts, stops and leaves: ``2 tasks stop, 3 go on for others``.

    ``counts`` is as `difference.difference` has it.
    """
    words = (("started", "starts", "start"), ("resumed", "resumes", "resume"), ("stopped", "stops", "stop"),
             ("rested", "rests", "rest"), ("reused", kind.goes_on, kind.go_on))
    parts = [(counts[name], single if counts[name] == 1 else several) for name, single, several in words
             if counts[name]]
    return ", ".join(
        f"{number} {'' if index else 'task ' if number == 1 else 'tasks '}{deed}"
        for index, (number, deed) in enumerate(parts)) or "No task changes"


def plan_in_words(plan: Plan) -> str:
    """The effects and the cost of a plan, in a sentence: as the decision on a proposal's page begins."""
    words = counts_in_words(counts_of(plan), PLAN_KINDS[plan.kind])
    if plan.price is None:
        return f"{words}."
    error = plan.price.cores_error * settings.CORE_HOUR_PRICE
    words += f"; {money_change(plan.price.money_per_hour_delta, error)} {settings.CURRENCY} an hour for CPU"
    if plan.price.slots_kept:
        words += (f", {plan.price.slots_kept} slot{'s' * (plan.price.slots_kept != 1)} kept "
                  f"({money_change(plan.price.slots_per_hour_delta)} {settings.CURRENCY} an hour of capacity)")
    return f"{words}."


def pause_of(plan: Plan | None) -> str:
    """The effects of a plan that others notice."""
    disturbs = plan is not None and any(kind_of(step).interrupts for step in plan.steps)
    return PLAN_KINDS[plan.kind].pause if plan is not None and disturbs else UNDISTURBED


def usual_s(kind: str) -> float | None:
    """The recent duration of plans of a kind, from the approval until they were in force, in seconds: the median."""
    times = Proposal.objects.filter(
        status=DONE, plan__kind=kind, approved_at__isnull=False, finished_at__isnull=False).order_by(
        "-finished_at").values_list("approved_at", "finished_at")[:LOOKED_AT]
    took_s = [(finished - approved).total_seconds() for approved, finished in times]
    return median(took_s) if len(took_s) >= LEAST else None


def usual_steps_s() -> dict[str, float]:
    """The recent time from the approval until steps were in force, in seconds: the median, by kind of step.

    A plan's steps all begin with its approval. Of a plan with several steps of a kind the last one counts, for the same
    steps of another plan are as far apart; a kind that fewer than three of the newest plans had is left out.
    """
    last_s: dict[str, list[float]] = {}
    rows = Proposal.objects.filter(status=DONE, progress__has_key="in_force_s").order_by("-finished_at")
    for in_force_s in rows.values_list("progress__in_force_s", flat=True)[:LOOKED_AT]:
        of_plan: dict[str, float] = {}
        for key, passed_s in in_force_s.items():
            kind = key.partition(":")[0]
            of_plan[kind] = max(passed_s, of_plan.get(kind, 0.0))
        for kind, passed_s in of_plan.items():
            last_s.setdefault(kind, []).append(passed_s)
    return {kind: median(passed_s) for kind, passed_s in last_s.items() if len(passed_s) >= LEAST}


def _warnings(plan: Plan, diff: Mapping[str, Any]) -> list[tuple[str, str]]:
    types, names = jobs.task_types(), names_in(plan)
    lost = sorted({names.get(task.id, task.type) for task in plan.stopped
                   if (declared := types.get(task.type)) is not None and declared.stateful})
    warnings = [("state", f"The state of {', '.join(lost)} is lost.")] if lost else []
    pause = pause_of(plan)
    if pause != UNDISTURBED:
        pause_s = expected_pause_ms(plan, jobs.read_live((), {}).reports) / 1000
        warnings.append(("pause", f"{pause} Expected: {pause_s:.1f} s at most." if pause_s else pause))
    warnings += [
        ("bill", f"{'The other dataflows of ' if change['is_own'] else ''}{change['team']} "
                 f"{'pay' if change['is_own'] else 'pays'} {money_text(change['money_per_hour_delta'])} "
                 f"{settings.CURRENCY} an hour more.")
        for change in diff["bill_changes"] if change["money_per_hour_delta"] > 0]
    return warnings + [("note", note) for note in diff["notes"]]


def _lacking(team: Mapping[str, Any]) -> str:
    approval_count = sum(approval["counts"] for approval in team["approvals"])
    return f"{approval_count} of {team['needed']}: an {team['role']} of {team['name']}"
