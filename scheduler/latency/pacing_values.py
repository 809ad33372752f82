"""Inputs and results of pacing: queries with what batches cost, limits on ways, intervals and latencies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.model.checks import FiniteFigures, require_finite

from .triggers import LARGEST_S, SMALLEST_S, BatchCost, require_lasting
from .ways import Way


@dataclass(frozen=True, slots=True)
class LimitOnWay(FiniteFigures):
    """One limit on one way. ``key`` names it; ``other_s`` is the latency that was measured beyond what is modelled;
    ``team`` has the dataflow."""

    key: str
    way: Way
    limit_s: float
    share: float = 0.5
    other_s: float = 0.0
    team: str = ""


@dataclass(frozen=True, slots=True)
class Queries:
    """The known facts of the queries that run: what batches cost, who reads whom, intervals in force, and slots.

    ``before_s`` holds the intervals that queries have now. A slot of ``capacity`` has so many cores for them.
    ``bounds_s`` are the longest intervals of queries that may not have ``largest_s``; ``blocks_s`` says how far apart
    blocks of a query come, where that is not its interval.
    """

    costs: Mapping[str, BatchCost]
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    before_s: Mapping[str, float] = field(default_factory=dict)
    slot_of: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, float] = field(default_factory=dict)
    largest_s: float = LARGEST_S
    smallest_s: float = SMALLEST_S
    bounds_s: Mapping[str, float] = field(default_factory=dict)
    blocks_s: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_finite(self)
        require_lasting(self.largest_s, self.smallest_s, self.bounds_s)


@dataclass(frozen=True, slots=True)
class Expected:
    """The latency of a limit: that along its slowest path. ``least_s`` is given where the limit cannot be met.

    ``parts_s`` says by query what its events wait for a batch, and what the batch takes. ``full`` are the slots of the
    way for want of whose CPU the limit is not met: ``least_s`` is then what that CPU allows beside all other limits.
    """

    key: str
    latency_s: float
    path: tuple[str, ...]
    parts_s: tuple[tuple[float, float], ...]
    least_s: float | None = None
    full: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pacing:
    """The intervals of all queries in seconds, what CPU they take in cores, and the latency of each limit, by key."""

    interval_s: Mapping[str, float]
    cores: float
    expected: Mapping[str, Expected]
    full: tuple[str, ...] = ()  # slots for want of whose CPU a limit is not met
    too_slow: tuple[str, ...] = ()  # queries whose events alone are too many for any interval
