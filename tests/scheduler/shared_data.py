"""Public data sets that some tests read; they are no part of the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def shared_data(name: str) -> Path:
    """A folder or file of the shared data; skips the test where it is absent."""
    root = Path(os.environ.get("WEIR_SHARED_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
    if not (root / name).exists():
        pytest.skip(f"shared data {name} is not at {root} (WEIR_SHARED_DATA names another folder)")
    return root / name
