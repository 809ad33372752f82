"""Arguments of measurements: what cannot be measured with is told, with the numbers, before anything starts."""

from __future__ import annotations

import argparse
from math import inf
from pathlib import Path


def count(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1")
    return int(text)


def positive(text: str) -> float:
    """A number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


def file(text: str) -> Path:
    """A file that is there."""
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text}")
    return Path(text)
