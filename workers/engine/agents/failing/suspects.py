"""A slot's suspects: queries that may have ended its driver wait for their turn, and who ended it twice stays away.

    <data-dir>/nodes/<node>/told/died-<slot>   the slot's last driver ended by itself, as its agent saw it
    <data-dir>/nodes/<node>/slot-<n>/suspects  what follows for its queries (``blame``)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scheduler.contracts.desired import WantedFragment
from workers.engine.spark.failure_messages import FragmentFailed
from workers.engine.spark.queries import is_in_a_batch

from ..blame import IDLE_MS, TURN_MS, Suspicion
from ..node_files.node_store import NodeStore
from ..reconciling.delays import TICK_MS
from ..reconciling.fragment_run import FragmentRun
from ..reconciling.reconcile import FragmentState
from ..reconciling.started_fragments import SlotStore
from .kept_suspicion import KeptSuspicion


class Suspects:
    """Holds queries of a slot back, by what its drivers died of."""

    def __init__(self, node_store: NodeStore, store: SlotStore, slot: str) -> None:
        self._suspicion = KeptSuspicion(store.folder / "suspects", event="queries are suspected of a driver's end")
        self._turn: tuple[str, int] | None = None  # whose it is, and since when (ms)
        if (death := node_store.read_death(slot)) is not None:
            batching = [query for query in death.working if not store.progress(query).is_done]
            self._suspicion.keep(self._suspicion.now.after(death, batching=batching))

    def look(
        self, runs: dict[str, FragmentRun], fragments: Mapping[str, WantedFragment], *, now_ms: int,
        give_up: Callable[[FragmentRun, FragmentFailed], None],
    ) -> None:
        """Let the next one have its turn, and hold back who is still to have one, or none any more.

        Parameters
        ----------
        give_up : callable
            Told of a query that is not to be started, and why.
        """
        now = self._suspicion.now
        if now == Suspicion(at_ms=now.at_ms, why=now.why):
            return
        now = now.only(fragments)
        for query in sorted(now.given_up):
            if fragments[query].paused:  # resumed, it is tried anew
                now = now.pardoned(query)
        now = self._look_at_turn(now, runs, fragments, now_ms)
        for query in sorted(now.waiting | now.given_up):
            run = runs.setdefault(query, FragmentRun(query, now_ms=now_ms))
            if run.state is not FragmentState.STOPPED or run.actual().busy or fragments[query].paused:
                continue
            if query in now.given_up:
                run.fragment = fragments[query]
                tasks = [task.id for task in fragments[query].tasks]
                give_up(run, FragmentFailed(now.in_words(), is_final=True, tasks=tasks))
            else:
                run.retries(at_ms=now_ms + 2 * TICK_MS)
        self._suspicion.keep(now)

    def pardon(self, query: str) -> None:
        """Somebody wants it tried again."""
        self._suspicion.keep(self._suspicion.now.pardoned(query))

    def _look_at_turn(
        self, now: Suspicion, runs: Mapping[str, FragmentRun], fragments: Mapping[str, WantedFragment], now_ms: int
    ) -> Suspicion:
        if not now.suspects:
            return now
        query = now.suspects[0]
        if self._turn is None or self._turn[0] != query:
            self._turn = (query, now_ms)
        run, tried_ms = runs.get(query), now_ms - self._turn[1]
        if fragments[query].paused or tried_ms >= TURN_MS:
            return now.tried(query, cleared=False)
        if run is None or run.actual().busy or run.state in (FragmentState.STOPPED, FragmentState.STARTING):
            return now
        actual = run.actual()
        if run.state is FragmentState.BACKOFF and not actual.gave_up and actual.retry_at_ms is None:
            return now  # somebody wants it tried again, now
        if run.state is not FragmentState.RUNNING:  # what it reads is not there, or it failed by itself
            return now.tried(query, cleared=False)
        is_idle = now_ms - run.since_ms >= IDLE_MS and run.query is not None and not is_in_a_batch(run.query)
        return now.tried(query, cleared=True) if run.has_done_a_batch or is_idle else now
