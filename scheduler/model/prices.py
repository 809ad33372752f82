"""What CPU time costs here, and how often a query runs a batch: the settings that a price is made from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prices:
    """``core_hour`` in ``currency``; ``trigger_ms`` is the time between two batches of a query."""

    core_hour: float = 0.04
    currency: str = "USD"
    trigger_ms: int = 500
