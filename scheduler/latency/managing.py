"""A QoS manager at work: running means, violated sequences, shorter intervals (paper [5], 3.3 to 3.5.1).

It knows its share of the runtime graph and what reporters send, decides by that alone, and has no clock of its own.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scheduler.contracts.qos import OwnQuery, QosReport, QosSetup, QosShare, QosWishes

from .constraints import Element, Watched
from .managers import Share, graph_expand
from .measuring import RunningMeans
from .setting_up import constraint_of, graph_of, text_of
from .stepping import lengthened_s, shortened_s

REPORT_S = 5.0  # between two reports of a node to a manager
ROUND_S = 5.0  # between two decisions
GATHERING_S = 2 * REPORT_S  # for so long a share is measured before it is decided on
SAME_S = 0.001  # intervals that differ by less are the same


@dataclass(slots=True)
class _Watch:
    """A share, and since when nothing was changed in it."""

    of: QosShare
    share: Share
    changed_s: float
    flushed: bool = False  # whether what was measured before the last change is forgotten


@dataclass(frozen=True, slots=True)
class Decision:
    """What a manager decided at one moment: the limit that was violated, the worst sequence, and new intervals."""

    limit_s: float
    worst_s: float
    intervals_s: Mapping[str, float] = field(default_factory=dict)


class QosManager:
    """The manager of one node.

    Parameters
    ----------
    setup : QosSetup
        The node's part.
    now_s : float
        The present moment, in seconds: nothing that was before it counts.
    """

    def __init__(self, setup: QosSetup, *, now_s: float) -> None:
        self._setup, self._graph = setup, graph_of(setup)
        self._elements: dict[str, Element] = {
            text_of(element): element for element in (*self._graph.vertices, *self._graph.channels)}
        self._watches = [_Watch(of, self._whole(of), now_s) for of in setup.shares]
        self._means = {of.over_s: RunningMeans(of.over_s) for of in setup.shares}
        longest_s = max((of.over_s for of in setup.shares), default=0.0)
        self._lifetimes, self._batches = RunningMeans(longest_s), RunningMeans(longest_s)
        self._in_force_s: dict[str, float] = {}
        self._wishes_s: dict[str, float] = {}

    def _whole(self, of: QosShare) -> Share:
        constraint = constraint_of(of)
        anchor = self._setup.queries[of.anchors[0]].task
        return graph_expand(self._graph, constraint, anchor, frozenset(of.anchors))

    def take(self, report: QosReport, *, now_s: float) -> None:
        """What a reporter sends. An interval that is another than before makes older measurements worthless."""
        for query, interval_s in report.intervals_s.items():
            before_s = self._in_force_s.get(query)
            self._in_force_s[query] = interval_s
            self._wishes_s.setdefault(query, interval_s)
            if before_s is not None and abs(before_s - interval_s) > SAME_S:
                self._unsettle({query}, now_s)
        latencies_s = {self._elements[name]: value for name, value in report.latencies_s.items()
                       if name in self._elements}
        for means in self._means.values():
            means.add(now_s, latencies_s)
        self._lifetimes.add(now_s, report.lifetimes_s)
        self._batches.add(now_s, report.batches_s)

    def decide(self, now_s: float) -> tuple[Decision, ...]:
        """Look at all shares; what was changed, by share. Those in which something was changed lately wait."""
        decisions, means_s = [], {over_s: means.at(now_s) for over_s, means in self._means.items()}
        lifetimes_s, batches_s = self._lifetimes.at(now_s), self._batches.at(now_s)
        for watch in self._watches:
            settled_s = watch.changed_s + self._settling_s(watch)
            if not watch.flushed:
                if now_s >= settled_s:
                    self._flush(watch)
                continue
            if now_s < settled_s + GATHERING_S:
                continue
            constraint = watch.share.constraint
            watched = Watched(constraint, self._graph, means_s[constraint.over_s], watch.share.anchors)
            if not watched.violated:
                continue
            shorter = self._shorter(watched, constraint.limit_s, lifetimes_s, batches_s)
            if shorter:
                self._wishes_s |= shorter
                decisions.append(Decision(constraint.limit_s, watched.worst_s or 0.0, shorter))
        self._unsettle({query for decision in decisions for query in decision.intervals_s}, now_s)
        return tuple(decisions)

    def wishes(self) -> dict[str, QosWishes]:
        """What it wants of the queries of each node that it has heard of, by node."""
        by_node: dict[str, dict[str, int]] = defaultdict(dict)
        for query, interval_s in self._wishes_s.items():
            if query in self._setup.queries:
                by_node[self._setup.queries[query].node][query] = math.ceil(1000 * interval_s)
        return {node: QosWishes(self._setup.node, self._setup.version, wishes) for node, wishes in by_node.items()}

    def _shorter(
        self, watched: Watched, limit_s: float, lifetimes_s: Mapping[Element, float],
        batches_s: Mapping[Element, float],
    ) -> dict[str, float]:
        shorter = {}
        for query, worst_s in watched.worst_through().items():
            interval_s = self._in_force_s.get(query) if isinstance(query, str) else None
            if worst_s <= limit_s or interval_s is None:
                continue
            wanted_s = shortened_s(
                interval_s, lifetime_s=lifetimes_s.get(query, 0.0), batch_s=batches_s.get(query, 0.0))
            if wanted_s < min(interval_s, self._wishes_s[query]) - SAME_S:
                shorter[query] = wanted_s
        return shorter

    def _settling_s(self, watch: _Watch) -> float:
        """For how long after a change what is measured is of before it: until all has been through every batch, and
        reports on that have come."""
        longest_s: dict[str, float] = defaultdict(float)
        for query in watch.share.vertices:
            task = self._setup.queries[query].task
            longest_s[task] = max(longest_s[task], self._in_force_s.get(query, 0.0))
        return 2 * REPORT_S + 2 * sum(longest_s.values())

    def _unsettle(self, queries: Iterable[str], now_s: float) -> None:
        for watch in self._watches:
            if not watch.share.vertices.isdisjoint(queries):
                watch.changed_s, watch.flushed = now_s, False

    def _flush(self, watch: _Watch) -> None:
        watch.flushed = True
        for query in watch.share.vertices:
            self._lifetimes.forget(query)
            self._batches.forget(query)
        for element in (*watch.share.vertices, *watch.share.channels):
            self._means[watch.of.over_s].forget(element)


def agreed_ms(own: OwnQuery, now_ms: int, wishes_ms: Mapping[str, int]) -> int:
    """How far apart the batches of a query are to be: what the manager that wants them nearest wishes.

    Parameters
    ----------
    own : OwnQuery
        Who decides on it.
    now_ms : int
        How far apart they are to be now. Until all of its managers have said something, they come no further apart.
    wishes_ms : mapping of str to int
        By manager; those of nodes that no longer manage it do not count.
    """
    wished = [wishes_ms[node] for node in own.managers if node in wishes_ms]
    if len(wished) < len(own.managers) or not wished:
        wished.append(now_ms)
    return min(own.longest_ms, *wished)


def grown_ms(own: OwnQuery, now_ms: int) -> int:
    """A round later: further apart where no limit is on the query, as equation 3 has it."""
    if own.managers:
        return now_ms
    return math.ceil(1000 * lengthened_s(now_ms / 1000, longest_s=own.longest_ms / 1000))
