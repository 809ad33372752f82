"""Keys that are spread unevenly: a bundle has too much to do, and another cut of the ring would give it less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.key_division import fullest, ring_cut
from scheduler.model.checks import FiniteFigures
from scheduler.model.fragment import RunningBundle
from scheduler.model.key_loads import NEAR, DividedKeys, KeyLoads, KeyRanges
from scheduler.model.ring import KEY_GROUPS, KeyRange


@dataclass(frozen=True, slots=True)
class KeyedLoad:
    """The load of a bundle: events that wait for it, and CPU as a share of its slot."""

    queue: float
    cpu: float


@dataclass(frozen=True, slots=True)
class LoadThresholds:
    """The thresholds of an overloaded bundle: events that wait for it, and CPU as a share of its slot (τ of the thesis
    [3], 6.5)."""

    queue_high: float = 1_000.0
    cpu_high: float = 0.85

    def is_high(self, load: KeyedLoad) -> bool:
        """True if a bundle is overloaded."""
        return load.queue >= self.queue_high and load.cpu >= self.cpu_high


@dataclass(frozen=True, slots=True)
class UnevenKeys(FiniteFigures):
    """A task whose fullest bundle has too much to do, and of which another cut gives it less.

    Parameters
    ----------
    load : KeyedLoad
        Its events that wait and its CPU.
    events, wanted, then : float
        The part of the task's events that it has, what it was planned with, and what a bundle with that plan has at
        most by the other cut.
    cut, other_cut : str
        Parts of the ring that the bundles have, now and then.
    """

    task: str
    bundle: str
    load: KeyedLoad
    events: float
    wanted: float
    then: float
    cut: str
    other_cut: str


def uneven_keys(
    task: str, bundles: Sequence[RunningBundle], loads: KeyLoads, working: Mapping[str, KeyedLoad],
) -> UnevenKeys | None:
    """A task that a schedule for the present rate would help because it cuts the ring anew; None where it would not.

    Parameters
    ----------
    bundles : sequence of RunningBundle
        Those of the task, which have ranges; none leaves, and no keys are changing hands.
    working : mapping of str to KeyedLoad
        The load of each bundle, by id, where that is known.
    """
    if len(bundles) < 2:
        return None
    shares = {index: bundle.weight for index, bundle in enumerate(bundles)}
    ranges_now = {index: bundle.key_ranges for index, bundle in enumerate(bundles)}
    slots = {index: bundle.slot for index, bundle in enumerate(bundles)}
    has = {index: sum(loads.share(KeyRange(first, size, "")) for first, size in ranges)
           for index, ranges in ranges_now.items()}
    full = max(shares, key=lambda index: has[index] / shares[index])
    load = working.get(bundles[full].id)
    if load is None or not LoadThresholds().is_high(load):
        return None
    is_by_slot = len({*slots.values()}) == len(slots)
    anew = ring_cut(shares, slots, DividedKeys(
        loads, {slots[index]: ranges for index, ranges in ranges_now.items()} if is_by_slot else {}))
    most = fullest(anew, shares, loads)
    if has[full] <= (1 + NEAR) * most * shares[full]:
        return None
    return UnevenKeys(
        task, bundles[full].id, load, has[full], shares[full], most * shares[full],
        _in_words(ranges_now), _in_words(anew))


def _in_words(ranges: Mapping[int, KeyRanges]) -> str:
    """Parts of the ring, in the order in which they lie on it."""
    every = sorted(key_range for parts in ranges.values() for key_range in parts)
    return " + ".join(f"{100 * size / KEY_GROUPS:.2f}%" for _, size in every)
