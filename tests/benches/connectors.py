"""Measures what connectors take: events/s and CPU of an event through one slot, against the client library alone.

    python -m tests.benches.connectors [--events 30000] [--rounds 3] [--only kafka] [--quiet 100] [--json FILE]

A source of each kind and an output are one query of an agent's slot. The source is paused while the other system is
filled, and goes on: its events are counted at the output until no more come. MQTT with QoS 1 brings some twice, whose
acknowledgement was under way; they are passed, and told as ``came_again``. The client library then reads as many in a
loop that throws them away. To ``http_ingest`` the bodies of requests are given as the site gives them, without HTTP
before that. A sink writes a channel that is filled as a slot's query fills it, and the client library then writes as
many events. ``--quiet`` sources and sinks of each kind, at which nothing comes, tell what is paid for being connected.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import redis

from scheduler.contracts.desired import DesiredState, WantedFragment, WantedSlot
from scheduler.contracts.reports import STOPPED
from scheduler.model.dataflow import Task
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask, Slot
from workers.engine import desired_publishing, observed
from workers.engine.agents.node_files.node_store import NodeStore
from workers.engine.connectors.intake import Full, IntakeStore, Paused
from workers.engine.connectors.pushing import Post, push_events
from workers.engine.sinks.sink_store import SinkStore
from workers.engine.worker_settings import ROOT
from workers.launcher import broker as embedded
from workers.library.registry import task_types
from workers.processes import spawn, stop

from .arguments import count
from .connector_sinks import SINKS, FilledChannel, SinkKind, events
from .connector_sources import COLUMNS, KINDS, Kind, bodies
from .estate import NODE, RunningEstate, running
from .results import machine, median, table, write
from .rounds import Moment, Reading, reading_of
from .services import NotInstalled

LOOK_S = 0.02
PATIENCE_S = 180.0
SETTLE_S = 5.0
QUIET_S = 20.0
TRIGGER_MS = 500
POSTED = 500  # events of a request
TO_SINKS = 3  # times as many are written as read: what takes 100 ms cannot be measured
PUSHED = "http_ingest"


def estate_of(kind: Kind, *, sources: int = 1, paused: bool = False) -> Estate:
    """So many sources, each with an output, on one slot."""
    tasks, fragments = {}, {}
    for source in range(sources):
        names = (f"source{source}", f"out{source}")
        tasks[names[0]] = RunningTask(names[0], kind.name, _with_defaults(kind.name, kind.config(source)), ())
        tasks[names[1]] = RunningTask(
            names[1], "output", _with_defaults("output", {"name": f"out{source}"}), names[:1])
        fragments[f"f1-{source}"] = Fragment(
            f"f1-{source}", names, f"{NODE}/0", 0 if paused else 2, resting=2 if paused else 0)
    return Estate(1, tasks, fragments=fragments, slots=(Slot(NODE, 0),))


def measure(kind: Kind, *, events: int, rounds: int) -> list[tuple[Reading, Reading]]:
    """Read so many events, and read them again with the client library alone; so often.

    Parameters
    ----------
    kind : Kind
        The source.
    events : int
        How many events a round.
    rounds : int
        How often.

    Returns
    -------
    list of (Reading, Reading)
        Weir's and the client's, by round.
    """
    kind.send(0, range(1))  # makes a topic or a table
    with tempfile.TemporaryDirectory(prefix="weir-connectors-") as folder, running(
        estate_of(kind), Path(folder), trigger_ms=TRIGGER_MS, settings=kind.settings
    ) as estate:
        estate.wait(lambda: _is_read(estate), what="the source is read", within_s=PATIENCE_S)
        kind.send(0, range(100))  # warms the query
        estate.wait(lambda: _passed(estate) >= 100, what="the first events pass", within_s=PATIENCE_S)
        time.sleep(SETTLE_S)
        readings = []
        for number in range(rounds):
            _publish(estate, replace(estate_of(kind, paused=True), generation=2 * number + 2))
            estate.wait(lambda: _is_stopped(estate), what="the source is paused", within_s=PATIENCE_S)
            kind.send(0, range(events))
            before = Moment(time.monotonic(), *_counts(estate), cpu_s={})  # the host may not be there
            _publish(estate, replace(estate_of(kind), generation=2 * number + 3))
            readings.append((_through(estate, before, events), _alone(lambda: kind.read_alone(0, events), events)))
        return readings


def measure_pushed(*, events: int, rounds: int) -> list[tuple[Reading, None]]:
    """Give so many events to an ``http_ingest``, in bodies of JSON lines; so often. ``site`` is what this process takes
    for it, without HTTP."""
    kind = Kind("http_ingest", lambda source: {"name": "posted", "token": "none", "columns": COLUMNS},
                lambda *_: None, lambda *_: None, {})
    with tempfile.TemporaryDirectory(prefix="weir-connectors-") as folder, running(
        estate_of(kind), Path(folder), trigger_ms=TRIGGER_MS
    ) as estate:
        estate.wait_running()
        store = IntakeStore(estate.client)
        _push(store, kind, range(100))
        estate.wait(lambda: _passed(estate) >= 100, what="the first events pass", within_s=PATIENCE_S)
        time.sleep(SETTLE_S)
        readings = []
        for _ in range(rounds):
            before, own_s, cpu, began_s = _passed(estate), time.process_time(), _cpu_by_part_s(estate), time.monotonic()
            for start in range(0, events, POSTED):
                _push(store, kind, range(start, min(start + POSTED, events)))
            own_s = time.process_time() - own_s
            deadline_s = time.monotonic() + PATIENCE_S
            while _passed(estate) < before + events:
                _look(deadline_s)
            elapsed_s, after = time.monotonic() - began_s, _cpu_by_part_s(estate)
            readings.append((Reading(events, elapsed_s, {
                "site": own_s, **{part: after[part] - cpu[part] for part in ("slot", "broker")}}), None))
        return readings


def _push(store: IntakeStore, kind: Kind, numbers: Sequence[int]) -> None:
    post = Post(b"\n".join(bodies(numbers)), format="ndjson")
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            push_events(store, "source0", _with_defaults(kind.name, kind.config(0)), post)
            return
        except (Full, Paused):
            _look(deadline_s)


def measure_sink(kind: SinkKind, *, count: int, rounds: int) -> list[tuple[Reading, Reading]]:
    """Write so many events, and write them again with the client library alone; so often."""
    with tempfile.TemporaryDirectory(prefix="weir-connectors-") as folder, _idle_host(
        _sinks_of(kind, 1), Path(folder), kind.settings
    ) as (host, client, broker_pid):
        channel = FilledChannel(client, "f1-0.0")
        _written(client, channel.fill(100))
        time.sleep(SETTLE_S)
        readings, broker = [], psutil.Process(broker_pid)
        for _ in range(rounds):
            host.suspend()  # that it begins with a channel that is full
            end, cpu, began_s = channel.fill(count), _cpu_s(host, broker), time.monotonic()
            host.resume()
            again = _written(client, end)
            after = _cpu_s(host, broker)
            ours = Reading(count, time.monotonic() - began_s, {
                part: after[part] - cpu[part] for part in after}, again=again)
            rows = events(range(end, end + count))
            readings.append((ours, _alone(lambda rows=rows: kind.write_alone(rows), count)))
        return readings


def _written(client: redis.Redis, count: int) -> int:
    """Wait until the sink says that it wrote so many events; how many more it says."""
    deadline_s, store = time.monotonic() + PATIENCE_S, SinkStore(client)
    while (taken := store.standing("f1-0.0").events) < count:
        _look(deadline_s)
    return taken - count


def _sinks_of(kind: SinkKind, sinks: int) -> DesiredState:
    """So many sinks, each a fragment of its own; its query is whoever fills its channel."""
    tasks = [Task(f"sink{number}", kind.name, _with_defaults(kind.name, kind.config)) for number in range(sinks)]
    fragments = tuple(WantedFragment(f"f1-{number}", (task,)) for number, task in enumerate(tasks))
    return DesiredState(version=1, node=NODE, generation=1, slots={"0": WantedSlot(fragments)})


def quiet_sinks(kind: SinkKind, sinks: int) -> dict[str, float]:
    """Cores and MB of the host of so many sinks for which nothing comes."""
    with tempfile.TemporaryDirectory(prefix="weir-connectors-") as folder, _idle_host(
        _sinks_of(kind, sinks), Path(folder), kind.settings
    ) as (host, client, _):
        for number in range(sinks):
            FilledChannel(client, f"f1-{number}.0")
        deadline_s, store = time.monotonic() + PATIENCE_S, SinkStore(client)
        FilledChannel(client, f"f1-{sinks - 1}.0").fill(1)
        while not store.standing(f"f1-{sinks - 1}.0").events:
            _look(deadline_s)
        return {"connectors": sinks, **_rests(host)}


def quiet(kind: Kind, sources: int) -> dict[str, float]:
    """Cores and MB of the host of so many sources at which nothing comes; nobody reads what it would write."""
    for source in range(sources):
        kind.send(source, range(1))
    wanted = desired_publishing.desired_of(estate_of(kind, sources=sources), NODE, task_types(), TRIGGER_MS)
    with tempfile.TemporaryDirectory(prefix="weir-connectors-") as folder, _idle_host(
        wanted, Path(folder), kind.settings, running=sources
    ) as (host, _, _):
        return {"connectors": sources, **_rests(host)}


def _rests(host: psutil.Process) -> dict[str, float]:
    """Cores and MB of a host, after a while."""
    time.sleep(2 * SETTLE_S)
    before, began_s = host.cpu_times(), time.monotonic()
    time.sleep(QUIET_S)
    after, elapsed_s = host.cpu_times(), time.monotonic() - began_s
    return {"cores": (after.user + after.system - before.user - before.system) / elapsed_s,
            "memory_mb": host.memory_info().rss / 2**20}


@contextmanager
def _idle_host(
    wanted: DesiredState, folder: Path, settings: dict[str, str], *, running: int = 0
) -> Iterator[tuple[psutil.Process, redis.Redis, int]]:
    """A connector host without an agent, once so many of its sources run; its broker's client and process."""
    with _broker(folder) as (url, broker_pid):
        NodeStore(folder, NODE).write_desired(wanted)
        process = spawn(
            [sys.executable, "-m", "workers.engine.connectors.connector_host"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env={
                **os.environ, **settings, "REDIS_URL": url, "WEIR_NODE": NODE, "WEIR_DATA_DIR": str(folder),
                "PYTHONPATH": str(ROOT)})
        try:
            for line in process.stdout:
                states = [source["state"] for source in json.loads(line)["connectors"].values()]
                if states == ["running"] * running:
                    break
            threading.Thread(target=process.stdout.read, daemon=True).start()
            with redis.Redis.from_url(url) as client:
                yield psutil.Process(process.pid), client, broker_pid
        finally:
            stop(process, timeout_s=8)


def _cpu_s(host: psutil.Process, broker: psutil.Process) -> dict[str, float]:
    times = {"host": host.cpu_times(), "broker": broker.cpu_times()}
    return {part: of.user + of.system for part, of in times.items()}


@contextmanager
def _broker(folder: Path) -> Iterator[tuple[str, int]]:
    prepared = embedded.prepare(folder)
    process = spawn(prepared.argv, stdout=subprocess.DEVNULL)
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while not embedded.answers(prepared.url):
            _look(deadline_s)
        yield prepared.url, process.pid
    finally:
        stop(process, timeout_s=5)


def _publish(estate: RunningEstate, wanted: Estate) -> None:
    estate.estate = wanted
    desired_publishing.publish(
        estate.client, desired_publishing.desired_of(wanted, NODE, task_types(), estate.trigger_ms))


def _is_read(estate: RunningEstate) -> bool:
    node = observed.read_reports(estate.client).node(NODE)
    sources = node.connectors.sources if node and node.connectors else {}
    return bool(sources) and all(source.state == "running" for source in sources.values())


def _is_stopped(estate: RunningEstate) -> bool:
    return all(report.state == STOPPED for report in estate.fragments().values())


def _passed(estate: RunningEstate) -> int:
    return estate.meters().counts.get("f1-0", {}).get("1:n", 0)


def _through(estate: RunningEstate, before: Moment, events: int) -> Reading:
    """From the first block that the host writes to the last event at the output."""
    deadline_s, store = time.monotonic() + PATIENCE_S, IntakeStore(estate.client)
    while store.state("source0").seq <= before.read:
        _look(deadline_s)

    def moments() -> Iterator[Moment]:
        while True:
            yield Moment(time.monotonic(), *_counts(estate), _cpu_by_part_s(estate))
            _look(deadline_s)

    return reading_of(before, moments(), events=events)


def _counts(estate: RunningEstate) -> tuple[int, int]:
    """Events that the source has read, and that have passed the output."""
    return IntakeStore(estate.client).state("source0").seq, _passed(estate)


def _look(deadline_s: float) -> None:
    if time.monotonic() > deadline_s:
        raise TimeoutError(f"it did not happen within {PATIENCE_S:.0f} s")
    time.sleep(LOOK_S)


def _cpu_by_part_s(estate: RunningEstate) -> dict[str, float]:
    parts, host = estate.cpu_by_part_s(), _host(estate)
    host_s = sum(host.cpu_times()[:2]) if host else 0.0
    return {"host": host_s, "slot": parts["jvm"] + parts["python"] - host_s, "broker": parts["broker"]}


def _host(estate: RunningEstate) -> psutil.Process | None:
    agent = psutil.Process(estate.agent_pid)
    return next((process for process in agent.children(recursive=True)
                 if "workers.engine.connectors.connector_host" in process.cmdline()), None)


def _alone(read: Callable[[], None], events: int) -> Reading:
    cpu_s, began_s = time.process_time(), time.monotonic()
    read()
    return Reading(events, time.monotonic() - began_s, {"client": time.process_time() - cpu_s})


def _with_defaults(type_name: str, config: dict[str, Any]) -> dict[str, Any]:
    defaults = {
        parameter.name: parameter.default for parameter in task_types()[type_name].parameters
        if parameter.default is not None}
    return {**defaults, **config}


def summary(readings: Sequence[tuple[Reading, Reading | None]]) -> dict[str, float | None]:
    """Medians over the rounds."""
    ours, clients = [reading for reading, _ in readings], [client for _, client in readings if client is not None]
    return {
        "events_per_s": median([reading.rate_per_s for reading in ours]),
        "us_per_event": median([reading.us_per_event() for reading in ours]),
        **{f"{part}_us": median([reading.us_per_event(part) for reading in ours]) if part in ours[0].cpu_s else None
           for part in ("host", "site", "slot", "broker")},
        "came_again": median([float(reading.again) for reading in ours]),
        "client_events_per_s": median([client.rate_per_s for client in clients]) if clients else None,
        "client_us_per_event": median([client.us_per_event() for client in clients]) if clients else None,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print tables, write JSON."""
    parser = argparse.ArgumentParser(description="Measure what connectors take, against the client library alone.")
    parser.add_argument("--events", type=count, default=30_000, help="events a round; the mock of Kafka keeps 5 MB")
    parser.add_argument("--rounds", type=int, default=3, help="0: what connectors at rest take alone")
    parser.add_argument("--only", choices=sorted([*KINDS, PUSHED, *SINKS]), help="one kind")
    parser.add_argument("--quiet", type=int, default=100, help="connectors at which nothing comes; 0: not measured")
    parser.add_argument("--json", type=Path, default=Path("connectors.json"))
    given = parser.parse_args(arguments)
    result: dict[str, Any] = {
        "machine": machine(), "load_before": os.getloadavg()[0], "in": {}, "out": {}, "quiet": {}}
    for name in [given.only] if given.only else [*sorted(KINDS), PUSHED, *SINKS]:
        try:
            _measured(name, given, result)
        except NotInstalled as error:
            print(f"{name}: {error}")
    result["load_after"] = os.getloadavg()[0]
    for part in ("in", "out", "quiet"):
        if result[part]:
            print(table([{part: name, **row} for name, row in result[part].items()]))
    write(given.json, result)
    return 0


def _measured(name: str, given: argparse.Namespace, result: dict[str, Any]) -> None:
    """Measure one kind, as the arguments say."""
    if name == PUSHED:
        if given.rounds:
            result["in"][name] = summary(measure_pushed(events=given.events, rounds=given.rounds))
        return
    is_source = name in KINDS
    with (KINDS if is_source else SINKS)[name]() as kind:
        os.environ.update(kind.settings)
        if given.rounds and is_source:
            result["in"][name] = summary(measure(kind, events=given.events, rounds=given.rounds))
        elif given.rounds:
            result["out"][name] = summary(measure_sink(kind, count=TO_SINKS * given.events, rounds=given.rounds))
        if given.quiet:
            result["quiet"][name] = (quiet if is_source else quiet_sinks)(kind, given.quiet)


if __name__ == "__main__":
    raise SystemExit(main())
