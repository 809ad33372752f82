"""A server of Kafka that says more than anybody has room for: who asked is told, and nobody else is held up."""

from __future__ import annotations

import gc
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from scheduler.contracts.offsets import START
from scheduler.model.bounds import CLUSTER_SERVERS, CLUSTER_TOPICS
from scheduler.model.errors import WeirError
from workers.engine.connectors.contract import Opening
from workers.engine.connectors.kafka_source import KafkaReader, look_at_kafka, open_kafka
from workers.engine.sinks import kafka_sink
from workers.engine.sinks.contract import SinkOpening

FETCH, OFFSETS, METADATA, COORDINATOR, VERSIONS = 1, 2, 3, 10, 18
LET = {0: (3, 3), FETCH: (4, 4), OFFSETS: (1, 1), METADATA: (1, 4), COORDINATOR: (0, 0), VERSIONS: (0, 3)}
CONFIG = {"security": "plaintext", "ca": None, "certificate": None, "columns": ()}


class HostileCluster:
    """Tells its versions and coordinator, its topics with how many partitions, and servers that it has beside itself;
    else what it is to answer to each kind of question, and nothing where that is not said."""

    def __init__(
        self, servers: list[tuple[str, int]], topics: dict[str, int], answers: Mapping[int, bytes] | None = None
    ) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        address = ("127.0.0.1", self._listening.getsockname()[1])
        self._answers = {
            METADATA: metadata([address, *servers], topics), VERSIONS: versions(),
            COORDINATOR: struct.pack("!hi", 0, 0) + text(address[0]) + struct.pack("!i", address[1]), **(answers or {})}
        self.asked: list[int] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._speak, args=(client,), daemon=True).start()

    def _speak(self, client: socket.socket) -> None:
        with suppress(OSError, struct.error), client, client.makefile("rb") as requests:
            while True:
                [length] = struct.unpack("!i", requests.read(4))
                kind, _, number = struct.unpack("!hhi", requests.read(length)[:8])
                self.asked.append(kind)
                if kind == FETCH:
                    time.sleep(0.05)  # it is asked again and again
                if kind in self._answers:
                    client.sendall(struct.pack("!ii", len(self._answers[kind]) + 4, number) + self._answers[kind])


def text(value: str) -> bytes:
    return struct.pack("!h", len(value)) + value.encode()


def versions() -> bytes:
    ranges = b"".join(struct.pack("!hhhx", kind, low, high) for kind, (low, high) in LET.items())
    return struct.pack("!hB", 0, len(LET) + 1) + ranges + struct.pack("!ix", 0)


def metadata(servers: list[tuple[str, int]], topics: dict[str, int]) -> bytes:
    """As of version 4; each partition is the first server's."""
    answer = [struct.pack("!ii", 0, len(servers))]
    answer += [struct.pack("!i", node) + text(host) + struct.pack("!ih", port, -1)
               for node, (host, port) in enumerate(servers)]
    answer.append(struct.pack("!hii", -1, 0, len(topics)))
    for name, count in topics.items():
        answer += [struct.pack("!h", 0) + text(name) + struct.pack("!xi", count),
                 *(struct.pack("!hiiiiii", 0, part, 0, 1, 0, 1, 0) for part in range(count))]
    return b"".join(answer)


def varint(number: int) -> bytes:
    """As protocol buffers have it, for -1 to 8,191."""
    number = number * 2 if number >= 0 else 1
    return bytes([number]) if number < 128 else bytes([number & 127 | 128, number >> 7])


def fetched(header_names: list[bytes]) -> bytes:
    """An answer of version 4 with a batch: a message for each name of a header."""
    records = b""
    for place, name in enumerate(header_names):
        header = varint(len(name)) + name + varint(1) + b"h"
        record = b"\0" + varint(0) + varint(place) + varint(-1) + varint(1) + b"v" + varint(1) + header
        records += varint(len(record)) + record
    count = len(header_names)
    rest = struct.pack("!ibIhiqqqhii", 0, 2, 0, 0, count - 1, 1_000, 1_000, -1, -1, -1, count) + records
    batch = struct.pack("!qi", 0, len(rest)) + rest
    return struct.pack("!ii", 0, 1) + text("rows") + struct.pack(
        "!iihqqii", 1, 0, 0, count, count, 0, len(batch)) + batch


def opening_of(address: str) -> Opening:
    return Opening("t", CONFIG | {
        "servers": [address], "topics": ["rows"], "start": "oldest", "format": "text", "include": ["kafka_headers"]})


def read(address: str) -> None:
    open_kafka(opening_of(address)).close(for_good=True)


def look(address: str) -> None:
    list(look_at_kafka(opening_of(address), 5))


def write(address: str) -> None:
    config = CONFIG | {"servers": [address], "topic": "rows", "key": None}
    kafka_sink.open_kafka(SinkOpening("weir-t", "t", config, ["n"], START)).close()


@contextmanager
def cluster(
    monkeypatch: pytest.MonkeyPatch, servers: list[tuple[str, int]], topics: dict[str, int],
    answers: Mapping[int, bytes] | None = None,
) -> Iterator[HostileCluster]:
    with closing(HostileCluster(servers, topics, answers)) as hostile:
        monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", hostile.address)
        yield hostile


@pytest.mark.parametrize("ask", [read, look, write])
@pytest.mark.parametrize(("servers", "topics", "words"), [
    ([(f"10.9.{node // 250}.{node % 250}", 9092) for node in range(CLUSTER_SERVERS.most)], {"rows": 1}, "501 servers"),
    ([], {"rows": 1, "more": CLUSTER_TOPICS.most // 26}, "essage|_BAD_MSG"),
    ([("127.0.0.1", 1)], {"rows": 1}, "on this machine"),
], ids=["many servers", "many partitions", "this machine"])
def test_what_a_cluster_says_has_bounds(
    ask: Callable[[str], None], servers: list[tuple[str, int]], topics: dict[str, int], words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who would read 18 MB of partitions has a million objects; for each server a client has a thread."""
    with cluster(monkeypatch, servers, topics) as hostile, pytest.raises(WeirError, match=words):
        ask(hostile.address)
    assert METADATA in hostile.asked


@pytest.mark.parametrize("ask", [read, write])
def test_a_client_that_gets_no_answer_leaves_no_thread(
    ask: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even until Python looks for what nobody names: it is tried again for as long as it is wanted."""
    monkeypatch.setattr(kafka_sink, "TIMEOUT_S", 0.5)
    monkeypatch.setattr(KafkaReader, "timeout_s", 0.5)
    gc.disable()
    try:
        with cluster(monkeypatch, [], {"rows": 1}) as hostile, pytest.raises(WeirError):
            ask(hostile.address)
        assert not clients()
    finally:
        gc.enable()


def test_a_header_whose_name_is_no_text_ends_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever publishes can write one, and servers pass it on. Once Python had made the call quicker, the process that
    reads all sources of a node ended; before, the source began again at the same message."""
    names = [b"sound"] * 60 + [b"\xff"]
    answers = {
        FETCH: fetched(names), OFFSETS: struct.pack("!i", 1) + text("rows") + struct.pack("!iihqq", 1, 0, 0, -1, 0)}
    with cluster(monkeypatch, [], {"rows": 1}, answers) as hostile, closing_reader(hostile.address) as reader:
        headers: list[Any] = []
        while len(headers) < len(names):
            headers += [message.extras["kafka_headers"] for message in reader.poll(1.0).messages]
    assert headers == ['[["sound", "h"]]'] * 60 + [None]


@contextmanager
def closing_reader(address: str) -> Iterator[KafkaReader]:
    reader = open_kafka(opening_of(address))
    try:
        yield reader
    finally:
        reader.close(for_good=True)


def clients() -> list[str]:
    """Threads of Kafka's client in this process."""
    names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    return [name for name in names if name.startswith("rdk:")]
