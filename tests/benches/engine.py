"""Measures the engine on this machine: restart gaps, many queries in a slot, an idle estate.

    python -m tests.benches.engine [restart] [queries] [idle] [walls] [--queries 40] [--json FILE]

Starts a broker and drivers of its own in a temporary folder and leaves nothing behind.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import redis

from scheduler.latency.histograms import percentile_ms
from scheduler.model.dataflow import Task
from scheduler.model.fragment import channel_id
from workers.engine.channels.channel_config import ChannelConfig
from workers.engine.channels.channel_registry import Channels
from workers.engine.observed import read_meters, read_reports
from workers.engine.worker_settings import ROOT, Settings, from_environment
from workers.launcher import broker as embedded
from workers.library.registry import task_types
from workers.processes import spawn, stop

from .wall_prices import measure_walls

MEASUREMENTS = ("restart", "queries", "idle", "walls")


@dataclass(frozen=True)
class Bench:
    """A broker and a folder to measure in."""

    url: str
    folder: Path
    broker_pid: int

    @property
    def settings(self) -> Settings:
        """Settings of a slot here."""
        return from_environment({**os.environ, "REDIS_URL": self.url, "WEIR_DATA_DIR": str(self.folder)})


@contextmanager
def bench() -> Iterator[Bench]:
    """A broker of its own in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as name:
        folder = Path(name)
        prepared = embedded.prepare(folder)
        process = spawn(prepared.argv, stdout=subprocess.DEVNULL)
        try:
            _until(lambda: embedded.answers(prepared.url))
            yield Bench(url=prepared.url, folder=folder, broker_pid=process.pid)
        finally:
            stop(process, timeout_s=5)


class Driver:
    """A slot's driver without its agent: chains are started and stopped by hand."""

    def __init__(self, at: Bench) -> None:
        from workers.engine.channels.spark_channels import spark_conf
        from workers.engine.spark.session import open_session

        self.config = ChannelConfig.of(at.settings)
        self.folder = at.folder
        self.channels = Channels.connect(at.url)
        conf = spark_conf(self.config)
        self.spark = open_session(at.settings, slot=0, slot_dir=at.folder / "slot", channel_conf=conf)

    def start(
        self, name: str, tasks: tuple[Task, ...], *, trigger_ms: int, is_open: bool = True, real_time: bool = False
    ) -> Any:
        """Start a chain that ends in an output, from its checkpoint where it has one.

        Parameters
        ----------
        name : str
            The fragment's id.
        tasks : tuple of Task
            Upstream first.
        trigger_ms : int
            Between its batches.
        is_open : bool, optional
            Whether its output is published.
        real_time : bool, optional
            Whether its batches stay open, with groups of events as far apart as the trigger says.
        """
        from workers.engine.channels import open_streams
        from workers.engine.spark import queries
        from workers.engine.spark.compile import Chain, compile_chain

        written = [channel_id(name, position) for position in range(len(tasks))]
        checkpoint = self.folder / "checkpoints" / name
        chain = Chain(name, tasks, (), written, real_time=real_time, checkpoint=checkpoint)
        compiled = compile_chain(
            self.spark, chain, config=self.config, task_types=task_types(), take_fence=self.channels.take_fence,
            folder=self.folder)
        if real_time and not compiled.batch_mode.is_open:
            raise ValueError(f"{name} cannot have open batches: {compiled.batch_mode.refusal}")
        last = len(tasks) - 1
        self.channels.open_channel(f"{name}.{last}", schema_json=compiled.schemas[last], retain=200)
        if is_open:
            self.channels.open_outlet(name, last, from_batch=0)
        self.channels.resume(name)
        if not real_time:
            return queries.start(compiled.frame, name=name, checkpoint=checkpoint, trigger_ms=trigger_ms)
        self.channels.pace(name, trigger_ms)
        of_driver = (self.spark, self.config.redis_url)
        times = open_streams.open_times(*of_driver)
        return queries.start(
            compiled.frame, name=name, checkpoint=checkpoint, trigger_ms=trigger_ms,
            rests=lambda: open_streams.rests(*of_driver, name), still_ms=lambda: times.still_ms(name),
            busy_ms=lambda: times.busy_ms(name))

    def stop(self, name: str, query: Any) -> None:
        """Stop a chain between two batches."""
        from workers.engine.spark import queries

        queries.stop(query, pause=lambda: self.channels.pause(name))

    def newest(self, channel: str) -> str:
        """The newest entry of a channel."""
        info = self.channels.info(channel)
        return info.last if info else "0-0"


def measure_restart(at: Bench, *, repeats: int = 10) -> dict[str, Any]:
    """From the call that stops a query to the first event after its restart, in one warm driver."""
    driver = Driver(at)
    results: dict[str, list[float]] = {}
    for kind, tasks in (("SQL only", _chain("sql")), ("with state in Python", _chain("state"))):
        name = f"restart-{len(results)}"
        last = f"{name}.{len(tasks) - 1}"
        query = driver.start(name, tasks, trigger_ms=200)
        _until(lambda: driver.newest(last) != "0-0")  # noqa: B023
        gaps = []
        for _ in range(repeats):
            reached = driver.newest(last)
            _until(lambda: driver.newest(last) != reached)  # noqa: B023
            began_s = time.perf_counter()
            driver.stop(name, query)
            reached = driver.newest(last)
            query = driver.start(name, tasks, trigger_ms=200)
            _until(lambda: driver.newest(last) != reached)  # noqa: B023
            gaps.append(time.perf_counter() - began_s)
        driver.stop(name, query)
        results[kind] = gaps
    driver.spark.stop()
    return {
        kind: {"median_s": round(statistics.median(gaps), 3), "worst_s": round(max(gaps), 3), "repeats": len(gaps)}
        for kind, gaps in results.items()
    }


def measure_queries(at: Bench, *, count: int = 40, rate_per_s: float = 10.0, seconds: float = 30.0) -> dict[str, Any]:
    """Many queries with a Python stage each in one driver: processes, CPU, memory, latency at the sink.

    Parameters
    ----------
    at : Bench
        The node that runs them.
    count : int, optional
        How many queries.
    rate_per_s : float, optional
        Events per second of each.
    seconds : float, optional
        How long is measured, in seconds.
    """
    driver = Driver(at)
    names = [f"many-{number}" for number in range(count)]
    chains = [_chain("python", rate_per_s, seed) for seed in range(count)]
    running = [driver.start(name, tasks, trigger_ms=500) for name, tasks in zip(names, chains, strict=True)]
    _until(lambda: all(driver.newest(f"{name}.2") != "0-0" for name in names), within_s=180)
    time.sleep(10)
    broker = redis.Redis.from_url(at.url)
    before, cpu_before_s = read_meters(broker, names), cpu_s(os.getpid())
    time.sleep(seconds)
    after, cpu_after_s = read_meters(broker, names), cpu_s(os.getpid())
    living = [process for process in _tree(os.getpid()) if process.status() != psutil.STATUS_ZOMBIE]
    workers = [process for process in living if "workers.engine.spark.daemon" in process.cmdline()]
    memory_mb = sum(process.memory_full_info().pss for process in living) / 2**20
    latency: dict[int, int] = {}
    for name in names:
        for field, total in after.counts[name].items():
            if field.startswith("2:lat:"):
                bucket = int(field.removeprefix("2:lat:"))
                latency[bucket] = latency.get(bucket, 0) + total - before.counts[name].get(field, 0)
    events = sum(after.counts[name]["2:n"] - before.counts[name].get("2:n", 0) for name in names)
    for name, query in zip(names, running, strict=True):
        driver.stop(name, query)
    driver.spark.stop()
    return {
        "queries": count, "events_per_s": round(events / (after.at_ms - before.at_ms) * 1000, 1),
        "expected_per_s": count * rate_per_s, "python_processes": len(workers),
        "cpu_cores": round((cpu_after_s - cpu_before_s) / seconds, 3), "memory_mb": round(memory_mb),
        "latency_p50_ms": round(percentile_ms(latency, 0.5)), "latency_p99_ms": round(percentile_ms(latency, 0.99)),
    }


def measure_idle(at: Bench, *, slots: int = 2, seconds: float = 60.0) -> dict[str, Any]:
    """CPU of an agent, its slots and their JVMs, and of the broker, with nothing to do."""
    env = {**os.environ, "REDIS_URL": at.url, "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-m", "workers.engine.agents.node_agent", "--node", "bench", "--slots", str(slots),
            "--data-dir", str(at.folder)]
    agent = spawn(argv, env=env, stdout=subprocess.DEVNULL)
    broker = redis.Redis.from_url(at.url)
    try:
        def states() -> list[str]:
            node = read_reports(broker).node("bench")
            return [slot.state for slot in node.slots.values()] if node else []

        _until(lambda: states().count("running") == slots, within_s=120)
        time.sleep(20)
        before = {"agent_and_slots": cpu_s(agent.pid), "broker": cpu_s(at.broker_pid)}
        time.sleep(seconds)
        after = {"agent_and_slots": cpu_s(agent.pid), "broker": cpu_s(at.broker_pid)}
        memory = [slot.memory_mb for slot in read_reports(broker)["bench"].slots.values()]
    finally:
        stop(agent, timeout_s=10)
    cores = {name: round((after[name] - before[name]) / seconds, 4) for name in after}
    return {"slots": slots, "cpu_cores": cores, "total_cores": round(sum(cores.values()), 4), "slot_memory_mb": memory}


def _chain(kind: str, rate_per_s: float = 50.0, seed: int = 1) -> tuple[Task, ...]:
    source_type = "smart_meter" if kind == "python" else "urban_sensing"
    source = Task("source", source_type, {**_defaults(source_type), "rate_per_s": rate_per_s, "seed": seed})
    parse = Task("parse", "senml_parse", _defaults("senml_parse"))
    middle = {
        "sql": (parse,),
        "python": (Task("pi", "pi_viete", _defaults("pi_viete")),),  # a Python stage that costs next to nothing
        "state": (parse, Task("average", "block_average", _defaults("block_average"))),
    }[kind]
    return (source, *middle, Task("out", "output", {**_defaults("output"), "name": "out"}))


def _defaults(type_name: str) -> dict[str, Any]:
    return {
        parameter.name: parameter.default
        for parameter in task_types()[type_name].parameters
        if parameter.default is not None
    }


def _tree(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def cpu_s(pid: int) -> float:
    """CPU seconds so far of a process and all below it."""
    taken_s = 0.0
    for process in _tree(pid):
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            cpu = process.cpu_times()
            taken_s += cpu.user + cpu.system
    return taken_s


def _until(is_so: Callable[[], Any], *, within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing came within {within_s} s")
        time.sleep(0.005)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure the engine on this machine.")
    parser.add_argument("what", nargs="*", help=f"any of {', '.join(MEASUREMENTS)}; without it all")
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    if unknown := set(given.what) - set(MEASUREMENTS):
        parser.error(f"there is no measurement {', '.join(sorted(unknown))}")
    results: dict[str, Any] = {}
    for what in given.what or MEASUREMENTS:
        with bench() as at:
            if what == "restart":
                results[what] = measure_restart(at)
            elif what == "queries":
                results[what] = measure_queries(at, count=given.queries)
            elif what == "idle":
                results[what] = measure_idle(at)
            else:
                results[what] = measure_walls(at.settings)
        print(what, json.dumps(results[what], indent=2), flush=True)
    if given.json:
        given.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
