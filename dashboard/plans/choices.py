"""The schedule that somebody asks for: a pair, a rate and a routing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from scheduler.model.errors import InvalidResources, WeirError
from scheduler.pairs import PAIRS, Pair
from scheduler.performance.routing import Routing

LEAST_RATE_PER_S, MOST_RATE_PER_S = 1e-6, 1e12  # one event in eleven days; what no estate reads


class InvalidChoice(WeirError):
    """The pair of allocation and mapping, or the routing, does not exist."""

    code = "invalid_choice"


@dataclass(frozen=True)
class ScheduleChoice:
    """The schedule that somebody asks for; without a rate each source has its own."""

    pair: Pair
    rate_per_s: float | None = None
    routing: Routing = "slot_aware"

    @classmethod
    def of(cls, *, pair: Sequence[str], rate_per_s: float | None = None, routing: str = "slot_aware") -> ScheduleChoice:
        """The choice that these words make; ``InvalidChoice`` or ``InvalidResources`` where they make none."""
        if tuple(pair) not in PAIRS:
            pairs = ", ".join(map("/".join, PAIRS))
            raise InvalidChoice(f"{'/'.join(pair)} is no pair.", remedy=f"Choose one of {pairs}.", pair=list(pair))
        if rate_per_s is not None and not LEAST_RATE_PER_S <= rate_per_s <= MOST_RATE_PER_S:
            raise InvalidResources(
                f"{rate_per_s:g} events/s are no rate.",
                remedy=f"Give a rate from {LEAST_RATE_PER_S:f} to {MOST_RATE_PER_S:g}.", rate_per_s=str(rate_per_s))
        if routing not in get_args(Routing):
            raise InvalidChoice(
                f"{routing!r} is no routing.", remedy="Choose shuffle or slot_aware.", routing=routing)
        return cls((pair[0], pair[1]), rate_per_s, routing)

    def as_option(self) -> dict[str, Any]:
        """The choice as a plan's record keeps it."""
        return {"pair": list(self.pair), "rate_per_s": self.rate_per_s, "routing": self.routing}
