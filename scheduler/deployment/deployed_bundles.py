"""The values of a deployment: bundles on slots, what passes between them, and what each of them takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from scheduler.model.checks import FiniteFigures, require_finite
from scheduler.model.fragment import node_of


@dataclass(frozen=True, slots=True)
class PlacedBundle(FiniteFigures):
    """A bundle on a slot, and the CPU that it takes or would take, in cores.

    ``movable``: it may leave its slot. ``node_bound``: it stays on its node, which has its state. ``queue``: the number
    of waiting events. ``behind``: that number grows (``queues.py``).
    """

    id: str
    slot: str
    cores: float
    movable: bool = True
    node_bound: bool = False
    queue: float = 0.0
    behind: bool = False
    team: str = ""


@dataclass(frozen=True)
class Deployment:
    """Bundles by id, all slots by name, and traffic by pair of bundles, in bytes (or events) a second.

    `ValueError` for a bundle on an unknown slot, or for traffic of an unknown bundle.

    ``targets``: the slots that bundles may go to, None for all; other slots count with their load and get no bundles;
    ``team_targets``: those of each team, if teams have slots of their own; ``events``: the traffic in events a second,
    if the traffic itself is in bytes.
    """

    bundles: Mapping[str, PlacedBundle]
    slots: Sequence[str]
    traffic: Mapping[tuple[str, str], float] = field(default_factory=dict)
    targets: frozenset[str] | None = None
    events: Mapping[tuple[str, str], float] = field(default_factory=dict)
    team_targets: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_finite(self)
        slots = frozenset(self.slots)
        for name, bundle in self.bundles.items():
            if bundle.slot not in slots:
                raise ValueError(f"{name} is on {bundle.slot}, which is not among the slots")
        for name in {end for pair in (*self.traffic, *self.events) for end in pair}:
            if name not in self.bundles:
                raise ValueError(f"traffic names {name}, which is not among the bundles")

    @cached_property
    def loads(self) -> Mapping[str, float]:
        """The load of each slot, in cores; more than 1 where it has too much to do."""
        loads = dict.fromkeys(self.slots, 0.0)
        for bundle in self.bundles.values():
            loads[bundle.slot] += bundle.cores
        return loads

    @cached_property
    def queues(self) -> Mapping[str, float]:
        """The growing queues by slot: how many events wait for its bundles for which they become more; only of slots
        that have any."""
        queues: dict[str, float] = defaultdict(float)
        for bundle in self.bundles.values():
            if bundle.behind:
                queues[bundle.slot] += bundle.queue
        return queues

    @cached_property
    def nodes(self) -> Mapping[str, str]:
        """The node of each bundle."""
        return {name: node_of(bundle.slot) for name, bundle in self.bundles.items()}

    @cached_property
    def partners(self) -> Mapping[str, Mapping[str, float]]:
        """The partners of each bundle: what passes between it and each other, in both directions together."""
        partners: dict[str, dict[str, float]] = defaultdict(dict)
        for (source, target), rate in self.traffic.items():
            if source != target:
                partners[source][target] = partners[source].get(target, 0.0) + rate
                partners[target][source] = partners[target].get(source, 0.0) + rate
        return partners

    def by_node(self, bundle: str) -> dict[str, float]:
        """The traffic between a bundle and all bundles of each node."""
        rates: dict[str, float] = defaultdict(float)
        for partner, rate in self.partners.get(bundle, {}).items():
            rates[self.nodes[partner]] += rate
        return rates

    def between_nodes(self, names: Collection[str]) -> float:
        """The traffic between some bundles and those of other nodes, among them too."""
        return sum(rate for (source, target), rate in self.traffic.items()
                   if (source in names or target in names) and self.nodes[source] != self.nodes[target])

    def moving_only(self, names: Collection[str]) -> Deployment:
        """The deployment in which only those of these bundles can move that could."""
        return replace(self, bundles={
            name: bundle if name in names else replace(bundle, movable=False) for name, bundle in self.bundles.items()})

    def by_team(self) -> tuple[Deployment, ...]:
        """Itself; where teams have slots of their own, one for each, in which that team's bundles alone move, and to
        its own slots."""
        return tuple(
            replace(self.moving_only([name for name, bundle in self.bundles.items() if bundle.team == team]),
                    targets=targets, team_targets={})
            for team, targets in sorted(self.team_targets.items())) or (self,)

    def moved(self, names: Iterable[str], slot: str) -> Deployment:
        """The deployment with some bundles in another slot."""
        moved = {name: replace(self.bundles[name], slot=slot) for name in names}
        return replace(self, bundles={**self.bundles, **moved})

    @property
    def share_between_nodes(self) -> float:
        """The part of all traffic that passes between nodes."""
        total = sum(self.traffic.values())
        between = sum(rate for (source, target), rate in self.traffic.items()
                      if self.nodes[source] != self.nodes[target])
        return between / total if total else 0.0

    @property
    def use(self) -> float:
        """The part of all slots' cores that is in use; of a slot that is asked for more, all of it."""
        return sum(min(1.0, load) for load in self.loads.values()) / len(self.slots) if self.slots else 0.0
