"""A source or sink that ends its host, by its memory or by a crash, is left alone and takes no other with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from confluent_kafka import Producer

from scheduler.contracts.desired import DesiredState, WantedSlot
from scheduler.contracts.looks import FAILED
from scheduler.contracts.reports import ConnectorReport
from scheduler.model.dataflow import Task
from workers.engine.agents.node_files.node_store import NodeStore
from workers.engine.channels import keys
from workers.engine.connectors.intake import IntakeStore
from workers.engine.connectors.memory_watch import TOO_MUCH_MEMORY
from workers.engine.connectors.source_suspects import LEFT_ALONE_MS, SourceSuspects
from workers.processes import spawn

from .playing import fragment_of, until
from .rigs import KafkaRig
from .test_looks import Node

LIMIT_MB = 450
UNPACKED = 700_000_000  # of a batch of three megabytes


@dataclass
class PlayedHosts:
    """Hosts one after the other, each of which ends where a guilty source is read; time goes by turns."""

    folder: Path
    guilty: frozenset[str]
    crashes: bool = False
    sources: tuple[str, ...] = ("a", "b", "c", "d")
    now_ms: int = 1_000
    ends: int = 0
    spoils: str = ""  # who ends a host once another has its turn
    away: str = ""  # whose server does not answer

    def host(self) -> None:
        """One host, until it ends or a minute has gone by."""
        suspects = SourceSuspects(self.folder, clock_ms=lambda: self.now_ms)
        crashed = self.folder / "connectors.crashed"
        crashed.write_text("")
        runners: dict[str, Any] = {}
        self.read: set[str] = set()
        for _ in range(60):
            self.now_ms += 1_000
            self.held = suspects.held(self.sources, runners)
            for name in self.sources:
                if name not in self.held and name not in runners:
                    runners[name] = SimpleNamespace(
                        has_given=name not in self.guilty,
                        report=lambda name=name: ConnectorReport(
                            "away" if name == self.away else "running", self.now_ms))
            self.read |= runners.keys()
            suspects.note_work(runners)
            if self.guilty & runners.keys() or (self.spoils in runners and self.held and len(runners) > 1):
                if self.crashes:
                    crashed.write_text("Fatal Python error: Segmentation fault")
                    os.utime(crashed, ns=(self.now_ms * 1_000_000,) * 2)
                else:
                    suspects.note_end(taken_bytes=1 << 30)
                self.ends += 1
                return


@pytest.mark.parametrize(("crashes", "words"), [(False, "1,024 MB"), (True, "crashed")])
@pytest.mark.parametrize("guilty", [{"a"}, {"d"}, {"b", "c"}, {"a", "b", "c", "d"}, set()])
def test_who_is_guilty_is_left_alone_and_all_others_are_read(
    tmp_path: Path, guilty: set[str], crashes: bool, words: str
) -> None:
    hosts = PlayedHosts(tmp_path, frozenset(guilty), crashes)
    while hosts.ends < 20:
        ends = hosts.ends
        hosts.host()
        if hosts.ends == ends:
            break
    assert hosts.held.keys() == guilty and hosts.read == {*hosts.sources} - guilty
    assert hosts.ends <= 1 + 2 * len(guilty), "none ends it more often than it takes to know"
    for report in hosts.held.values():
        assert report.state == "retrying" and words in (report.error or "") and report.retry_at_ms > hosts.now_ms
    hosts.now_ms += LEFT_ALONE_MS
    hosts.guilty = frozenset()
    hosts.host()
    assert hosts.read == {*hosts.sources} and not hosts.held, "it is tried again by itself"


@pytest.mark.parametrize("crashes", [False, True])
def test_who_ends_the_host_in_the_turns_of_others_has_none_of_them_left_alone(tmp_path: Path, crashes: bool) -> None:
    """A server that is away clears nobody: each end in its source's turn stays counted."""
    hosts = PlayedHosts(tmp_path, frozenset("abcd"), crashes, away="b")
    for _ in range(3):
        hosts.guilty, hosts.spoils = frozenset("abcd"), ""  # an end of which nobody knows whose it is
        hosts.host()
        hosts.guilty, hosts.spoils, ends = frozenset(), "a", 0
        while ends != hosts.ends:
            ends = hosts.ends
            hosts.host()
            assert not json.loads((tmp_path / "connectors.suspects").read_text())["given_up"]
        assert hosts.read == {*hosts.sources}
    assert hosts.ends == 6


@pytest.mark.parametrize("text", ["", "[]", "{", '{"sources": 7, "at_ms": 1}', "null"])
def test_what_is_no_note_is_as_if_it_were_not_there(tmp_path: Path, text: str) -> None:
    for name in ("connectors.ended", "connectors.suspects", "connectors.working", "connectors.crashed"):
        (tmp_path / name).write_text(text)
    assert SourceSuspects(tmp_path, clock_ms=lambda: 1).held(("a",), {}) == {}


def test_an_end_counts_once_whatever_comes_after_it(tmp_path: Path) -> None:
    def suspected() -> dict[str, Any]:
        SourceSuspects(tmp_path, clock_ms=lambda: 9_000)
        return json.loads((tmp_path / "connectors.suspects").read_text())

    (tmp_path / "connectors.ended").write_text(json.dumps({"at_ms": 1_000, "sources": ["a"], "taken_mb": 9}))
    suspected()
    crashed = tmp_path / "connectors.crashed"
    crashed.write_text("Fatal Python error: Segmentation fault")
    (tmp_path / "connectors.working").write_text('["b", "c"]')
    suspected()
    crashed.write_text("")
    assert suspected()["deaths"] == {"a": 1} and not suspected()["given_up"]


@pytest.fixture
def rig() -> Iterator[KafkaRig]:
    rig = KafkaRig()
    yield rig
    rig.close()


def bombed(rig: KafkaRig) -> Task:
    """A source with three megabytes that become a lot."""
    rig.anew()
    producer = Producer({
        "bootstrap.servers": ",".join(rig.servers), "compression.codec": "lz4", "linger.ms": 100, "log_level": 0,
        "message.max.bytes": 1_000_000_000, "queue.buffering.max.kbytes": 2_097_151})
    producer.produce(rig.topics[0], b"\0" * UNPACKED, partition=0)
    assert producer.flush(60) == 0
    return rig.task(columns=["n:bigint"])


@pytest.mark.broker
@pytest.mark.timeout(300)
def test_a_look_that_becomes_too_large_ends_and_says_so(
    rig: KafkaRig, broker: redis.Redis, broker_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = bombed(rig)
    monkeypatch.setattr("workers.engine.agents.supervising.look_runner.START_S", 240.0)
    node = Node(broker, broker_url, tmp_path, {**rig.environment, "WEIR_CONNECTOR_MEMORY_MB": str(LIMIT_MB)})
    state = node.look(bomb, waits_s=200.0).state
    node.runner.stop()
    assert (state.state, state.code) == (FAILED, "look_too_large") and f"more than {LIMIT_MB} MB" in state.message


CRASHING = """
import ctypes
from workers.engine.connectors import connector_host
from workers.engine.{module} import {name} as client
whole = client.open_kafka
client.open_kafka = lambda opening: ctypes.string_at(0) if opening.task == {task!r} else whole(opening)
connector_host.main()
"""


def too_large(rig: KafkaRig) -> tuple[Task, str, list[str]]:
    bomb = bombed(rig)
    return bomb, bomb.id, ["-m", "workers.engine.connectors.connector_host"]


def crashing_source(rig: KafkaRig) -> tuple[Task, str, list[str]]:
    rig.anew()
    task = rig.task(columns=["n:bigint"])
    return task, task.id, ["-c", CRASHING.format(module="connectors", name="kafka_source", task=task.id)]


def crashing_sink(rig: KafkaRig) -> tuple[Task, str, list[str]]:
    rig.anew()
    task = Task("sink", "to_kafka", {"servers": rig.servers, "topic": rig.topics[0]})
    return task, "f1-0.0", ["-c", CRASHING.format(module="sinks", name="kafka_sink", task=task.id)]


@pytest.mark.broker
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("guilty", "code"), [
    (too_large, TOO_MUCH_MEMORY), (crashing_source, -signal.SIGSEGV), (crashing_sink, -signal.SIGSEGV)])
def test_what_ends_its_host_is_left_alone_and_all_else_is_read(
    rig: KafkaRig, broker: redis.Redis, broker_url: str, tmp_path: Path, guilty: Any, code: int
) -> None:
    """By a batch that becomes too large, or by a crash of a client in C."""
    harm, name, program = guilty(rig)
    broker.hset(keys.meta("f1-0.0"), "schema", '{"fields": [{"name": "n"}]}')  # as the query of a sink has written it
    rig.anew()
    honest = rig.task(columns=["n:bigint"])
    rig.produce(*(b'{"n": %d}' % number for number in range(5)))
    NodeStore(tmp_path, "n1").write_desired(DesiredState(version=1, node="n1", generation=1, slots={
        "0": WantedSlot((fragment_of(harm, "f1-0"), fragment_of(honest, "f1-1")))}))
    store, codes, suspects = IntakeStore(broker), [], tmp_path / "nodes" / "n1" / "connectors" / "connectors.suspects"
    environment = {
        **os.environ, **rig.environment, "REDIS_URL": broker_url, "WEIR_DATA_DIR": str(tmp_path), "WEIR_NODE": "n1",
        "WEIR_CONNECTOR_MEMORY_MB": str(LIMIT_MB)}

    def is_over() -> bool:
        nonlocal host
        if host.poll() is not None:
            codes.append(host.returncode)
            host = started()
        given_up = json.loads(suspects.read_text())["given_up"] if suspects.exists() else []
        return given_up == [name] and store.state(honest.id).seq == 5

    def started() -> subprocess.Popen[bytes]:
        return spawn(
            [sys.executable, *program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=None)

    host = started()
    try:
        until(is_over, within_s=240, saying=lambda: (codes, store.state(honest.id)))
    finally:
        host.kill()
    assert set(codes) == {code} and len(codes) <= 3, "it ended itself, and the machine did not"
    assert store.state(harm.id).seq == 0
