"""Quality of service (QoS) on the nodes: what the site sets up, what reporters tell managers, and what these decide.

The managers and reporters are those of paper [5], 3.3 and 3.4. A task of theirs is a fragment here, a vertex a query
(a fragment, or a bundle of a divided one), and an output buffer what waits for a query's next batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .codec import Codec

ARROW = ">"  # between the ends of a channel where it is named in one text


def channel_text(source: str, target: str) -> str:
    """A channel as reports name it, by the queries at its ends."""
    return f"{source}{ARROW}{target}"


@dataclass(frozen=True, slots=True)
class QosShare:
    """A manager's share of one limit: the sequences along ``path`` (fragments) through one of the ``anchors``.

    The mean over ``over_s`` is at most ``limit_s``. Without ``counts_first`` the first fragment is there only because
    it writes the first stream: the limit begins with that. Without ``counts_last`` the last one is there only because
    it reads the last stream. Without ``waits`` what events wait for a batch of the first fragment does not count. Where
    a ``percentile`` is limited, ``limit_s`` is the mean that it allows of ages that are spread evenly: what was asked
    for is ``percentile`` / 50 of that.
    """

    path: tuple[str, ...]
    limit_s: float
    over_s: float
    anchors: tuple[str, ...]
    counts_first: bool = True
    percentile: float | None = None
    counts_last: bool = True
    waits: bool = True

    def __post_init__(self) -> None:
        if not self.path or not self.anchors:
            raise ValueError("a share has a path and an anchor")
        if len(self.path) == 1 and not (self.counts_first and self.counts_last):
            raise ValueError("the first or last stream of a share has two ends")
        if not all(math.isfinite(value) and value > 0 for value in (self.limit_s, self.over_s)):
            raise ValueError("limit and span are above 0 seconds")
        if self.percentile is not None and not 0 < self.percentile < 100:
            raise ValueError("a percentile is above 0 and below 100")


@dataclass(frozen=True, slots=True)
class QosVertex:
    """A query of a manager's graph: the fragment that it executes, the node that it is on, and how far apart its
    batches may be at most."""

    task: str
    node: str
    longest_ms: int | None = None

    @property
    def longest_s(self) -> float:
        """The longest interval of its batches, in seconds; without an end where that is not known here."""
        return math.inf if self.longest_ms is None else self.longest_ms / 1000


@dataclass(frozen=True, slots=True)
class OwnQuery:
    """A query of the node: how far apart its batches may be at most, and the nodes whose managers decide on that.

    Where it is a ``source``, events wait in it from when they come until a batch takes them. ``reads`` says of each
    channel that it reads which query writes it. Where a limit on a percentile ends with it, it tells ``ages`` of
    events.
    """

    longest_ms: int
    managers: tuple[str, ...] = ()
    source: bool = False
    reads: Mapping[str, str] = field(default_factory=dict)
    ages: bool = False


@dataclass(frozen=True, slots=True)
class QosStandIn:
    """A part that a node watches in place of another one's manager while that node, and those ``before`` it, are away.

    ``shares`` are watched in the graph of ``queries`` and ``channels``, as in the set-up of the node that is away.
    """

    shares: tuple[QosShare, ...]
    queries: Mapping[str, QosVertex]
    channels: tuple[tuple[str, str], ...] = ()
    before: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check(self.shares, self.queries, self.channels)


@dataclass(frozen=True)
class QosSetup:
    """The part of one node; an empty one ends its manager and reporter.

    ``shares``: what its manager watches, in the graph of ``queries`` and ``channels`` (pairs of queries); ``reports``:
    by node of a manager, the queries and channels that this node's reporter measures for it; ``own``: the queries of
    the node itself; ``stands_in``: by node, what this manager watches while that one is away.
    """

    version: int = 0
    node: str = ""
    shares: tuple[QosShare, ...] = ()
    queries: Mapping[str, QosVertex] = field(default_factory=dict)
    channels: tuple[tuple[str, str], ...] = ()
    reports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    own: Mapping[str, OwnQuery] = field(default_factory=dict)
    stands_in: Mapping[str, QosStandIn] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check(self.shares, self.queries, self.channels)

    @property
    def empty(self) -> bool:
        """True if the node has nothing to do."""
        return not self.shares and not self.own

    def in_place_of(self, node: str) -> QosSetup:
        """The set-up of the manager of another node, for which this node stands in."""
        part = self.stands_in[node]
        return QosSetup(self.version, node, part.shares, part.queries, part.channels)


@dataclass(frozen=True, slots=True)
class QosReport:
    """A report of a node's reporter to a manager at the end of an interval: one sample of each element, in seconds.

    ``latencies_s`` are of queries and channels. So are ``lifetimes_s``, twice what events waited for a batch (of an
    output buffer: how long it takes to fill); a query's is of all that it reads. The rest is of queries:
    ``intervals_s`` is how far apart batches are in force, ``batches_s`` how long one takes, and ``ages`` how many
    events left it at which age, by bucket (`scheduler.latency.histograms`).
    """

    node: str = ""
    latencies_s: Mapping[str, float] = field(default_factory=dict)
    lifetimes_s: Mapping[str, float] = field(default_factory=dict)
    intervals_s: Mapping[str, float] = field(default_factory=dict)
    batches_s: Mapping[str, float] = field(default_factory=dict)
    ages: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QosWishes:
    """The intervals that a manager wants for one node's queries, by query, and the version of its set-up.

    ``node`` is the manager's own; one that stands in for another speaks in the name of that.
    """

    node: str
    version: int = 0
    intervals_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeIntervals:
    """The node's own record of how far apart batches of its queries are to be, by query."""

    intervals_ms: Mapping[str, int] = field(default_factory=dict)


def _check(
    shares: Iterable[QosShare], queries: Mapping[str, QosVertex], channels: Iterable[tuple[str, str]]
) -> None:
    """Raise unless the watched elements are in the graph."""
    for end in (end for channel in channels for end in channel):
        if end not in queries:
            raise ValueError(f"a channel ends at {end}, which is no query of the graph")
    for share in shares:
        if not queries.keys() >= set(share.anchors):
            raise ValueError(f"a query that a share on {share.path[0]} is anchored at is not in the graph")


QOS_SETUPS = Codec(QosSetup, sparse=True, always=frozenset({"version", "node"}))
QOS_REPORTS = Codec(QosReport, sparse=True)
QOS_WISHES = Codec(QosWishes)
INTERVALS = Codec(NodeIntervals)
