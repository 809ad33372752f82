"""A whole estate for a measurement: a broker, a node agent with its slots, and what they cost."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import psutil
import redis

from scheduler.contracts.reports import RUNNING, STOPPED, QueryReport
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment
from workers.engine import desired_publishing, observed
from workers.engine.channels.channel_registry import Channels
from workers.engine.worker_settings import ROOT
from workers.launcher import broker as embedded
from workers.library.registry import task_types
from workers.processes import spawn, stop

NODE = "n1"


@dataclass
class RunningEstate:
    """A broker and an agent that run an estate in a folder of their own."""

    estate: Estate
    client: redis.Redis
    url: str  # of the broker
    agent_pid: int
    broker_pid: int
    trigger_ms: int

    @property
    def channels(self) -> Channels:
        """The control side of the estate's channels."""
        return Channels(self.client)

    def meters(self) -> observed.Meters:
        """The meters of all fragments now."""
        return observed.read_meters(self.client, observed.queries_of(self.estate.fragments.values()))

    def fragments(self) -> dict[str, QueryReport]:
        """What the agent reports of each query."""
        return dict(observed.read_reports(self.client).queries())

    def wait(self, is_so: Callable[[], bool], *, what: str, within_s: float) -> None:
        """Wait until the condition holds; TimeoutError with the report where it does not."""
        deadline = time.monotonic() + within_s
        while not is_so():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not within {within_s} s; the agent reports {self.fragments()}")
            time.sleep(0.25)

    def queries(self) -> dict[str, Fragment]:
        """The queries that are to run, with their fragments: one for each bundle."""
        return {bundle.id: fragment for fragment in self.estate.fragments.values() for bundle in fragment.queries}

    def wait_running(self, *, within_s: float = 180) -> None:
        """Wait until every query runs."""
        self.wait(
            lambda: all(self.fragments().get(name, QueryReport()).state == RUNNING for name in self.queries()),
            what="every fragment runs", within_s=within_s,
        )

    def wait_slots(self, *, within_s: float = 180) -> None:
        """Wait until every slot's driver is there."""
        def are_running() -> bool:
            node = observed.read_reports(self.client).node(NODE)
            states = [slot.state for slot in node.slots.values()] if node else []
            return len(states) == len(self.estate.slots) and set(states) == {RUNNING}

        self.wait(are_running, what="every slot runs", within_s=within_s)

    def enact(self, estate: Estate, *, within_s: float = 120) -> None:
        """Make the agent run another estate, and wait until it does and what is to stop has stopped."""
        self.estate = estate
        desired_publishing.publish(
            self.client, desired_publishing.desired_of(estate, NODE, task_types(), self.trigger_ms))
        self.wait(self._is_enacted, what=f"generation {estate.generation} is enacted", within_s=within_s)

    def _is_enacted(self) -> bool:
        report, reported, wanted = observed.read_reports(self.client).node(NODE), self.fragments(), self.queries()
        return report is not None and report.version == self.estate.generation and all(
            name in reported and reported[name].state == RUNNING and reported[name].active == fragment.active
            for name, fragment in wanted.items()
        ) and all(reported[name].state == STOPPED for name in set(reported) - set(wanted))

    def cpu_s(self) -> float:
        """CPU seconds so far of agent, slots, their Python workers and the broker, children that ended included."""
        return sum(self.cpu_by_part_s().values())

    def cpu_by_part_s(self) -> dict[str, float]:
        """The same by what took them: the drivers' JVMs, Python (agent, slots and workers), the broker."""
        shares = {"jvm": 0.0, "python": 0.0, "broker": 0.0}
        agent = psutil.Process(self.agent_pid)
        for process in [agent, *agent.children(recursive=True), psutil.Process(self.broker_pid)]:
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                part = "broker" if process.pid == self.broker_pid else "jvm" if process.name() == "java" else "python"
                shares[part] += times.user + times.system + times.children_user + times.children_system
        return shares

    def memory_mb(self) -> float:
        """Resident memory of agent, slots and Python workers."""
        agent = psutil.Process(self.agent_pid)
        total = 0
        for process in [agent, *agent.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        return total / 2**20


@contextmanager
def running(
    estate: Estate, data_dir: Path, *, trigger_ms: int, settings: Mapping[str, str] = MappingProxyType({}),
    agent_module: Sequence[str] = ("workers.engine.agents.node_agent",),
) -> Iterator[RunningEstate]:
    """Run an estate from nothing; afterwards nothing of it is left but the folder.

    ``settings`` are further ones of the agent and its slots, by the names of their environment variables.

    Parameters
    ----------
    estate : Estate
        What is to run.
    data_dir : Path
        The data folder.
    trigger_ms : int
        Milliseconds between two micro-batches.
    settings : mapping of str to str, optional
        Environment variables of the agent.
    agent_module : sequence of str, optional
        The agent's module, and arguments before those of every agent.
    """
    prepared = embedded.prepare(data_dir)
    with (data_dir / "broker.log").open("ab") as log:
        broker = spawn(prepared.argv, stdout=log)
    client = redis.Redis.from_url(prepared.url)
    agent = None
    try:
        _until(lambda: embedded.answers(prepared.url), what="the broker answers", within_s=20)
        desired_publishing.publish(client, desired_publishing.desired_of(estate, NODE, task_types(), trigger_ms))
        argv = [
            sys.executable, "-m", *agent_module, "--node", NODE,
            "--slots", str(len(estate.slots)), "--data-dir", str(data_dir),
        ]
        env = {**os.environ, "REDIS_URL": prepared.url, "WEIR_DATA_DIR": str(data_dir), "PYTHONPATH": str(ROOT),
               **settings}
        with (data_dir / "agent.log").open("ab") as log:
            agent = spawn(argv, env=env, cwd=ROOT, stdout=log)
        yield RunningEstate(
            estate=estate, client=client, url=prepared.url, agent_pid=agent.pid, broker_pid=broker.pid,
            trigger_ms=trigger_ms,
        )
    finally:
        if agent is not None:
            stop(agent, timeout_s=15)
        client.close()
        stop(broker, timeout_s=5)


def _until(is_so: Callable[[], bool], *, what: str, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {within_s} s")
        time.sleep(0.05)
