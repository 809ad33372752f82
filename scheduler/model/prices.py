"""Prices of CPU time, memory and traffic, and how often a query runs a batch and with what CPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .checks import FiniteFigures
from .cost_figures import CostMeter
from .costs import DECLARED, Costs


@dataclass(frozen=True, slots=True)
class VmSize:
    """A size of machine in the catalogue: how many slots it offers, and what it costs for an hour."""

    name: str
    slots: int
    hour: float

    @property
    def slot_hour(self) -> float:
        """A slot for an hour: one core with its share of the machine's memory."""
        return self.hour / self.slots


@dataclass(frozen=True, slots=True)
class Prices(FiniteFigures):
    """Prices in ``currency``; ``trigger_ms`` is the time between two batches of a query. ``open_queries`` is how many
    of what is priced leave their batches open, which ``trigger_ms`` counts as batches that take as much.

    ``core_hour`` is a slot's price where its node has no size in ``sizes``. Memory and traffic have prices of their
    own where a slot's price does not cover them. ``costs`` is the CPU that plans are priced with. ``meters`` holds
    what was seen of what runs, by running task, and ``paces_ms`` how far apart batches are, by fragment.
    """

    core_hour: float = 0.04
    currency: str = "USD"
    trigger_ms: int = 500
    memory_gb_hour: float = 0.0
    traffic_gb: float = 0.0
    spill_gb_hour: float = 0.0  # on disk, for readers that are too slow
    sizes: tuple[tuple[str, VmSize], ...] = ()  # by node
    costs: Costs = DECLARED
    open_queries: int = 0
    meters: Mapping[str, CostMeter] = field(default_factory=dict)
    paces_ms: Mapping[str, int] = field(default_factory=dict)

    def slot_hour(self, node: str) -> float:
        """The price of a slot of this node for an hour."""
        size = dict(self.sizes).get(node)
        return self.core_hour if size is None else size.slot_hour
