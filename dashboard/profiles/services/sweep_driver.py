"""Driving sweeps: look for the result of the trial that was ordered, store it, decide, order the next (Algorithm 1).

A sweep is a state machine in the database, moved on every few seconds by whichever worker comes. What the science
decides depends on the stored trials alone, a trial is created before it is ordered, and an order of which nothing is
heard is given again: a worker, agent or broker that dies loses at most the trial under way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

import structlog

from dashboard import jobs
from dashboard.audit.trail import Audit, audited
from dashboard.jobs import TrialProgress, TrialResult
from dashboard.operations.estate_store import reservations
from dashboard.operations.estate_store.reservations import SlotTaken
from dashboard.operations.models import SlotRow
from dashboard.profiles.approval import author_of, hindrance_of, is_approved, target_of
from dashboard.profiles.lifecycle import DONE, FAILED, LIFECYCLE, OPEN, QUEUED, RUNNING
from dashboard.profiles.models import SweepRecord, TrialRecord
from dashboard.profiles.services.sweeps import holder_of, stop_measuring, why_it_waits_for_others
from dashboard.profiles.stored_profiles import store_profiles
from dashboard.profiles.trial_orders import bounds_of, counting, order_id, order_of, take_result, trial_of, unscoped
from scheduler.model.errors import NotFound, WeirError
from scheduler.model.latency_limits import figure_in_words
from scheduler.model.profile import is_other_code
from scheduler.model.profile_csv import ProfileEntry
from scheduler.performance.modelling import Sweep, SweepResult, Try, measured_profile, next_step

log = structlog.get_logger(__name__)
SILENT = timedelta(seconds=45)  # an order of which nothing was heard for so long is given again
MOST_ATTEMPTS = 3


class TrialWithoutFigures(WeirError):
    """A trial has no figures, and trying again does not help."""

    code = "trial_failed"


class MixedSweep(WeirError):
    """Trials of one sweep that do not make one profile."""

    code = "mixed_sweep"


@dataclass(frozen=True, slots=True)
class Heard:
    """The broker's state of an order: its result, or how far it is, or nothing."""

    order: str = ""
    progress: TrialProgress | None = None
    result: TrialResult | None = None


def is_any_open() -> bool:
    """True if any sweep is to be moved on."""
    return SweepRecord.objects.filter(status__in=OPEN).exists()


def advance_sweeps(*, at: datetime) -> int:
    """Move every open sweep on; how many are open. One that cannot be moved keeps no other from it."""
    sweeps = list(SweepRecord.objects.filter(status__in=OPEN).order_by("created").values_list("pk", flat=True))
    for sweep_id in sweeps:
        try:
            advance_sweep(sweep_id=sweep_id, at=at)
        except jobs.BrokerAway:
            raise
        except Exception:
            log.exception("sweep_not_advanced", sweep=str(sweep_id))
    return len(sweeps)


def advance_sweep(*, sweep_id: UUID, at: datetime) -> SweepRecord:
    """Move one sweep on by what was heard of its trial, and order the trial that is due."""
    heard = _hear(sweep_id)
    with audited(actor=None, verb="sweep.advance") as audit:
        sweep = SweepRecord.objects.select_for_update(of=("self",)).select_related("team").get(pk=sweep_id)
        audit.subject, audit.team, before = sweep, sweep.team, sweep.status
        if sweep.status == QUEUED:
            _begin(sweep, at)
        if sweep.status == RUNNING and (hindrance := hindrance_of(target_of(sweep), author_of(sweep))) is not None:
            _fail(sweep, hindrance, at)  # a dataflow was removed, or a role taken, meanwhile: the trial ends as well
        elif sweep.status == RUNNING:
            _measure(sweep, heard, at, audit)
        sweep.save()
        audit.details = {"before": before, "status": sweep.status, "reason": sweep.reason}
        if sweep.status == before:
            audit.nothing_changed()
    _send(sweep, at)
    return sweep


def _hear(sweep_id: UUID) -> Heard:
    trial = TrialRecord.objects.filter(sweep_id=sweep_id, ended=None).exclude(sent=None).first()
    if trial is None:
        return Heard()
    order = order_id(trial)
    # In this order: a trial that ends in between has its result, and is not taken for lost.
    progress = jobs.trial_progress(order)
    return Heard(order, progress, jobs.trial_result(order))


def _begin(sweep: SweepRecord, at: datetime) -> None:
    """Reserve the slot, or say what is waited for."""
    if others := why_it_waits_for_others(sweep):
        sweep.reason = f"Waits: {others}"
        return
    try:
        reservations.reserve(sweep.slot, holder=holder_of(sweep))
    except SlotTaken as taken:
        sweep.reason = f"Waits: {taken.message}"
    except NotFound as gone:
        _fail(sweep, gone, at)
    else:
        sweep.started = sweep.started or at
        _become(sweep, RUNNING, "")


def _measure(sweep: SweepRecord, heard: Heard, at: datetime, audit: Audit) -> None:
    trial = TrialRecord.objects.select_for_update().filter(sweep=sweep, ended=None).first()
    if trial is not None and heard.order == order_id(trial):
        _take(sweep, trial, heard, at)
    if sweep.status == RUNNING and (trial is None or trial.ended is not None):
        _decide(sweep, at, audit)


def _take(sweep: SweepRecord, trial: TrialRecord, heard: Heard, at: datetime) -> None:
    """Store what came of a trial; where it was lost, let it be ordered again."""
    if heard.result is not None:
        if heard.result.ok:
            _store(sweep, trial, heard.result, at)
        else:
            _not_measured(sweep, trial, heard.result, at)
    elif heard.progress is not None:
        trial.heard = at
        trial.taken = trial.taken or heard.progress.state != "ordered"
    elif trial.sent and at - max(moment for moment in (trial.sent, trial.heard) if moment) > SILENT:
        if not SlotRow.objects.filter(name=sweep.slot).exists():
            gone = NotFound(f"No node offers slot {sweep.slot} any more.", remedy="Measure on another slot.")
            _end(trial, at, gone.message, gone.remedy)
            return _fail(sweep, gone, at)
        lost = TrialResult(
            order_id(trial), ok=False, code="slot_died" if trial.taken else "agent_stopped",
            message=f"The trial on {sweep.slot} gave no result {trial.attempts + 1} times.",
            remedy="See the log of the node's agent; then resume the sweep.")
        _not_measured(sweep, trial, lost, at, counts=trial.taken)
    trial.save()


def _store(sweep: SweepRecord, trial: TrialRecord, result: TrialResult, at: datetime) -> None:
    here = str(result.machine.get("class", ""))[:120].replace("\0", "\ufffd")  # as each database stores it
    runs = result.versions.get("type", sweep.version)
    code = str(result.versions.get("code", ""))[:64]
    if sweep.machine and here != sweep.machine:
        _end(trial, at, f"It ran on {here}.", "Measure anew on one class of machine.")
        return _fail(sweep, MixedSweep(
            f"This trial ran on {here}, those before on {sweep.machine}: they make no profile together.",
            remedy="Measure anew on one class of machine."), at)
    if runs != sweep.version:
        _end(trial, at, f"The node has version {runs} of {sweep.task_type}.", "Install one version everywhere.")
        return _fail(sweep, MixedSweep(
            f"The node measured version {runs} of {sweep.task_type}, and version {sweep.version} was asked for.",
            remedy="Install the same packages on the node and the site, then measure anew."), at)
    if is_other_code(sweep.code, code):
        _end(trial, at, f"The node runs other code of {sweep.task_type}.", "Start both again, then measure anew.")
        return _fail(sweep, MixedSweep(
            f"The node measured other code of {sweep.task_type} ({code}) than was asked for ({sweep.code}).",
            remedy="Start the site and the node's agent again, with the same packages, then measure anew."), at)
    sweep.machine, sweep.code = here, sweep.code or code
    sweep.slot_threads = result.machine.get("slot_threads") or sweep.slot_threads
    take_result(trial, result, bounds=bounds_of(sweep))
    trial.ended = at


def _not_measured(
    sweep: SweepRecord, trial: TrialRecord, result: TrialResult, at: datetime, *, counts: bool = True
) -> None:
    """A trial without figures: ordered again where what hindered it may pass, else the sweep ends.

    Where a driver turned out to have fewer threads, it ends with what fewer have shown.
    """
    log.warning("trial_failed", sweep=str(sweep.pk), trial=trial.number, code=result.code, message=result.message)
    if result.passing and trial.attempts + counts < MOST_ATTEMPTS:
        # Another id for another attempt; an order that nobody took is given again as it was.
        trial.attempts += counts
        trial.sent = trial.heard = None
        trial.taken, trial.error = False, result.message
        return
    _end(trial, at, result.message, result.remedy)
    fewer = sweep.trials.filter(threads__lt=trial.threads, stable=True).order_by("-threads").first()
    if result.code == "too_few_threads" and fewer is not None:
        sweep.slot_threads = fewer.threads
        return
    _fail(sweep, TrialWithoutFigures(result.message, remedy=result.remedy), at)


def _decide(sweep: SweepRecord, at: datetime, audit: Audit) -> None:
    done = list(counting(sweep.trials))
    step = next_step([trial_of(trial) for trial in done], sweep=_bounds(sweep, done))
    if isinstance(step, Try):
        if (wait := _still_to_wait(step, done, at)):
            sweep.reason = f"In {figure_in_words(wait.total_seconds())}: {step.why}."
            return
        sweep.reason = ""
        try:  # it is this sweep's already, unless its node came back with fewer slots, and then with more, meanwhile
            reservations.reserve(sweep.slot, holder=holder_of(sweep))
        except (SlotTaken, NotFound) as lost:
            return _fail(sweep, lost, at)
        number = 1 + (sweep.trials.order_by("-number").values_list("number", flat=True).first() or 0)
        TrialRecord.objects.create(
            sweep=sweep, number=number, threads=step.threads, rate_per_s=step.rate_per_s, why=step.why)
        return
    _finish(sweep, step, at, audit)


def _still_to_wait(step: Try, done: Sequence[TrialRecord], at: datetime) -> timedelta:
    """The remaining part of the time that a trial is to keep from the one before."""
    last = max((trial.ended for trial in done), default=at)
    return max(timedelta(), last + timedelta(seconds=step.after_s) - at)


def _finish(sweep: SweepRecord, done: SweepResult, at: datetime, audit: Audit) -> None:
    config = "" if sweep.any_config else unscoped(sweep.config, sweep.task_type)
    try:
        profile = measured_profile(
            done, task_type=sweep.task_type, version=sweep.version, machine=sweep.machine, config=config,
            code=sweep.code)
    except WeirError as unmeasured:
        return _fail(sweep, unmeasured, at)
    [sweep.profile] = store_profiles(
        [ProfileEntry(profile, rough=tuple(done.rough), at_least=tuple(done.at_least))], audit=audit,
        author=sweep.author, team_id=sweep.team_id)
    audit.also(verb="profile.measure", subject=sweep.profile, team=sweep.team)
    sweep.ended = at
    _become(sweep, DONE, f"{done.why}{_fewer_threads(sweep, done)}")
    stop_measuring(sweep)


def _fewer_threads(sweep: SweepRecord, done: SweepResult) -> str:
    """Explain that the sweep stopped at the driver's limit of threads; empty if it did not."""
    largest, slot_threads = sweep.bounds["largest_threads"], sweep.slot_threads
    if slot_threads is None or slot_threads >= largest or done.points[-1].threads < slot_threads:
        return ""
    refused = sweep.trials.filter(threads__gt=slot_threads).exclude(error="").last()
    if refused is not None:
        return f" {refused.error}."
    return f" {largest} were asked for, and the driver of slot {sweep.slot} has {slot_threads} (WEIR_SLOT_THREADS)."


def _bounds(sweep: SweepRecord, done: Sequence[TrialRecord]) -> Sweep:
    """The sweep's bounds, with the least of what its last trials took as what the next one is expected to take.

    The first warms the slot's driver up, as does each on a driver that began anew: no other need take as long.
    """
    bounds = bounds_of(sweep)
    took_s = [trial.took_s for trial in done[1:]][-5:]
    return replace(bounds, trial_s=min(took_s)) if took_s else bounds


def _send(sweep: SweepRecord, at: datetime) -> None:
    """Order the trial that is due.

    Of workers that come at once the one that marks it as sent orders it. One that dies in between leaves an order of
    which nothing is heard: it is given again like any other.
    """
    if sweep.status != RUNNING:
        return
    trial = TrialRecord.objects.filter(sweep=sweep, ended=None, sent=None).first()
    if trial is None or not TrialRecord.objects.filter(pk=trial.pk, sent=None).update(sent=at):
        return
    order = order_of(sweep, trial, approved=is_approved(sweep))
    try:
        if jobs.trial_progress(order.id) is None and jobs.trial_result(order.id) is None:
            jobs.order_trial(order)
    except jobs.BrokerAway:
        TrialRecord.objects.filter(pk=trial.pk, attempts=trial.attempts).update(sent=None)
        raise


def _become(sweep: SweepRecord, status: str, reason: str) -> None:
    LIFECYCLE.check(sweep.status, status)
    sweep.status, sweep.reason = status, reason


def _fail(sweep: SweepRecord, error: WeirError, at: datetime) -> None:
    sweep.ended = at
    _become(sweep, FAILED, error.full_message)
    stop_measuring(sweep)


def _end(trial: TrialRecord, at: datetime, error: str, remedy: str) -> None:
    trial.ended, trial.error, trial.remedy = at, error, remedy
    trial.save()  # before the sweep gives up what is under way
