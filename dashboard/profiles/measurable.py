"""Where and what can be measured: slots with what is on them, task types that run and nobody has measured, and the
tasks of a dataflow that have no profile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q

from dashboard import jobs
from dashboard.operations.models import RunningTaskRow, SlotRow
from dashboard.operations.reservations import fragments_by_slot
from dashboard.profiles.lifecycle import CANCELLED, DONE, OPEN
from dashboard.profiles.models import ProfileRecord, SweepRecord
from dashboard.profiles.permissions import known_to
from dashboard.profiles.subjects import Subject, subject_of_task
from dashboard.teams.models import Team
from dashboard.teams.permissions import Viewer
from scheduler.model.canonical import canonical_json


@dataclass(frozen=True, slots=True)
class Place:
    """A slot to measure on: free, or why it is not."""

    name: str
    queries: int
    reserved_for: str

    @property
    def free(self) -> bool:
        """Whether nothing runs on it and nobody has it."""
        return not self.queries and not self.reserved_for


@dataclass(frozen=True, slots=True)
class Wanted:
    """Tasks of a dataflow that one profile is missing for, and the newest sweep that may still bring it."""

    tasks: tuple[str, ...]
    subject: Subject
    sweep: SweepRecord | None

    @property
    def under_way(self) -> bool:
        """Whether it is being measured, or waits for its slot."""
        return self.sweep is not None and self.sweep.status in OPEN


def wanted(viewer: Viewer, dataflow_id: UUID | str, tasks: Iterable[str]) -> list[Wanted]:
    """What is to be measured for these tasks of a dataflow: a type with a config once, in the order of the tasks."""
    found: dict[tuple[str, str], tuple[Subject, list[str]]] = {}
    for task in tasks:
        subject = subject_of_task(viewer, dataflow_id, task)
        found.setdefault((subject.task_type, canonical_json(subject.config)), (subject, []))[1].append(task)
    sweeps = SweepRecord.objects.filter(known_to(viewer), task_type__in={name for name, _ in found})
    open_sweeps = {}
    for sweep in sweeps.exclude(status__in=[DONE, CANCELLED]).order_by("created"):
        for key in found:
            if key[0] == sweep.task_type and (sweep.any_config or key[1] == sweep.config):
                open_sweeps[key] = sweep
    return [Wanted(tuple(its), subject, open_sweeps.get(key)) for key, (subject, its) in found.items()]


def places() -> list[Place]:
    """All slots, those first on which nothing runs."""
    there = fragments_by_slot()
    found = [Place(row.name, there.get(row.name, 0), row.reserved_for) for row in SlotRow.objects.all()]
    return sorted(found, key=lambda place: (not place.free, place.queries))


def unmeasured(viewer: Viewer) -> list[str]:
    """Types of running tasks that the viewer may know of and that have no active profile, by name.

    Without sources and sinks: those are planned with what they declare.
    """
    own = Team.objects.filter(pk__in=viewer.team_ids).values_list("slug", flat=True)
    seen = RunningTaskRow.objects.all() if viewer.superuser else RunningTaskRow.objects.filter(
        Q(scope="") | Q(scope__in=own))
    measured = ProfileRecord.objects.filter(known_to(viewer), active=True).values_list("task_type", flat=True)
    running = set(seen.values_list("type", flat=True).distinct()) - set(measured)
    transforms = {name for name, declared in jobs.task_types().items() if declared.kind == "transform"}
    return sorted(running & transforms)
