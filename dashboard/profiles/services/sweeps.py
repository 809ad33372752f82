"""Asking for sweeps, and steering them: pause, resume, cancel."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from dashboard import jobs
from dashboard.audit.trail import audited
from dashboard.operations.estate_store import reservations
from dashboard.operations.models import SlotRow
from dashboard.profiles.approval import require_approved, require_effects_of, target_of
from dashboard.profiles.lifecycle import CANCELLED, LIFECYCLE, OPEN, PAUSED, QUEUED, RUNNING, SUGGESTED
from dashboard.profiles.models import ProfileRecord, SweepRecord
from dashboard.profiles.permissions import require_measuring, require_secrets_of, require_steering, sweep_for
from dashboard.profiles.targets import SweepTarget, installed, target_again
from dashboard.profiles.trial_orders import bounds_asked, order_id
from dashboard.teams.models import User
from dashboard.teams.permissions import viewer_of
from scheduler.model.canonical import canonical_json
from scheduler.model.errors import InvalidResources, NotFound, WeirError
from scheduler.performance.modelling import Sweep

WARM_UP_S, SECONDS = jobs.TRIAL_WARM_UP_S, jobs.TRIAL_SECONDS
USUAL = Sweep(largest_threads=16)  # what is measured with where nobody says otherwise
LONGEST_TRIAL_S = 120.0
LONGEST_BUDGET_S = 4 * 3600.0
MOST_THREADS = 256
MOST_RATE_PER_S = 1_000_000.0  # beyond what one slot reads of the lightest task, and what a feeder writes
MOST_OPEN, MOST_OPEN_TEAM = 100, 50  # sweeps that are measured or wait: in all, of people of a team


@dataclass(frozen=True, slots=True)
class Manner:
    """The manner of a measurement: how far and how finely, how long a trial is, and what the profile stands for."""

    bounds: Sweep = USUAL
    any_config: bool = False
    warm_up_s: float = WARM_UP_S
    seconds: float = SECONDS


class TooManySweeps(WeirError):
    """More is to be measured than anybody waits for."""

    code = "too_many_sweeps"


def start_sweep(
    *, actor: User | None, target: SweepTarget, slot: str, bounds: Sweep | None = None, any_config: bool = False,
    warm_up_s: float = WARM_UP_S, seconds: float = SECONDS, suggested: bool = False,
) -> SweepRecord:
    """Ask for a task type and config to be measured on a slot.

    The slot has to be free now; another sweep may have it, which is waited for. A stateful type has one thread. What is
    open already, in the same way on the same slot, is not measured twice: then that sweep is returned. Without bounds
    the usual ones hold.

    Parameters
    ----------
    actor : User, optional
        The author, for permission and the audit; None where Weir measures again what somebody was allowed to measure.

    Raises
    ------
    PermissionDenied
        The actor is engineer of no team; for a private dataflow's task, or one with a team's secret or with outside
        effects, not of that team.
    NotApproved
        Something with outside effects would run that is not in the estate so, or an expression, and the actor is no
        approver.
    NotFound
        No node offers the slot.
    SlotTaken
        Something runs on it.
    InvalidResources
        The bounds measure nothing, take longer or feed more than is allowed, or go on to more threads than the slot's
        driver has.
    TooManySweeps
        So many are open already.
    """
    if actor is not None:
        _require_permission(actor, target)
    bounds = bounds or bounds_for(slot)
    _require_bounds(bounds, warm_up_s, seconds)
    if target.stateful:
        bounds = replace(bounds, largest_threads=1)
    with audited(actor=actor, verb="sweep.start") as audit:
        row = _slot_for_update(slot)
        require_approved(target, None if actor is None else viewer_of(actor))
        _require_threads(row, bounds)
        target_fields = {
            "task_type": target.task_type, "config": canonical_json(target.config), "version": target.version,
            "code": jobs.code_of(installed(target.task_type)), "any_config": any_config, "feed": list(target.feed),
            "team_id": target.team_id, "slot": slot, "bounds": asdict(bounds), "warm_up_s": warm_up_s,
            "seconds": seconds}
        already = SweepRecord.objects.filter(status__in=OPEN, **target_fields).first()
        if already is not None:
            audit.nothing_changed()
            return already
        if not suggested:
            if not _is_measuring(row):
                reservations.require_free(row)
            _require_room(actor)
        sweep = SweepRecord.objects.create(
            **target_fields, status=SUGGESTED if suggested else QUEUED,
            fed_by=target.fed_by, dataflow_id=target.dataflow_id, tasks=list(target.tasks), author=actor)
        audit.subject, audit.team, audit.details = sweep, sweep.team, {"slot": slot, "budget_s": bounds.budget_s}
        return sweep


def measure_again(
    *, actor: User | None, profile: ProfileRecord, slot: str, suggested: bool = False
) -> SweepRecord:
    """Measure a profile as it was measured."""
    manner = manner_of(profile)
    return start_sweep(
        actor=actor, target=target_again(profile), slot=slot, bounds=bounds_for(slot, manner.bounds),
        any_config=manner.any_config, warm_up_s=manner.warm_up_s, seconds=manner.seconds, suggested=suggested)


def give_up_sweep(sweep: SweepRecord) -> bool:
    """End a sweep that nobody wants any more, by Weir itself; False where it has ended."""
    with audited(actor=None, verb="sweep.cancel", team=sweep.team) as audit:
        row = SweepRecord.objects.select_for_update().get(pk=sweep.pk)
        audit.subject, audit.details = row, {"before": row.status}
        if not LIFECYCLE.allows(row.status, CANCELLED):
            audit.nothing_changed()
            return False
        row.status, row.reason, row.ended = CANCELLED, "", timezone.now()
        stop_measuring(row)
        row.save()
        return True


def _require_permission(actor: User, target: SweepTarget) -> None:
    viewer = viewer_of(actor)
    require_measuring(viewer, team_id=target.team_id)
    require_secrets_of(viewer, [target.config, *(task["config"] for task in target.feed)])
    require_effects_of(viewer, target)


def start_sweeps(
    *, actor: User, targets: Iterable[SweepTarget], slot: str, bounds: Sweep | None = None
) -> list[SweepRecord]:
    """Ask for several to be measured on one slot, one after the other: for all of them, or none."""
    with transaction.atomic():
        return [start_sweep(actor=actor, target=target, slot=slot, bounds=bounds) for target in targets]


def bounds_for(slot: str, base: Sweep = USUAL, **bounds: Any) -> Sweep:
    """Bounds for measuring on a slot: ``base`` with what is given besides.

    Where no number of threads is given, it is no more than the slot's driver has.
    """
    row = None if "\0" in slot else SlotRow.objects.select_related("node").filter(name=slot).first()
    threads = row.node.threads if row is not None else None
    return replace(base, **{"largest_threads": min(base.largest_threads, threads or base.largest_threads)} | bounds)


def manner_of(profile: ProfileRecord | None) -> Manner:
    """The manner in which a profile was measured, for measuring it again; the usual one without a measured profile.

    The former number of the driver's threads does not count: `bounds_for` uses the present one.
    """
    sweep = getattr(profile, "sweep", None)
    return Manner() if sweep is None else Manner(bounds_asked(sweep), sweep.any_config, sweep.warm_up_s, sweep.seconds)


def pause_sweep(*, actor: User, sweep_id: UUID | str) -> SweepRecord:
    """Let a sweep rest: its trials are kept, the one under way is not, and its slot is free again."""
    with _steered(actor, sweep_id, "pause", PAUSED) as sweep:
        stop_measuring(sweep)
        return sweep


def resume_sweep(*, actor: User, sweep_id: UUID | str) -> SweepRecord:
    """Let a sweep that rests or failed go on from its trials, as soon as its slot is free; or one begin that Weir
    suggests. Room is needed as to start one."""
    with _steered(actor, sweep_id, "resume", QUEUED) as sweep:
        require_secrets_of(viewer_of(actor), [json.loads(sweep.config), *(task["config"] for task in sweep.feed)])
        require_effects_of(viewer_of(actor), target_of(sweep))
        require_approved(target_of(sweep), viewer_of(actor))
        _require_room(actor)
        sweep.ended = None
        sweep.author = sweep.author or actor
        _doubt(sweep)
        return sweep


def cancel_sweep(*, actor: User, sweep_id: UUID | str) -> SweepRecord:
    """End a sweep without a profile; its trials are kept for reading."""
    with _steered(actor, sweep_id, "cancel", CANCELLED) as sweep:
        stop_measuring(sweep)
        sweep.ended = timezone.now()
        return sweep


def _doubt(sweep: SweepRecord) -> None:
    """Set trials aside where nothing was stable: by them the sweep would fail again at once."""
    if not sweep.trials.filter(stable=True).exists():
        sweep.trials.filter(stable=False).update(set_aside=True)


def stop_measuring(sweep: SweepRecord) -> None:
    """End the trial under way without a result, and give the slot back; inside a command."""
    for trial in sweep.trials.filter(ended=None):
        jobs.cancel_trial(order_id(trial))
        trial.delete()
    reservations.release(sweep.slot, holder=holder_of(sweep))


def holder_of(sweep: SweepRecord) -> str:
    """The holder of the slot while it is reserved, for everybody to read."""
    target_text = sweep.task_type[:40] if sweep.team_id is None else "a private task"
    return f"measuring {target_text} ({sweep.pk})"


@contextmanager
def _steered(actor: User, sweep_id: UUID | str, verb: str, becomes: str) -> Iterator[SweepRecord]:
    viewer = viewer_of(actor)
    record = sweep_for(viewer, sweep_id)
    require_steering(viewer, record)
    with audited(actor=actor, verb=f"sweep.{verb}") as audit:
        sweep = SweepRecord.objects.select_for_update().get(pk=record.pk)
        LIFECYCLE.check(sweep.status, becomes)
        audit.subject, audit.team, audit.details = sweep, record.team, {"before": sweep.status}
        sweep.status, sweep.reason = becomes, ""
        yield sweep
        sweep.save()


def _slot_for_update(name: str) -> SlotRow:
    """The slot, locked: of two who ask for the same at once, the second finds what the first has asked for."""
    row = None if "\0" in name else SlotRow.objects.select_for_update().filter(name=name).first()
    if row is None:
        raise NotFound(f"No node offers a slot {name[:80]}.", remedy="Choose one of the slots that are there.")
    return row


def _require_threads(row: SlotRow, bounds: Sweep) -> None:
    threads = row.node.threads
    if threads is not None and bounds.largest_threads > threads:
        raise InvalidResources(
            f"{bounds.largest_threads} threads are to be measured, and the driver of slot {row.name} has {threads}.",
            remedy=f"Ask for {threads} at most, or set WEIR_SLOT_THREADS on {row.node_id} and start its agent again.",
            threads=bounds.largest_threads, there=threads)


def why_it_waits_for_others(sweep: SweepRecord) -> str:
    """The reason why a sweep may not begin yet, though its slot is free: people of its author's teams measure on as
    many slots as they may. Empty if it may begin.

    That is half of the slots without queries, at least one and at most ``WEIR_TEAM_SWEEPS``: plans and other teams'
    sweeps need the rest. Measurements by Weir itself are limited where they are suggested.
    """
    if sweep.author is None or SlotRow.objects.filter(name=sweep.slot).exclude(reserved_for="").exists():
        return ""  # of a slot that is not free it waits for that
    measuring = SweepRecord.objects.filter(status=RUNNING, author__in=_colleagues_of(sweep.author)).count()
    without_queries = SlotRow.objects.exclude(name__in=reservations.fragments_by_slot()).count()
    most = max(1, min(settings.TEAM_SWEEPS, math.ceil(without_queries / 2)))
    if measuring < most:
        return ""
    return (f"people of its author's teams measure on {measuring} slots, and may on {most} at a time, of "
            f"{without_queries} without queries (WEIR_TEAM_SWEEPS).")


def _colleagues_of(actor: User) -> QuerySet[User]:
    """Who is in one of this person's teams, with this person."""
    return User.objects.filter(Q(pk=actor.pk) | Q(teams__in=actor.teams.all()))


def _require_room(actor: User | None) -> None:
    """Every open sweep is looked at every two seconds, and takes minutes: a hundred are a day of measuring, and people
    of one team take half of it at most."""
    waiting = SweepRecord.objects.filter(status__in=OPEN)
    bounds = [(MOST_OPEN, "", waiting)]
    if actor is not None:
        bounds.append(
            (MOST_OPEN_TEAM, " of people of your teams", waiting.filter(author__in=_colleagues_of(actor))))
    for most, whose, sweeps in bounds:
        if (count := sweeps.count()) >= most:
            raise TooManySweeps(
                f"{count} sweeps{whose} are measured or wait for their slot.",
                remedy="Wait for them, or cancel what nobody needs.", open=count, most=most)


def _is_measuring(row: SlotRow) -> bool:
    """True if another sweep has the slot, which is waited for."""
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
    elif bounds.largest_rate_per_s > MOST_RATE_PER_S:
        wrong = f"Up to {bounds.largest_rate_per_s:g} events/s"
    if wrong:
        raise InvalidResources(
            f"{wrong} cannot be measured with.",
            remedy=f"A trial takes more than 0 and at most {LONGEST_TRIAL_S:g} s, a sweep at most "
                   f"{LONGEST_BUDGET_S / 60:g} minutes, {MOST_THREADS} threads and {MOST_RATE_PER_S:,.0f} events/s.")
    rate_per_s = bounds.smallest_rate_per_s
    if rate_per_s * seconds < 1:  # a trial goes on for up to three times as long, and tells nothing by two events
        raise InvalidResources(
            f"A trial of {seconds:g} s has hardly an event at {rate_per_s:g} events/s.",
            remedy=f"Begin with {1 / seconds:.3g} events/s or more"
                   + (f", or measure for {1 / rate_per_s:.3g} s." if 1 / rate_per_s <= LONGEST_TRIAL_S / 2 else "."))
