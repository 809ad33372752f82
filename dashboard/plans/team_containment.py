"""Containment, for the teams that have turned it on."""

from __future__ import annotations

from dashboard import jobs
from dashboard.operations.estate_store.sibling_rows import StoredSiblings
from dashboard.teams.models import Team
from scheduler.read_set import ReadTrackingView
from scheduler.reuse.containment import Containment


def containment_of(team: Team, estate: ReadTrackingView | None = None) -> Containment | None:
    """The facts for making tasks of this team from wider ones that run; None where the team wants none.

    An ``estate`` notes what is looked up.
    """
    if not team.containment:
        return None
    siblings = StoredSiblings()
    return Containment(siblings if estate is None else estate.siblings_in(siblings), jobs.refinement)
