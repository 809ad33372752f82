"""A played world of keyed bundles on a ring: skewed keys, a rate that rises and falls, machines and zones that die.

Time goes on by seconds. A bundle sustains so many events a second; what it does not get done waits. Each second
`balance_ring` decides by what was measured, as a controller would. A token moves to a neighbour at once, for that has a
copy; a bundle that is added first gets the state of its range, which takes as long as that has bytes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from scheduler.elasticity.copies import BundleHome, survival
from scheduler.elasticity.uneven_keys import KeyedLoad
from scheduler.model.ring import KEY_GROUPS

from .elastic_ring import ElasticRing
from .ring_balancing import BalanceThresholds, RingChange, balance_ring
from .ring_holders import holders
from .ring_takeover import found_by, inherit, zones_in_turn

SUSTAINS_PER_S = 1_000.0  # events, by one bundle
RESTS_S = 5  # after a change
STATE_MB = 4.0  # of a bundle that has its even part of the keys
LINK_MB_PER_S = 1.0
SETTLED_S = 60  # at the end, in which balance is looked at


@dataclass(frozen=True, slots=True)
class WorldOf:
    """What is played: bundles at first, fault zones, keys and how skewed they are, and how the rate rises."""

    bundles: int
    zones: int = 3
    keys: int = 200_000
    skew: float = 0.8  # exponent of Zipf's law
    factor: float = 2.0  # 1: the rate stays, and other keys become the frequent ones
    seconds: int = 300
    by_load: bool = True  # whether ranges are cut by measured load, or in the middle


@dataclass
class Course:
    """What happened, in the order of the seconds; keys that moved and ranges that a change leaves, change by change."""

    spread: list[float] = field(default_factory=list)  # the largest rate of a bundle by the mean; without single keys
    bundles: list[int] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)  # the most events that wait for one bundle; without single keys
    moved: list[float] = field(default_factory=list)  # of all keys, by the even part of a bundle
    kinds: dict[str, int] = field(default_factory=dict)
    messages: int = 0
    hot: set[int] = field(default_factory=set)


class RingWorld:
    """One world; chance is of a seed."""

    def __init__(self, of: WorldOf, *, seed: int) -> None:
        self.of, self._chance = of, random.Random(seed)
        generator = np.random.default_rng(seed)
        groups = generator.integers(0, KEY_GROUPS, of.keys)  # what a good hash makes of keys
        weights = 1.0 / np.arange(1, of.keys + 1) ** of.skew
        self._keys = np.bincount(groups, minlength=KEY_GROUPS)
        first = np.bincount(groups, weights / weights.sum(), KEY_GROUPS)
        # A third of the ring has three times as much as before, of all.
        shifted = first * np.where(np.arange(KEY_GROUPS) < KEY_GROUPS // 3, 3.0, 1.0)
        self._by_phase = (first, first if of.factor != 1 else shifted / shifted.sum())
        self._names = (f"new-{number}" for number in range(1_000_000))
        self.homes = {f"old-{n}": BundleHome(f"m{n}", f"z{n % of.zones}") for n in range(of.bundles)}
        self.ring = ElasticRing.even(["key"], zones_in_turn(self.homes))
        self._spare = [BundleHome(f"s{n}", f"z{n % of.zones}") for n in range(4 * of.bundles)]
        self._queues: dict[str, float] = {}
        self._rests_until: dict[str, int] = {}
        self._changes_to_come: list[tuple[int, RingChange]] = []

    def by_group(self, now: int) -> np.ndarray:
        """Events/s of each key group."""
        is_high = 60 <= now < self.of.seconds - 2 * SETTLED_S
        usual = 0.6 * SUSTAINS_PER_S * self.of.bundles
        return self._by_phase[is_high] * (usual * self.of.factor if is_high else usual)

    def rates(self, now: int) -> dict[str, float]:
        """Events/s of each bundle."""
        names = self.ring.served
        index = {name: place for place, name in enumerate(names)}
        owners = np.zeros(KEY_GROUPS, dtype=np.int64)
        for piece in self.ring.ranges:
            last = piece.token + piece.size
            owners[piece.token:min(last, KEY_GROUPS)] = index[piece.bundle]
            owners[:max(0, last - KEY_GROUPS)] = index[piece.bundle]
        return dict(zip(names, np.bincount(owners, self.by_group(now), len(names)).tolist(), strict=True))

    def play(self) -> Course:
        """The rate rises after a minute, stays, and falls back a minute before the last two."""
        course = Course()
        for now in range(self.of.seconds):
            self._arrive(now)
            rates = self.rates(now)
            loads = {}
            for name, rate in rates.items():
                waiting = max(0.0, self._queues.get(name, 0.0) + rate - SUSTAINS_PER_S)
                self._queues[name] = waiting
                loads[name] = KeyedLoad(waiting, 1.0 if waiting else rate / SUSTAINS_PER_S)
            alone = {piece.bundle for piece in self.ring.ranges if piece.size == 1}  # one key: no ring makes that less
            others = {name: rate for name, rate in rates.items() if name not in alone} or rates
            course.spread.append(max(others.values()) / (sum(others.values()) / len(others)))
            course.bundles.append(len(rates))
            course.waiting.append(max(self._queues[name] for name in others))
            balance = balance_ring(
                self.ring, loads, name=lambda: next(self._names), thresholds=BalanceThresholds(),
                by_group=self.by_group(now).tolist() if self.of.by_load else (),
                resting=[name for name, until in self._rests_until.items() if until > now])
            course.messages += balance.messages
            course.hot |= {hot.group for hot in balance.hot}
            for change in balance.changes:
                self._begin(now, change, course)
        return course

    def _begin(self, now: int, change: RingChange, course: Course) -> None:
        keys = sum(self._keys_in(move.token, move.size) for move, _ in change.moves)
        course.moved.append(keys / self.of.keys * len(change.before.served))
        course.kinds[change.kind] = course.kinds.get(change.kind, 0) + 1
        lasts = 1
        if change.added:
            home = _home_between(self.ring, change.moves[0][0].token, self.homes, self._spare)
            assert home is not None, "there are four spare machines for each"
            self._spare.remove(home)
            self.homes[change.added] = home
            lasts = max(1, round(keys / self.of.keys * self.of.bundles * STATE_MB / LINK_MB_PER_S))
        for bundle in {bundle for move, to in change.moves for bundle in (move.bundle, to)}:
            self._rests_until[bundle] = now + lasts + RESTS_S
        self._changes_to_come.append((now + lasts, change))

    def _arrive(self, now: int) -> None:
        for at, change in self._changes_to_come:
            if at <= now:
                self.ring = change.on(self.ring)
                for move, to in change.moves:
                    self._hand_over(move.bundle, to)
        self._changes_to_come = [(at, change) for at, change in self._changes_to_come if at > now]
        needed = {*self.ring.served, *(change.added for _, change in self._changes_to_come)}
        self._spare += [self.homes.pop(name) for name in list(self.homes) if name not in needed]

    def _hand_over(self, giver: str, taker: str) -> None:
        """What waits for keys that moved is read by who had them; of one that leaves all does."""
        if giver not in self.ring.served:
            self._queues[taker] = self._queues.get(taker, 0.0) + self._queues.pop(giver, 0.0)

    def _keys_in(self, token: int, size: int) -> int:
        last = token + size
        return int(self._keys[token:min(last, KEY_GROUPS)].sum() + self._keys[:max(0, last - KEY_GROUPS)].sum())

    def losses(self, copies: int) -> Iterator[dict[str, object]]:
        """What is lost, key by key, where machines die at the same time; and who finds and takes over how much."""
        held, order = holders(self.ring, self.homes, copies=copies), [piece.bundle for piece in self.ring.ranges]
        first = self._chance.randrange(len(order))
        row = {order[(first + step) % len(order)] for step in range(copies)}
        deaths: Mapping[str, set[str]] = {
            f"{copies} in a row": row,
            "one zone": {name for name in order if self.homes[name].zone == "z0"},
            "all but each last of r + 1": {name for place, name in enumerate(order) if place % (copies + 1)},
            "one in ten, by chance": set(self._chance.sample(sorted(set(order)), max(1, len(set(order)) // 10))),
            "one in three, by chance": set(self._chance.sample(sorted(set(order)), len(set(order)) // 3)),
        }
        survives = survival(held, self.homes)
        for what, dead in deaths.items():
            living = set(order) - dead
            if not living:
                continue  # there is one zone
            after = inherit(self.ring, held, living)
            taken: dict[str, int] = {}
            for taker in after.takers.values():
                taken[taker] = taken.get(taker, 0) + 1
            lost = sum(self._keys_in(piece.token, piece.size) for piece in after.lost)
            yield {
                "bundles": len(set(order)), "r": copies, "survives": str(survives), "dies": what, "dead": len(dead),
                "ranges lost": len(after.lost), "keys lost": f"{lost / self.of.keys:.1%}",
                "most that one takes": max(taken.values(), default=0),
                "messages to find": sum(len(tokens) + 1 for tokens in found_by(self.ring, living).values())}


def summary(of: WorldOf, *, seed: int) -> dict[str, object]:
    """A line of the table of balance."""
    course = RingWorld(of, seed=seed).play()
    up, down = 60, of.seconds - 2 * SETTLED_S
    late = [now for now in range(up, down) if course.waiting[now] >= BalanceThresholds().queue_high]
    return {
        "bundles": of.bundles, "what changes": "rate × 2" if of.factor > 1 else "keys",
        "cut": "by load" if of.by_load else "middle", "most": max(course.bundles), "at the end": course.bundles[-1],
        "max/mean before": round(course.spread[0], 2),
        "high": round(float(np.median(course.spread[down - SETTLED_S:down])), 2),
        "end": round(float(np.median(course.spread[-SETTLED_S:])), 2),
        "queues below τ after s": late[-1] + 1 - up if late and late[-1] + 1 < down else None if late else 0,
        **{kind: course.kinds.get(kind, 0) for kind in ("share", "add", "set apart", "remove")},
        "keys moved, by K/n": round(float(np.mean(course.moved)), 2) if course.moved else 0.0,
        "messages a change": round(course.messages / max(1, len(course.moved)), 1), "hot keys told": len(course.hot)}


def lines_of_loss(bundles: int, zones: int, *, copies: int, seed: int) -> list[dict[str, object]]:
    """The lines of the table of losses for a ring as it begins."""
    world = RingWorld(replace(WorldOf(bundles), zones=zones), seed=seed)
    return [{"zones": zones, **line} for line in world.losses(copies)]


def _home_between(
    ring: ElasticRing, group: int, homes: Mapping[str, BundleHome], free: Sequence[BundleHome]
) -> BundleHome | None:
    """Where a bundle that gets a token at a group begins: on a machine and in a zone that neither neighbour has, as far
    as that can be, and where fewest bundles are; None where nothing is free."""
    before = ring.range_of(group)
    behind = next(ring.clockwise(before.token), before)
    beside = [homes[piece.bundle] for piece in (before, behind)]
    bundles = Counter(homes[bundle].machine for bundle in ring.served)
    return min(free, default=None, key=lambda home: (
        sum(home.machine == other.machine for other in beside), sum(home.zone == other.zone for other in beside),
        bundles[home.machine], home))
