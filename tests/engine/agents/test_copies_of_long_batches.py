"""Copies of a query whose batches last longer than a slot holds it for one."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest

from scheduler.contracts.desired import DesiredState, WantedSlot
from scheduler.contracts.offsets import Offset
from scheduler.contracts.savepoints import Savepoint
from workers.engine.agents.node_files.node_store import CopyWishes
from workers.engine.agents.reconciling.reconcile import Actual, FragmentState
from workers.engine.agents.transport.copying import make_copies
from workers.engine.channels.batch_ranges import begin_ranges, place_of
from workers.engine.channels.channel_registry import Channels
from workers.engine.spark import queries

from ..channels.played_redis import PlayedRedis
from .test_state_copies import BEFORE, Side


class Driver:
    """A slot's driver, played: batches of one query that take so long, each right behind the last unless that is
    paused, and a thread that holds the query for a copy no longer than a slot does."""

    STEP_MS = 250

    def __init__(self, owner: Side, channels: Channels, *, batch_ms: int) -> None:
        self.owner, self.channels, self.batch_ms = owner, channels, batch_ms
        self.began_ms: dict[int, int] = {}  # by batch
        self.copied: list[int] = []
        self.idle_ms = 0
        self._asked_ms: int | None = None

    @property
    def is_done(self) -> bool:
        return self.owner.store.progress(BEFORE.id).is_done

    def goes_on(self, for_ms: int) -> None:
        for _ in range(for_ms // self.STEP_MS):
            self.owner.now_ms += self.STEP_MS
            self._batch()
            self._hold()
            self._look()

    def _batch(self) -> None:
        """What the query does: it plans a batch, or ends the one that is under way."""
        batch = len(self.began_ms) - 1
        if not self.is_done and self.owner.now_ms - self.began_ms[batch] >= self.batch_ms:
            (self.owner.store.checkpoint(BEFORE.id) / "commits" / str(batch)).write_text("")
        elif self.is_done and "paused" in self.channels.control(BEFORE.id):
            self.idle_ms += self.STEP_MS
        elif self.is_done:
            self.began_ms[batch + 1] = self.owner.now_ms
            self.owner.has_done(batch + 1, f'{{"f1-0.0":"{batch + 2}-0"}}')
            (self.owner.store.checkpoint(BEFORE.id) / "commits" / str(batch + 1)).unlink()

    def _hold(self) -> None:
        if self._asked_ms is None:
            return
        if self.is_done:
            batch = len(self.began_ms) - 1
            saved = Savepoint(
                offsets={"f1-0.0": Offset(f"{batch + 1}-0")}, batch_bases={"f1-1.0": batch + 1},
                states={"t": [f'{{"a": {batch}}}']}, repeats=batch + 1)
            begin_ranges(self.owner.broker, self.channels, BEFORE.id, place_of(saved), saved.offsets)
            make_copies(self.owner.store, ("f1-1--n2",), saved)
            self.copied.append(batch)
        elif self.owner.now_ms - self._asked_ms < queries.DRAIN_S * 1_000:
            return
        self.channels.resume(BEFORE.id)
        self._asked_ms = None

    def _look(self) -> None:
        actual = {BEFORE.id: Actual(BEFORE.id, FragmentState.RUNNING, busy=self._asked_ms is not None)}
        is_woken = self.is_done and self.owner.copies.is_awaited(BEFORE.id)
        if (self.owner.now_ms % 500 == 0 or is_woken) and self.owner.copies.turn(
                DesiredState(slots={"0": WantedSlot((BEFORE,))}), actual, ()):
            self.channels.pause(BEFORE.id)
            self._asked_ms = self.owner.now_ms


@pytest.mark.parametrize("batch_s", [20, 7])
def test_a_query_whose_batches_last_long_is_copied_between_them_and_waits_for_nothing_else(
    tmp_path: Path, batch_s: int
) -> None:
    broker = PlayedRedis()
    channels = Channels(broker)
    channels.open_channel("f1-0.0", schema_json="{}")
    owner, holder = Side(broker, tmp_path / "n1", "n1"), Side(broker, tmp_path / "n2", "n2")
    owner.node_store.write_copy_wishes(CopyWishes({BEFORE.id: ("n2",)}, {}, ("n1", "n2")))
    holder.node_store.write_copy_wishes(CopyWishes({}, {BEFORE.id: "n1"}, ("n1", "n2")))
    driver, ages_ms = Driver(owner, channels, batch_ms=1_000 * batch_s), []

    def second() -> None:
        driver.goes_on(1_000)
        holder.now_ms = owner.now_ms
        holder.turn(later_ms=0)

    for number in range(100):
        second()
        if number > 50:
            ages_ms.append(owner.now_ms - owner.copies.facts_of(BEFORE.id)["copied_at_ms"])
    gaps = [later - earlier for earlier, later in pairwise(driver.copied)]
    assert gaps and max(gaps) <= math.ceil(10 / batch_s), "the first batch that ends after the interval"
    assert max(ages_ms) <= 12_000 + 1_000 * batch_s, "which its age tells"
    assert driver.idle_ms <= Driver.STEP_MS * len(driver.copied), "it stands still to be read, and no longer"
    for _ in range(100):
        if owner.copies.is_awaited(BEFORE.id):
            break
        second()
    assert owner.copies.is_awaited(BEFORE.id)
    owner.node_store.write_copy_wishes(CopyWishes({}, {}, ("n1", "n2")))  # nobody is to hold it any more
    driver.goes_on(6_000)
    assert "paused" not in channels.control(BEFORE.id) and not owner.copies.is_awaited(BEFORE.id)
