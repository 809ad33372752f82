"""Kafka that means harm: a batch that nobody can unpack takes no other with it; a cluster leads nobody elsewhere."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import nullcontext, suppress
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from workers.engine.connectors import kafka_source
from workers.engine.connectors.contract import Opening, Polled
from workers.engine.connectors.kafka_options import client_options
from workers.engine.connectors.kafka_source import open_kafka
from workers.engine.connectors.unreadable_batches import UnreadableBatch
from workers.library.config import InvalidConfig
from workers.library.reach import require_members

from .rigs import KafkaRig
from .test_kafka import cluster, config_of, rig  # noqa: F401

LARGE = 3_000_000  # more than the client of these tests unpacks; a usual one takes 100 MB


@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_batch_that_cannot_be_unpacked_is_one_dead_letter_and_all_else_comes_once(
    rig: KafkaRig, monkeypatch: pytest.MonkeyPatch, count: int  # noqa: F811
) -> None:
    monkeypatch.setattr(kafka_source, "client_options", lambda *given: client_options(*given) | {
        "receive.message.max.bytes": 2_000_000})
    produced = {f"p{partition} {number}" for partition in (0, 1) for number in range(6)}
    for number in range(6):
        if number == 3:
            packed(rig, *(b"\0" * (LARGE // count) for _ in range(count)))
        for partition in (0, 1):
            rig._producer.produce(rig.topics[0], f"p{partition} {number}".encode(), partition=partition)
        assert rig._producer.flush(30) == 0
    reader = open_kafka(Opening("t", config_of(rig, columns=[], format="text")))
    come, lost, deadline_s = [], [], time.monotonic() + 60
    while (len(come) < len(produced) or not lost) and time.monotonic() < deadline_s:
        polled = reader.poll(0.2)
        come, lost = come + [message.body.decode() for message in polled.messages], lost + list(polled.lost)
    come += [message.body.decode() for message in reader.poll(1.0).messages]
    position = reader.position()["offsets"][rig.topics[0]]
    reader.close(for_good=True)
    assert sorted(come) == sorted(produced), "each once"
    [letter] = lost
    assert letter.place == f"{rig.topics[0]}[0] from 3" and f"up to {count} messages" in letter.reason
    assert (position["0"], position["1"]) == (6 + count, 6)


def test_what_came_with_news_of_another_partition_is_not_asked_for_again(rig: KafkaRig) -> None:  # noqa: F811
    """Partitions are assigned anew where one is read elsewhere: from behind all that was taken by then."""
    reader = open_kafka(Opening("t", config_of(rig, columns=[], format="text")))
    topic, real = rig.topics[0], reader._consumer
    rig.produce(b"kept")
    reader._offsets[topic] |= {"0": 7, "1": 4}
    assigned: list[dict[int, int]] = []
    waiting = [_Gone(topic, 0), _Came(topic, 1, 4)]

    class Scripted:
        def consume(self, most: int, timeout: float) -> list[Any]:
            come, waiting[:] = list(waiting), []
            return come

        def assign(self, parts: list[Any]) -> None:
            assigned.append({part.partition: part.offset for part in parts})

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    reader._consumer = Scripted()
    polled: Polled = reader.poll(0.1)
    real.close()
    assert [message.place for message in polled.messages] == [f"{topic}[1] at 4"]
    assert [at[1] for at in assigned] == [5], "it would come twice"


@pytest.mark.parametrize("length", [1, 2, 3, 50, 1_000])
@pytest.mark.parametrize("begin", [0, 1, 49])
def test_the_end_of_a_batch_is_found_wherever_it_is(length: int, begin: int) -> None:
    """Against a log of batches, of which two neighbours cannot be read."""
    first, behind, end = 100, 100 + length, 5_000
    at = first + min(begin, length - 1)
    search, steps = UnreadableBatch(first, at, end), 0
    while not search.is_found:
        place = search.at
        search = search.after(first if first <= place < behind else behind if place < behind + 9 else None)
        steps += 1
        assert steps < 20
    assert search.behind == behind


def packed(rig: KafkaRig, *bodies: bytes) -> None:  # noqa: F811
    """Messages as one batch, of a few hundred bytes."""
    producer = Producer({
        "bootstrap.servers": ",".join(rig.servers), "compression.codec": "zstd", "linger.ms": 500,
        "message.max.bytes": 100_000_000, "batch.size": 100_000_000, "log_level": 0})
    for body in bodies:
        producer.produce(rig.topics[0], body, partition=0)
    assert producer.flush(30) == 0


class _Came:
    """A message as the client gives it."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        self._place = (topic, partition, offset)

    def __len__(self) -> int:
        return 1

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int:
        return self._place[2]

    def error(self) -> Any:
        return None

    def value(self) -> bytes:
        return b"x"

    def key(self) -> None:
        return None

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 1


class _Gone(_Came):
    """What the client says where an offset is no more."""

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(topic, partition, -1001)

    def error(self) -> Any:
        return KafkaError(KafkaError.OFFSET_OUT_OF_RANGE)


@pytest.mark.parametrize(("member", "named", "is_let"), [
    ("127.0.0.1:6379", "kafka.example.org:9092", False), ("localhost:22", "kafka.example.org:9092", False),
    ("::1:9092", "kafka.example.org", False), ("169.254.169.254:80", "kafka.example.org", False),
    ("0.0.0.0:1", "kafka.example.org", False), ("::ffff:127.0.0.1:1", "kafka.example.org", False),
    ("127.0.0.1:6379", "127.0.0.1", False), ("127.0.0.1:9092", "127.0.0.1", True),
    ("localhost:9094", "127.0.0.1:9094", True), ("10.0.0.9:9092", "kafka.example.org", True),
    ("b1.invalid:9092", "kafka.example.org", True)])
def test_a_cluster_leads_nobody_to_this_machine(
    member: str, named: str, is_let: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", named)
    host, _, port = member.rpartition(":")
    with nullcontext() if is_let else pytest.raises(InvalidConfig, match="on this machine"):
        require_members([SimpleNamespace(host=host, port=int(port))], usual_port=9092)


def test_a_cluster_that_leads_to_a_port_that_nobody_named_is_not_read(
    rig: KafkaRig, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    """The door that was named passes on to a cluster, which says other ports of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        threading.Thread(target=_passed_on, args=(door, rig.servers[0]), daemon=True).start()
        named = f"127.0.0.1:{door.getsockname()[1]}"
        monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", named)
        with pytest.raises(InvalidConfig, match="on this machine"):
            open_kafka(Opening("t", config_of(rig, servers=[named])))


def _passed_on(door: socket.socket, server: str) -> None:
    host, _, port = server.rpartition(":")
    with suppress(OSError):
        while True:
            near, _ = door.accept()
            far = socket.create_connection((host, int(port)))
            for one_end, other_end in ((near, far), (far, near)):
                threading.Thread(target=_copied, args=(one_end, other_end), daemon=True).start()


def _copied(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(65_536):
            target.sendall(part)
