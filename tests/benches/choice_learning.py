"""What the model that ships is learned by: the oracle's choices, and a network that is fitted to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workers.library.learning import NEURONS, fitted
from workers.library.models import NETWORK, version_of


def best_of(errors: Mapping[str, float | None]) -> str | None:
    """The oracle: the method whose error was least, the first of equals; None where no error is known."""
    measured = {name: error for name, error in errors.items() if error is not None}
    return min(measured, key=lambda name: measured[name]) if measured else None


def learn_choice(
    rows: Sequence[Sequence[float]], best: Sequence[str], *, name: str = "", number: int = 1, neurons: int = NEURONS
) -> dict[str, Any]:
    """The model that chooses.

    Parameters
    ----------
    rows : sequence
        For each customer and hour what `features_of` gave of the hour before.
    """
    features = [f"variance_{place}" for place in range(1, len(rows[0]) + 1)]
    parameters = {"kind": NETWORK, "features": features, "target": "best",
                  **fitted(NETWORK, rows, best, depth=1, leaf=1, neurons=neurons)}
    named = {"name": name} if name else {}
    return {**parameters, **named, "version": version_of(number, parameters), "events": len(rows)}
