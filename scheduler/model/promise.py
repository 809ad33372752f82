"""The promise of a schedule: rate, slots, loads, latency and price, known before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from .dataflow import _frozen
from .placement import Bound, ThreadShortage
from .profile import Basis


@dataclass(frozen=True, slots=True)
class Load:
    """Shares of a slot's CPU and memory; None where nothing was measured."""

    cpu: float | None = None
    memory: float | None = None


@dataclass(frozen=True, slots=True)
class BundlePromise:
    """The prediction for one bundle: at the planned rate where that is sustained, else at the rate that is.

    ``sustains_per_s`` is None where its profile is static: one thread does at any rate.
    """

    id: str
    task: str  # of the submitted dataflow
    slot: str
    threads: int
    share: float
    rate_per_s: float
    sustains_per_s: float | None
    cpu: float
    memory: float
    basis: Basis = "measured"


@dataclass(frozen=True, slots=True)
class ProfileUsed:
    """The profile that a task was planned with; ``origin`` is ``declared`` or ``learned`` for a task without one."""

    task: str
    task_type: str
    version: int
    machine: str
    origin: str


@dataclass(frozen=True)
class Promise:
    """The promise of a schedule.

    ``rates_per_s`` are the planned input rates of its tasks, upstream first, a source's being what it makes;
    ``allocated`` is what the allocation planned for each, before it was mapped. Tasks that ran already, for others, are
    not in it.
    """

    rate_per_s: float  # planned, of all sources together
    sustained_per_s: float  # predicted
    latency_s: float  # an estimate
    rates_per_s: Mapping[str, float]
    bundles: tuple[BundlePromise, ...]
    pair: tuple[str, ...] = ()  # names of the allocation and of the mapping
    routing: str = "slot_aware"
    limit: str = ""  # what keeps it from more than it sustains, in words
    extra: int = 0  # slots that the mapping asked for beyond the allocation's
    per_hour: float = 0.0  # price of its slots
    currency: str = ""
    between_nodes_per_s: float = 0.0
    profiles: tuple[ProfileUsed, ...] = field(default=())
    allocated: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # slots' worth of CPU and of memory
    others: Mapping[str, Load] = field(default_factory=dict)  # what others were expected to take of slots, by slot
    latencies_s: Mapping[str, float] = field(default_factory=dict)  # an estimate from the source to the end of a task
    slots_bound: Bound | None = None  # where the mapping knows how few slots may do
    traffic_bound: Bound | None = None  # likewise of events/s between nodes, every thread having its even part
    crowded: Mapping[str, ThreadShortage] = field(default_factory=dict)  # slots with more threads than their driver has

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates_per_s", _frozen(self.rates_per_s))
        object.__setattr__(self, "allocated", _frozen({task: tuple(load) for task, load in self.allocated.items()}))
        object.__setattr__(self, "others", _frozen(self.others))
        object.__setattr__(self, "latencies_s", _frozen(self.latencies_s))
        object.__setattr__(self, "crowded", _frozen(self.crowded))

    @property
    def kept_per_s(self) -> float:
        """The promised rate: the planned or the sustained one, whichever is less."""
        return min(self.rate_per_s, self.sustained_per_s)

    @property
    def slots(self) -> tuple[str, ...]:
        """The slots that it takes, in order of their names."""
        return tuple(sorted(self.on_slots))

    @cached_property
    def on_slots(self) -> Mapping[str, tuple[BundlePromise, ...]]:
        """Its bundles by slot, in their order."""
        by_slot: dict[str, list[BundlePromise]] = {}
        for bundle in self.bundles:
            by_slot.setdefault(bundle.slot, []).append(bundle)
        return {slot: tuple(bundles) for slot, bundles in by_slot.items()}

    def load_of(self, slot: str) -> Load:
        """The expected load of a slot: by its bundles, and by others where they have part of it."""
        taken, others = self.own_load_of(slot), self.others.get(slot, Load())
        return Load((taken.cpu or 0.0) + (others.cpu or 0.0), (taken.memory or 0.0) + (others.memory or 0.0))

    def own_load_of(self, slot: str) -> Load:
        """The expected load of its bundles on a slot."""
        bundles = self.on_slots.get(slot, ())
        return Load(sum(bundle.cpu for bundle in bundles), sum(bundle.memory for bundle in bundles))
