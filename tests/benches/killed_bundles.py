"""A machine dies that has some of a task's bundles: how soon the results of their keys go on, by how many they are.

Three agents hold copies of one another's state. The first has the source and the output of a count by key, the second
is the one that dies, with its disk, and the other bundles are on the third and the first in turn. Who watches, plans
and tells the nodes is this process, by the functions that the site does it by: what a site takes for that comes on top.
Afterwards the machine comes back empty, and gets bundles for the next time.

In the end the output is held against that of an undisturbed run, row by row.
"""

from __future__ import annotations

import itertools
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import median
from threading import Thread
from typing import Any

import numpy as np
import redis

from scheduler.contracts.savepoints import RESTORE_POINTS
from scheduler.elasticity.heartbeats import HeartbeatWatch
from scheduler.key_division import whole_groups
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningBundle, node_of
from scheduler.model.ring import key_group
from scheduler.reuse.division import WantedBundle, keyed_bundles
from scheduler.reuse.handover import moved_in
from tests.engine.spark.lost_machines import are_copied, end_machine
from tests.engine.spark.own_broker import own_broker
from tests.engine.spark.rig import Hosts, running_agent
from workers.engine.channels import block_codec, keys
from workers.engine.lost_nodes import declare_lost, heartbeats, holders_of
from workers.library.registry import task_types

from .counted_output import CountedBlock, check_counts
from .key_moves import counted_by_key

HOME, DIES, OTHER = NODES = ("n1", "n2", "n3")
SOURCE, HELD, OUT = "f1-0", "f1-1", "f1-2"
KEYS, COUNTS = 1_000, "distinct_count"  # of each key: it says how many events that has had, and keeps a sketch
TRIGGER_MS = 500
QUIET_S = 6.0
LOOK_S = 0.05
WITHIN_S = 240.0


@dataclass(frozen=True, slots=True)
class Recovery:
    """What came of one kill: seconds until each step was over, of the bundle that was back last; and more.

    ``missed_s`` is until the watcher missed the node, the others are each from the step before: until the plan was at
    the nodes, until the heir's query had started, until it had repeated what was recorded and wrote new rows, and until
    a row of its keys was in the output. ``all_s`` is all of that.
    """

    missed_s: float
    planned_s: float
    started_s: float
    repeated_s: float
    out_s: float
    all_s: float
    first_s: float  # the same of the bundle that was back first
    repeats: float  # batches that it repeated
    rate_per_s: float
    others_before_s: float  # the greatest age of an event of bundles that live, before the kill and until all are back
    others_s: float


def recoveries(*, bundles: int, rate_per_s: float, copy_s: float, lost_s: float, repeats: int) -> list[dict[str, Any]]:
    """A line for each number of bundles that die at once, up to half of them: medians, and the worst.

    Parameters
    ----------
    rate_per_s : float
        Events/s for all bundles together.
    copy_s : float
        Seconds between two copies of a bundle's state.
    lost_s : float
        Seconds without a heartbeat after which a node is missed (``WEIR_NODE_LOST_S``).

    Raises
    ------
    DisturbedOutput
        A row of the output is missing or doubled.
    """
    with _hosts(copy_s, lost_s) as hosts:
        flow = KilledBundles(hosts, bundles, rate_per_s, lost_s)
        lines = []
        for dead in range(1, max(1, bundles // 2) + 1):
            runs = [flow.kill(dead) for _ in range(repeats)]
            lines.append(_line(dead, bundles, copy_s, runs))
            print(lines[-1], file=sys.stderr, flush=True)
        flow.check()
        return lines


def _line(dead: int, bundles: int, copy_s: float, runs: Sequence[Recovery]) -> dict[str, Any]:
    middle = {field.name: round(median(getattr(run, field.name) for run in runs), 2) for field in fields(Recovery)}
    return {
        "bundles dead": dead, "of": bundles, "events/s": round(middle["rate_per_s"]), "copies every, s": copy_s,
        "missed, s": middle["missed_s"], "planned": middle["planned_s"], "started": middle["started_s"],
        "repeated": middle["repeated_s"], "in the output": middle["out_s"], "first back, s": middle["first_s"],
        "last back, s": middle["all_s"], "worst, s": round(max(run.all_s for run in runs), 2),
        "batches repeated": middle["repeats"], "others before, s": middle["others_before_s"],
        "others, s": middle["others_s"]}


@contextmanager
def _hosts(copy_s: float, lost_s: float) -> Iterator[Hosts]:
    """An agent with a slot for each node, beside a broker, in a folder that goes."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-")))
        for name in ("broker", *NODES):
            (folder / name).mkdir()
        broker = stack.enter_context(own_broker(folder / "broker"))
        client = stack.enter_context(redis.Redis.from_url(broker.url))
        agents = {node: stack.enter_context(running_agent(
            client, broker.url, folder / node, task_types=task_types(), node=node, WEIR_COPIES="1",
            WEIR_COPY_S=str(copy_s), WEIR_NODE_LOST_S=str(lost_s))) for node in NODES}
        for rig in agents.values():
            rig.trigger_ms = TRIGGER_MS
        hosts = Hosts(client, agents, own_broker=broker)
        hosts.wait_serving()
        yield hosts


class KilledBundles:
    """The count, whose bundles die and go on elsewhere."""

    def __init__(self, hosts: Hosts, bundles: int, rate_per_s: float, lost_s: float) -> None:
        self._hosts, self._chance = hosts, random.Random(1)
        self._lost_s, self._watch_s = lost_s, min(0.5, lost_s / 4)  # the site looks so often
        self._tasks = counted_by_key(KEYS, rate_per_s, task_types()[COUNTS], {"field": "name"})
        weights = whole_groups(dict.fromkeys(range(bundles), 1 / bundles))
        parts = [WantedBundle(f"{NODES[place % 3]}/0", 1, weights[place]) for place in range(bundles)]
        ids = (f"f1-{number}" for number in itertools.count(3))
        self._fragments = {fragment.id: fragment for fragment in (
            Fragment(SOURCE, ("source", "named"), f"{HOME}/0", 2, {"named": (HELD,)}),
            Fragment(HELD, ("held",), f"{HOME}/0", 1, {"held": (OUT,)},
                     bundles=tuple(keyed_bundles(parts, ids, inherits=()))),
            Fragment(OUT, ("out",), f"{HOME}/0", 1))}
        ring = self._fragments[HELD].ring(("name",))
        self._parts = np.array([ring.owner(key_group(f"k{number}")) for number in range(KEYS)])  # by key: whose it is
        self._blocks: list[CountedBlock] = []
        self._read_to = "0-0"
        self._publish()
        self._hosts.wait_running(SOURCE, OUT, *(bundle.id for bundle in self._bundles))
        self._hosts.wait(self._has_all_keys, what="each key has had an event")

    def kill(self, count: int) -> Recovery:
        """Let so many bundles be on a machine, let that die, and wait until the results of all keys go on."""
        self._arrange(count)
        dead = [bundle for bundle in self._bundles if node_of(bundle.slot) == DIES]
        watch = self._watch_until_quiet([bundle.id for bundle in dead])
        quiet_from_ms = _now_ms() - round(1000 * QUIET_S)
        time.sleep(self._chance.uniform(0, self._watch_s))
        killed_ms = _now_ms()
        ends = Thread(target=end_machine, args=(self._hosts.nodes[DIES],))
        ends.start()
        while DIES not in watch.missed:
            watch = self._look(watch)
        missed_ms = _now_ms()
        last = {bundle.part: self._newest(bundle.part) for bundle in dead}
        heirs = self._go_on(dead, watch)
        planned_ms = _now_ms()
        new_rows = self._wait_for_new_rows(last)
        out_ms = self._wait_for_output({part: number for part, (_, number) in new_rows.items()})
        ends.join()
        self._hosts.wait_running(*(heir.id for heir in heirs))
        started_ms = {name: query.since_ms for name, query in self._hosts.reports().queries()}
        slowest = max(heirs, key=lambda heir: out_ms[heir.part])
        steps = [killed_ms, missed_ms, planned_ms, started_ms[slowest.id], new_rows[slowest.part][0],
                 out_ms[slowest.part]]
        steps_s = [(later - earlier) / 1000 for earlier, later in itertools.pairwise(steps)]
        quiet, after = (quiet_from_ms, killed_ms), (killed_ms, max(out_ms.values()))
        living = {bundle.part for bundle in self._bundles} - {bundle.part for bundle in dead}
        recovery = Recovery(
            *steps_s, (steps[-1] - killed_ms) / 1000, (min(out_ms.values()) - killed_ms) / 1000,
            self._repeated(slowest), self._rate_per_s(*quiet), self._oldest_s(living, *quiet),
            self._oldest_s(living, *after))
        self._hosts.nodes[DIES].start()
        self._hosts.wait_serving()
        return recovery

    def check(self) -> None:
        """Hold the output against what it is where nobody dies; up to the newest event of all at least.

        Raises
        ------
        DisturbedOutput
            A row is missing or doubled.
        """
        self._read()
        newest = max(int(block.numbers.max()) for block in self._blocks)

        def has_all() -> bool:
            self._read()
            numbers, counts = (np.concatenate([getattr(block, name) for block in self._blocks])
                               for name in ("numbers", "counts"))
            return check_counts(numbers, counts, KEYS) > newest // KEYS

        self._hosts.wait(has_all, what="all that had come is in the output")

    # -- where bundles are ---------------------------------------------------------------------------------------------

    @property
    def _bundles(self) -> tuple[RunningBundle, ...]:
        return self._fragments[HELD].bundles

    def _arrange(self, count: int) -> None:
        """Let so many bundles be on the machine that dies, and the others on the two others in turn."""
        order = sorted(self._bundles, key=lambda bundle: (node_of(bundle.slot) != DIES, bundle.part))
        nodes = [*itertools.repeat(DIES, count), *itertools.islice(itertools.cycle((OTHER, HOME)), len(order) - count)]
        slots = {bundle.id: f"{node}/0" for bundle, node in zip(order, nodes, strict=True)
                 if node_of(bundle.slot) != node}
        if slots:
            heirs = self._move(slots)
            self._hosts.wait_running(*(heir.id for heir in heirs))
            self._hosts.wait(lambda: not slots.keys() & self._running(), what="who moved is gone")

    def _move(self, slots: Mapping[str, str]) -> list[RunningBundle]:
        estate, held = replace(self._estate(), generation=self._hosts.version), self._fragments[HELD]
        change = moved_in(estate, slots, outputs={"out"}, homes=dict.fromkeys(slots, held))
        self._fragments |= change.after
        self._publish()
        return [bundle for bundle in self._bundles if set(bundle.inherits) & slots.keys()]

    def _estate(self) -> Estate:
        return Estate(tasks=self._tasks, fragments=self._fragments, slots=tuple(self._hosts.slots))

    def _publish(self) -> None:
        self._hosts.publish(self._estate())

    def _running(self) -> set[str]:
        return {name for name, _ in self._hosts.reports().queries()}

    # -- what the site does --------------------------------------------------------------------------------------------

    def _watch_until_quiet(self, queries: Sequence[str]) -> HeartbeatWatch:
        """Wait until these are copied and all is quiet; what somebody knows by then who watches heartbeats."""
        are_copied(self._hosts, queries, NODES)
        are_copied(self._hosts, queries, NODES)
        watch, quiet_s = HeartbeatWatch(self._lost_s), time.monotonic() + QUIET_S
        while time.monotonic() < quiet_s:
            watch = self._look(watch)
        return watch

    def _look(self, watch: HeartbeatWatch) -> HeartbeatWatch:
        time.sleep(self._watch_s - time.time() % self._watch_s)
        began_s = time.monotonic()
        newest = heartbeats(self._hosts.broker, NODES)
        return watch.look(newest, began_s=began_s, ended_s=time.monotonic())

    def _go_on(self, dead: Sequence[RunningBundle], watch: HeartbeatWatch) -> list[RunningBundle]:
        """All of them go on where their copies are, by one plan."""
        living = watch.heard_s.keys() - watch.missed
        holders = holders_of(self._hosts.broker, [bundle.id for bundle in dead], living=living)
        declare_lost(self._hosts.broker, {DIES: _now_ms()})
        return self._move({bundle.id: f"{holders[bundle.id]}/0" for bundle in dead})

    # -- what comes out ------------------------------------------------------------------------------------------------

    def _newest(self, part: str) -> str:
        """The newest block that a bundle has written."""
        info = self._hosts.channels.info(f"{part}.0")
        return info.last

    def _wait_for_new_rows(self, last: Mapping[str, str]) -> dict[str, tuple[int, int]]:
        """By part: when its first block behind that one was written (ms), and the least number in that."""
        first: dict[str, tuple[int, int]] = {}

        def look() -> bool:
            for part in last.keys() - first.keys():
                for _, entry in self._hosts.broker.xrange(keys.channel(f"{part}.0"), f"({last[part]}", count=1):
                    block = _block_of(entry)
                    first[part] = block.written_ms, int(block.numbers.min())
            return len(first) == len(last)

        self._wait(look, what=f"{sorted(last)} write")
        return first

    def _wait_for_output(self, least: Mapping[str, int]) -> dict[str, int]:
        """By part: when a row of its keys, of that number or a later one, was in the output (ms)."""
        out_ms: dict[str, int] = {}

        def look() -> bool:
            at = len(self._blocks)
            self._read()
            for block in self._blocks[max(0, at - 50):]:
                parts = self._parts[block.numbers % KEYS]
                for part in least.keys() - out_ms.keys():
                    if np.any((parts == part) & (block.numbers >= least[part])):
                        out_ms[part] = block.written_ms
            return len(out_ms) == len(least)

        self._wait(look, what=f"rows of {sorted(least)} come out")
        return out_ms

    def _wait(self, is_so: Any, *, what: str) -> None:
        deadline_s = time.monotonic() + WITHIN_S
        while not is_so():
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{what}: not within {WITHIN_S:.0f} s; {self._hosts.report()}")
            time.sleep(LOOK_S)

    def _read(self) -> None:
        """Take what is new in the output."""
        while entries := self._hosts.broker.xrange(keys.channel(f"{OUT}.0"), f"({self._read_to}", count=1_000):
            self._blocks += [_block_of(entry) for _, entry in entries]
            self._read_to = entries[-1][0].decode()

    def _has_all_keys(self) -> bool:
        self._read()
        return len({int(number) % KEYS for block in self._blocks for number in block.numbers}) == KEYS

    def _between(self, began_ms: int, ended_ms: int) -> list[CountedBlock]:
        self._read()
        return [block for block in self._blocks if began_ms <= block.written_ms < ended_ms]

    def _rate_per_s(self, began_ms: int, ended_ms: int) -> float:
        return 1000 * sum(len(block.numbers) for block in self._between(began_ms, ended_ms)) / (ended_ms - began_ms)

    def _oldest_s(self, parts: set[str], began_ms: int, ended_ms: int) -> float:
        """The greatest age of an event of these bundles that came out within a time."""
        ages_ms = [block.ages_ms[np.isin(self._parts[block.numbers % KEYS], list(parts))]
                   for block in self._between(began_ms, ended_ms)]
        return max((int(ages.max()) for ages in ages_ms if len(ages)), default=0) / 1000

    def _repeated(self, heir: RunningBundle) -> int:
        """How many batches an heir repeated."""
        begun = self._hosts.nodes[node_of(heir.slot)].data_dir / "checkpoints" / f"{heir.id}.begun"
        return RESTORE_POINTS.loads(begun.read_text()).recorded


def _block_of(entry: Mapping[bytes, bytes]) -> CountedBlock:
    return CountedBlock.of(int(entry[b"t"]), block_codec.decode_block(entry[b"b"]))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
