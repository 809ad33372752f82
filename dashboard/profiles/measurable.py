"""Where and what can be measured: slots with what is on them, and task types that run and nobody has measured."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q

from dashboard import jobs
from dashboard.operations.models import RunningTaskRow, SlotRow
from dashboard.operations.reservations import fragments_by_slot
from dashboard.profiles.models import ProfileRecord
from dashboard.profiles.permissions import known_to
from dashboard.teams.models import Team
from dashboard.teams.permissions import Viewer


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
