"""Measured profiles in use, as controllers and replays see them: running bundles to compare, and slots to measure
on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from django.db.models import Q, QuerySet

from dashboard.controllers.models import RoundRow
from dashboard.operations.estate_store.reservations import fragments_by_slot
from dashboard.operations.models import NodeRow, SlotRow
from dashboard.profiles.approval import author_of, hindrance_of
from dashboard.profiles.lifecycle import OPEN
from dashboard.profiles.models import ProfileRecord, SweepRecord
from dashboard.profiles.observations import observation_of, profile_held_to, profiles_by_type
from dashboard.profiles.stored_profiles import profile_of
from dashboard.profiles.targets import target_again
from scheduler.controllers.evidence.world import PastProfile, UsedProfile
from scheduler.model.errors import WeirError
from scheduler.model.estate import Estate
from scheduler.model.fragment import node_of
from scheduler.performance.drift import Drift
from scheduler.replay.setup import SWEEP_S, PlayedProfile


def used_profiles() -> dict[str, tuple[UsedProfile, ProfileRecord]]:
    """The measured profiles in use, by id."""
    return {str(record.pk): (_used(record), record) for record in _active()}


def past_profiles(begin_s: float, end_s: float) -> list[PastProfile]:
    """The profiles of now, with what running bundles were seen to do between two moments: a day is kept."""
    begin, end = (datetime.fromtimestamp(moment_s, UTC) for moment_s in (begin_s, end_s))
    return [
        PastProfile(_used(record), profile_of(record), record.created.timestamp(), tuple(
            (row.at.timestamp(), observation_of(row))
            for row in record.observations.filter(at__gte=begin, at__lte=end).order_by("at")))
        for record in _active().prefetch_related("points")]


def drifts_since(key: str) -> tuple[Drift, ...]:
    """The deviation of what runs from the profile that a round has measured anew."""
    row = RoundRow.objects.select_related("sweep__profile").get(key=key)
    record = row.sweep.profile if row.sweep else None
    return () if record is None else _drifts(record)


def where_measured(record: ProfileRecord, free: Sequence[SlotRow]) -> tuple[str, str]:
    """The slot on which a profile can be measured again, or why on none."""
    if why_not := _why_not(record):
        return "", why_not
    condition = Q(task_type=record.task_type, config=record.sweep.config, team_id=record.team_id)
    if SweepRecord.objects.filter(condition, status__in=OPEN).exists():
        return "", "It is being measured."
    slots = [row for row in free if row.node.machine in {record.machine, ""}]
    if not slots:
        return "", f"No slot of a {record.machine or 'known'} machine is free to measure it on."
    return next((row.name for row in slots if row.name == record.sweep.slot), slots[0].name), ""


def free_slots() -> list[SlotRow]:
    """Idle, unreserved slots."""
    busy = fragments_by_slot()
    rows = SlotRow.objects.filter(reserved_for="").select_related("node").order_by("node_id", "index")
    return [row for row in rows if not busy.get(row.name)]


def played_profiles(estate: Estate) -> tuple[PlayedProfile, ...]:
    """The profiles that tasks of an estate are held to, for a replay."""
    machines: Mapping[str, str] = dict(NodeRow.objects.values_list("pk", "machine"))
    profiles = profiles_by_type({task.type for task in estate.tasks.values()})
    tasks_by_record: dict[ProfileRecord, set[str]] = {}
    for fragment in estate.fragments.values():
        for task in fragment.active_tasks:
            record = profile_held_to(estate.tasks[task], machines.get(node_of(fragment.slot), ""), profiles)
            if record is not None:
                tasks_by_record.setdefault(record, set()).add(task)
    return tuple(
        PlayedProfile(
            _used(record), profile_of(record), frozenset(tasks),
            frozenset(node for node, machine in machines.items() if machine in {record.machine, ""}),
            _sweep_s(record), _why_not(record))
        for record, tasks in tasks_by_record.items())


def _active() -> QuerySet[ProfileRecord]:
    return ProfileRecord.objects.filter(active=True, static=False).select_related(
        "team", "sweep__dataflow__team")


def _used(record: ProfileRecord) -> UsedProfile:
    return UsedProfile(str(record.pk), record.key, record.task_type, _team_of(record), _drifts(record))


def _drifts(record: ProfileRecord) -> tuple[Drift, ...]:
    return tuple(Drift(**drift) for drift in record.drifts)


def _team_of(record: ProfileRecord) -> str:
    """The team whose settings count: the profile's own, or that of the dataflow on which it was measured; empty without
    one."""
    if record.team is not None:
        return record.team.slug
    dataflow = getattr(getattr(record, "sweep", None), "dataflow", None)
    return dataflow.team.slug if dataflow is not None else ""


def _why_not(record: ProfileRecord) -> str:
    """The reason why a profile cannot be measured again, whatever slot is free; empty where it can."""
    try:
        target = target_again(record)
    except WeirError as error:
        return f"{error.message} {error.remedy}".strip()
    hindrance = hindrance_of(target, author_of(record.sweep))
    return "" if hindrance is None else hindrance.message


def _sweep_s(record: ProfileRecord) -> float:
    """The duration of a profile's measurement, in seconds."""
    sweep = getattr(record, "sweep", None)
    if sweep is None or sweep.started is None or sweep.ended is None:
        return SWEEP_S
    return float((sweep.ended - sweep.started).total_seconds())
