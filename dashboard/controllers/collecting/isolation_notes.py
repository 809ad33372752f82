"""What the site adds to the evidence of isolation: it notes why a slow task cannot be cut, for those who wait."""

from __future__ import annotations

from dashboard.controllers.site_world import StoredWorld
from dashboard.operations.diagnosis import slow_queries
from scheduler.controllers.evidence import slow_tasks
from scheduler.controllers.evidence.slow_tasks import NOT_TWICE
from scheduler.controllers.task_isolation import HoldUps


def is_urgent(world: StoredWorld) -> bool:
    """Whether a query is slow of which others need a part: they wait meanwhile."""
    return slow_queries.is_due(at=world.at)


def evidence(world: StoredWorld) -> HoldUps | None:
    """The slow tasks, as controllers see them; of each that has to stay, why is noted."""
    hold_ups = slow_tasks.evidence(world)
    if hold_ups is not None:
        reasons = {case.query: case.why_not for case in hold_ups.slow if case.why_not != NOT_TWICE}
        for slow in world.slow_tasks() or ():
            slow_queries.note_why_not(slow, reasons.get(slow.fragment.id, ""))
    return hold_ups
