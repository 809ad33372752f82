"""Controllers as the tests run them: steps of the loop at chosen moments, and history that says what a test wants."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.utils import timezone

from dashboard.approvals.models import Proposal
from dashboard.controllers import loop_runner
from dashboard.controllers.models import RoundRow
from dashboard.controllers.services import set_mode
from dashboard.history.history_store import DatabaseHistory
from dashboard.tasks.controlling import ACTUATORS
from dashboard.teams.models import Team
from scheduler.history.series import DATAFLOW, QUERY, TASK, Series
from tests.dashboard.building import World


@dataclass
class Loop:
    """The loop at a moment that a test moves on."""

    world: World
    at: datetime = field(default_factory=timezone.now)

    def run(self, *, later_s: float = 10.0) -> int:
        """A step of every controller, so much later; how many rounds are in flight."""
        self.at += timedelta(seconds=later_s)
        return loop_runner.run(ACTUATORS, at=self.at)

    def set(self, mode: str, *, controller: str = "defragmentation", team: Team | None = None) -> None:
        """Let a controller do so much for City, or another team."""
        set_mode(actor=self.world.dev, controller=controller, team=team or self.world.city, mode=mode)


def phases(controller: str = "defragmentation") -> list[str]:
    """Where the rounds are, the oldest first."""
    return list(RoundRow.objects.filter(controller=controller).order_by("pk").values_list("phase", flat=True))


def made_by_weir() -> list[Proposal]:
    return list(Proposal.objects.filter(author=None).order_by("created"))


def measured(
    begin: datetime, end: datetime, *, dataflow: str, queries: Collection[str], tasks: Collection[str], cores: float,
    rate_per_s: float = 50.0, latency_ms: float = 300.0, behind: Mapping[Series, float] | None = None,
) -> None:
    """Keep in history that queries took so much CPU together, a value each ten seconds.

    Parameters
    ----------
    begin, end : datetime
        From when until when.
    dataflow : str
        Whose latency.
    queries, tasks : collection of str
        Whose CPU and rate.
    cores : float
        CPU of all queries together.
    rate_per_s : float
        Rate of each task.
    latency_ms : float
        The dataflow's median latency, and the mean behind each task.
    behind : mapping of Series to float, optional
        What else was measured; it counts before the rest.
    """
    history = DatabaseHistory()
    for at_s in range(int(begin.timestamp()), int(end.timestamp()), 10):
        history.append(at_s, {
            Series(DATAFLOW, dataflow, "latency_p50_ms"): latency_ms,
            **{Series(QUERY, query, "cpu"): cores / len(queries) for query in queries},
            **{Series(TASK, task, "rate_per_s"): rate_per_s for task in tasks},
            **{Series(TASK, task, "latency_mean_ms"): latency_ms for task in tasks}, **(behind or {})})
    history.flush()
