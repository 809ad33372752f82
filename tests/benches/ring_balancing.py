"""Load balancing and elasticity on the ring (thesis [3], 6.5), with cuts by measured load.

A bundle is overloaded where queue and CPU are both above their upper thresholds. It has room where both are at most at
the lower ones. An overloaded one asks its clockwise neighbour to take a part of its range. One without room asks on
before it takes anything. Where nobody within reach has room, a bundle is added between the two: state first, then the
token. A bundle and its neighbour that both have room become one.

Beyond the thesis: where loads are measured by key group, ranges are cut by them and not in the middle. A key group with
half of its bundle's load gets a bundle of its own. One that alone is as much as a bundle is to have is told, for no cut
helps there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise
from typing import Literal

from scheduler.elasticity.uneven_keys import KeyedLoad, LoadThresholds
from scheduler.model.key_loads import nearest_cut
from scheduler.model.ring import KEY_GROUPS, KeyRange

from .elastic_ring import ElasticRing

HOT_SHARE = 0.5  # of its bundle's load, from which on a key group is to be alone
Kind = Literal["share", "add", "set apart", "remove"]


@dataclass(frozen=True, slots=True)
class BalanceThresholds(LoadThresholds):
    """What is low as well. At most ``reach`` neighbours are asked."""

    queue_low: float = 100.0
    cpu_low: float = 0.45
    reach: int = 8

    def is_low(self, load: KeyedLoad) -> bool:
        """Whether it has room."""
        return load.queue <= self.queue_low and load.cpu <= self.cpu_low

    def fits(self, cpu: float) -> bool:
        """Whether two bundles may become one that has so much to do: well below where one would be added again."""
        return cpu <= (self.cpu_low + self.cpu_high) / 2


@dataclass(frozen=True, slots=True)
class RingChange:
    """One change of the ring. ``moves`` are the ranges that change hands, each with its new bundle, all at one batch
    boundary; a bundle that is ``added`` has their state before. ``messages`` were asked and answered to agree on it."""

    kind: Kind
    bundle: str  # whose load was too high, or who goes
    before: ElasticRing
    after: ElasticRing
    moves: tuple[tuple[KeyRange, str], ...]
    added: str = ""
    messages: int = 0

    def on(self, ring: ElasticRing) -> ElasticRing:
        """The same change of a ring that others have changed meanwhile, though not where this one does."""
        gone = self.before.tokens.keys() - self.after.tokens.keys()
        set_anew = dict(self.after.tokens.items() - self.before.tokens.items())
        unchanged = {token: bundle for token, bundle in ring.tokens.items() if token not in gone}
        had = {*ring.served, *ring.leaving}
        tokens = {**unchanged, **set_anew}
        return ElasticRing(ring.by, tokens, tuple(had - set(tokens.values())))


@dataclass(frozen=True, slots=True)
class HotGroup:
    """A key group that alone is as much as a bundle is to have: ``cpu`` is what it takes of a slot."""

    group: int
    bundle: str
    cpu: float


@dataclass(frozen=True, slots=True)
class RingBalance:
    """Changes, each of the ring that the one before it leaves, what no change helps, and all messages."""

    ring: ElasticRing
    changes: tuple[RingChange, ...]
    hot: tuple[HotGroup, ...]
    messages: int


@dataclass
class _Round:
    """Decisions of one moment. A bundle takes part in one change at most: its load says nothing of what it has then."""

    ring: ElasticRing
    loads: Mapping[str, KeyedLoad]
    thresholds: BalanceThresholds
    summed: Sequence[float]  # loads of key groups, added up from group 0 on; empty where nothing was measured
    name: Callable[[], str]
    busy: set[str]
    changes: list[RingChange] = field(default_factory=list)
    hot: list[HotGroup] = field(default_factory=list)
    messages: int = 0

    def load_of(self, first: int, size: int) -> float:
        """What so many groups from one on have to do; without measurements, how many they are."""
        if not self.summed:
            return float(size)
        last = first + size
        over = self.summed[last - KEY_GROUPS] if last > KEY_GROUPS else 0.0
        return self.summed[min(last, KEY_GROUPS)] - self.summed[first] + over

    def change(self, kind: Kind, bundle: str, after: ElasticRing, parts: Collection[str], *, added: str = "",
               messages: int = 0) -> None:
        self.changes.append(
            RingChange(kind, bundle, self.ring, after, self.ring.moved_to(after), added, messages))
        self.ring = after
        self.busy.update(parts)

    def relieve(self, bundle: str) -> bool:
        """Move something of what an overloaded bundle has; False where that is a single group, which none can share."""
        mine = max(
            (piece for piece in self.ring.ranges if piece.bundle == bundle),
            key=lambda piece: self.load_of(piece.token, piece.size))
        if mine.size == 1 or self._set_apart(mine):
            self._tell(mine)
            return mine.size > 1
        neighbours = self._neighbours_asked(mine)
        self.messages += 2 * len(neighbours)
        if neighbours and self._has_room(neighbours[-1].bundle):
            self._share([mine, *neighbours])
            return True
        if neighbours and neighbours[-1].bundle in self.busy and self._is_low(neighbours[-1].bundle):
            return True  # it will have room in a moment
        added = self.name()
        cut = self._cut(mine, self.load_of(mine.token, mine.size) / 2)
        after = self.ring.with_token(cut, added)
        self.change("add", bundle, after, [bundle, added], added=added, messages=2 * len(neighbours))
        return True

    def _has_room(self, bundle: str) -> bool:
        return bundle not in self.busy and self._is_low(bundle)

    def _is_low(self, bundle: str) -> bool:
        return bundle in self.loads and self.thresholds.is_low(self.loads[bundle])

    def _neighbours_asked(self, mine: KeyRange) -> list[KeyRange]:
        """The neighbours that are asked in turn, up to the first with room; one that is in a change asks on no more."""
        neighbours: list[KeyRange] = []
        for other in self.ring.clockwise(mine.token):
            if len(neighbours) == self.thresholds.reach or other.bundle == mine.bundle:
                break
            neighbours.append(other)
            if other.bundle in self.busy or self._has_room(other.bundle):
                break
        return neighbours

    def _hottest(self, mine: KeyRange) -> tuple[int, float]:
        """The key group of a range that has most to do, and its part of that; 0 of it where nothing was measured."""
        total = self.load_of(mine.token, mine.size) if self.summed else 0.0
        group = max(mine.groups, key=lambda group_of: self.load_of(group_of, 1)) if total else mine.token
        return group, self.load_of(group, 1) / total if total else 0.0

    def _tell(self, mine: KeyRange) -> None:
        """Say so where the hottest group of a range is as much as a bundle is to have: alone in it, or to be alone."""
        group, part = self._hottest(mine)
        cpu = (1.0 if mine.size == 1 else part) * self.loads[mine.bundle].cpu
        if cpu >= self.thresholds.cpu_high:
            self.hot.append(HotGroup(group, mine.bundle, cpu))

    def _set_apart(self, mine: KeyRange) -> bool:
        """Give a hot key group a bundle of its own."""
        group, part = self._hottest(mine)
        if part < HOT_SHARE:
            return False
        added = self.name()
        behind, ring = (group + 1) % KEY_GROUPS, self.ring
        if mine.has(behind) and behind != mine.token:
            ring = ring.with_token(behind, mine.bundle)
        ring = ring.with_owner(group, added) if group == mine.token else ring.with_token(group, added)
        self.change("set apart", mine.bundle, ring, [mine.bundle, added], added=added)
        return True

    def _share(self, row: Sequence[KeyRange]) -> None:
        """From the first of a row to the last, which has room: each gives the next one the end of its range, as much as
        makes the first and the last equal. So those between have as much as before."""
        first, last = (self.load_of(piece.token, piece.size) for piece in (row[0], row[-1]))
        part = (first - last) / 2 if self.summed and first > last else first / 2
        ring = self.ring
        for giver, taker in pairwise(row):
            if giver.size == 1:
                break
            ring = ring.with_token_moved(taker.token, self._cut(giver, part))
        if ring != self.ring:
            self.change("share", row[0].bundle, ring, [piece.bundle for piece in row], messages=2 * (len(row) - 1))

    def _cut(self, mine: KeyRange, part: float) -> int:
        """The group from which on a range has about so much to do; one group at least is on either side."""
        if not self.summed:
            return (mine.token + mine.size - max(1, min(mine.size - 1, round(part)))) % KEY_GROUPS
        rest = self.load_of(mine.token, mine.size) - part
        return (mine.token + nearest_cut(partial(self.load_of, mine.token), mine.size, rest)) % KEY_GROUPS

    def remove_idle(self) -> None:
        """Let bundles go whose neighbour has room for what they have: it takes their ranges over, token and all."""
        tokens = Counter(self.ring.tokens.values())
        for piece in self.ring.ranges:
            if tokens[piece.bundle] > 1 or not self._has_room(piece.bundle):
                continue
            neighbour = next(self.ring.clockwise(piece.token), None)
            if neighbour is None or not self._has_room(neighbour.bundle):
                continue
            if self.thresholds.fits(self.loads[piece.bundle].cpu + self.loads[neighbour.bundle].cpu):
                after = self.ring.with_owner(piece.token, neighbour.bundle).merged()
                self.messages += 2
                self.change("remove", piece.bundle, after, [piece.bundle, neighbour.bundle], messages=2)


def balance_ring(
    ring: ElasticRing, loads: Mapping[str, KeyedLoad], *, name: Callable[[], str],
    thresholds: BalanceThresholds | None = None, by_group: Sequence[float] = (), resting: Collection[str] = (),
) -> RingBalance:
    """Which tokens are to change, given what bundles have to do now.

    Parameters
    ----------
    name : callable
        Gives the id of a bundle that is to be added; never the same one twice.
    by_group : sequence of float, optional
        Of each of the `KEY_GROUPS` what it has to do, in one measure for all, as events/s; from 0.
    resting : collection of str
        Bundles that changed a moment ago, or are changing still: they neither give nor take.

    Returns
    -------
    RingBalance
        The most loaded bundle first. Bundles are removed only where none is overloaded that could be helped.
    """
    limits = thresholds or BalanceThresholds()
    high = [bundle for bundle in ring.served if limits.is_high(loads[bundle])]
    # Ranges are cut where somebody has too much, and then alone is it needed what each group has to do.
    summed = (0.0, *accumulate(by_group)) if by_group and high else ()
    decided = _Round(ring, loads, limits, summed, name, set(resting))
    helped = [
        bundle in decided.busy or decided.relieve(bundle)
        for bundle in sorted(high, key=lambda name: (-loads[name].queue, name))]
    if not any(helped):
        decided.remove_idle()
    return RingBalance(decided.ring, tuple(decided.changes), tuple(decided.hot), decided.messages)


