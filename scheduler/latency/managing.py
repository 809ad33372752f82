"""A QoS manager at work: running means, violated sequences, other intervals (paper [5], 3.3 to 3.5.1).

It knows its share of the runtime graph and what reporters send, decides by that alone, and has no clock of its own.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from scheduler.contracts.qos import OwnQuery, QosReport, QosSetup, QosShare, QosWishes

from .constrained_paths import MIDDLE
from .constraints import Element, LatencyConstraint, WatchedConstraint
from .growing_intervals import LEAST_STEP, NO_WAIT_S, ROOM, Ceilings, growth, held_at
from .histograms import tail_ratio
from .latency_reports import RunningHistogram, RunningMeans
from .managers import Share, graph_expand
from .setting_up import constraint_of, graph_of, text_of
from .stepping import lengthened_s, shortened_s

REPORT_S = 5.0  # between two reports of a node to a manager
ROUND_S = 5.0  # between two decisions
GATHERING_S = 2 * REPORT_S  # for so long a share is measured before it is decided on
SAME_S = 0.001  # intervals that differ by less are the same


@dataclass(slots=True, eq=False)
class _Watch:
    """A share, and since when nothing was changed in it."""

    share: Share
    ages: RunningHistogram  # of events that leave its last queries
    changed_s: float
    held_s: float  # since when its limit holds and nothing was made shorter
    roomy_s: float  # since when it does so with much room
    flushed: bool = False  # whether what was measured before the last change is forgotten


@dataclass(frozen=True, slots=True)
class IntervalDecision:
    """The decision of a manager at one moment: a limit, the worst sequence under it, and new intervals.

    Where the limit is on a ``percentile`` both are of that.
    """

    limit_s: float
    worst_s: float
    intervals_s: Mapping[str, float] = field(default_factory=dict)
    percentile: float | None = None


@dataclass(frozen=True, slots=True)
class _Seen:
    """A share as it was measured: ``limit_s`` and ``worst_s`` are means."""

    watch: _Watch
    watched: WatchedConstraint
    limit_s: float
    worst_s: float
    tail: float  # how many times the mean that which is limited is
    whole: bool  # whether all of it was measured

    def note(self, now_s: float) -> None:
        """Keep since when the limit holds, and does so with room."""
        if self.worst_s > ROOM * self.limit_s:
            self.watch.roomy_s = now_s
        if self.worst_s > self.limit_s:
            self.watch.held_s = now_s

    def decision(self, intervals_s: Mapping[str, float]) -> IntervalDecision:
        return IntervalDecision(
            self.tail * self.limit_s, self.tail * self.worst_s, intervals_s, self.watch.share.constraint.percentile)


class QosManager:
    """The manager of one node.

    Parameters
    ----------
    now_s : float
        The present moment, in seconds: nothing that was before it counts.
    """

    def __init__(self, setup: QosSetup, *, now_s: float) -> None:
        self._setup, self._graph = setup, graph_of(setup)
        self._elements: dict[str, Element] = {
            text_of(element): element for element in (*self._graph.vertices, *self._graph.channels)}
        self._watches = [
            _Watch(self._whole_share(of), RunningHistogram(of.over_s), now_s, now_s, now_s) for of in setup.shares]
        self._watches_of: dict[str, list[_Watch]] = defaultdict(list)
        for watch in self._watches:
            for query in watch.share.vertices:
                self._watches_of[query].append(watch)
        self._means = {of.over_s: RunningMeans(of.over_s) for of in setup.shares}
        longest_s = max((of.over_s for of in setup.shares), default=0.0)
        self._lifetimes, self._batches = RunningMeans(longest_s), RunningMeans(longest_s)
        self._in_force_s: dict[str, float] = {}
        self._wishes_s: dict[str, float] = {}
        self._ceilings = Ceilings()

    def _whole_share(self, of: QosShare) -> Share:
        constraint = constraint_of(of)
        anchor = self._setup.queries[of.anchors[0]].task
        return graph_expand(self._graph, constraint, anchor, frozenset(of.anchors))

    def take(self, report: QosReport, *, now_s: float) -> None:
        """Take in a report. An interval that is another than before makes older measurements worthless."""
        for query, interval_s in report.intervals_s.items():
            before_s = self._in_force_s.get(query)
            self._in_force_s[query] = interval_s
            self._wishes_s.setdefault(query, interval_s)
            if before_s is not None and abs(before_s - interval_s) > SAME_S:
                self._unsettle({query}, now_s, shorter=interval_s < before_s)
        latencies_s = {self._elements[name]: value for name, value in report.latencies_s.items()
                       if name in self._elements}
        for means in self._means.values():
            means.add(now_s, latencies_s)
        self._lifetimes.add(now_s, report.lifetimes_s)
        self._batches.add(now_s, report.batches_s)
        for query, counts in report.ages.items():
            for watch in self._watches_of.get(query, ()):
                if self._setup.queries[query].task == watch.share.constraint.last:
                    watch.ages.add(now_s, counts)

    def decide(self, now_s: float) -> tuple[IntervalDecision, ...]:
        """Look at all shares; what was changed, by share. Those in which something was changed lately wait."""
        means_s = {over_s: means.at(now_s) for over_s, means in self._means.items()}
        lifetimes_s = self._lifetimes.at(now_s)
        watched_shares = [self._see(watch, means_s[watch.share.constraint.over_s], now_s)
                for watch in self._watches if self._is_settled(watch, now_s)]
        for share in watched_shares:
            share.note(now_s)
        violated = [share for share in watched_shares if share.worst_s > share.limit_s]
        shorter = self._shorten(violated, lifetimes_s, now_s)
        longer = self._lengthen(watched_shares, lifetimes_s, now_s)
        for decisions, is_shorter in ((shorter, True), (longer, False)):
            for decision in decisions:
                self._unsettle(decision.intervals_s, now_s, shorter=is_shorter)
        return (*shorter, *longer)

    def wishes(self) -> dict[str, QosWishes]:
        """Its wishes for the queries of each node that it has heard of, by node."""
        by_node: dict[str, dict[str, int]] = defaultdict(dict)
        for query, interval_s in self._wishes_s.items():
            if query in self._setup.queries:
                by_node[self._setup.queries[query].node][query] = math.ceil(1000 * interval_s)
        return {node: QosWishes(self._setup.node, self._setup.version, wishes) for node, wishes in by_node.items()}

    def _is_settled(self, watch: _Watch, now_s: float) -> bool:
        """True if a share was measured since the last change in it; what was measured before is forgotten."""
        settled_s = watch.changed_s + self._settling_s(watch)
        if not watch.flushed:
            if now_s >= settled_s:
                self._flush(watch)
            return False
        return now_s >= settled_s + GATHERING_S

    def _see(self, watch: _Watch, means_s: Mapping[Element, float], now_s: float) -> _Seen:
        constraint, tail, whole = watch.share.constraint, 1.0, True
        if constraint.percentile is not None:
            measured = tail_ratio(watch.ages.at(now_s), constraint.percentile)
            tail, whole = measured or constraint.percentile / MIDDLE, measured is not None
        limit_s = _asked_s(constraint) / tail
        if not constraint.waits:  # also of a source, whose events are as old as they were when the batch took them
            batches_s = self._batches.at(now_s)
            means_s = {**means_s, **{
                query: batches_s[query] for query in watch.share.vertices & batches_s.keys()
                if not self._waits(watch, query)}}
        watched = WatchedConstraint(replace(constraint, limit_s=limit_s), self._graph, means_s, watch.share.anchors)
        whole = whole and means_s.keys() >= watch.share.vertices | watch.share.channels
        return _Seen(watch, watched, limit_s, watched.worst_s or 0.0, tail, whole)

    def _shorten(
        self, violated: Iterable[_Seen], lifetimes_s: Mapping[Element, float], now_s: float
    ) -> list[IntervalDecision]:
        """Equation 2 on violated sequences. What would have held the limit is the longest that is chosen for a while.
        """
        batches_s, decisions = self._batches.at(now_s), []
        for share in violated:
            shorter, through_s = {}, share.watched.worst_through()
            waiting = {query for query in share.watch.share.vertices if self._waits(share.watch, query)}
            waits_s = sum(self._longest({query: lifetimes_s.get(query, 0.0) / 2 for query in waiting}))
            for query, worst_s in through_s.items():
                interval_s = self._in_force_s.get(query) if query in waiting else None
                if worst_s <= share.limit_s or interval_s is None:
                    continue
                late = [text_of(channel) for channel in self._graph.into(query)
                        if through_s.get(channel, 0.0) > share.limit_s]
                lifetime_s = max((lifetimes_s[channel] for channel in late if channel in lifetimes_s),
                                 default=lifetimes_s.get(query, 0.0))
                wanted_s = shortened_s(interval_s, lifetime_s=lifetime_s, batch_s=batches_s.get(query, 0.0))
                if wanted_s < min(interval_s, self._wishes_s[query]) - SAME_S:
                    shorter[query] = self._wishes_s[query] = wanted_s
                    held_s = held_at(interval_s, worst_s=share.worst_s, limit_s=share.limit_s, waits_s=waits_s)
                    self._ceilings.note(query, max(wanted_s, held_s), now_s=now_s)
            if shorter:
                decisions.append(share.decision(shorter))
        return decisions

    def _waits(self, watch: _Watch, query: str) -> bool:
        """True if what events wait for a batch of a query is part of what a share limits."""
        constraint = watch.share.constraint
        return constraint.waits or self._setup.queries[query].task != constraint.tasks[0]

    def _lengthen(
        self, watched_shares: Iterable[_Seen], lifetimes_s: Mapping[Element, float], now_s: float
    ) -> list[IntervalDecision]:
        """Equation 3, of a query as far as all shares that it is in have room for it; told of the fullest of them."""
        fullest_first = sorted(
            (share for share in watched_shares if share.whole), key=lambda share: share.worst_s / share.limit_s,
            reverse=True)
        room = {share.watch: self._room(share, lifetimes_s, now_s) for share in fullest_first}
        decisions = []
        for share in fullest_first:
            longer = {}
            for query in sorted(room[share.watch]):
                interval_s = self._in_force_s[query]
                wanted_s = min(
                    self._setup.queries[query].longest_s, self._ceilings.of(query, now_s=now_s),
                    *(room.get(watch, {}).get(query, 0.0) for watch in self._watches_of[query]))
                if wanted_s >= LEAST_STEP * interval_s and self._wishes_s[query] <= interval_s + SAME_S:
                    longer[query] = self._wishes_s[query] = wanted_s
            if longer:
                decisions.append(share.decision(longer))
        return decisions

    def _room(self, share: _Seen, lifetimes_s: Mapping[Element, float], now_s: float) -> dict[str, float]:
        """The longest intervals of a share; empty until its limit has held for a whole span.

        If it has held with much room for a span, they are of all queries; else only of queries without waiting events,
        up to the interval of their writer.
        """
        watch, over_s = share.watch, share.watch.share.constraint.over_s
        if now_s - watch.held_s < over_s:
            return {}
        most_s = dict.fromkeys(watch.share.vertices, math.inf)
        if now_s - watch.roomy_s < over_s:
            most_s = {query: self._written_s(query) for query in most_s
                      if lifetimes_s.get(query, math.inf) / 2 < NO_WAIT_S}
        growing = {query: self._in_force_s[query] for query in most_s
                   if most_s[query] >= LEAST_STEP * self._in_force_s.get(query, math.inf)}
        factor = growth(share.worst_s, share.limit_s, self._longest(growing))
        return {query: min(most_s[query], factor * interval_s) for query, interval_s in growing.items()}

    def _written_s(self, query: str) -> float:
        """The shortest interval of those that a query reads; 0 where it reads none."""
        return min((self._in_force_s.get(channel.source, 0.0) for channel in self._graph.into(query)), default=0.0)

    def _longest(self, values_s: Mapping[str, float]) -> list[float]:
        """The highest value of each task over some queries: sequences have one query of each."""
        longest_s: dict[str, float] = defaultdict(float)
        for query, value_s in values_s.items():
            task = self._setup.queries[query].task
            longest_s[task] = max(longest_s[task], value_s)
        return list(longest_s.values())

    def _settling_s(self, watch: _Watch) -> float:
        """The time in seconds after a change in which measurements are of before it: until all has been through every
        batch, and reports on that have come."""
        intervals_s = {query: self._in_force_s.get(query, 0.0) for query in watch.share.vertices}
        return 2 * REPORT_S + 2 * sum(self._longest(intervals_s))

    def _unsettle(self, queries: Iterable[str], now_s: float, *, shorter: bool) -> None:
        """Note a change in shares; where an interval became shorter it also counts anew for how long a limit holds."""
        for watch in {watch for query in queries for watch in self._watches_of.get(query, ())}:
            watch.changed_s, watch.flushed = now_s, False
            if shorter:
                watch.held_s = watch.roomy_s = now_s

    def _flush(self, watch: _Watch) -> None:
        watch.flushed = True
        watch.ages.forget()
        for element in (*watch.share.vertices, *watch.share.channels):
            self._means[watch.share.constraint.over_s].forget(element)
            self._lifetimes.forget(text_of(element))
            self._batches.forget(text_of(element))


def _asked_s(constraint: LatencyConstraint) -> float:
    """The value of a limit: of a percentile as it was asked for."""
    return constraint.limit_s * (constraint.percentile or MIDDLE) / MIDDLE


def agreed_ms(query: OwnQuery, now_ms: int, wishes_ms: Mapping[str, int]) -> int:
    """The interval of a query's batches: what the manager that wants them nearest wishes.

    Parameters
    ----------
    now_ms : int
        The interval now, in ms. Until all of its managers have said something, they come no further apart.
    wishes_ms : mapping of str to int
        By manager; those of nodes that no longer manage it do not count.
    """
    wished = [wishes_ms[node] for node in query.managers if node in wishes_ms]
    if len(wished) < len(query.managers) or not wished:
        wished.append(now_ms)
    return min(query.longest_ms, *wished)


def grown_ms(query: OwnQuery, now_ms: int) -> int:
    """A round later: further apart where no limit is on the query, as equation 3 has it."""
    if query.managers:
        return now_ms
    return math.ceil(1000 * lengthened_s(now_ms / 1000, longest_s=query.longest_ms / 1000))
