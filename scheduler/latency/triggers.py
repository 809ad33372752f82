"""The effect of intervals of batches: how long events wait and how long batches take, along a path of queries.

The derivation is in ``docs/latency.md``. In short: a batch takes CPU whatever it carries, so a query takes
``batch_cpu_s / T`` of a core for batches T seconds apart. A reader begins when a block comes, and takes what is there:
so its batches are no nearer than those of its writer, and hold the events of the longest interval upstream of it.
Which intervals hold limits at the least CPU is found in ``interval_program``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.model.checks import FiniteFigures, require_finite
from scheduler.model.costs import GROUP_CPU_S

LARGEST_S = 60.0
SMALLEST_S = 0.02
BUSY = 0.8  # of its interval a batch may take, so that the next one starts in time
EARLY = 0.1  # of its interval a reader may begin earlier (decision 0069): so it follows a writer of about the same


@dataclass(frozen=True, slots=True)
class BatchCost:
    """The measured cost of a batch of a query on its slot.

    ``batch_s`` and ``batch_cpu_s`` are its duration and CPU however few events it has; ``event_s`` and ``event_cpu_s``
    what an event adds; ``rate_per_s`` how many come. ``group_cpu_s`` is what each group of events would take where its
    batches stay open.
    """

    batch_s: float
    batch_cpu_s: float
    rate_per_s: float = 0.0
    event_s: float = 0.0
    event_cpu_s: float = 0.0
    group_cpu_s: float = GROUP_CPU_S

    def __post_init__(self) -> None:
        require_finite(self)
        for name in ("batch_s", "batch_cpu_s", "rate_per_s", "event_s", "event_cpu_s", "group_cpu_s"):
            if (value := getattr(self, name)) < 0:
                raise ValueError(f"{name} is a number from 0 up, not {value!r}")

    @property
    def busy(self) -> float:
        """The part of its time that a query is at work on events alone, with as few batches as may be."""
        return self.rate_per_s * self.event_s

    def duration_s(self, held_s: float) -> float:
        """The duration of a batch that holds the events of so much time."""
        return self.batch_s + self.busy * held_s

    def cores(self, interval_s: float) -> float:
        """CPU at an interval, in cores."""
        return self.batch_cpu_s / interval_s + self.rate_per_s * self.event_cpu_s

    @property
    def least_s(self) -> float:
        """The shortest interval at which batches end in time; infinite where events alone are too many."""
        return self.batch_s / (BUSY - self.busy) if self.busy < BUSY else math.inf


@dataclass(frozen=True, slots=True)
class Counted:
    """The parts that count along a path of queries, where not all does.

    ``waits`` says whether what events wait for a batch of the first one does. Of ``passed`` queries no batch counts:
    they are at an end of the path because it begins or ends with a stream, which they write or read.
    """

    waits: bool = True
    passed: frozenset[str] = frozenset()


WHOLE = Counted()


@dataclass(frozen=True, slots=True)
class PathLimit(FiniteFigures):
    """Latency of at most ``limit_s`` along ``path``, queries from the source's on.

    ``other_s`` is the latency along it that no interval changes: of external services, of the network. ``share`` is the
    part of each wait that counts: half of it in the mean, as events come at any time; of a percentile that percentage.
    ``counted`` says what of the path is limited. ``weight`` is what a second above this limit counts beside one above
    another, where not all can be met.
    """

    path: tuple[str, ...]
    limit_s: float
    other_s: float = 0.0
    share: float = 0.5
    counted: Counted = WHOLE
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Unmet:
    """A limit that no choice of intervals meets. ``least_s`` is the least latency that there is."""

    limit: PathLimit
    least_s: float


@dataclass(frozen=True, slots=True)
class Intervals:
    """The intervals of all queries, in seconds, the CPU that their batches take in cores, and what stays unmet."""

    interval_s: Mapping[str, float]
    cores: float
    unmet: tuple[Unmet, ...] = ()
    full: tuple[str, ...] = ()  # slots for want of whose CPU a limit is not met, or that events alone fill
    too_slow: tuple[str, ...] = ()  # queries whose events alone are too many for any interval


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The problem to decide.

    ``costs`` are by query; ``reads`` names the queries that write what a query reads. ``slot_of`` and ``capacity`` say
    where each one is, and what CPU that slot has for them, in cores; a slot without capacity has no bound.
    ``bounds_s`` are the longest intervals of queries that may not have ``largest_s``.
    """

    costs: Mapping[str, BatchCost]
    limits: Sequence[PathLimit]
    reads: Mapping[str, Sequence[str]] = field(default_factory=dict)
    slot_of: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, float] = field(default_factory=dict)
    largest_s: float = LARGEST_S
    smallest_s: float = SMALLEST_S
    bounds_s: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_finite(self)
        require_lasting(self.largest_s, self.smallest_s, self.bounds_s)

    def longest_s(self, query: str) -> float:
        """The longest interval that a query may have, in seconds."""
        return min(self.largest_s, self.bounds_s.get(query, self.largest_s))


def require_lasting(largest_s: float, smallest_s: float, bounds_s: Mapping[str, float]) -> None:
    """Refuse bounds of intervals that no batch has time in; `ValueError` names the query.

    Parameters
    ----------
    bounds_s : mapping of str to float
        By query.
    """
    for name, seconds in {"largest_s": largest_s, "smallest_s": smallest_s, **bounds_s}.items():
        if seconds <= 0:
            raise ValueError(f"an interval is longer than 0 s, and {name} has {seconds!r}")


class Effective:
    """The effect of intervals where queries read one another: looked up upstream, and only as far as needed.

    Parameters
    ----------
    interval_s : mapping of str to float
        Intervals by query; a writer that has none says nothing of its readers.
    early : float, optional
        By which part of its interval a reader may begin earlier.
    """

    def __init__(self, plan: BatchPlan, interval_s: Mapping[str, float], *, early: float = EARLY) -> None:
        self.interval_s = interval_s
        self._plan, self._early = plan, early
        self._times: dict[str, tuple[float, float, float]] = {}  # batches are apart, they hold, blocks are apart

    def apart_s(self, query: str) -> float:
        """The least interval of batches, in seconds.

        A reader of one stream has no more of them than there are blocks. Of several streams any block begins a batch.
        """
        return self._times_of(query)[0]

    def held_s(self, query: str) -> float:
        """The time of whose events a batch holds, in seconds: of the longest interval of its own and upstream."""
        return self._times_of(query)[1]

    def follows(self, writer: str, reader: str) -> bool:
        """True if a reader of this stream alone begins with each of its blocks.

        Those of a query that follows its own writer come as far apart as its batches begin. Of one that does not, one
        batch holds a block more than another, and takes longer by that: blocks come nearer by as much.
        """
        return (1 - self._early) * self.interval_s[reader] <= self._times_of(writer)[2]

    def _times_of(self, query: str) -> tuple[float, float, float]:
        waiting = [query]
        while waiting:
            name = waiting[-1]
            writers = [writer for writer in self._plan.reads.get(name, ()) if writer in self.interval_s]
            unknown = [writer for writer in writers if writer not in self._times]
            if unknown:
                waiting += unknown
                continue
            self._times[name] = self._after(name, [self._times[writer] for writer in writers])
            waiting.pop()
        return self._times[query]

    def _after(self, query: str, writers: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
        own_s, cost = self.interval_s[query], self._plan.costs.get(query)
        if not writers:
            return own_s, own_s, own_s
        held_s, least_s = max([own_s, *(held_s for _, held_s, _ in writers)]), (1 - self._early) * own_s
        if len(writers) > 1:
            return least_s, held_s, least_s
        ((apart_s, _, gap_s),) = writers
        if least_s <= gap_s:
            return apart_s, held_s, gap_s
        more_s = cost.busy * apart_s if cost is not None else 0.0
        return max(least_s, apart_s), held_s, max(0.0, least_s - more_s)


def wait_s(plan: BatchPlan, writer: str | None, reader: str, effective: Effective, *, share: float = 0.5) -> float:
    """The wait of written events for a batch of their reader, in seconds; without a writer, at a source.

    The first query's events wait half an interval. A reader that follows its writer begins with the block. One whose
    interval is longer begins its next batch whenever it may, for a block waits by then: as their intervals have nothing
    to do with one another, blocks come at any time of it and wait half of it. Where a reader has several writers, a
    block of one may just miss the batch that another's block has started: it is taken to wait a whole interval of the
    reader.

    Parameters
    ----------
    writer, reader : str
        Queries; the writer is None where events come from a source.
    share : float, optional
        The part of a wait that counts, as of `PathLimit`.
    """
    interval_s = effective.interval_s[reader]
    if writer is None:
        return share * interval_s
    if len(plan.reads.get(reader, ())) > 1:
        return interval_s
    return 0.0 if effective.follows(writer, reader) else share * interval_s


def step_s(
    plan: BatchPlan, writer: str | None, reader: str, effective: Effective, *, share: float = 0.5,
    counted: Counted = WHOLE,
) -> tuple[float, float]:
    """The counted parts of a query after another one of a path, or at its beginning: the wait for its batch, and that.

    Parameters
    ----------
    writer, reader : str
        Queries; the writer is None where the path begins.
    share : float, optional
        The part of a wait that counts, as of `PathLimit`.
    counted : Counted, optional
        The counted parts of the path; all of it where nothing is said.
    """
    waits = writer is not None or (counted.waits and reader not in counted.passed)
    return (wait_s(plan, writer, reader, effective, share=share) if waits else 0.0,
            0.0 if reader in counted.passed else plan.costs[reader].duration_s(effective.held_s(reader)))


def latency_s(
    plan: BatchPlan, path: Sequence[str], effective: Effective, *, share: float = 0.5, counted: Counted = WHOLE,
) -> float:
    """The latency that intervals lead to along a path, in seconds: the mean, or by ``share`` a percentile.

    Parameters
    ----------
    share : float, optional
        The part of a wait that counts, as of `PathLimit`.
    """
    steps = zip((None, *path), path, strict=False)
    return sum(sum(step_s(plan, writer, reader, effective, share=share, counted=counted)) for writer, reader in steps)
