"""One round of online task deployment (OTD, paper [4], algorithms 1 and 2): a move, a warning, or nothing; and why.

Slots are high, low or normal by their load. Where some are high and some low, a bundle leaves the hottest slot that it
can leave (load balancing). Where some are high and none is low, CPU is lacking. Where none is high and some are low, a
bundle moves nearer to what it exchanges most with (communication optimisation), if that is worth it. Else nothing
moves.

Beyond the paper:

- The paper collects queue lengths and does not use them. Here a slot is also high where queues grow though its CPU is
  below the bound, unless it has so little to do that another slot would not help.
- Only slots that a bundle may go to are low. No move makes a slot high, and a balancing move leaves its target below
  the former load of its source.
- Where traffic decides, bundles move together where that is worth more, or where no bundle is worth a move alone
  (``joint_moves.py``). On average each move in it brings as much as a single move has to.

So rounds end where loads stay: balancing ends as soon as no slot is high, and each later round lowers the traffic
between nodes. Where loads change, a moved bundle rests for some rounds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from scheduler.model.checks import require_finite
from scheduler.model.fragment import node_of

from .deployed_bundles import Deployment, PlacedBundle
from .joint_moves import Groups, Search

Case = Literal["balance", "lacking", "communication", "settled"]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds of a slot, in cores; how much less its target must have after a balancing move; and ASC above
    which traffic is worth a move, in the unit of the traffic."""

    high: float = 0.85
    low: float = 0.6
    margin: float = 0.05
    score_change: float = 0.0

    def __post_init__(self) -> None:
        require_finite(self)
        if not 0 <= self.low < self.high:
            raise ValueError(f"a slot is low below {self.low:g} and high above {self.high:g}: none is normal then")
        if self.margin < 0 or self.score_change < 0:
            raise ValueError("a margin and a threshold are not below 0")


@dataclass(frozen=True, slots=True)
class Move:
    """Bundles that go to another slot together. ``gain``: the additional traffic within nodes; of one bundle the change
    of its allocation score."""

    bundles: tuple[str, ...]
    target: str
    gain: float


@dataclass(frozen=True, slots=True)
class DeploymentRound:
    """The result of a round. ``lacking`` is how many cores the slots lack, where more slots would do."""

    case: Case
    why: str
    move: Move | None = None
    lacking: float = 0.0


def decide(
    deployment: Deployment, thresholds: Thresholds, *, resting: Collection[str] = (), groups: Groups | None = None
) -> DeploymentRound:
    """One round.

    Parameters
    ----------
    thresholds : Thresholds
        The thresholds of high and low slots, and the least gain of a move.
    groups : mapping of str to collection of str, optional
        By bundle the groups that it is in: bundles that go together are in one. Without it any may.
    """
    loads = deployment.loads
    high = [slot for slot in deployment.slots if _is_high(deployment, slot, thresholds)]
    low = [slot for slot in deployment.slots if loads[slot] < thresholds.low and slot not in deployment.queues and (
        deployment.targets is None or slot in deployment.targets)]
    coolest = _coolest(deployment, low)
    if high and low:
        hottest_first = sorted(high, key=lambda slot: (loads[slot], slot), reverse=True)
        for slot in hottest_first:
            move = _best(deployment, _on(deployment, slot), coolest, thresholds, resting, balances=True)
            if move is not None:
                return DeploymentRound("balance", f"{_asked_for(deployment, slot, move)}.", move)
        return _stuck(deployment, hottest_first, thresholds, resting)
    if high:
        lacking = sum(max(0.0, loads[slot] - thresholds.high) for slot in high)
        return DeploymentRound(
            "lacking", f"{len(high)} slots have too much to do, and no slot has room.", lacking=lacking)
    if low:
        move = _nearer(deployment, coolest, thresholds, resting, groups)
        if move is not None:
            exchanges = "What it exchanges" if len(move.bundles) == 1 else "What they exchange"
            return DeploymentRound("communication", f"{exchanges} most with is on another node.", move)
        return DeploymentRound(
            "settled", "No slot has too much to do, and no move saves enough of the traffic between nodes.")
    return DeploymentRound("settled", "No slot that a query may go to has too much or too little to do.")


def _on(deployment: Deployment, slot: str) -> list[PlacedBundle]:
    return [bundle for bundle in deployment.bundles.values() if bundle.slot == slot]


def _stuck(
    deployment: Deployment, hottest_first: Sequence[str], thresholds: Thresholds, resting: Collection[str]
) -> DeploymentRound:
    """Slots have too much to do and others have room, and nothing can go from the ones to the others: why that is, of
    the hottest, and what empty slots would have to take."""
    most, lacking, reasons = thresholds.high - thresholds.margin, 0.0, []
    for slot in hottest_first:
        may_go = [bundle for bundle in _on(deployment, slot)
                  if bundle.movable and bundle.cores > 0 and bundle.id not in resting]
        large = max(may_go, key=lambda bundle: (bundle.cores, bundle.id), default=None)
        if any(bundle.cores <= most for bundle in may_go):
            lacking += max(0.0, deployment.loads[slot] - thresholds.high)
            reasons.append("no slot has as much room as they take")
        elif large is not None:
            reasons.append(f"{large.id} alone takes {large.cores:.2f} cores, more than a slot should have")
        else:
            reasons.append("none of them may move now")
    reason = _asked_for(deployment, hottest_first[0], None)
    others = f" {len(hottest_first) - 1} more have too much to do as well." if len(hottest_first) > 1 else ""
    return DeploymentRound(
        "balance", f"{reason}, and none of its bundles can go to a slot with room: {reasons[0]}.{others}",
        lacking=lacking)


def _is_high(deployment: Deployment, slot: str, thresholds: Thresholds) -> bool:
    """True if a slot is asked for too much, or its queues grow and it has something to do."""
    load = deployment.loads[slot]
    return load > thresholds.high or (slot in deployment.queues and load >= thresholds.low)


def _asked_for(deployment: Deployment, slot: str, move: Move | None) -> str:
    """The load of a slot in words; and if ever more events wait there, how many, those of the moving bundle if it is
    one."""
    demand = f"{slot} needs {deployment.loads[slot]:.2f} cores"
    waiting = deployment.queues.get(slot, 0.0)
    if not waiting:
        return demand
    first = deployment.bundles[move.bundles[0]] if move is not None else None
    if first is not None and first.behind:
        return f"{demand}, and {first.queue:,.0f} events wait for {first.id}, more and more"
    return f"{demand}, and {waiting:,.0f} events wait there, more and more"


def lacking_in_words(lacking: float, thresholds: Thresholds, *, slot_price: float, currency: str) -> str:
    """The cores that slots lack and the slots and price that would do, in a sentence; empty where they lack none.

    Parameters
    ----------
    lacking : float
        Cores, as `DeploymentRound` has them.
    slot_price : float
        Of one more slot, an hour; 0 where that is not known.
    currency : str
        Of the price.
    """
    if lacking <= 0:
        return ""
    slots = math.ceil(lacking / thresholds.high)
    cost = slots * slot_price
    price = f", at {cost:.2f} {currency} an hour," if cost else ""
    return (f"{lacking:.2g} cores are lacking: {slots} more slot{'s' if slots > 1 else ''}{price} would be enough.")


def _nearer(
    deployment: Deployment, coolest: Mapping[str, str], thresholds: Thresholds, resting: Collection[str],
    groups: Groups | None,
) -> Move | None:
    """The best move of one bundle, with those that are worth taking along; else the best joint move."""
    bundles = deployment.bundles
    alone = _best(deployment, bundles.values(), coolest, thresholds, resting, balances=False)
    search = Search(
        deployment, least=thresholds.score_change, most_cores=thresholds.high - thresholds.margin, groups=groups,
        may_go=lambda name: bundles[name].movable and not bundles[name].node_bound and name not in resting)
    if alone is not None and alone.gain > thresholds.score_change:
        joint = search.with_company(alone.bundles[0], alone.target)
    else:
        joint = search.from_ties(coolest)
    return None if joint is None else Move(joint.bundles, joint.target, joint.gain)


def _coolest(deployment: Deployment, low: Iterable[str]) -> dict[str, str]:
    """The coolest slots by node: its slot of lowest load, of those that are low."""
    coolest: dict[str, str] = {}
    for slot in low:
        node = node_of(slot)
        if node not in coolest or (deployment.loads[slot], slot) < (deployment.loads[coolest[node]], coolest[node]):
            coolest[node] = slot
    return coolest


def _best(
    deployment: Deployment, bundles: Iterable[PlacedBundle], coolest: dict[str, str], thresholds: Thresholds,
    resting: Collection[str], *, balances: bool,
) -> Move | None:
    """The move of the greatest change of allocation score; of equal ones that of the longest queue that grows, of most
    CPU, to the slot that has least to do, then by name.

    For a bundle only nodes that it exchanges something with differ: of all others the coolest stands for them.
    """
    loads = deployment.loads
    by_load = sorted(coolest.values(), key=lambda slot: (loads[slot], slot))
    best: tuple[float, float, float, float, str, str] | None = None
    for bundle in bundles:
        if not bundle.movable or bundle.id in resting or (balances and bundle.cores <= 0):
            continue
        by_node = deployment.by_node(bundle.id)
        own_node = deployment.nodes[bundle.id]
        within_node = by_node.get(own_node, 0.0)
        targets = [coolest[node] for node in (*by_node, own_node) if node in coolest]
        if bundle.node_bound:
            targets = [slot for slot in targets if node_of(slot) == own_node]
        elif balances:
            targets += by_load[: len(by_node) + 2]  # one of them is of a node that it exchanges nothing with
        for slot in targets:
            if slot == bundle.slot or not _has_room(loads, bundle, slot, thresholds, balances=balances):
                continue
            gain = by_node.get(node_of(slot), 0.0) - within_node
            key = (gain, bundle.queue if bundle.behind else 0.0, bundle.cores, -loads[slot], bundle.id, slot)
            if best is None or key > best:
                best = key
    if best is None:
        return None
    gain, *_, name, slot = best
    return Move((name,), slot, gain)


def _has_room(
    loads: Mapping[str, float], bundle: PlacedBundle, slot: str, thresholds: Thresholds, *, balances: bool
) -> bool:
    """True if a slot stays below high with a bundle; and, to balance, below what the bundle's slot had before."""
    after = loads[slot] + bundle.cores
    if balances and after > loads[bundle.slot] - thresholds.margin:
        return False
    return after <= thresholds.high - thresholds.margin
