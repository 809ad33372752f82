"""Observations of running bundles, beside the profiles that they were planned with: recorded, compared, and forgotten
in time.

Measurements, so nothing is audited. A bundle of several tasks says nothing of one type, and one that waits for its
readers nothing of itself: both are left out. What a private dataflow's bundles do is compared with its team's own
profiles alone. Where several bundles share a slot, their CPU and memory are told apart by time, which is no measurement
of any of them: that is noted as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from dashboard import jobs
from dashboard.operations.live_view.estate_view import View, at_work, view_for
from dashboard.operations.live_view.telemetry import EVERYTHING
from dashboard.profiles.models import ObservationRow, ProfileRecord
from dashboard.profiles.stored_profiles import profile_of
from dashboard.profiles.trial_orders import unscoped
from scheduler.contracts.reports import RUNNING
from scheduler.model.canonical import canonical_config, canonical_json
from scheduler.model.fragment import RunningTask, node_of
from scheduler.performance.drift import COMPARED_S, MOST_COMPARED, Observation, drifts
from scheduler.performance.rates import falls_short

KEPT = timedelta(days=1)
MOST_AT_ONCE = 20  # bundles of a profile: a type that runs a thousand times says no more, and costs more
COMPARED = timedelta(seconds=COMPARED_S)


@dataclass(frozen=True, slots=True)
class ObservedBundle:
    """A bundle of one task, as its node reports it now."""

    bundle: str
    task: RunningTask
    machine: str
    figures: Observation


def record_observations(*, at: datetime) -> int:
    """Note what each bundle does whose task has a profile, and how far that profile is from it; how many were noted."""
    view = view_for(EVERYTHING)
    observed_bundles = list(_reporting_bundles(view)) if view.reading.measured else []
    profiles = profiles_by_type({seen_bundle.task.type for seen_bundle in observed_bundles})
    observed_by_profile: dict[ProfileRecord, list[ObservedBundle]] = {}
    for seen_bundle in observed_bundles:
        record = profile_held_to(seen_bundle.task, seen_bundle.machine, profiles)
        if record is not None:
            observed_by_profile.setdefault(record, []).append(seen_bundle)
    noted = [
        ObservationRow(profile=record, at=at, bundle=seen_bundle.bundle, **asdict(seen_bundle.figures))
        for record, ones in observed_by_profile.items() for seen_bundle in _due_bundles(ones, at)]
    ObservationRow.objects.bulk_create(noted)
    ObservationRow.objects.filter(at__lt=at - KEPT).delete()
    for record in observed_by_profile:
        _compare(record, at)
    return len(noted)


def observation_of(row: ObservationRow) -> Observation:
    """The value that a row stands for."""
    return Observation(row.threads, row.rate_per_s, row.cpu, row.memory, row.stable, row.shared)


def _due_bundles(observed_bundles: list[ObservedBundle], at: datetime) -> list[ObservedBundle]:
    """The bundles to note at once; others the next time."""
    begin = int(at.timestamp() // 60) * MOST_AT_ONCE % len(observed_bundles)
    return (observed_bundles[begin:] + observed_bundles[:begin])[:MOST_AT_ONCE]


def _compare(record: ProfileRecord, at: datetime) -> None:
    """Keep with a profile how far it is from what was seen lately."""
    rows = record.observations.filter(at__gte=at - COMPARED).order_by("-at")[:MOST_COMPARED]
    deviations = drifts(profile_of(record), [observation_of(row) for row in rows])
    ProfileRecord.objects.filter(pk=record.pk).update(drifts=[asdict(drift) for drift in deviations])


def _reporting_bundles(view: View) -> Iterator[ObservedBundle]:
    """The bundles that report what they do."""
    for fragment in view.estate.fragments.values():
        if len(fragment.active_tasks) != 1:
            continue
        task = view.estate.tasks[fragment.active_tasks[0]]
        for bundle in fragment.queries:
            node = view.reading.reports.node(node_of(bundle.slot))
            query = view.reading.reports.query(bundle.slot, bundle.id)
            if node is None or query is None or query.state != RUNNING or bundle.leaving or query.throttled_by:
                continue
            rate_per_s, cpu = query.rate_per_s, query.cpu
            if rate_per_s is None or cpu is None:
                continue
            offered = _offered(view, task, bundle.weight)
            yield ObservedBundle(bundle.id, task, node.machine[:120], Observation(
                bundle.threads, rate_per_s, cpu, query.memory,
                stable=offered is None or not falls_short(rate_per_s, offered),
                shared=at_work(view, bundle.slot) != {bundle.id}))


def _offered(view: View, task: RunningTask, weight: float) -> float | None:
    """The rate that the task's parents make for a bundle, where that is measured of all of them."""
    flows = [view.reading.flows.tasks.get(parent) for parent in task.parents]
    if not flows or None in flows:
        return None
    return weight * sum(flow.rate_per_s for flow in flows if flow is not None)


def profiles_by_type(types: Iterable[str]) -> Mapping[tuple[str, str, str], list[ProfileRecord]]:
    """Active profiles by type, config and team's short name."""
    grouped: dict[tuple[str, str, str], list[ProfileRecord]] = {}
    records = ProfileRecord.objects.filter(active=True, static=False, task_type__in=types)
    for record in records.select_related("team").prefetch_related("points"):
        key = (record.task_type, record.config, record.team.slug if record.team else "")
        grouped.setdefault(key, []).append(record)
    return grouped


def profile_held_to(
    task: RunningTask, machine: str, profiles: Mapping[tuple[str, str, str], list[ProfileRecord]]
) -> ProfileRecord | None:
    """Profile that a bundle of a task is held to: of its very config before any, of its version, code and machine."""
    declared = jobs.task_types().get(task.type)
    if declared is None:
        return None
    code = jobs.code_of(declared)
    for config in (unscoped(canonical_json(canonical_config(declared, task.config)), task.type), ""):
        for record in profiles.get((task.type, config, task.scope), ()):
            if not profile_of(record).stale(version=declared.version, machine=machine, code=code):
                return record
    return None
