"""Weighs a driver's heap: what is in use of it after a full collection, which stops everything for a moment.

The slot's own process gives back at the same time what it has freed, as its driver does by ``TrimNativeHeapInterval``.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

from workers.engine.measuring.load import heap_mb
from workers.processes import give_back_freed_memory

from ..agent_logs import logger

EMPTY_MS = 3_000  # after a slot has nothing to do
SETTLED_MS = 20_000  # after it has other things to do
AGAIN_MS = 300_000


class HeapSampler:
    """The heap of one slot's driver, weighed some time after something else runs there, and seldom otherwise."""

    def __init__(self) -> None:
        self.heap_mb: float | None = None
        self._fragment_ids: frozenset[str] | None = None
        self._at_ms = 0

    def look(self, spark: Any, pool: Executor, fragment_ids: frozenset[str], *, now_ms: int) -> None:
        """Weigh if it is time to; ``fragment_ids`` are what the slot has to do."""
        if fragment_ids != self._fragment_ids:
            self._fragment_ids, self._at_ms = fragment_ids, now_ms + (SETTLED_MS if fragment_ids else EMPTY_MS)
        if now_ms >= self._at_ms:
            self._at_ms = now_ms + AGAIN_MS
            pool.submit(self._weigh, spark)

    def _weigh(self, spark: Any) -> None:
        give_back_freed_memory()
        try:
            self.heap_mb = round(heap_mb(spark._jvm), 1)
        except Exception as error:  # only a figure is missing
            logger().warning("weighing failed", exc_info=error)
