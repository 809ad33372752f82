"""Bundles as adaptation adds and takes them: another rate for the schedule that a dataflow runs by.

A schedule gives each task threads and slots for a rate, from measured profiles (``scheduler.scheduling``). So cores
that tasks have too few or too many of are said as that rate, and the plan is that of any other schedule. Between a
schedule and a switch goes what brings more profit, as in PLAStiCC (Kumbhare 2016, Algorithm 5).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from scheduler.adaptation.shared_slots import AdaptationAnswer
from scheduler.elasticity.uneven_keys import UnevenKeys
from scheduler.model.checks import FiniteFigures
from scheduler.model.dataflow_goals import DataflowGoals
from scheduler.model.figure_words import in_digits

PREFERRED = (1.0, 1.25, 1.6, 2.0, 2.5, 3.15, 4.0, 5.0, 6.3, 8.0)  # Renard series R10 (ISO 3)
MARGIN = 1.2  # a schedule is asked for so many times what comes
FULL = 0.85  # of what a schedule holds, more than 1 / MARGIN: with less to do more bundles would not help
LESS = 1.8  # with so many times what comes it holds more than is needed; far above MARGIN, so that nothing swings
SAVES = 0.1  # of the price: what fewer bundles have to save
LEAST_PER_S = 1.0  # nothing is scheduled for less


@dataclass(frozen=True, slots=True)
class BundleOffer(FiniteFigures):
    """A schedule in the figures that adaptation compares.

    Parameters
    ----------
    pair : tuple of str
        Its allocation and its mapping.
    source_per_s : float, optional
        The common rate of all sources that it is for; None where each has its own.
    sustained_per_s : float
        The predicted rate of all sources together, in events/s.
    slots, to_buy : int
        Slots that it takes, and how many of them would have to be bought.
    per_hour : float
        The hourly price of its slots, in the unit of the machines' prices.
    """

    pair: tuple[str, ...]
    routing: str
    source_per_s: float | None
    sustained_per_s: float
    slots: int
    per_hour: float
    to_buy: int = 0

    @property
    def rate_text(self) -> str:
        """The rate as what changes."""
        return "own" if self.source_per_s is None else f"{self.source_per_s:g}"

    @property
    def words(self) -> str:
        """Its purpose and its cost, in words."""
        rate = "each source's own rate" if self.source_per_s is None else f"{self.source_per_s:g} events/s a source"
        return f"a schedule for {rate}, on {'a slot' if self.slots == 1 else f'{self.slots} slots'}"


@dataclass(frozen=True, slots=True)
class OfferedBundles(FiniteFigures):
    """The schedule that a dataflow runs by, the one that it would run by at the load of now, and why there is no other.

    ``load_per_s`` is what a schedule has to hold: all sources together, each with what the busiest makes. ``uneven``
    are tasks, by name, whose ring the schedule of now would cut anew if it were planned again.
    """

    now: BundleOffer
    load_per_s: float
    other: BundleOffer | None = None
    why_none: str = ""
    uneven: Mapping[str, UnevenKeys] = field(default_factory=dict)


def preferred_rate(rate_per_s: float) -> float:
    """The least preferred number that is not below a rate: so a load that moves a little asks for the same schedule.

    Examples
    --------
    >>> preferred_rate(101.0), preferred_rate(125.0), preferred_rate(0.03)
    (125.0, 125.0, 0.0315)
    """
    power = math.floor(math.log10(rate_per_s))
    steps = (float(f"{step * 10.0 ** exponent:.6g}") for exponent in (power, power + 1) for step in PREFERRED)
    return next(step for step in steps if step >= rate_per_s * (1 - 1e-9))


def other_rate(now: BundleOffer, load_per_s: float, *, sources: int) -> float | None:
    """The rate of each source that another schedule would be for; None where the one that there is fits."""
    needed_per_s = MARGIN * load_per_s
    if load_per_s >= FULL * now.sustained_per_s:
        needed_per_s = max(needed_per_s, 1.01 * now.sustained_per_s)
    elif LESS * load_per_s > now.sustained_per_s:
        return None
    return preferred_rate(max(LEAST_PER_S, needed_per_s / sources))


def choose_bundles(
    offered: OfferedBundles, answer: AdaptationAnswer, goals: DataflowGoals, *, value_per_hour: float
) -> tuple[BundleOffer | None, str]:
    """The schedule to propose, if any, and the reason for it or for none; no reason if schedules do not matter here.

    Parameters
    ----------
    answer : AdaptationAnswer
        The effect of switches of alternates.
    value_per_hour : float
        σ: the value that a unit of money an hour has to bring (4.9).
    """
    now, other_bundles, throughput = offered.now, offered.other, answer.now.throughput
    if abs(throughput - goals.throughput) < goals.tolerance:
        return None, ""
    is_short = throughput < goals.throughput
    if is_short and offered.load_per_s < FULL * now.sustained_per_s:
        return None, (f"Its schedule should sustain {in_digits(now.sustained_per_s)} events/s, and "
                      f"{in_digits(offered.load_per_s)} arrive: more bundles would not help.")
    if other_bundles is None:
        return None, offered.why_none
    if is_short != (other_bundles.sustained_per_s > now.sustained_per_s):
        return None, ""
    more_by_switch = answer.chosen.value - answer.now.value
    if not is_short:
        saved = now.per_hour - other_bundles.per_hour
        if saved <= SAVES * now.per_hour:
            return None, ""
        if answer.switches and more_by_switch >= value_per_hour * saved:
            return None, ""
        times = now.sustained_per_s / max(offered.load_per_s, LEAST_PER_S)
        return other_bundles, f"Its schedule sustains {times:.2g} times what arrives."
    if other_bundles.to_buy:
        return None, f"{other_bundles.words.capitalize()} needs {other_bundles.to_buy} more than there are."
    if other_bundles.per_hour > goals.most_per_hour:
        return None, (f"For {other_bundles.words}, an hour costs {in_digits(other_bundles.per_hour)}, and goals pay "
                      f"{in_digits(goals.most_per_hour)}.")
    dearer = value_per_hour * (other_bundles.per_hour - now.per_hour)
    if answer.switches and answer.chosen.throughput >= goals.throughput and more_by_switch >= -dearer:
        return None, f"More bundles would bring less profit: {other_bundles.words}."
    return other_bundles, "Throughput is below its goal, and its schedule is too small."


def bundle_rows(
    offered: OfferedBundles, answer: AdaptationAnswer, *, value_per_hour: float
) -> Iterator[dict[str, object]]:
    """The schedule of now and the other as choices that were looked at, at the price of their slots."""
    for offer in (offered.now, offered.other):
        if offer is not None:
            yield {
                "schedule": offer.words, "value": round(answer.now.value, 6), "throughput": round(
                    min(1.0, offer.sustained_per_s / max(offered.load_per_s, LEAST_PER_S)), 6),
                "cores": offer.slots, "per_hour": round(offer.per_hour, 6), "profit": round(
                    answer.now.profit - value_per_hour * (offer.per_hour - answer.now.per_hour), 6)}
