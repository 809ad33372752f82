"""Notes of the site from the evidence of isolation: it notes why a slow task stays, for those who wait."""

from __future__ import annotations

from dashboard.controllers.site_world import StoredWorld
from dashboard.operations.diagnosis import slow_queries
from scheduler.controllers.evidence.slow_tasks import NOT_TWICE
from scheduler.controllers.task_isolation import HoldUps


def is_urgent(world: StoredWorld) -> bool:
    """True if a query is slow of which others need a part: they wait meanwhile."""
    return slow_queries.is_due(at=world.at)


def note(world: StoredWorld, hold_ups: HoldUps) -> None:
    """Note of each slow task that has to stay, why."""
    reasons = {case.query: case.why_not for case in hold_ups.slow if case.why_not != NOT_TWICE}
    for slow in world.slow_tasks() or ():
        slow_queries.note_why_not(slow, reasons.get(slow.fragment.id, ""))
