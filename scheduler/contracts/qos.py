"""Quality of service (QoS) on the nodes: what the site sets up, what reporters tell managers, and what these decide.

The managers and reporters are those of paper [5], 3.3 and 3.4. A task of theirs is a fragment here, a vertex a query
(a fragment, or a bundle of a divided one), and an output buffer what waits for a query's next batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from .codec import Codec

ARROW = ">"  # between the ends of a channel where it is named in one text


def channel_text(source: str, target: str) -> str:
    """A channel as reports name it, by the queries at its ends."""
    return f"{source}{ARROW}{target}"


@dataclass(frozen=True, slots=True)
class QosShare:
    """What a manager watches of one limit: the sequences along ``path`` (fragments) through one of the ``anchors``.

    The mean over ``over_s`` is at most ``limit_s``. Without ``counts_first`` the first fragment is there only because
    it writes the first stream: the limit begins with that.
    """

    path: tuple[str, ...]
    limit_s: float
    over_s: float
    anchors: tuple[str, ...]
    counts_first: bool = True

    def __post_init__(self) -> None:
        if not self.path or not self.anchors:
            raise ValueError("a share has a path and an anchor")
        if not all(math.isfinite(value) and value > 0 for value in (self.limit_s, self.over_s)):
            raise ValueError("limit and span are above 0 seconds")


@dataclass(frozen=True, slots=True)
class QosVertex:
    """A query of a manager's graph: the fragment that it executes, and the node that it is on."""

    task: str
    node: str


@dataclass(frozen=True, slots=True)
class OwnQuery:
    """A query of the node: how far apart its batches may be at most, and the nodes whose managers decide on that.

    Where it is a ``source``, events wait in it from when they come until a batch takes them.
    """

    longest_ms: int
    managers: tuple[str, ...] = ()
    source: bool = False


@dataclass(frozen=True)
class QosSetup:
    """The part of one node; an empty one ends what the node did.

    ``shares`` are watched by its manager, in the graph of ``queries`` and ``channels`` (pairs of them). ``reports`` are
    the queries and channels that its reporter measures for the managers of other nodes or of this, by node. ``own`` are
    the queries of the node itself.
    """

    version: int = 0
    node: str = ""
    shares: tuple[QosShare, ...] = ()
    queries: Mapping[str, QosVertex] = field(default_factory=dict)
    channels: tuple[tuple[str, str], ...] = ()
    reports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    own: Mapping[str, OwnQuery] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for end in (end for channel in self.channels for end in channel):
            if end not in self.queries:
                raise ValueError(f"a channel ends at {end}, which is no query of the graph")
        for share in self.shares:
            if not self.queries.keys() >= set(share.anchors):
                raise ValueError(f"a query that a share on {share.path[0]} is anchored at is not in the graph")

    @property
    def empty(self) -> bool:
        """Whether the node has nothing to do."""
        return not self.shares and not self.own


@dataclass(frozen=True, slots=True)
class QosReport:
    """What a node's reporter sends a manager at the end of an interval: one sample of each element, in seconds.

    ``latencies_s`` are of queries and channels. The rest is of queries: ``lifetimes_s`` is twice what events waited for
    a batch (of an output buffer: how long it takes to fill), ``intervals_s`` how far apart batches are in force, and
    ``batches_s`` how long one takes.
    """

    node: str = ""
    latencies_s: Mapping[str, float] = field(default_factory=dict)
    lifetimes_s: Mapping[str, float] = field(default_factory=dict)
    intervals_s: Mapping[str, float] = field(default_factory=dict)
    batches_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QosWishes:
    """How far apart a manager wants the batches of one node's queries, by query, and by which set-up it does."""

    node: str
    version: int = 0
    intervals_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Intervals:
    """The node's own record of how far apart batches of its queries are to be, by query."""

    intervals_ms: Mapping[str, int] = field(default_factory=dict)


QOS_SETUPS = Codec(QosSetup, sparse=True, always=frozenset({"version", "node"}))
QOS_REPORTS = Codec(QosReport, sparse=True)
QOS_WISHES = Codec(QosWishes)
INTERVALS = Codec(Intervals)
