"""Each event once in Kafka, by its transactions: played, since librdkafka's mock cluster keeps neither transactions nor
the places that are committed with them. The played cluster does what Kafka's documentation says of them."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.contracts.offsets import START, Offset
from workers.engine.sinks import kafka_sink
from workers.engine.sinks.contract import Batch, Overtaken, RefusedRow, SinkAway, SinkOpening, SinkRefused
from workers.engine.sinks.kafka_sink import open_kafka

CONFIG = {"servers": ["kafka.example.org"], "topic": "rows", "key": None, "columns": [], "security": "plaintext",
          "mechanism": "PLAIN", "username": None, "password": None, "ca": None}
TOO_LARGE = 1_000
RETENTION_S = 7 * 24 * 3600.0  # of places of groups without members, as clusters have it by default


class Died(BaseException):
    """The host was killed here."""


class Cluster:
    """Messages that are committed, the places of groups, and the newest epoch of each transactional id."""

    def __init__(self) -> None:
        self.topics, self.brokers = {"rows": None}, {}
        self.messages: list[dict[str, Any]] = []
        self.places: dict[str, int] = {}
        self.now_s, self.committed_s = 0.0, 0.0
        self.epochs: Counter[str] = Counter()
        self.open: dict[str, tuple[int, list[dict[str, Any]], dict[str, int]]] = {}
        self.step: Callable[[], None] = lambda: None

    def answer(self) -> None:
        """Something is asked: a host may die before it, or after it."""
        self.step()


class PlayedProducer:
    """A transactional producer of the cluster that is played."""

    cluster: Cluster

    def __init__(self, options: dict[str, Any]) -> None:
        self._id = options["transactional.id"]
        self._waiting: list[tuple[dict[str, Any], Any]] = []

    def init_transactions(self, _timeout: float) -> None:
        self.cluster.answer()
        self.cluster.epochs[self._id] += 1
        self.cluster.open.pop(self._id, None)  # what another had begun is given up
        self._epoch = self.cluster.epochs[self._id]
        self.cluster.answer()

    def begin_transaction(self) -> None:
        self._messages: list[dict[str, Any]] = []
        self._places: dict[str, int] = {}

    def produce(self, _topic: str, value: bytes, _key: bytes | None, *, on_delivery: Any) -> None:
        if len(value) > TOO_LARGE:
            raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(
                confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE))
        self._waiting.append((json.loads(value), on_delivery))

    def poll(self, _timeout: float) -> int:
        return 0

    def flush(self, _timeout: float) -> int:
        self._require_epoch()
        for message, delivered in self._waiting:
            self._messages.append(message)
            delivered(None, message)
        self._waiting = []
        self.cluster.answer()
        return 0

    def send_offsets_to_transaction(self, places: list[Any], group: str, _timeout: float) -> None:
        self._require_epoch()
        self._places = {group: places[0].offset}

    def commit_transaction(self, _timeout: float) -> None:
        self._require_epoch()
        self.cluster.messages += self._messages
        self.cluster.places |= self._places
        if self._places:
            self.cluster.committed_s = self.cluster.now_s
        self.cluster.answer()

    def abort_transaction(self, _timeout: float) -> None:
        self._require_epoch()

    def purge(self) -> None:
        return

    def _require_epoch(self) -> None:
        self.cluster.answer()
        if self._epoch != self.cluster.epochs[self._id]:
            raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(
                confluent_kafka.KafkaError.INVALID_PRODUCER_EPOCH))


class PlayedConsumer:
    """A consumer that asks for places and topics."""

    cluster: Cluster

    def __init__(self, options: dict[str, Any]) -> None:
        assert options["isolation.level"] == "read_committed"
        self._group = options["group.id"]

    def list_topics(self, *, timeout: float) -> Any:
        return self.cluster

    def committed(self, places: list[Any], *, timeout: float) -> list[Any]:
        self.cluster.answer()
        if self.cluster.now_s - self.cluster.committed_s > RETENTION_S:
            self.cluster.places.clear()
        places[0].offset = self.cluster.places.get(self._group, -1001)
        return places

    def consumer_group_metadata(self) -> str:
        return self._group

    def close(self) -> None:
        return


@pytest.fixture(autouse=True)
def _played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "kafka.example.org")
    monkeypatch.setattr(confluent_kafka, "Producer", PlayedProducer)
    monkeypatch.setattr(confluent_kafka, "Consumer", PlayedConsumer)


def played() -> Cluster:
    cluster = PlayedProducer.cluster = PlayedConsumer.cluster = Cluster()
    return cluster


def opened(noted: Offset = START) -> Any:
    return open_kafka(SinkOpening("weir-1", "task", CONFIG, ["n"], noted))


def batch(first: int, last: int, **more: Any) -> Batch:
    """Blocks first to last, each of two events."""
    rows = pa.table({"n": [n for block in range(first, last + 1) for n in (2 * block, 2 * block + 1)]})
    return Batch(rows, after=Offset(f"{first - 1}-0"), until=Offset(f"{last}-0"), **more)


def refuse_none(rows: Any) -> None:
    raise AssertionError(rows)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_each_event_is_committed_once_whoever_dies_or_comes_back_from_the_dead(seed: int) -> None:
    cluster, rng, blocks = played(), random.Random(seed), 12
    left = rng.randrange(3, 30)

    def step() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            left = rng.randrange(3, 30)
            raise Died

    writers: list[Any] = []  # the newest is the one that runs; those before it were thought dead
    cluster.step = step
    place = 0
    for _ in range(500):
        if place == blocks:
            break
        try:
            if not writers or rng.random() < 0.1:
                writers.append(opened())
                place = int(writers[-1].position().split("-")[0]) if writers[-1].position() else 0
                continue
            zombies = writers[:-1]
            if zombies and rng.random() < 0.3:
                zombie = rng.choice(zombies)
                after = int(zombie.position().split("-")[0]) if zombie.position() else 0
                with pytest.raises((Overtaken, Died)):
                    zombie.write(batch(after + 1, after + 1), refuse_none)
                continue
            last = min(blocks, place + rng.randrange(1, 4))
            writers[-1].write(batch(place + 1, last), refuse_none)
            place = last
        except (Died, Overtaken):
            if writers and rng.random() < 0.5:
                writers.pop()
            writers.append(None)
            writers = [writer for writer in writers if writer is not None]
            cluster.step = lambda: None
            writers.append(opened())
            place = int(writers[-1].position().split("-")[0]) if writers[-1].position() else 0
            cluster.step = step
    assert place == blocks
    assert Counter(message["n"] for message in cluster.messages) == Counter(range(2, 2 * blocks + 2))


def test_what_is_too_large_is_refused_and_the_rest_is_committed() -> None:
    cluster = played()
    writer = open_kafka(SinkOpening("weir-1", "task", CONFIG, ["n"], START))
    refused: list[RefusedRow] = []
    writer.write(Batch(pa.table({"n": ["a", "b" * 2_000, "c"]}), START, Offset("1-0")), refused.extend)
    assert [row.row for row in refused] == [1] and "is not taken by Kafka" in refused[0].reason
    assert [message["n"] for message in cluster.messages] == ["a", "c"]
    assert opened().position() == Offset("1-0")


def test_what_is_written_again_moves_no_place() -> None:
    cluster = played()
    writer = opened()
    writer.write(batch(1, 2), refuse_none)
    writer.write(batch(1, 1, again=True), refuse_none)
    assert len(cluster.messages) == 6 and opened().position() == Offset("2-0")


def test_the_place_of_a_sink_at_which_nothing_comes_for_weeks_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = played()
    monkeypatch.setattr(kafka_sink, "monotonic", lambda: cluster.now_s)
    writer = opened()
    writer.write(batch(1, 2), refuse_none)
    for hour in range(21 * 24):
        cluster.now_s = hour * 3600.0
        writer.rest()
    assert opened().position() == Offset("2-0") and len(cluster.messages) == 4
    again = opened()
    with pytest.raises(Overtaken):  # one that was overtaken keeps nothing
        cluster.now_s += 7 * 3600.0
        writer.rest()
    again.rest()


def test_a_topic_that_is_not_there_is_told() -> None:
    played().topics = {}
    with pytest.raises(SinkRefused, match="rows is not there"):
        opened()


def test_a_cluster_that_does_not_answer_is_away() -> None:
    def silent() -> None:
        raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(confluent_kafka.KafkaError._TRANSPORT))

    played().step = silent
    with pytest.raises(SinkAway):
        opened()
