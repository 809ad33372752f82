"""A node agent with real slots, or several as on several machines, and what a test needs to steer and to watch them."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import psutil
import redis

from scheduler.contracts.codec import Codec
from scheduler.contracts.reports import NODE_REPORTS, Reports, SlotReport
from scheduler.model.behind import needs_in
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask, Slot
from scheduler.model.settings_of_fragments import USUAL
from scheduler.model.task_types import TaskType, TaskTypes
from scheduler.model.wave_elements import wave_elements
from tests.written_blocks import block_rows, read_blocks
from workers.engine import desired_publishing, observed
from workers.engine.channels import keys
from workers.engine.channels.channel_registry import Channels
from workers.engine.channels.jvm import build
from workers.engine.wave_publishing import publish_waves
from workers.processes import spawn, stop

from .own_broker import OwnBroker

NODE = "test"


@contextmanager
def meanwhile(step: Callable[[], object], *, every_s: float) -> Iterator[None]:
    """Do something again and again, in a thread of its own."""
    done = threading.Event()

    def repeat() -> None:
        while not done.wait(every_s):
            step()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class Watched:
    """What runs on one node or on several, as a test sees it."""

    broker: redis.Redis
    channels: Channels
    slots: Sequence[Slot]

    def publish(self, estate: Estate) -> None:
        """Make the agents want this estate."""
        raise NotImplementedError

    def report(self) -> Mapping[str, Any]:
        """The newest report; empty before the first."""
        raise NotImplementedError

    def fragment(self, fragment_id: str) -> Mapping[str, Any] | None:
        """A fragment's part of the report."""
        for slot in self.report()["slots"].values():
            if fragment_id in slot["fragments"]:
                return slot["fragments"][fragment_id]
        return None

    def wait(self, is_so: Callable[[], Any], *, within_s: float = 240, what: str = "") -> Any:
        """What the condition gives once it holds; fails with the report where it never does."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            value = is_so()
            if value:
                return value
            time.sleep(0.25)  # each look reads reports or a whole channel
        raise AssertionError(f"{what or is_so} did not come true within {within_s} s: {self.report()}")

    def reports(self) -> Reports:
        """What the nodes report."""
        return observed.read_reports(self.broker)

    def wait_running(self, *fragment_ids: str, within_s: float = 240) -> None:
        """Wait until all of these run."""
        def run() -> set[str]:
            return {name for slot in self.report()["slots"].values() for name, fragment in slot["fragments"].items()
                    if fragment["state"] == "running"}

        self.wait(lambda: run() >= set(fragment_ids), within_s=within_s, what=f"{', '.join(fragment_ids)} running")

    def wait_serving(self, *, within_s: float = 240) -> None:
        """Wait until every slot has its driver."""
        self.wait(lambda: [slot["state"] for slot in self.report()["slots"].values()] == ["running"] * len(self.slots),
                  within_s=within_s, what="all slots serve")

    def slot_pid(self, slot: str = "0") -> int | None:
        """The process of a slot."""
        return self.report()["slots"].get(slot, {}).get("pid")

    @contextmanager
    def collecting(self, *channels: str) -> Iterator[Mapping[str, list[dict[str, Any]]]]:
        """Everything that is written to these channels meanwhile, though they keep only the newest."""
        collected: dict[str, list[dict[str, Any]]] = {channel: [] for channel in channels}
        after = dict.fromkeys(channels, "0-0")

        def take() -> None:
            for channel in channels:
                for entry, events in read_blocks(self.channels, channel, after=after[channel], count=1_000):
                    collected[channel].extend(events)
                    after[channel] = entry

        with meanwhile(take, every_s=0.25):
            yield collected
        take()

    def events(self, channel: str) -> list[dict[str, Any]]:
        """Everything that a channel still holds, oldest first."""
        entries = self.broker.xrange(keys.channel(channel))
        return [event for _, fields in entries for event in _rows_of(fields[b"b"])]


@dataclass
class Rig(Watched):
    """One agent, started by ``start``. ``task_types`` is the catalogue that its slots have, too."""

    broker: redis.Redis
    url: str  # by which the agent reaches the broker
    data_dir: Path
    task_types: Mapping[str, TaskType]
    node: str = NODE
    slot_count: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    trigger_ms: int = 100
    version: int = 0
    slot_start_s: float = 0.0
    paces_ms: Mapping[str, int] = field(default_factory=dict)  # intervals of their own, by fragment
    real_time: frozenset[str] = frozenset()  # fragments whose batches are to stay open
    saving: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by fragment: savepoints that it leaves parts of
    kept_savepoints: Sequence[str] | None = None
    command: Sequence[str] = (sys.executable, "-m", "workers.engine.agents.node_agent")
    process: Any = None
    channels: Channels = field(init=False)
    _published: tuple[Estate, Mapping[str, str] | None] | None = None
    _turn: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.channels = Channels(self.broker)
        self.slots = tuple(Slot(self.node, index) for index in range(self.slot_count))

    def start(self) -> None:
        """Start the agent, for the first time or again."""
        argv = [
            *self.command, "--node", self.node, "--slots", str(self.slot_count), "--data-dir", str(self.data_dir),
        ]
        env = {**os.environ, "REDIS_URL": self.url, "WEIR_DATA_DIR": str(self.data_dir), "WEIR_PIN": "never",
               **self.environment}
        with self.log.open("ab") as log:
            self.process = spawn(argv, env=env, stdout=log)

    def kill(self) -> None:
        """What a machine that loses power does: agent and slots end at once, and nobody says goodbye."""
        tree = self.tree()
        self.process.kill()
        self.process.wait()
        _end(tree, after_s=0)

    def stop(self) -> None:
        """Let the agent drain and end; afterwards nothing of it is left. One that was killed has ended."""
        if not (tree := self.tree()):
            return
        self.signal(signal.SIGCONT)
        stop(self.process, timeout_s=10)
        _end(tree)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the agent and all that it started."""
        for process in self.tree():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def tree(self) -> list[psutil.Process]:
        """The agent and all that it started."""
        if self.process.poll() is not None:
            return []
        agent = psutil.Process(self.process.pid)
        return [agent, *agent.children(recursive=True)]

    @property
    def log(self) -> Path:
        return self.data_dir / "agent.log"

    def publish(self, estate: Estate, *, when_behind: Mapping[str, str] | None = None) -> None:
        with self._turn:
            self.version += 1
            self._published = (estate, when_behind)
            self.want(replace(estate, generation=self.version), when_behind=when_behind)

    @contextmanager
    def repacing(self, *, seed: int, every_s: float = 1.0, paces_ms: Sequence[int] = (100, 200, 500, 1_500)) -> (
            Iterator[None]):
        """Give every query of what is wanted another interval at random, again and again meanwhile."""
        chance = random.Random(seed)

        def repace() -> None:
            with self._turn:
                if self._published is not None:
                    self.paces_ms = {name: chance.choice(paces_ms) for name in sorted(self._published[0].fragments)}
                    self.publish(self._published[0], when_behind=self._published[1])

        try:
            with meanwhile(repace, every_s=every_s):
                yield
        finally:
            self.paces_ms = {}

    def want(self, estate: Estate, *, when_behind: Mapping[str, str] | None = None) -> None:
        """Make the agent want this estate, whose generation says how new it is; by dataflow, what its team chose."""
        needs = needs_in(estate, when_behind)
        estate = estate.set_to({
            name: replace(estate.settings.get(name, USUAL), trigger_ms=self.paces_ms.get(name),
                          real_time=name in self.real_time)
            for name in estate.fragments}, estate.revision)
        publish_waves(
            self.broker, wave_elements(estate), generation=estate.generation, revision=estate.revision)
        wanted = desired_publishing.desired_of(
            estate, self.node, self.task_types, self.trigger_ms, needs=needs, saving=self.saving,
            kept_savepoints=self.kept_savepoints)
        assert desired_publishing.publish(self.broker, wanted)

    def report(self) -> Mapping[str, Any]:
        report = self.reports().node(self.node)
        return {"slots": {}} if report is None else NODE_REPORTS.document(report)


@dataclass
class Hosts(Watched):
    """Agents of several nodes beside one broker, each with a data folder of its own; slots are named `node/index`."""

    broker: redis.Redis
    nodes: Mapping[str, Rig]
    own_broker: OwnBroker | None = None  # where a test may kill it
    version: int = 0
    channels: Channels = field(init=False)

    def __post_init__(self) -> None:
        self.channels = Channels(self.broker)
        self.slots = tuple(slot for rig in self.nodes.values() for slot in rig.slots)

    def publish(self, estate: Estate) -> None:
        self.version += 1
        for rig in self.nodes.values():
            rig.want(replace(estate, generation=self.version))

    def end(self) -> None:
        """End all that runs."""
        self.publish(Estate(slots=self.slots))
        self.wait(lambda: not any(slot["fragments"] for slot in self.report()["slots"].values()), what="nothing runs")

    def report(self) -> Mapping[str, Any]:
        return {"slots": {
            f"{node}/{index}": Codec(SlotReport).document(slot) for node, report in self.reports().items()
            for index, slot in report.slots.items()}}


@lru_cache(8_192)
def _rows_of(block: bytes) -> list[dict[str, Any]]:
    """A block's events. Who waits for one more reads the whole channel again and again, and decodes what is new."""
    return block_rows(block)


def _end(processes: Sequence[psutil.Process], *, after_s: float = 5.0) -> None:
    _, alive = psutil.wait_procs(processes, timeout=after_s)
    for left in alive:
        with suppress(psutil.NoSuchProcess):
            left.kill()
    psutil.wait_procs(alive, timeout=5)


@contextmanager
def running_agent(
    broker: redis.Redis, url: str, data_dir: Path, *, slots: int = 1, plugin: Path | None = None,
    task_types: Mapping[str, TaskType], node: str = NODE, command: Sequence[str] = Rig.command, **environment: str,
) -> Iterator[Rig]:
    """Run an agent; afterwards nothing of it is left."""
    build.build(data_dir)  # slots are behind a wall: none of them could
    paths = [str(plugin)] if plugin else []
    rig = Rig(
        broker=broker, url=url, data_dir=data_dir, task_types=task_types, node=node, slot_count=slots,
        command=command,
        environment={**environment, "PYTHONPATH": os.pathsep.join([*paths, str(Path(__file__).parents[3])])})
    rig.start()
    try:
        yield rig
    except BaseException:
        sys.stderr.write(rig.log.read_text()[-8000:])
        raise
    finally:
        rig.stop()


def estate_of(
    fragments: list[Fragment], tasks: list[RunningTask], *, slots: int | Sequence[Slot] = 1
) -> Estate:
    """An estate put together by hand; with a number, of so many slots of the one node."""
    return Estate(
        tasks={task.id: task for task in tasks},
        fragments={fragment.id: fragment for fragment in fragments},
        slots=tuple(Slot(NODE, index) for index in range(slots)) if isinstance(slots, int) else tuple(slots),
    )


def catalogue(*more: TaskType) -> TaskTypes:
    """The installed task types and some more."""
    from workers.library.registry import task_types

    return TaskTypes((*task_types().values(), *more))
