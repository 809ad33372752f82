"""Asking for sweeps, and steering them: pause, resume, cancel."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from uuid import UUID

from django.utils import timezone

from dashboard import jobs
from dashboard.audit.trail import audited
from dashboard.operations import reservations
from dashboard.operations.models import SlotRow
from dashboard.profiles.lifecycle import CANCELLED, LIFECYCLE, PAUSED, QUEUED, RUNNING
from dashboard.profiles.models import SweepRecord
from dashboard.profiles.permissions import require_measuring, sweep_for
from dashboard.profiles.subjects import Subject
from dashboard.profiles.trials import order_id
from dashboard.teams.models import User
from dashboard.teams.permissions import viewer_of
from scheduler.model.canonical import canonical_json
from scheduler.model.errors import InvalidResources, NotFound
from scheduler.performance.modelling import Sweep

WARM_UP_S, SECONDS = jobs.TRIAL_WARM_UP_S, jobs.TRIAL_SECONDS
LONGEST_TRIAL_S = 120.0
LONGEST_BUDGET_S = 4 * 3600.0
MOST_THREADS = 256


def start_sweep(
    *, actor: User, subject: Subject, slot: str, bounds: Sweep | None = None, any_config: bool = False,
    warm_up_s: float = WARM_UP_S, seconds: float = SECONDS,
) -> SweepRecord:
    """Ask for a task type and config to be measured on a slot.

    The slot has to be free now; another sweep may have it, which is waited for. A stateful type has one thread.

    Raises
    ------
    PermissionDenied
        The actor is engineer of no team; for a private dataflow's task, not of its team.
    NotFound
        No node offers the slot.
    SlotTaken
        Something runs on it.
    InvalidResources
        The bounds measure nothing, or take longer than is allowed.
    """
    require_measuring(viewer_of(actor), team_id=subject.team_id)
    bounds = bounds or Sweep()
    _require_bounds(bounds, warm_up_s, seconds)
    if subject.stateful:
        bounds = Sweep(**{**asdict(bounds), "largest_threads": 1})
    with audited(actor=actor, verb="sweep.start") as audit:
        row = SlotRow.objects.filter(name=slot).first()
        if row is None:
            raise NotFound(f"No node offers a slot {slot}.", remedy="Choose one of the slots that are there.")
        if not _is_measuring(row):
            reservations.require_free(row)
        sweep = SweepRecord.objects.create(
            task_type=subject.task_type, config=canonical_json(subject.config), version=subject.version,
            any_config=any_config, feed=list(subject.feed), fed_by=subject.fed_by, team_id=subject.team_id, slot=slot,
            bounds=asdict(bounds), warm_up_s=warm_up_s, seconds=seconds, author=actor)
        audit.subject, audit.team, audit.details = sweep, sweep.team, {"slot": slot, "budget_s": bounds.budget_s}
        return sweep


def pause_sweep(*, actor: User, sweep_id: UUID | str) -> SweepRecord:
    """Let a sweep rest: its trials are kept, the one under way is not, and its slot is free again."""
    with _steered(actor, sweep_id, "pause", PAUSED) as sweep:
        stop_measuring(sweep)
        return sweep


def resume_sweep(*, actor: User, sweep_id: UUID | str) -> SweepRecord:
    """Let a sweep that rests or failed go on from its trials, as soon as its slot is free."""
    with _steered(actor, sweep_id, "resume", QUEUED) as sweep:
        sweep.ended = None
        return sweep


def cancel_sweep(*, actor: User, sweep_id: UUID | str) -> SweepRecord:
    """End a sweep without a profile; its trials are kept for reading."""
    with _steered(actor, sweep_id, "cancel", CANCELLED) as sweep:
        stop_measuring(sweep)
        sweep.ended = timezone.now()
        return sweep


def stop_measuring(sweep: SweepRecord) -> None:
    """End the trial under way without a result, and give the slot back; inside a command."""
    for trial in sweep.trials.filter(ended=None):
        jobs.cancel_trial(order_id(trial))
        trial.delete()
    reservations.release(sweep.slot, holder=holder_of(sweep))


def holder_of(sweep: SweepRecord) -> str:
    """What stands at the slot while it is reserved, for everybody to read."""
    what = sweep.task_type[:40] if sweep.team_id is None else "a private task"
    return f"measuring {what} ({sweep.pk})"


@contextmanager
def _steered(actor: User, sweep_id: UUID | str, verb: str, becomes: str) -> Iterator[SweepRecord]:
    viewer = viewer_of(actor)
    known = sweep_for(viewer, sweep_id)
    require_measuring(viewer, team_id=known.team_id)
    with audited(actor=actor, verb=f"sweep.{verb}") as audit:
        sweep = SweepRecord.objects.select_for_update().get(pk=known.pk)
        LIFECYCLE.check(sweep.status, becomes)
        audit.subject, audit.team, audit.details = sweep, known.team, {"before": sweep.status}
        sweep.status, sweep.reason = becomes, ""
        yield sweep
        sweep.save()


def _is_measuring(row: SlotRow) -> bool:
    """Whether another sweep has the slot, which is waited for."""
    return bool(row.reserved_for) and any(
        row.reserved_for == holder_of(sweep) for sweep in SweepRecord.objects.filter(status=RUNNING, slot=row.name))


def _require_bounds(bounds: Sweep, warm_up_s: float, seconds: float) -> None:
    amounts = (bounds.smallest_rate_per_s, bounds.largest_rate_per_s, bounds.budget_s, warm_up_s, seconds)
    wrong = ""
    if not all(map(math.isfinite, amounts)):
        wrong = "An amount is no number"
    elif not (warm_up_s >= 0 and seconds > 0 and warm_up_s + seconds <= LONGEST_TRIAL_S):
        wrong = f"A trial of {warm_up_s:g} and {seconds:g} s"
    elif not 0 < bounds.budget_s <= LONGEST_BUDGET_S:
        wrong = f"A budget of {bounds.budget_s / 60:g} minutes"
    elif bounds.largest_threads > MOST_THREADS:
        wrong = f"Up to {bounds.largest_threads} threads"
    if wrong:
        raise InvalidResources(
            f"{wrong} cannot be measured with.",
            remedy=f"A trial takes more than 0 and at most {LONGEST_TRIAL_S:g} s, a sweep at most "
                   f"{LONGEST_BUDGET_S / 60:g} minutes and {MOST_THREADS} threads.")
