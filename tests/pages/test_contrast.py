"""The colours of the look can be read: WCAG 2.2's contrast ratios, computed from the tokens in both themes."""

from __future__ import annotations

import re
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
SHAPES = [(shape, ground) for shape in ("line-strong", "accent", "ok", "warn", "bad") for ground in ("bg", "surface")]


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_formula_knows_black_and_white() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("ink", "ground"), TEXT)
def test_text_can_be_read(ink: str, ground: str, theme: str) -> None:
    assert contrast(COLOURS[ink][theme], COLOURS[ground][theme]) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("shape", "ground"), SHAPES)
def test_shapes_can_be_seen(shape: str, ground: str, theme: str) -> None:
    assert contrast(COLOURS[shape][theme], COLOURS[ground][theme]) >= 3.0
