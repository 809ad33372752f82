"""The colours of the look can be read: WCAG 2.2's contrast ratios, computed from the tokens in both themes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest

TOKENS = (Path(__file__).resolve().parents[2] / "static/css/tokens.css").read_text()
PAIR = re.compile(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")
COLOURS = {name: {"light": light, "dark": dark} for name, light, dark in PAIR.findall(TOKENS)}

TEXT = [
    (ink, ground)
    for ink in ("ink", "ink-2", "ink-3", "accent", "accent-strong", "ok", "warn", "bad")
    for ground in ("bg", "surface", "raised", "sunken")
] + [
    ("accent-ink", "accent"), ("accent-ink", "accent-strong"), ("accent", "accent-soft"),
    ("ink-2", "accent-soft"), ("warn", "accent-soft"), ("bad", "accent-soft"), ("ok", "accent-soft"),
    ("accent-strong", "accent-soft"),
    ("ink", "accent-soft"), ("ok", "ok-soft"), ("warn", "warn-soft"), ("bad", "bad-soft"), ("ink", "bad-soft"),
]
# Borders of inputs, marks of states and the focus ring: 3 to 1 is enough for what is no text.
LINES = [name for name in COLOURS if name.startswith("series-")]
SHAPES = [
    (shape, ground) for shape in ("line-strong", "accent", "ok", "warn", "bad", *LINES) for ground in ("bg", "surface")]
# How a screen's light reaches who sees all colours, no red, no green, no blue (Machado, Oliveira and Fernandes, 2009).
SEEN = {
    "all": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "no green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "no blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900))}
TO_XYZ = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))
WHITE = (0.95047, 1.0, 1.08883)
APART = 20.0  # CIE 1976; one is just seen where colours lie side by side, which thin lines do not


def linear(colour: str) -> list[float]:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]


def luminance(colour: str) -> float:
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def through(matrix: Sequence[Sequence[float]], light: Sequence[float]) -> list[float]:
    return [max(0.0, sum(factor * part for factor, part in zip(row, light, strict=True))) for row in matrix]


def lab(colour: str, seen: str) -> tuple[float, float, float]:
    """CIE L*a*b* of a colour for who sees it so."""
    xyz = through(TO_XYZ, through(SEEN[seen], linear(colour)))
    x, y, z = (
        part ** (1 / 3) if (part := value / white) > 0.008856 else 7.787 * part + 16 / 116
        for value, white in zip(xyz, WHITE, strict=True))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_formula_knows_black_and_white() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read(theme: str) -> None:
    assert [(ink, ground) for ink, ground in TEXT if contrast(COLOURS[ink][theme], COLOURS[ground][theme]) < 4.5] == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_shapes_can_be_seen(theme: str) -> None:
    assert [(shape, ground) for shape, ground in SHAPES
            if contrast(COLOURS[shape][theme], COLOURS[ground][theme]) < 3.0] == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("seen", SEEN)
def test_lines_of_a_chart_are_told_apart(seen: str, theme: str) -> None:
    assert len(LINES) == 6
    distances = {
        (one, other): math.dist(lab(COLOURS[one][theme], seen), lab(COLOURS[other][theme], seen))
        for one, other in combinations(LINES, 2)}
    assert {pair: distance for pair, distance in distances.items() if distance < APART} == {}
