"""Overloaded dataflows, as a watch knows them that looks at their queries every few seconds. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from scheduler.contracts.reports import RUNNING, QueryReport

from .uneven_keys import KeyedLoad, LoadThresholds

LASTS_S = 2.5  # for so long it is chance; rates of the last seconds are mostly of what came since
SETTLES_S = 60.0  # a query that began lately still compiles, and its source makes up for what it has missed
UNSEEN_S = 15.0  # who has not looked for so long knows nothing


def is_settled(report: QueryReport, *, at_ms: int) -> bool:
    """True if a query has run for a while, as of its node's report at a moment."""
    return report.state == RUNNING and at_ms - report.since_ms >= 1000 * SETTLES_S


def is_overloaded(report: QueryReport, waiting: int, *, usual_interval_s: float) -> bool:
    """True if a query is overloaded by its newest report: many events wait, and it works nearly all the time.

    The thresholds are those of balance (τ high). For CPU stands the part of its interval in which its newest batch
    worked: that is known at once, CPU only after ten seconds. A query whose batches stay open never is.

    Parameters
    ----------
    waiting : int
        Events that wait for it.
    usual_interval_s : float
        The interval of its batches where its report does not say, in seconds.
    """
    if report.real_time:
        return False
    worked_ms = (report.batch_ms or 0.0) - report.phases_ms.get("asking", 0.0)  # most of which is waiting
    apart_ms = report.trigger_ms or 1000 * usual_interval_s
    return LoadThresholds().is_high(KeyedLoad(waiting, max(worked_ms, report.batch_for_ms or 0) / apart_ms))


@dataclass(frozen=True, slots=True)
class OverloadWatch:
    """The dataflows that have been overloaded in every look, and since when.

    Parameters
    ----------
    since_s : mapping of str to float
        By dataflow, in seconds of the watcher's clock.
    """

    since_s: Mapping[str, float] = field(default_factory=dict)
    looked_s: float = float("-inf")

    def look(self, overloaded: Collection[str], *, now_s: float) -> OverloadWatch:
        """The watch after a look at a moment that found these."""
        before = self.since_s if self._is_recent(now_s) else {}
        return OverloadWatch({name: before.get(name, now_s) for name in overloaded}, now_s)

    def lasting(self, now_s: float) -> frozenset[str]:
        """The dataflows overloaded for `LASTS_S` or longer at the newest look; none where that was long ago."""
        return frozenset(
            name for name, since_s in self.since_s.items()
            if self.looked_s - since_s >= LASTS_S) if self._is_recent(now_s) else frozenset()

    def _is_recent(self, now_s: float) -> bool:
        return 0 <= now_s - self.looked_s <= UNSEEN_S
