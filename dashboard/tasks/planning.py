"""Plans: computed when they are asked for, and again where a crash left one waiting."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from uuid import uuid4

from django.utils import timezone

from dashboard import jobs, queue
from dashboard.approvals import selectors, services
from dashboard.controllers import loop_runner
from dashboard.queue import app
from dashboard.tasks.controlling import ACTUATORS

WAITS_TOO_LONG = timedelta(seconds=20)
CARRYING, CARRIED_AT_MOST_EVERY_MS = "carrying over", 1000


@app.task(name=queue.PREPARE_PROPOSAL)
def prepare_proposal(*, proposal_id: str) -> None:
    """Compute a proposal's plan and put it before its reviewers."""
    services.prepare_proposal(proposal_id=proposal_id)


@app.task(name=queue.CARRY_OVER)
def carry_over() -> int:
    """Hold plans that wait to the estate's generation; how many. One worker does so, and at most once a second: what
    changes meanwhile is found when this is due again."""
    with suppress(jobs.BrokerAway):  # two at once only do the same twice
        if not jobs.hold_turn(CARRYING, uuid4().hex, for_ms=CARRIED_AT_MOST_EVERY_MS):
            return 0
    return services.carry_over_waiting()


@app.task(name=queue.GUARD)
def guard() -> int:
    """See that no team slows another, and that nodes that are drained become empty; how many proposals were made."""
    at = timezone.now()
    moved = services.empty_nodes(at=at)
    return see_to_slow_ones(at=at) + (moved is not None)


@app.task(name=queue.GO_ON)
def go_on() -> int:
    """Let queries of nodes that are missed go on from copies of their state; how many proposals were made."""
    return int(services.empty_nodes(at=timezone.now()) is not None)


def see_to_slow_ones(*, at: datetime) -> int:
    """Propose the pauses that are due; how many. Controllers that others wait for decide at once."""
    proposals = services.guard(at=at)
    loop_runner.run_urgent(ACTUATORS, at=at)
    return len(proposals)


@app.task(name=queue.ENACT_HELD)
def enact_held() -> int:
    """Enact what was approved and held, where no freeze or window stands in the way any more; how many plans."""
    return len(services.enact_held(at=timezone.now()))


@app.task(name=queue.SWEEP)
def sweep() -> int:
    """Ask again for plans that were asked for long ago and are not there: a worker died, or the broker was away."""
    waiting = overdue_plans()
    for proposal_id in waiting:
        jobs.prepare_proposal(proposal_id)
    return len(waiting)


def overdue_plans() -> list[str]:
    """Ids of the proposals whose plans should long be there."""
    return selectors.waiting_for_a_plan(enqueued_before=timezone.now() - WAITS_TOO_LONG)
