"""How long keys stand still while they change hands, on Spark: by the size of their states.

A source feeds a task that is divided by key over two slots, of one node or of two, and an output collects. Again and
again its two bundles become three, in one of two ways in turn, and two again:

- ``works on``: as plans have it. Both bundles work on with fewer keys, and a new one takes a part of each.
- ``begins anew``: three new bundles take all keys, and wait for both of those before, which leave (decision 0220).

How long keys stand still is the greatest age of their events in the output, from when the change is asked for until it
is over; those that change hands `works on` and those that stay are told apart. Just before it is the same without any
change.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import redis

from scheduler.key_division import whole_groups
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningBundle, RunningTask, Slot
from scheduler.model.ring import Ring, key_group
from scheduler.model.task_types import TaskType
from scheduler.reuse.division import WantedBundle, keyed_bundles, keys_divided_anew
from workers.engine import desired_publishing
from workers.engine.channels import block_codec, keys
from workers.engine.observed import read_reports
from workers.engine.worker_settings import ROOT
from workers.library.registry import task_types
from workers.processes import spawn, stop

from .engine import Bench, _chain, _until, bench
from .handover.figures import Block, Window
from .hoard import HOARD_BY_KEY, offer_task_types

SLOTS = {1: (Slot("bench", 0), Slot("bench", 1)), 2: (Slot("bench", 0), Slot("other", 0))}  # by how many nodes
KEY_KB = 50
RATE_PER_S = 200.0
TRIGGER_MS = 200
WITHIN_S = 600.0
QUIET_S = 4.0
OUT = "f1-2"
WORKS_ON, ANEW, FEWER = "works on", "begins anew", "two again"


def moves_of_keys(megabytes: int, *, repeats: int, nodes: int = 1) -> list[dict[str, Any]]:
    """A line for each change, where all states are so large and the two slots are of one node or of two."""
    with bench() as at:
        flow = KeyedFlow(at, megabytes, SLOTS[nodes])
        try:
            flow.begin()
            return [{"MB": megabytes, "nodes": nodes} | flow.change(way)
                    for _ in range(repeats) for way in (WORKS_ON, FEWER, ANEW, FEWER)]
        finally:
            flow.end()


def counted_by_key(keys: int, rate_per_s: float, how: TaskType, config: Mapping[str, Any]) -> dict[str, RunningTask]:
    """A source whose event *n* is of key *n* modulo ``keys``, a task that says how many each key has had, and an output
    that keeps it all."""
    names = f"SELECT concat('k', _seq % {keys}) AS name FROM input"
    source = _chain("sql", rate_per_s)[0]
    return {task.id: task for task in (
        RunningTask("source", source.type, source.config, ()),
        RunningTask("named", "sql", {"query": names}, ("source",)),
        RunningTask("held", how.name, {"by": ["name"], **config}, ("named",)),
        RunningTask("out", "output", {"name": "out", "keep_events": 10_000_000}, ("held",)))}


class KeyedFlow:
    """The flow on two slots, and the agents that these are of."""

    def __init__(self, at: Bench, megabytes: int, slots: Sequence[Slot]) -> None:
        self._slots = tuple(slots)
        home, other = (slot.name for slot in slots)
        self._broker = redis.Redis.from_url(at.url)
        self.keys = max(2, megabytes * 1_000 // KEY_KB)
        self._tasks = counted_by_key(self.keys, RATE_PER_S, HOARD_BY_KEY, {"kilobytes": KEY_KB})
        ids = (f"f1-{number}" for number in itertools.count(3))
        bundles = keyed_bundles(self._parts_of(2), ids, inherits=())
        self._main = Fragment("f1-1", ("held",), home, 1, {"held": (OUT,)}, bundles=tuple(bundles))
        self._rest = (
            Fragment("f1-0", ("source", "named"), home, 2, {"named": ("f1-1",)}),
            Fragment(OUT, ("out",), other, 1))
        self._generation = 0
        self._left_bundles: set[str] = set()
        env = {"WEIR_SLOT_MEMORY_MB": str(max(1024, 20 * megabytes)), **os.environ, "REDIS_URL": at.url,
               "PYTHONPATH": os.pathsep.join([str(ROOT), offer_task_types(at.folder / "types")]),
               "WEIR_SLOT_READS": str(ROOT / "tests")}  # the type's code
        with open(os.environ.get("WEIR_BENCH_LOG", os.devnull), "ab") as log:
            self._agents = {node: spawn(
                [sys.executable, "-m", "workers.engine.agents.node_agent", "--node", node, "--slots", str(count),
                 "--data-dir", str(at.folder / node)], env=env, stdout=log)
                for node, count in Counter(slot.node for slot in slots).items()}

    def begin(self) -> None:
        """Run it, until each key has had an event and all is quiet."""
        self._publish()
        self._until_over()
        _until(lambda: self._numbers() >= 2 * self.keys, within_s=WITHIN_S)

    def change(self, way: str) -> dict[str, Any]:
        """Change the bundles in one of the ways, and tell how old events became."""
        time.sleep(QUIET_S)
        began_ms, before = _now_ms(), self._main
        ids = (f"f{self._generation + 1}-{number}" for number in itertools.count())
        bundles = [bundle for bundle in before.bundles if not bundle.leaving]
        if way == ANEW:
            parts = self._parts_of(3)
            heirs = keyed_bundles(parts, ids, inherits=tuple(bundle.id for bundle in bundles))
            self._main = replace(before, bundles=(*heirs, *(replace(bundle, weight=0.0) for bundle in bundles)))
        else:
            parts = self._parts_of(2 if way == FEWER else 3)
            change = keys_divided_anew(before, parts, ids=ids, left_bundles=self._left_bundles)
            self._main = change.after[before.id]
        self._publish()
        self._until_over()
        window = Window(began_ms, _now_ms())
        time.sleep(QUIET_S)
        ages = self._ages(Window(began_ms, _now_ms()), before.ring(("name",)), self._main.ring(("name",)))
        quiet = self._ages(Window(began_ms - round(1000 * QUIET_S), began_ms), None, None)
        self._drop()
        return {
            "way": way, "s": (window.ended_ms - window.began_ms) / 1000, "before, s": quiet["stay"],
            "keys that stay, s": ages["stay"], "keys that move, s": ages["move"]}

    def end(self) -> None:
        """End the agents."""
        for agent in self._agents.values():
            stop(agent, timeout_s=10)

    def _ages(self, window: Window, before: Ring | None, after: Ring | None) -> dict[str, float]:
        """The greatest age of events that were written in a window, of keys with another owner afterwards and of
        others, in seconds."""
        oldest = {"stay": 0.0, "move": 0.0}
        for _, fields in self._broker.xrange(keys.channel(f"{OUT}.0")):
            block = Block.of(int(fields[b"t"]), block_codec.decode_block(fields[b"b"]))
            if window.began_ms <= block.written_ms < window.ended_ms:
                for age_ms, number in zip(block.ages_ms, block.numbers, strict=True):
                    group = key_group(f"k{number % self.keys}")
                    kind = "stay" if before is None or after is None or before.owner(group) == after.owner(
                        group) else "move"
                    oldest[kind] = max(oldest[kind], age_ms / 1000)
        return oldest

    def _parts_of(self, count: int) -> list[WantedBundle]:
        weights = whole_groups({place: 1 / count for place in range(count)})
        return [WantedBundle(self._slots[place % 2].name, 1, weights[place]) for place in range(count)]

    def _publish(self) -> None:
        self._generation += 1
        fragments = {fragment.id: fragment for fragment in (*self._rest, self._main)}
        estate = Estate(self._generation, self._tasks, fragments=fragments, slots=self._slots)
        for node in self._agents:
            desired = desired_publishing.desired_of(
                estate, node, {**task_types(), HOARD_BY_KEY.name: HOARD_BY_KEY}, TRIGGER_MS)
            desired_publishing.publish(self._broker, desired)

    def _until_over(self) -> None:
        """Wait until who is to work does and reads all that it should, and who is to leave has left."""
        wanted = {
            bundle.id for fragment in (*self._rest, self._main) for bundle in fragment.queries if not bundle.leaving}
        leaving = {bundle.id for bundle in self._main.bundles if bundle.leaving}
        _until(lambda: self._runs() >= wanted and set(read_reports(self._broker).left) >= leaving, within_s=WITHIN_S)
        self._left_bundles = leaving
        counts = self._counts(wanted - {"f1-0", OUT})
        _until(lambda: all(
            now > counts[name] for name, now in self._counts(counts).items()), within_s=WITHIN_S)

    def _runs(self) -> set[str]:
        return {name for name, query in read_reports(self._broker).queries() if query.state == "running"}

    def _counts(self, bundles: Iterable[str]) -> dict[str, int]:
        """How many blocks of each bundle's the output has read."""
        places = {
            name: self._broker.hget(keys.readers(f"{name}.0"), OUT) or b"0-0" for name in bundles}
        return {name: int(place.split(b"-")[0]) for name, place in places.items()}

    def _drop(self) -> None:
        """Those that have left are dropped, as the site does."""
        staying: tuple[RunningBundle, ...] = tuple(bundle for bundle in self._main.bundles if not bundle.leaving)
        if staying != self._main.bundles:
            self._main = replace(self._main, bundles=staying)
            self._publish()

    def _numbers(self) -> int:
        return sum(
            batch.num_rows for _, fields in self._broker.xrange(keys.channel(f"{OUT}.0"))
            for batch in block_codec.decode_block(fields[b"b"]))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
