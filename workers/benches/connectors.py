"""Measures what connectors take: events/s and CPU of an event through one slot, against the client library alone.

    python -m workers.benches.connectors [--events 30000] [--rounds 3] [--only kafka] [--quiet 100] [--json FILE]

A source of each kind and an output are one query of an agent's slot. The source is paused while the other system is
filled, and goes on: its events are counted at the output until no more come. MQTT with QoS 1 brings some twice, whose
acknowledgement was under way; they are passed, and told as `came_again`. The client library then reads as many in a
loop that throws them away. ``--quiet`` sources of each kind, at which nothing comes, tell what is paid for being
connected.
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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import psycopg

from scheduler.contracts.reports import STOPPED
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask, Slot
from workers.engine import desired, observed
from workers.engine.agents.store import NodeStore
from workers.engine.connectors.intake import IntakeStore
from workers.engine.settings import ROOT
from workers.launcher import broker as embedded
from workers.library.registry import task_types
from workers.processes import spawn, stop

from .arguments import count
from .brokers import kafka_cluster, mqtt_broker, send_kafka, send_mqtt
from .estate import NODE, RunningEstate, running
from .results import machine, median, table, write
from .rounds import Moment, Reading, reading_of
from .services import NotInstalled, database

COLUMNS = ("n:bigint", "text")
LOOK_S = 0.02
PATIENCE_S = 180.0
SETTLE_S = 5.0
QUIET_S = 30.0
TRIGGER_MS = 500


@dataclass(frozen=True)
class Kind:
    """A kind of source: the config of one by its number, what brings events to it, what reads them with the client
    library alone, and settings of the agent."""

    name: str
    config: Callable[[int], dict[str, Any]]
    send: Callable[[int, Sequence[int]], None]
    read_alone: Callable[[int, int], None]
    settings: dict[str, str]


def bodies(numbers: Sequence[int]) -> list[bytes]:
    """Messages of these numbers: about 50 bytes of JSON each."""
    return [json.dumps({"n": number, "text": f"event {number} of a measurement"}).encode() for number in numbers]


@contextmanager
def kafka() -> Iterator[Kind]:
    """Kafka, as librdkafka's mock cluster plays it."""
    from confluent_kafka import Consumer, TopicPartition

    with kafka_cluster() as servers:
        def read_alone(source: int, events: int) -> None:
            consumer = Consumer({
                "bootstrap.servers": ",".join(servers), "group.id": "alone", "enable.auto.commit": False})
            part = TopicPartition(f"topic{source}", 0)
            _, end = consumer.get_watermark_offsets(part, timeout=10)
            consumer.assign([TopicPartition(part.topic, 0, end - events)])
            left = events
            while left > 0:
                left -= len(consumer.consume(2000, timeout=0.1))
            consumer.close()

        yield Kind(
            "kafka", lambda source: {
                "servers": tuple(servers), "topics": (f"topic{source}",), "start": "oldest", "columns": COLUMNS},
            lambda source, numbers: send_kafka(servers, f"topic{source}", bodies(numbers)), read_alone,
            {"WEIR_CONNECTOR_HOSTS": ",".join(servers)})


@contextmanager
def mqtt() -> Iterator[Kind]:
    """MQTT 5 with QoS 1, as mosquitto speaks it."""
    from paho.mqtt import client as paho

    with mqtt_broker() as port:
        def read_alone(source: int, events: int) -> None:
            client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="alone", clean_session=False)
            left = events

            def on_message(*_: Any) -> None:
                nonlocal left
                left -= 1

            client.on_message = on_message
            client.connect("127.0.0.1", port)
            client.subscribe(f"topic{source}", qos=1)
            while left > 0:
                client.loop(0.1)
            client.disconnect()

        def send(source: int, numbers: Sequence[int]) -> None:
            waiting = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="alone", clean_session=False)
            waiting.connect("127.0.0.1", port)  # its session keeps what comes while it is away
            waiting.subscribe(f"topic{source}", qos=1)
            for _ in range(20):
                waiting.loop(0.01)
            waiting.disconnect()
            send_mqtt(port, f"topic{source}", bodies(numbers))

        yield Kind(
            "mqtt", lambda source: {
                "server": f"127.0.0.1:{port}", "topics": (f"topic{source}",), "qos": 1, "columns": COLUMNS},
            send, read_alone, {"WEIR_CONNECTOR_HOSTS": f"127.0.0.1:{port}"})


@contextmanager
def postgresql() -> Iterator[Kind]:
    """A table of PostgreSQL."""
    with database(rows=1) as (address, _):
        def send(source: int, numbers: Sequence[int]) -> None:
            with psycopg.connect(address) as connection, connection.cursor() as cursor:
                cursor.execute(f"create table if not exists t{source} (id bigserial primary key, n bigint, text text)")
                with cursor.copy(f"copy t{source} (n, text) from stdin") as copy:
                    for number in numbers:
                        copy.write_row((number, f"event {number} of a measurement"))

        def read_alone(source: int, events: int) -> None:
            with psycopg.connect(address) as connection:
                after, left = 0, events
                while left > 0:
                    rows = connection.execute(
                        f"select id, n, text from t{source} where id > %s order by id limit 2000", (after,)).fetchall()
                    after, left = rows[-1][0], left - len(rows)

        yield Kind(
            "postgresql", lambda source: {
                "database": address, "table": f"t{source}", "column": "id", "start": "oldest", "columns": COLUMNS},
            send, read_alone, {"WEIR_DATABASE_HOSTS": "127.0.0.1"})


KINDS = {"kafka": kafka, "mqtt": mqtt, "postgresql": postgresql}


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


def quiet(kind: Kind, sources: int) -> dict[str, float]:
    """Cores and MB of the host of so many sources at which nothing comes; nobody reads what it would write."""
    for source in range(sources):
        kind.send(source, range(1))
    with _idle_host(kind, sources) as host:
        time.sleep(2 * SETTLE_S)
        before, began_s = host.cpu_times(), time.monotonic()
        time.sleep(QUIET_S)
        after, elapsed_s = host.cpu_times(), time.monotonic() - began_s
        return {
            "sources": sources, "cores": (after.user + after.system - before.user - before.system) / elapsed_s,
            "memory_mb": host.memory_info().rss / 2**20}


@contextmanager
def _idle_host(kind: Kind, sources: int) -> Iterator[psutil.Process]:
    """A connector host without an agent, once it reads all of its sources."""
    with tempfile.TemporaryDirectory(prefix="weir-connectors-") as folder, _broker(Path(folder)) as url:
        NodeStore(Path(folder), NODE).write_desired(
            desired.desired_of(estate_of(kind, sources=sources), NODE, task_types(), TRIGGER_MS))
        process = spawn(
            [sys.executable, "-m", "workers.engine.connectors.host"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env={
                **os.environ, "REDIS_URL": url, "WEIR_NODE": NODE, "WEIR_DATA_DIR": folder, "PYTHONPATH": str(ROOT)})
        try:
            for line in process.stdout:
                states = [source["state"] for source in json.loads(line)["connectors"].values()]
                if states == ["running"] * sources:
                    break
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield psutil.Process(process.pid)
        finally:
            stop(process, timeout_s=8)


@contextmanager
def _broker(folder: Path) -> Iterator[str]:
    prepared = embedded.prepare(folder)
    process = spawn(prepared.argv, stdout=subprocess.DEVNULL)
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while not embedded.answers(prepared.url):
            _look(deadline_s)
        yield prepared.url
    finally:
        stop(process, timeout_s=5)


def _publish(estate: RunningEstate, wanted: Estate) -> None:
    estate.estate = wanted
    desired.publish(estate.client, desired.desired_of(wanted, NODE, task_types(), estate.trigger_ms))


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
    host = _host(estate).cpu_times()
    parts = estate.cpu_by_part_s()
    host_s = host.user + host.system
    return {"host": host_s, "slot": parts["jvm"] + parts["python"] - host_s, "broker": parts["broker"]}


def _host(estate: RunningEstate) -> psutil.Process:
    agent = psutil.Process(estate.agent_pid)
    return next(
        process for process in agent.children(recursive=True) if "workers.engine.connectors.host" in process.cmdline())


def _alone(read: Callable[[], None], events: int) -> Reading:
    cpu_s, began_s = time.process_time(), time.monotonic()
    read()
    return Reading(events, time.monotonic() - began_s, {"client": time.process_time() - cpu_s})


def _with_defaults(type_name: str, config: dict[str, Any]) -> dict[str, Any]:
    defaults = {
        parameter.name: parameter.default for parameter in task_types()[type_name].parameters
        if parameter.default is not None}
    return {**defaults, **config}


def summary(readings: Sequence[tuple[Reading, Reading]]) -> dict[str, float | None]:
    """Medians over the rounds."""
    return {
        "events_per_s": median([ours.rate_per_s for ours, _ in readings]),
        "us_per_event": median([ours.us_per_event() for ours, _ in readings]),
        **{f"{part}_us": median([ours.us_per_event(part) for ours, _ in readings])
           for part in ("host", "slot", "broker")},
        "came_again": median([float(ours.again) for ours, _ in readings]),
        "client_events_per_s": median([client.rate_per_s for _, client in readings]),
        "client_us_per_event": median([client.us_per_event() for _, client in readings]),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print tables, write JSON."""
    parser = argparse.ArgumentParser(description="Measure what connectors take, against the client library alone.")
    parser.add_argument("--events", type=count, default=30_000, help="events a round; the mock of Kafka keeps 5 MB")
    parser.add_argument("--rounds", type=count, default=3)
    parser.add_argument("--only", choices=sorted(KINDS), help="one kind")
    parser.add_argument("--quiet", type=int, default=100, help="sources at which nothing comes; 0: not measured")
    parser.add_argument("--json", type=Path, default=Path("connectors.json"))
    given = parser.parse_args(arguments)
    result: dict[str, Any] = {"machine": machine(), "load_before": os.getloadavg()[0], "in": {}, "quiet": {}}
    for name in [given.only] if given.only else sorted(KINDS):
        try:
            with KINDS[name]() as kind:
                os.environ.update(kind.settings)
                result["in"][name] = summary(measure(kind, events=given.events, rounds=given.rounds))
                if given.quiet:
                    result["quiet"][name] = quiet(kind, given.quiet)
        except NotInstalled as error:
            print(f"{name}: {error}")
    result["load_after"] = os.getloadavg()[0]
    if result["in"]:
        print(table([{"in": name, **row} for name, row in result["in"].items()]))
    if result["quiet"]:
        print(table([{"quiet": name, **row} for name, row in result["quiet"].items()]))
    write(given.json, result)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
