"""Routing: how a running fragment's streams come to be divided otherwise, and when that is in force."""

from __future__ import annotations

from collections.abc import Callable

from workers.engine.spark import queries

from .context import SlotContext
from .fragment_run import FragmentRun
from .outputs import ACTIVATE_AFTER_MS, RETRY_MS, OutputChannels, Turn
from .reconcile import Route


class RouteActivation:
    """Asks for routes, and does between two batches what cannot wait for one with events."""

    def __init__(self, around: SlotContext, outputs: OutputChannels, *, clock_ms: Callable[[], int]) -> None:
        self._around = around
        self._outputs = outputs
        self._clock_ms = clock_ms

    def divide(self, live: FragmentRun, route: Route) -> None:
        """Divide a stream anew; where it was read whole, between two batches: its parts begin where that ends."""
        turn = self._outputs.turn_of(live, route)
        if turn is Turn.CHANGE:
            self._outputs.change(live, route)
        elif turn is Turn.WAIT or not self._at_rest(
            live, lambda batch: self._outputs.divide(live, route, from_batch=batch + 1)
        ):
            live.retries(at_ms=self._clock_ms() + RETRY_MS)

    def settle(self, live: FragmentRun) -> None:
        """Bring routes into force that wait for events: those who are to get no more wait for that."""
        if live.query is None:
            return
        channels = self._around.channels
        settled = all(route.effective for route in channels.routes(live.id).values())
        if settled:
            channels.resume(live.id)  # where an earlier try could not
        else:
            settled = self._at_rest(live, lambda batch: channels.activate(live.id, done_batch=batch))
        live.settles(at_ms=None if settled else self._clock_ms() + ACTIVATE_AFTER_MS)

    def _at_rest(self, live: FragmentRun, act: Callable[[int], None]) -> bool:
        """Do something between two batches of a query, told the last one that is done; False where it does not rest."""
        if live.query is None:
            return False
        channels = self._around.channels
        try:
            if not queries.rest(live.query, pause=lambda: channels.pause(live.id)):
                return False
            progress = self._around.store.progress(live.id)
            if progress.is_done:
                act(progress.batch)
            return progress.is_done
        finally:
            channels.resume(live.id)
