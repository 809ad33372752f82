"""Slots and targets of measurements: slots with what is on them, task types that run and nobody has measured, and the
tasks of a dataflow that have no profile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from uuid import UUID

from django.db.models import Max, Q

from dashboard import jobs
from dashboard.operations.estate_store.offered_slots import silent_nodes
from dashboard.operations.estate_store.reservations import fragments_by_slot
from dashboard.operations.models import NodeRow, RunningTaskRow, SlotRow
from dashboard.profiles.approval import NotApproved, hindrance_of
from dashboard.profiles.lifecycle import CANCELLED, DONE, FAILED, OPEN
from dashboard.profiles.models import ProfileRecord, SweepRecord
from dashboard.profiles.permissions import known_to
from dashboard.profiles.selectors import set_aside
from dashboard.profiles.services.sweeps import MOST_THREADS
from dashboard.profiles.targets import SweepTarget, targets_of_tasks
from dashboard.teams.models import Team
from dashboard.teams.permissions import Viewer
from scheduler.model.canonical import canonical_json


@dataclass(frozen=True, slots=True)
class SlotChoice:
    """A slot to measure on: free, or why it is not."""

    name: str
    queries: int
    reserved_for: str
    silent: bool

    @property
    def free(self) -> bool:
        """True if nothing runs on it, nobody has it, and its node is heard of."""
        return not (self.queries or self.reserved_for or self.silent)


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """Tasks of a dataflow that one profile is missing for, the newest sweep that may still bring it, a profile that was
    set aside, and why it may not be measured as things stand."""

    tasks: tuple[str, ...]
    target: SweepTarget
    sweep: SweepRecord | None
    aside: ProfileRecord | None
    hindrance: NotApproved | None

    @property
    def under_way(self) -> bool:
        """True if it is being measured, or waits for its slot."""
        return self.sweep is not None and self.sweep.status in OPEN

    @property
    def unasked(self) -> bool:
        """True if it can be asked for, and nothing comes of it otherwise: nobody has asked, or that has failed."""
        return self.hindrance is None and (self.sweep is None or self.sweep.status == FAILED)


def profile_requests(viewer: Viewer, dataflow_id: UUID | str, tasks: Iterable[str]) -> list[ProfileRequest]:
    """The measurements to make for these tasks of a dataflow: a type with a config once, in the order of the tasks."""
    wanted_by: dict[tuple[str, str], tuple[SweepTarget, list[str]]] = {}
    if not (tasks := list(tasks)):
        return []
    for task, target in targets_of_tasks(viewer, dataflow_id, tasks).items():
        wanted_by.setdefault((target.task_type, canonical_json(target.config)), (target, []))[1].append(task)
    sweeps = list(SweepRecord.objects.filter(known_to(viewer), task_type__in={name for name, _ in wanted_by}).exclude(
        status__in=[DONE, CANCELLED]).order_by("-created"))
    sweeps.sort(key=lambda sweep: (sweep.status not in OPEN, sweep.status == FAILED))  # a failed one last, if newer
    return [
        ProfileRequest(tuple(names), target, next((sweep for sweep in sweeps if _brings(sweep, target)), None),
               _aside(viewer, target), hindrance_of(target, viewer))
        for target, names in wanted_by.values()]


def _brings(sweep: SweepRecord, target: SweepTarget) -> bool:
    """True if a sweep's profile would be the target's: what is measured of a private dataflow is its team's alone."""
    return (
        sweep.task_type == target.task_type and sweep.team_id in (None, target.team_id)
        and (sweep.any_config or sweep.config == canonical_json(target.config)))


def _aside(viewer: Viewer, target: SweepTarget) -> ProfileRecord | None:
    """The unused profile that could be used again for it: of its very config, else for any."""
    candidates = set_aside(viewer).filter(
        Q(team=None) | Q(team=target.team_id), task_type=target.task_type,
        config__in=["", canonical_json(target.config)])
    return candidates.order_by("-config", "-changed").first()


def slot_choices() -> list[SlotChoice]:
    """All slots, those first that could be measured on."""
    running, silent = fragments_by_slot(), set(silent_nodes().values_list("name", flat=True))
    slots = [
        SlotChoice(row.name, running.get(row.name, 0), row.reserved_for, row.node_id in silent)
        for row in SlotRow.objects.all()]
    return sorted(slots, key=lambda choice: (not choice.free, choice.silent, choice.queries))


def typical_sweep_s() -> float | None:
    """The typical duration of a sweep here, from its first trial to its end, in seconds: the median of the last ones.

    None where nothing has been measured to its end yet.
    """
    ended = SweepRecord.objects.filter(status=DONE, started__isnull=False, ended__isnull=False).order_by("-ended")
    took_s = [(ended - started).total_seconds() for started, ended in ended.values_list("started", "ended")[:20]]
    return median(took_s) if took_s else None


def most_threads() -> int:
    """The largest number of threads of the drivers here; as many as may be asked for, before one has told."""
    threads = NodeRow.objects.exclude(threads=None).aggregate(most=Max("threads"))["most"]
    return min(MOST_THREADS, threads or MOST_THREADS)


def unmeasured(viewer: Viewer) -> list[str]:
    """Types of running tasks that the viewer may know of and that have no active profile, by name.

    Without sources and sinks: those are planned with what they declare.
    """
    teams = Team.objects.filter(pk__in=viewer.team_ids).values_list("slug", flat=True)
    visible_rows = RunningTaskRow.objects.all() if viewer.superuser else RunningTaskRow.objects.filter(
        Q(scope="") | Q(scope__in=teams))
    measured = ProfileRecord.objects.filter(known_to(viewer), active=True).values_list("task_type", flat=True)
    running = set(visible_rows.values_list("type", flat=True).distinct()) - set(measured)
    transforms = {name for name, declared in jobs.task_types().items() if declared.kind == "transform"}
    return sorted(running & transforms)
