"""A ring of key ranges as arcs of a circle, for SVG: key group 0 is at the top, and groups rise clockwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, pi, sin

from dashboard.operations.key_rings import RingRange
from scheduler.model.ring import KEY_GROUPS

OUTER, INNER, CORE = 96.0, 80.0, 24.0  # radii: of the ring, and of the innermost end of bars
LABEL, LEAST_LABELLED = 112.0, 0.03  # where names stand, and the least part of the ring that has one
COLOURS = 6


@dataclass(frozen=True, slots=True)
class RingArc:
    """A range as it is drawn: the arc of its keys, and inside of it a bar as deep as its load is large beside the most
    loaded one's; ``colour`` tells machines apart. ``x`` and ``y`` are where its bundle's name stands."""

    range: RingRange
    arc: str
    bar: str
    colour: int
    x: float
    y: float
    side: str
    labelled: bool


def arcs_of(ranges: Sequence[RingRange]) -> list[RingArc]:
    """The arcs of a ring, in the order of its ranges."""
    nodes = sorted({piece.node for piece in ranges})
    most = max((piece.load or 0.0 for piece in ranges), default=0.0)
    return [
        _arc(piece, nodes.index(piece.node) % COLOURS, (piece.load or 0.0) / most if most else 0.0)
        for piece in ranges]


def _arc(piece: RingRange, colour: int, load: float) -> RingArc:
    begin, end = piece.first / KEY_GROUPS, (piece.first + piece.groups) / KEY_GROUPS
    x, y = _point((begin + end) / 2, LABEL)
    side = "middle" if abs(x) < LABEL / 4 else "start" if x > 0 else "end"
    depth = load * (INNER - CORE)
    bar = _sector(begin, end, INNER, INNER - depth) if depth > 0.5 else ""
    return RingArc(piece, _sector(begin, end, OUTER, INNER), bar, colour, x, y, side, piece.part >= LEAST_LABELLED)


def _sector(begin: float, end: float, outer: float, inner: float) -> str:
    """The path of a piece of a ring between two places on it, from 0 to 1; SVG draws no arc that ends where it begins,
    so the whole of it is two halves."""
    if end - begin >= 1:
        half = begin + 0.5
        return f"{_sector(begin, half, outer, inner)} {_sector(half, begin + 1, outer, inner)}"
    large = int(end - begin > 0.5)
    (x0, y0), (x1, y1) = _point(begin, outer), _point(end, outer)
    (x2, y2), (x3, y3) = _point(end, inner), _point(begin, inner)
    return (f"M{x0:.2f} {y0:.2f}A{outer:g} {outer:g} 0 {large} 1 {x1:.2f} {y1:.2f}"
            f"L{x2:.2f} {y2:.2f}A{inner:.2f} {inner:.2f} 0 {large} 0 {x3:.2f} {y3:.2f}Z")


def _point(fraction: float, radius: float) -> tuple[float, float]:
    return round(radius * sin(2 * pi * fraction), 2), round(-radius * cos(2 * pi * fraction), 2)
