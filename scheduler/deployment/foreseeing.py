"""The effects of a move: what its slots have to do, and what passes between nodes by the change of the allocation score
(paper [4], equations 4 and 5), for one bundle or several that go together.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from .deployed_bundles import Deployment
from .online import Thresholds

Load = Literal["high", "normal", "low"]


@dataclass(frozen=True, slots=True)
class SlotChange:
    """The load of a slot now and after a move, in cores, and whether it is high."""

    slot: str
    before: float
    after: float
    load: Load


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The effects of a move.

    Parameters
    ----------
    slots : tuple of SlotChange
        The slots that it leaves, by name, and the one that it goes to, which is the last.
    between_before, between_after : float
        The traffic between its bundles and those of other nodes, now and then, in the unit of the traffic.
    """

    slots: tuple[SlotChange, ...]
    between_before: float
    between_after: float

    @property
    def saved(self) -> float:
        """The additional traffic within nodes after the move: of one bundle, the change of its allocation score.
        Negative where less does."""
        return self.between_before - self.between_after

    @property
    def makes_high(self) -> bool:
        """True if the slot that it goes to has too much to do then."""
        return self.slots[-1].load == "high"


def load_of(cores: float, thresholds: Thresholds) -> Load:
    """The state of a slot with so much load: high, normal or low."""
    return "high" if cores > thresholds.high else "low" if cores < thresholds.low else "normal"


def foresee(deployment: Deployment, bundles: Collection[str], target: str, thresholds: Thresholds) -> Foreseen:
    """The effects of a move of some bundles to a slot."""
    now = replace(deployment, slots=sorted({*deployment.slots, target}))
    then = now.moved(bundles, target)
    former_slots = sorted({now.bundles[name].slot for name in bundles} - {target})
    return Foreseen(
        tuple(SlotChange(slot, now.loads[slot], then.loads[slot], load_of(then.loads[slot], thresholds))
              for slot in (*former_slots, target)),
        now.between_nodes(bundles), then.between_nodes(bundles))
