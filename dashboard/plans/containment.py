"""Containment, for the teams that have turned it on."""

from __future__ import annotations

from dashboard import jobs
from dashboard.operations.siblings import StoredSiblings
from dashboard.teams.models import Team
from scheduler.reuse.containment import Containment


def containment_of(team: Team) -> Containment | None:
    """What planning needs to make tasks of this team from wider ones that run; None where the team wants none."""
    return Containment(StoredSiblings(), jobs.refinement) if team.containment else None
