"""Slots on a standalone Spark cluster: moves between them, workers and executors killed in mid-batch, small logs."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import psutil
import pytest
import redis

from scheduler.model.fragment import Fragment, RunningTask
from tests.conftest import running_broker
from workers.launcher import spark_cluster
from workers.launcher.spark_cluster import Cluster, free_port

from .conftest import TRIGGER_MS
from .rig import NODE, Rig, catalogue, estate_of, running_agent
from .test_moves import play

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.long]

CORES = 4


@dataclass
class Clustered:
    """An agent whose slots run on a cluster of two workers, each with room for both of its slots."""

    rig: Rig
    cluster: Cluster
    processes: dict

    def executors(self) -> dict[str, list[int]]:
        """Processes of executors by their worker, of those that have any."""
        pids: dict[str, list[int]] = {}
        for name in [name for name in self.processes if name != "spark-master"]:
            for child in psutil.Process(self.processes[name].pid).children():
                with suppress(psutil.NoSuchProcess):  # a zombie is none either
                    if any("CoarseGrainedExecutorBackend" in word for word in child.cmdline()):
                        pids.setdefault(name, []).append(child.pid)
        return pids

    def kill_executor(self) -> None:
        """The executor of a slot."""
        pids = [pid for of_worker in self.executors().values() for pid in of_worker]
        os.kill(min(pids), signal.SIGKILL)

    def kill_worker(self) -> None:
        """A worker that has an executor, which ends with it; it is started again."""
        name = next(iter(self.executors()))
        self.processes[name].kill()
        self.processes[name].wait()
        service = next(service for service in self.cluster.services() if service.name == name)
        self.processes[name] = spark_cluster.start(self.cluster, service)


@pytest.fixture(scope="module")
def clustered(tmp_path_factory, test_types, with_jar) -> Iterator[Clustered]:
    plugin_folder, types = test_types
    data_dir = with_jar(tmp_path_factory.mktemp("data"))
    cluster = Cluster(
        tmp_path_factory.mktemp("cluster"), port=free_port("127.0.0.1"), web_port=free_port("127.0.0.1"),
        cores=2 * CORES, memory_mb=2048)
    with running_broker(tmp_path_factory.mktemp("broker")) as url, redis.Redis.from_url(url) as client, (
            spark_cluster.running(cluster)) as processes, running_agent(
        client, url, data_dir, slots=2, plugin=plugin_folder, task_types=catalogue(*types),
        WEIR_SPARK_MASTER=cluster.url, SPARK_CONF_DIR=str(cluster.conf), WEIR_SLOT_CORES=str(CORES),
        WEIR_SLOT_MEMORY_MB="768",
    ) as rig:
        rig.trigger_ms = TRIGGER_MS
        rig.wait_serving(within_s=600)
        yield Clustered(rig, cluster, processes)


@pytest.fixture
def rig(clustered: Clustered) -> Iterator[Rig]:
    """The agent; afterwards nothing runs."""
    yield clustered.rig
    clustered.rig.publish(estate_of([], []))
    clustered.rig.wait(
        lambda: not any(slot["fragments"] for slot in clustered.rig.report()["slots"].values()), what="nothing runs")


def test_each_slot_has_an_executor_and_neither_takes_all(clustered: Clustered, rig: Rig) -> None:
    assert rig.report()["threads"] == CORES
    assert sum(len(pids) for pids in clustered.executors().values()) == 2


def test_queries_move_between_slots_of_a_cluster_and_no_output_changes(rig: Rig) -> None:
    play(rig, 7, moves=4, kills=1, on_cluster=True)


def slow_chain(name: str, slot: int) -> tuple[Fragment, list[RunningTask]]:
    """A source, a task that keeps a worker busy for most of the time, two folds, and an output."""
    types = [
        ("numbers", {"rate_per_s": 40.0}), ("wait", {"pause": 15.0}), ("total", {"name": "t1"}), ("shift", {"by": 7}),
        ("total", {"name": "t2"}), ("kept", {"keep_events": 1_000_000})]
    tasks = [
        RunningTask(f"{name}{index}", kind, config, (f"{name}{index - 1}",) if index else ())
        for index, (kind, config) in enumerate(types)]
    return Fragment(f"{name}1-0", tuple(task.id for task in tasks), f"{NODE}/{slot}", len(tasks), {}), tasks


@pytest.mark.parametrize("kill", [Clustered.kill_executor, Clustered.kill_worker])
def test_what_is_killed_in_mid_batch_changes_no_output(
    clustered: Clustered, rig: Rig, kill: Callable[[Clustered], None]
) -> None:
    chance, name = random.Random(5), kill.__name__[5]
    (first, tasks), (second, others) = slow_chain(f"{name}a", 0), slow_chain(f"{name}b", 1)
    outputs = [f"{fragment.id}.{len(tasks) - 1}" for fragment in (first, second)]
    rig.publish(estate_of([first, second], [*tasks, *others], slots=2))
    rig.wait_running(first.id, second.id)

    def grow(by: int) -> None:
        counts = [len(rig.events(output)) for output in outputs]
        rig.wait(what="events", is_so=lambda: all(
            len(rig.events(output)) > count + by for output, count in zip(outputs, counts, strict=True)))

    for _ in range(3):
        grow(60)
        time.sleep(chance.uniform(0, 0.5))
        kill(clustered)
    grow(100)
    if kill is Clustered.kill_executor:  # with a worker lost, Spark repeats the task, and the query knows nothing of it
        assert rig.fragment(first.id)["restarts"] + rig.fragment(second.id)["restarts"] > 0
    for output in outputs:
        check(rig.events(output))


def check(events: list[dict]) -> None:
    """Every number once and in order, with the sums up to it: what the chain gives that nobody disturbs."""
    total = shifted = 0.0
    assert [event["_seq"] for event in events] == list(range(len(events)))
    for event in events:
        total += event["_seq"]
        shifted += event["_seq"] + 7
        assert (float(event["t1"]), event["t2"]) == (total, shifted)


def test_logs_of_executors_stay_small(clustered: Clustered) -> None:
    sizes = {path: path.stat().st_size for path in clustered.cluster.folder.rglob("stderr*")}
    assert sizes and sum(sizes.values()) < 1 << 20


def test_a_slot_that_the_cluster_has_no_room_for_says_so(
    clustered: Clustered, tmp_path_factory, with_jar
) -> None:
    data_dir = with_jar(tmp_path_factory.mktemp("data"))
    with running_agent(
        clustered.rig.broker, clustered.rig.url, data_dir, task_types=catalogue(), node="large",
        WEIR_SPARK_MASTER=clustered.cluster.url, SPARK_CONF_DIR=str(clustered.cluster.conf), WEIR_SLOT_CORES="64",
    ) as large:
        error = large.wait(lambda: large.report()["slots"].get("0", {}).get("error"), within_s=400)
    assert "No executor of 64 cores" in error and "WEIR_SLOT_CORES" in error
