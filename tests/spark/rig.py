"""A node agent with real slots, and what a test needs to steer and to watch it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import redis

from scheduler.model.estate import Estate, Fragment, RunningTask, Slot
from scheduler.model.task_types import TaskType, TaskTypes
from workers import desired, observed
from workers.channels.registry import Channels
from workers.supervisor.process import spawn, stop

NODE = "test"


@dataclass
class Rig:
    """A running agent. ``task_types`` is the catalogue that its slots have, too."""

    broker: redis.Redis
    data_dir: Path
    process: Any
    task_types: Mapping[str, TaskType]
    trigger_ms: int = 100
    version: int = 0
    slot_start_s: float = 0.0
    channels: Channels = field(init=False)

    def __post_init__(self) -> None:
        self.channels = Channels(self.broker)

    def publish(self, estate: Estate) -> None:
        """Make the agent want this estate."""
        self.version += 1
        wanted = desired.desired_of(replace(estate, generation=self.version), NODE, self.task_types, self.trigger_ms)
        assert desired.publish(self.broker, NODE, wanted)

    def report(self) -> Mapping[str, Any]:
        """The node's newest report; empty before the first."""
        return observed.read_reports(self.broker).get(NODE, {"slots": {}})

    def fragment(self, fragment_id: str) -> Mapping[str, Any] | None:
        """A fragment's part of the report."""
        for slot in self.report()["slots"].values():
            if fragment_id in slot["fragments"]:
                return slot["fragments"][fragment_id]
        return None

    def wait(self, is_so: Callable[[], Any], *, within_s: float = 60, what: str = "") -> Any:
        """What the condition gives once it holds; fails with the report where it never does."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            found = is_so()
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"{what or is_so} did not come true within {within_s} s: {self.report()}")

    def wait_running(self, *fragment_ids: str, within_s: float = 60) -> None:
        """Wait until all of these run."""
        for fragment_id in fragment_ids:
            self.wait(lambda: (self.fragment(fragment_id) or {}).get("state") == "running",  # noqa: B023
                      within_s=within_s, what=f"{fragment_id} running")

    def slot_pid(self, slot: str = "0") -> int | None:
        """The process of a slot."""
        return self.report()["slots"].get(slot, {}).get("pid")

    @contextmanager
    def collecting(self, *channels: str) -> Iterator[Mapping[str, list[dict[str, Any]]]]:
        """Everything that is written to these channels meanwhile, though they keep only the newest."""
        collected: dict[str, list[dict[str, Any]]] = {channel: [] for channel in channels}
        after = dict.fromkeys(channels, "0-0")
        done = threading.Event()

        def collect() -> None:
            while not done.wait(0.1):
                take()

        def take() -> None:
            for channel in channels:
                for entry, events in self.channels.read_blocks(channel, after=after[channel], count=1_000):
                    collected[channel].extend(events)
                    after[channel] = entry

        thread = threading.Thread(target=collect, daemon=True)
        thread.start()
        try:
            yield collected
        finally:
            done.set()
            thread.join()
        take()

    def events(self, channel: str) -> list[dict[str, Any]]:
        """Everything that a channel still holds, oldest first."""
        return [event for _, block in self.channels.read_blocks(channel, count=100_000) for event in block]


@contextmanager
def running_agent(
    broker: redis.Redis, url: str, data_dir: Path, *, slots: int = 1, plugin: Path | None = None,
    task_types: Mapping[str, TaskType], **environment: str,
) -> Iterator[Rig]:
    """Run an agent; afterwards nothing of it is left."""
    paths = [str(plugin)] if plugin else []
    env = {
        **os.environ, "REDIS_URL": url, "WEIR_DATA_DIR": str(data_dir), "WEIR_PIN": "never", **environment,
        "PYTHONPATH": os.pathsep.join([*paths, str(Path(__file__).parents[2])]),
    }
    argv = [
        sys.executable, "-m", "workers.agents.node", "--node", NODE, "--slots", str(slots), "--data-dir", str(data_dir),
    ]
    with (data_dir / "agent.log").open("ab") as log:
        process = spawn(argv, env=env, stdout=log)
    rig = Rig(broker=broker, data_dir=data_dir, process=process, task_types=task_types)
    try:
        yield rig
    except BaseException:
        sys.stderr.write((data_dir / "agent.log").read_text()[-8000:])
        raise
    finally:
        tree = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        stop(process, timeout_s=10)
        _, alive = psutil.wait_procs(tree, timeout=5)
        for left in alive:
            left.kill()


def estate_of(fragments: list[Fragment], tasks: list[RunningTask], *, slots: int = 1) -> Estate:
    """An estate put together by hand."""
    return Estate(
        tasks={task.id: task for task in tasks},
        fragments={fragment.id: fragment for fragment in fragments},
        slots=tuple(Slot(NODE, index) for index in range(slots)),
    )


def catalogue(*more: TaskType) -> TaskTypes:
    """The installed task types and some more."""
    from workers.library.registry import task_types

    return TaskTypes((*task_types().values(), *more))
