"""Take-over: who finds that bundles of a ring have died, and who goes on with their ranges (thesis [3], 6.6)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from scheduler.elasticity.copies import BundleHome
from scheduler.model.ring import KeyRange

from .elastic_ring import ElasticRing
from .ring_holders import Holders


@dataclass(frozen=True, slots=True)
class Inheritance:
    """The ring after some bundles have died: who takes each token that was theirs, and ranges whose state is ``lost``.

    Somebody takes a lost range, too, and begins there with nothing.
    """

    ring: ElasticRing
    takers: Mapping[int, str]
    lost: tuple[KeyRange, ...]


def watched(ring: ElasticRing) -> Mapping[str, tuple[str, ...]]:
    """Whose heartbeats each bundle watches: of each of its ranges, those of the bundle counter-clockwise."""
    ranges, seen = ring.ranges, dict[str, list[str]]()
    for place, piece in enumerate(ranges):
        before = ranges[place - 1].bundle
        if before != piece.bundle:
            seen.setdefault(piece.bundle, []).append(before)
    return {bundle: tuple(dict.fromkeys(others)) for bundle, others in seen.items()}


def found_by(ring: ElasticRing, living: Collection[str]) -> Mapping[str, tuple[int, ...]]:
    """By living bundle: the tokens of dead ones that it finds.

    It misses the heartbeat of the one before it, and asks on counter-clockwise until one answers.
    """
    alive, finders = set(living), dict[str, list[int]]()
    for piece in ring.ranges:
        finder = next((other.bundle for other in ring.clockwise(piece.token) if other.bundle in alive), None)
        if piece.bundle not in alive and finder is not None:
            finders.setdefault(finder, []).append(piece.token)
    return {bundle: tuple(tokens) for bundle, tokens in finders.items()}


def inherit(ring: ElasticRing, held: Holders, living: Collection[str]) -> Inheritance:
    """Each range of a dead bundle goes to its first living holder: all of them at the same time, for none waits for
    another's. One without a living holder is lost, and goes to the next living owner counter-clockwise.

    Raises
    ------
    ValueError
        All bundles are dead.
    """
    alive = set(living) & set(ring.served)
    if not alive:
        raise ValueError(f"all bundles of the ring are dead, {', '.join(ring.served)}: begin with another ring")
    takers: dict[int, str] = {}
    lost: list[KeyRange] = []
    owner = next(piece.bundle for piece in reversed(ring.ranges) if piece.bundle in alive)
    for piece in ring.ranges:
        if piece.bundle in alive:
            owner = piece.bundle
            continue
        heir = next((bundle for bundle in held[piece.token] if bundle in alive), None)
        if heir is None:
            lost.append(piece)
        takers[piece.token] = heir or owner
    after = ElasticRing(ring.by, {**ring.tokens, **takers}, ring.leaving)
    return Inheritance(after.merged(), takers, tuple(lost))


def zones_in_turn(homes: Mapping[str, BundleHome]) -> tuple[str, ...]:
    """Bundles in an order in which neighbours on a ring are in different zones and on different machines, as far as
    that can be: each next one is of the zone that has most left, but for the one before.

    Examples
    --------
    >>> places = {"f1-0": BundleHome("m1", "a"), "f1-1": BundleHome("m2", "a"), "f1-2": BundleHome("m3", "b")}
    >>> zones_in_turn(places)
    ('f1-0', 'f1-2', 'f1-1')
    """
    left: dict[str, list[str]] = {}
    for bundle in sorted(homes, key=lambda name: (homes[name], name)):
        left.setdefault(homes[bundle].zone, []).append(bundle)
    return tuple(_drawn(left, homes))


def _drawn(left: dict[str, list[str]], homes: Mapping[str, BundleHome]) -> Iterator[str]:
    before: BundleHome | None = None
    while left:
        zone = max(left, key=lambda zone_name: (before is None or zone_name != before.zone, len(left[zone_name])))
        others = [bundle for bundle in left[zone] if before is None or homes[bundle].machine != before.machine]
        bundle = (others or left[zone])[0]
        left[zone].remove(bundle)
        if not left[zone]:
            del left[zone]
        before = homes[bundle]
        yield bundle
