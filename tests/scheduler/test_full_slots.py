"""What a full slot sustains: one rate, whatever was planned; held to a search and to exact solutions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.fragment import Slot
from scheduler.model.placement import Placement
from scheduler.model.profile import Point, Profile
from scheduler.model.resources import TakenShare
from scheduler.performance.prediction import predict

SLACK = 1e-9
THOUSANDTHS = 1000
PEAK_PER_S = 10_000.0  # beyond what any slot here sustains, so that its core is the limit and no bundle


@dataclass(frozen=True)
class FullSlot:
    """Queries of one thread each on one slot, of which others have part."""

    points: tuple[Point, ...]
    rates_per_s: tuple[float, ...]
    others: float

    def factor(self, rates_per_s: Sequence[float] | None = None) -> float:
        """How many times these rates, its own without any, it is predicted to sustain."""
        names = [f"t{number}" for number in range(len(self.points))]
        placement = Placement(
            "by hand", 1, (Slot("n1", 0),), dict.fromkeys(names, (0,)), {0: TakenShare(self.others, 0.0)})
        prediction = predict(
            placement, {name: Profile(name, (point,)) for name, point in zip(names, self.points, strict=True)},
            rates_per_s=dict(zip(names, self.rates_per_s if rates_per_s is None else rates_per_s, strict=True)))
        return prediction.factor if prediction.routed.limit else inf

    def fits(self, factor: float) -> bool:
        """By its definition: whether some level lets every query have what it needs; every one that matters is tried.

        Takes and needs are worked out here from the points anew; which level is the least is not asked.
        """
        loads = [rate * factor / point.rate_per_s for rate, point in zip(self.rates_per_s, self.points, strict=True)]
        if max(loads) > 1 + SLACK:
            return False
        usual, needed = [], []
        for point, load in zip(self.points, loads, strict=True):
            waits = (1 - point.cpu) * load if point.event_cpu is not None and point.often < 1 else 0.0
            events = point.of_events * load
            usual.append(point.often * point.idle_cpu + events)
            fewest = min(0.5, point.often) * point.idle_cpu + events
            needed.append(fewest / (1 - waits) if waits < 1 else inf)
        return any(self._shared(usual, needed, level) for level in {*usual, *needed})

    def _shared(self, usual: Sequence[float], needed: Sequence[float], level: float) -> bool:
        takes = [min(cpu, level) for cpu in usual]
        total = self.others + sum(takes)
        return total <= 1 + SLACK and all(
            need <= level + SLACK and total - takes_now + need <= 1 + SLACK
            for takes_now, need in zip(takes, needed, strict=True))


def thousandths(low: int, high: int) -> st.SearchStrategy[float]:
    return st.integers(low, high).map(lambda number: number / THOUSANDTHS)


@st.composite
def points(draw: st.DrawFn, *, waiting: bool = True, peak_per_s: float | None = None) -> Point:
    """One thread whose batches take something at any rate; at its peak it runs all of them, or waits and runs fewer."""
    rate = draw(st.integers(1, 400)) if peak_per_s is None else peak_per_s
    idle = draw(st.integers(0, 700))
    events = draw(st.integers(1, 1000 - idle))
    often = draw(st.integers(100, 1000)) if waiting and idle else THOUSANDTHS
    cpu = Fraction(events, THOUSANDTHS) + Fraction(often * idle, THOUSANDTHS**2)
    return Point(1, rate, float(cpu), 0.0, idle_cpu=idle / THOUSANDTHS, event_cpu=events / THOUSANDTHS)


@st.composite
def full_slots(draw: st.DrawFn) -> FullSlot:
    """Up to five queries at rates up to their peaks."""
    of = tuple(draw(st.lists(points(), min_size=1, max_size=5)))
    rates = tuple(point.rate_per_s * draw(thousandths(20, 1000)) for point in of)
    return FullSlot(of, rates, draw(st.sampled_from([0.0, 0.0, 0.25, 0.6])))


def holds_what_is_promised(slot: FullSlot, scale: float, shares: Sequence[float]) -> None:
    """One rate is sustained: all below it, none above, whatever was planned; and less is never more than is held."""
    factor = slot.factor()
    # The rate: found by looking at every hundredth up to twice of it, fitting turns into not fitting once, just there.
    fitting = [slot.fits(factor * step / 100) for step in range(1, 201)]
    assert fitting == sorted(fitting, reverse=True), "the rates that fit have a gap"
    assert slot.fits(factor * (1 - 1e-6)) if factor else not slot.fits(1e-6)
    assert not slot.fits(factor * (1 + 1e-5) + 1e-6)
    # It does not depend on what was planned: the same streams at other rates, in the same proportion.
    assert slot.factor([scale * rate for rate in slot.rates_per_s]) == pytest.approx(factor / scale, rel=1e-9, abs=1e-9)
    # What sustains a load sustains less of any of its streams.
    sustained = [factor * rate for rate in slot.rates_per_s]
    less = [share * rate for share, rate in zip(shares, sustained, strict=False)]
    if any(less):
        assert slot.factor(less) >= 1 - 1e-9
    for number in range(len(sustained)) if factor else ():
        fuller = [rate * (1.2 if place == number else 1.0) for place, rate in enumerate(sustained)]
        assert slot.factor(fuller) <= 1 + 1e-9


SHARES = st.lists(st.sampled_from([0.0, 0.3, 0.9, 1.0]), min_size=5, max_size=5)


@settings(max_examples=80)
@given(full_slots(), thousandths(50, 5000), SHARES)
def test_a_full_slot_sustains_one_rate(slot: FullSlot, scale: float, shares: list[float]) -> None:
    holds_what_is_promised(slot, scale, shares)


@pytest.mark.long
@settings(max_examples=6_000)
@given(full_slots(), thousandths(50, 5000), SHARES)
def test_a_full_slot_sustains_one_rate_in_many_cases(slot: FullSlot, scale: float, shares: list[float]) -> None:
    holds_what_is_promised(slot, scale, shares)


# In exact fractions -----------------------------------------------------------------------------------------------


def solutions(slot: FullSlot) -> Iterator[Fraction]:
    """Every factor at which the slot is just full, where nothing waits: by which query is neediest, and which take no
    more than that. Each choice makes the core's use a line; a solution counts where it agrees with its choice."""
    def exactly(value: float) -> Fraction:
        return Fraction(round(value * 10**9), 10**9)

    idle = [exactly(point.idle_cpu) for point in slot.points]
    events = [exactly(point.of_events) * Fraction(rate) / Fraction(point.rate_per_s)
              for point, rate in zip(slot.points, slot.rates_per_s, strict=True)]
    count, others = len(idle), exactly(slot.others)
    for neediest in range(count):
        for size in range(count + 1):
            for slowed in map(set, combinations(range(count), size)):
                free = set(range(count)) - slowed
                fixed = others + sum(idle[at] for at in free) + size * idle[neediest] / 2
                moving = sum(events[at] for at in free) + size * events[neediest]
                factor = (1 - fixed) / moving
                level = idle[neediest] / 2 + events[neediest] * factor
                takes = [idle[at] + events[at] * factor for at in range(count)]
                if factor >= 0 and all(idle[at] / 2 + events[at] * factor <= level for at in range(count)) and all(
                        takes[at] >= level if at in slowed else takes[at] <= level for at in range(count)):
                    yield factor


@st.composite
def full_slots_that_wait_for_nothing(draw: st.DrawFn) -> FullSlot:
    of = tuple(draw(st.lists(points(waiting=False, peak_per_s=PEAK_PER_S), min_size=1, max_size=4)))
    rates = tuple(float(draw(st.integers(1, 100))) for _ in of)
    return FullSlot(of, rates, draw(st.sampled_from([0.0, 0.25])))


def is_the_only_exact_solution(slot: FullSlot) -> None:
    exact = set(solutions(slot))
    assert len(exact) <= 1, f"{slot} is just full at several rates"
    bundles = min(PEAK_PER_S / rate for rate in slot.rates_per_s)  # none does more than its peak
    assert slot.factor() == pytest.approx(min(float(next(iter(exact), Fraction(0))), bundles), rel=1e-9, abs=1e-9)


@settings(max_examples=80)
@given(full_slots_that_wait_for_nothing())
def test_it_is_the_only_solution_of_all_choices(slot: FullSlot) -> None:
    is_the_only_exact_solution(slot)


@pytest.mark.long
@settings(max_examples=5_000)
@given(full_slots_that_wait_for_nothing())
def test_it_is_the_only_solution_of_all_choices_in_many_cases(slot: FullSlot) -> None:
    is_the_only_exact_solution(slot)


def test_where_events_take_no_cpu_every_rate_is_sustained_or_none() -> None:
    """The one case in which no rate is the last one: a query whose batches are all that it takes."""
    still = Point(1, 100, 0.4, 0.0, idle_cpu=0.4, event_cpu=0.0)
    assert FullSlot((still, still), (50.0, 50.0), 0.0).factor() == pytest.approx(2.0), "up to the bundles' peaks"
    assert FullSlot((still,) * 6, (50.0,) * 6, 0.0).factor() == 0.0
