"""Goals of a dataflow: how much of what comes is to leave it in time, and what its value may cost.

After Kumbhare, "Adaptive and Resilient Stream Processing on Cloud Infrastructure", 2016, section 4.2: Ω̂, ε, and the
break-even cost at the greatest and the least value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .checks import require_finite

LEAST_THROUGHPUT = 0.05
WIDEST_TOLERANCE = 0.5
MOST_PER_HOUR = 1e6
SHORTEST_H, LONGEST_H = 0.25, 31 * 24.0


@dataclass(frozen=True, slots=True)
class DataflowGoals:
    """The goals of a dataflow.

    Parameters
    ----------
    most_per_hour, least_per_hour : float
        Break-even costs: what may be spent an hour at most, in the currency of the site, for the greatest value that
        the dataflow can have and for the least.
    throughput : float
        Ω̂: the part of what could leave at its outputs that does, from `LEAST_THROUGHPUT` to 1.
    tolerance : float
        ε: within so much of it nothing is changed; less than the throughput.
    hours : float
        The time over which value and cost are weighed, from `SHORTEST_H` to `LONGEST_H`.
    """

    most_per_hour: float
    least_per_hour: float = 0.0
    throughput: float = 0.8
    tolerance: float = 0.05
    hours: float = 12.0

    def __post_init__(self) -> None:
        require_finite(self)
        if not 0 <= self.least_per_hour < self.most_per_hour <= MOST_PER_HOUR:
            raise ValueError("more may be spent for the greatest value than for the least, and not below 0")
        if not LEAST_THROUGHPUT <= self.throughput <= 1:
            raise ValueError(f"throughput is a part from {LEAST_THROUGHPUT:g} to 1, not {self.throughput:g}")
        if not 0 < self.tolerance <= WIDEST_TOLERANCE or self.tolerance >= self.throughput:
            raise ValueError(f"tolerance is above 0, at most {WIDEST_TOLERANCE:g}, and less than throughput")
        if not SHORTEST_H <= self.hours <= LONGEST_H:
            raise ValueError(f"hours are from {SHORTEST_H:g} to {LONGEST_H:g}, not {self.hours:g}")

    @property
    def words(self) -> str:
        """The goals in a few words."""
        return (f"throughput of {self.throughput:g} ± {self.tolerance:g}; at most {self.most_per_hour:g} an hour for "
                f"the greatest value, {self.least_per_hour:g} for the least, over {self.hours:g} hours")


def goals_json(goals: DataflowGoals) -> dict[str, float]:
    """Goals as documents and rows hold them."""
    return asdict(goals)


def goals_in(value: Mapping[str, Any] | None) -> DataflowGoals | None:
    """The goals that a row or a canonical document holds; None where it has none. `ValueError` where they cannot be."""
    return None if value is None else DataflowGoals(**value)
