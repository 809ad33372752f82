"""Chains on a node of their own: one that is handed over, in ever another form, and one in each slot that is not."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from scheduler.model.dataflow import Task
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask, Slot
from scheduler.model.settings_of_fragments import FragmentSettings
from tests.benches.engine import Bench, _chain, _defaults, _until
from tests.benches.hoard import HOARD, offer_task_types
from workers.engine import desired_publishing
from workers.engine.channels import block_codec, keys
from workers.engine.observed import read_reports
from workers.engine.worker_settings import ROOT
from workers.library.registry import task_types
from workers.processes import spawn, stop

from .figures import Block

NODE, OTHER = "bench", "other"
FORMS = FUSED, MOVED, CUT = "fused", "moved", "cut"  # each from the one before
BETWEEN_NODES = THERE, BACK = "there", "back"
CHAIN = "chain"  # what the output of the chain that is handed over is called; others are called by their slots
KEPT_EVENTS = 10_000_000
WITHIN_S = 600.0  # a machine with much other work takes long to begin
LAST = 3  # the position of a chain's output


@dataclass(frozen=True, slots=True)
class Load:
    """What runs: the chain's rate, batches and state, and how far apart batches of chains beside it are (ms)."""

    rate_per_s: float = 50.0
    trigger_ms: int = 500
    has_state: bool = True
    state_mb: int = 0
    bystanders_ms: int | None = None  # None: there are no such chains


@dataclass(frozen=True, slots=True)
class Change:
    """A handover as it was carried out: from when until all was in force, from which slots to which, and the query
    that has written the output since."""

    form: str
    began_ms: int
    took_s: float
    before: frozenset[str]
    after: frozenset[str]
    writer: str


class Chains:
    """An agent that runs one chain, in one fragment or in two, and where asked another one in each slot."""

    forms: Sequence[str] = FORMS  # that follow each other; it begins with the last one
    slots: Sequence[Slot] = (Slot(NODE, 0), Slot(NODE, 1))
    out = "f1-1.1"  # where the output stays, whoever writes it

    def __init__(self, at: Bench, load: Load, *, log: Path | None = None) -> None:
        self._broker = redis.Redis.from_url(at.url)
        self.load = load
        self._tasks = _running(_every_event(load), prefix="")
        self._bystanders: dict[str, Fragment] = {}
        others: dict[str, RunningTask] = {}
        if load.bystanders_ms is not None:
            for number, slot in enumerate(self.slots):
                tasks = _running(_every_event(load, number=number), prefix=f"{number}-")
                others |= tasks
                self._bystanders[slot.name] = Fragment(f"f1-{8 + number}", tuple(tasks), slot.name, len(tasks))
        self._all_tasks = {**self._tasks, **others}
        self._generation = 0
        self._inherits: tuple[str, ...] = ()
        self._slots_now: frozenset[str] = frozenset()
        paths = [str(ROOT), offer_task_types(at.folder / "types")]
        memory_mb = max(1024, 20 * load.state_mb)
        env = {"WEIR_SLOT_MEMORY_MB": str(memory_mb), **os.environ, "REDIS_URL": at.url,
               "PYTHONPATH": os.pathsep.join(paths)}
        self._nodes = Counter(slot.node for slot in self.slots)
        self._agents = []
        with open(log or os.devnull, "ab") as output:
            for node, slots in self._nodes.items():
                argv = [sys.executable, "-m", "workers.engine.agents.node_agent", "--node", node, "--slots", str(slots),
                        "--data-dir", str(at.folder / node)]
                self._agents.append(spawn(argv, env=env, stdout=output))

    def begin(self) -> None:
        """Run all chains, and wait until each has an output."""
        self.run(self.forms[-1])
        channels = [keys.channel(channel) for channel in self.outputs.values()]
        _until(lambda: all(map(self._broker.xlen, channels)), within_s=WITHIN_S)

    def run(self, form: str) -> Change:
        """Let the chain go on in this form."""
        self._generation += 1
        fragments = {fragment.id: fragment for fragment in self._fragments(form, f"f{self._generation}")}
        beside = {fragment.id: fragment for fragment in self._bystanders.values()}
        estate = Estate(self._generation, self._all_tasks, fragments={**fragments, **beside}, slots=self.slots,
                        settings=dict.fromkeys(beside, FragmentSettings(self.load.bystanders_ms)))
        began_ms, began_s = time.time_ns() // 1_000_000, time.monotonic()
        for node in self._nodes:
            desired_publishing.publish(self._broker, desired_publishing.desired_of(
                estate, node, {**task_types(), HOARD.name: HOARD}, self.load.trigger_ms))
        _until(lambda: self._is_done(estate.fragments.keys()), within_s=WITHIN_S)
        before, self._slots_now = self._slots_now, frozenset(fragment.slot for fragment in fragments.values())
        self._inherits = tuple(sorted(fragments))
        return Change(form, began_ms, time.monotonic() - began_s, before, self._slots_now, max(fragments))

    def end(self) -> None:
        """End the agents."""
        for agent in self._agents:
            stop(agent, timeout_s=10)

    @property
    def outputs(self) -> Mapping[str, str]:
        """The channel of each output: of the chain, and of those beside it by their slots."""
        beside = {slot: fragment.channel_of(fragment.tasks[LAST]) for slot, fragment in self._bystanders.items()}
        return {CHAIN: self.out, **beside}

    def blocks(self, output: str) -> list[Block]:
        """All blocks of an output so far."""
        return [
            Block.of(int(fields[b"t"]), block_codec.decode_block(fields[b"b"]))
            for _, fields in self._broker.xrange(keys.channel(self.outputs[output]))]

    def handovers(self) -> dict[str, dict[str, Any]]:
        """What nodes say of each heir: since when it works (ms), and how long nothing did before that."""
        events = [
            {name.decode(): json.loads(value) for name, value in fields.items()}
            for _, fields in self._broker.xrange(keys.EVENTS)]
        return {event["fragment"]: event for event in events if event["kind"] == "handed_over"}

    def _fragments(self, form: str, name: str) -> list[Fragment]:
        tasks, out = tuple(self._tasks), {"out": self.out}
        if form == CUT:
            return [
                Fragment(f"{name}-0", tasks[:2], f"{NODE}/0", 2, {tasks[1]: (f"{name}-1",)}, inherits=self._inherits),
                Fragment(f"{name}-1", tasks[2:], f"{NODE}/1", 2, channels=out, inherits=self._inherits),
            ]
        slot = f"{NODE}/{1 if form == MOVED else 0}"
        return [Fragment(f"{name}-0", tasks, slot, 4, channels=out, inherits=self._inherits)]

    def _is_done(self, fragments: Collection[str]) -> bool:
        """Whether these run, and nothing else does or has something left to do for them."""
        reports = read_reports(self._broker)
        running = {name for name, query in reports.queries() if query.state == "running"}
        leaving = {name for _, report in reports.items() for name in report.handing_over}
        return running == set(fragments) and not leaving


class ChainsBetweenNodes(Chains):
    """Two agents, of which one or the other runs one chain in one fragment."""

    forms = BETWEEN_NODES
    slots = (Slot(NODE, 0), Slot(OTHER, 0))
    out = "f1-0.3"

    def _fragments(self, form: str, name: str) -> list[Fragment]:
        to, origin = (OTHER, NODE) if form == THERE else (NODE, OTHER)
        return [Fragment(
            f"{name}-0", tuple(self._tasks), f"{to}/0", 4, channels={"out": self.out}, inherits=self._inherits,
            origin=origin if self._inherits else "")]


def _every_event(load: Load, *, number: int | None = None) -> list[Task]:
    """The chain with a filter in the average's place, which gives an event for each; all of them are kept.

    Without state, a stage in Python that has none stands there; with much, one that has so much. A chain beside it
    (with a number) has little state, for what is asked of it is that it goes on as it was."""
    chain = _chain("state", load.rate_per_s, 1 if number is None else 2 + number)
    third = Task("average", "kalman_filter", _defaults("kalman_filter"))
    if load.state_mb and number is None:
        third = Task("average", HOARD.name, {"megabytes": load.state_mb})
    if not load.has_state:
        third = Task("average", "pi_viete", _defaults("pi_viete"))
    name = "out" if number is None else f"out-{number}"
    return [*chain[:2], third, Task("out", "output", {**chain[-1].config, "name": name, "keep_events": KEPT_EVENTS})]


def _running(chain: Sequence[Task], *, prefix: str) -> dict[str, RunningTask]:
    names = [f"{prefix}{task.id}" for task in chain]
    parents = [(), *((name,) for name in names)]
    return {
        name: RunningTask(name, task.type, task.config, before)
        for name, task, before in zip(names, chain, parents, strict=False)}
