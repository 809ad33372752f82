"""The evidence of re-measuring: how far profiles are from what runs, now and then, and where they could be measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from django.db.models import Q

from dashboard.controllers.models import RoundRow
from dashboard.controllers.site_world import StoredWorld
from dashboard.operations.estate_store.reservations import fragments_by_slot
from dashboard.operations.models import SlotRow
from dashboard.profiles.approval import author_of, hindrance_of
from dashboard.profiles.lifecycle import OPEN
from dashboard.profiles.models import ObservationRow, ProfileRecord, SweepRecord
from dashboard.profiles.observations import COMPARED, MOST_COMPARED, observation_of
from dashboard.profiles.stored_profiles import profile_of
from dashboard.profiles.targets import target_again
from scheduler.controllers.controller_port import Effect, MeasureSample
from scheduler.controllers.dry_run import Frame
from scheduler.controllers.loop_values import Round
from scheduler.controllers.remeasuring import DEVIATION, ProfileEvidence, ProfileReading, worst
from scheduler.model.errors import WeirError
from scheduler.performance.drift import Drift, Observation, drifts

FRAMES_EVERY = timedelta(minutes=15)  # six hours of observations change little from one to the next


def evidence(world: StoredWorld) -> ProfileEvidence:
    """Every profile in use that was compared with what runs."""
    records = ProfileRecord.objects.filter(active=True, static=False).exclude(drifts=[])
    free = _free_slots()
    return ProfileEvidence(tuple(
        _reading(record, tuple(Drift(**drift) for drift in record.drifts), free)
        for record in records.select_related("team", "sweep__dataflow__team")))


def frames(world: StoredWorld, begin_s: float, end_s: float) -> Iterator[Frame]:
    """What there was to decide by, of the profiles of now, by what running bundles were seen to do: a day is kept."""
    begin, end = (datetime.fromtimestamp(moment_s, UTC) for moment_s in (begin_s, end_s))
    free = _free_slots()
    compared = [
        (record, profile_of(record), list(record.observations.filter(
            at__gte=begin - COMPARED, at__lte=end).order_by("at")))
        for record in ProfileRecord.objects.filter(active=True, static=False).select_related(
            "team", "sweep__dataflow__team").prefetch_related("points")]
    at = begin
    while at <= end:
        yield Frame(at.timestamp(), ProfileEvidence(tuple(
            _reading(record, drifts(profile, _seen_until(rows, at)), free)
            for record, profile, rows in compared if record.created <= at)))
        at += FRAMES_EVERY


def effect(loop_round: Round, world: StoredWorld) -> Effect | None:
    """How far the new profile is from what runs, where enough was seen of it."""
    row = RoundRow.objects.select_related("sweep__profile").get(key=loop_round.key)
    record = row.sweep.profile if row.sweep else None
    deviation = None if record is None else worst([Drift(**drift) for drift in record.drifts])
    if deviation is None or loop_round.changed_s is None:
        return None
    return Effect(loop_round.changed_s, (MeasureSample(world.now_s, {DEVIATION: deviation}),))


def _seen_until(rows: Sequence[ObservationRow], at: datetime) -> list[Observation]:
    return [observation_of(row) for row in rows if at - COMPARED <= row.at <= at][-MOST_COMPARED:]


def _reading(record: ProfileRecord, deviations: Sequence[Drift], free: Sequence[SlotRow]) -> ProfileReading:
    slot, why_not = "", ""
    if any(drift.beyond for drift in deviations):
        slot, why_not = _where(record, free)
    return ProfileReading(
        str(record.pk), record.key, record.task_type, team_of(record), tuple(deviations), slot, why_not)


def team_of(record: ProfileRecord) -> str:
    """Whose settings count: the team's whose it is, or of whose dataflow it was measured; empty where there is none."""
    if record.team is not None:
        return record.team.slug
    dataflow = getattr(getattr(record, "sweep", None), "dataflow", None)
    return dataflow.team.slug if dataflow is not None else ""


def _where(record: ProfileRecord, free: Sequence[SlotRow]) -> tuple[str, str]:
    """The slot on which a profile can be measured again, or why on none."""
    try:
        target = target_again(record)
    except WeirError as error:
        return "", f"{error.message} {error.remedy}".strip()
    if (hindrance := hindrance_of(target, author_of(record.sweep))) is not None:
        return "", hindrance.message
    same = Q(task_type=record.task_type, config=record.sweep.config, team_id=record.team_id)
    if SweepRecord.objects.filter(same, status__in=OPEN).exists():
        return "", "It is being measured."
    slots = [row for row in free if row.node.machine in {record.machine, ""}]
    if not slots:
        return "", f"No slot of a {record.machine or 'known'} machine is free to measure it on."
    return next((row.name for row in slots if row.name == record.sweep.slot), slots[0].name), ""


def _free_slots() -> list[SlotRow]:
    """Idle, unreserved slots."""
    busy = fragments_by_slot()
    rows = SlotRow.objects.filter(reserved_for="").select_related("node").order_by("node_id", "index")
    return [row for row in rows if not busy.get(row.name)]


