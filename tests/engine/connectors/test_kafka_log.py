"""Kafka as its log is: ends of transactions and messages that were given up have offsets, partitions are added, topics
made anew, old segments deleted. Played by the protocol's rules, for librdkafka's mock cluster has none of that."""

from __future__ import annotations

import json
import random
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest
from confluent_kafka import KafkaError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.model.bounds import CLUSTER_BYTES
from workers.engine.connectors.contract import Opening
from workers.engine.connectors.formats import decode, layout_of
from workers.engine.connectors.kafka_source import open_kafka

CONFIG = {
    "servers": ["kafka.example.org"], "topics": ["rows"], "start": "oldest", "columns": ["n:bigint"], "format": "json",
    "include": (), "security": "plaintext", "mechanism": "PLAIN", "username": None, "password": None, "ca": None,
    "certificate": None, "private_key": None}
MARK, GIVEN_UP = object(), object()


@dataclass
class Record:
    """A message, or an event in place of one, as the client gives it."""

    part: int
    at: int
    body: bytes | None = None
    name: bytes | None = None
    wrong: int | None = None

    def __len__(self) -> int:
        return len(self.body or b"")

    def topic(self) -> str:
        return "rows"

    def partition(self) -> int:
        return self.part

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes | None:
        return self.body

    def key(self) -> bytes | None:
        return self.name

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return confluent_kafka.TIMESTAMP_CREATE_TIME, 1_700_000_000_000 + self.at

    def error(self) -> KafkaError | None:
        return None if self.wrong is None else KafkaError(self.wrong)


@dataclass
class Topic:
    """Partitions: what is at each offset (a number, None for a message without a value, or no message at all), and the
    first offset that is kept."""

    partitions: dict[int, list[Any]] = field(default_factory=lambda: {0: []})
    low: dict[int, int] = field(default_factory=dict)
    id: confluent_kafka.Uuid | None = None
    error = None
    brokers: dict[int, Any] = field(default_factory=dict)

    @property
    def topics(self) -> dict[str, Topic]:
        return {"rows": self}


class PlayedConsumer:
    """A consumer that reads committed messages of partitions that are assigned by hand."""

    topic: Topic

    def __init__(self, options: dict[str, Any]) -> None:
        assert options["isolation.level"] == "read_committed" and options["auto.offset.reset"] == "error"
        self._tells_ends = options["enable.partition.eof"]
        self._places: dict[int, int] = {}
        self._told_ends: dict[int, int] = {}

    def get_watermark_offsets(self, part: Any, *, timeout: float) -> tuple[int, int]:
        return self.topic.low.get(part.partition, 0), len(self.topic.partitions[part.partition])

    def assign(self, parts: list[Any]) -> None:
        assert all(part.partition in self.topic.partitions for part in parts), "no such partition"
        self._places = {part.partition: part.offset for part in parts}
        self._told_ends = {}

    def consume(self, count: int, *, timeout: float) -> list[Record]:
        got: list[Record] = []
        for part, place in self._places.items():
            log = self.topic.partitions[part]
            if not self.topic.low.get(part, 0) <= place <= len(log):
                return got or [Record(part, place, wrong=KafkaError._AUTO_OFFSET_RESET)]
            while place < len(log) and len(got) < count:
                record = log[place]
                if record is not MARK and record is not GIVEN_UP:
                    body = None if record is None else json.dumps({"n": record}).encode()
                    got.append(Record(part, place, body, b"k"))
                place += 1
            self._places[part] = place
            if self._tells_ends and place == len(log) and self._told_ends.get(part) != place and len(got) < count:
                self._told_ends[part] = place  # once at each end
                got.append(Record(part, place, wrong=KafkaError._PARTITION_EOF))
        return got

    def close(self) -> None:
        return


class PlayedAdmin:
    """What tells the ids of topics, where the cluster has any; else it does not answer."""

    def __init__(self, options: dict[str, Any]) -> None:
        assert "group.id" not in options and options["receive.message.max.bytes"] == CLUSTER_BYTES.most

    def list_topics(self, *_: Any, timeout: float) -> Topic:
        return PlayedConsumer.topic

    def describe_topics(self, topics: Any, *, request_timeout: float) -> dict[str, Future]:
        answers: dict[str, Future] = {name: Future() for name in topics.topic_names}
        for answer in answers.values():
            if PlayedConsumer.topic.id is None:
                answer.set_exception(confluent_kafka.KafkaException(KafkaError(KafkaError._TIMED_OUT)))
            else:
                answer.set_result(SimpleNamespace(topic_id=PlayedConsumer.topic.id))
        return answers


@pytest.fixture(autouse=True)
def _played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "kafka.example.org")
    monkeypatch.setattr(confluent_kafka, "Consumer", PlayedConsumer)
    monkeypatch.setattr(confluent_kafka.admin, "AdminClient", PlayedAdmin)


def played(**topic: Any) -> Topic:
    PlayedConsumer.topic = Topic(**topic)
    return PlayedConsumer.topic


def read(reader: Any) -> tuple[list[int], list[Any], Any]:
    """What polls give until there is no more, and the place after it."""
    numbers, lost, place = [], [], None
    for _ in range(100):
        polled = reader.poll(0.0)
        numbers += [json.loads(message.body)["n"] for message in polled.messages]
        lost += polled.lost
        if polled.position == place:
            return numbers, lost, json.loads(json.dumps(place))
        place = polled.position
    raise AssertionError("there is no end")


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_each_committed_message_is_read_once_and_what_is_none_is_not_missed(seed: int) -> None:
    rng, topic, sent, got, place = random.Random(seed), played(), 0, [], None
    reader = open_kafka(Opening("t", CONFIG))
    for _ in range(30):
        match rng.choice(("send", "send", "end", "give up", "read", "restart", "more", "delete")):
            case "send":
                topic.partitions[rng.choice(list(topic.partitions))].append(sent)
                sent += 1
            case "end":
                topic.partitions[rng.choice(list(topic.partitions))].append(MARK)
            case "give up":
                topic.partitions[rng.choice(list(topic.partitions))] += [GIVEN_UP, MARK]
            case "more":
                topic.partitions[len(topic.partitions)] = []
                reader._look_at_s = 0.0
            case "restart" if place is not None:
                reader = open_kafka(Opening("t", CONFIG, place))
            case "delete":  # all that was there has been read
                numbers, lost, place = read(reader)
                got += numbers
                assert not lost
                topic.low = {part: len(log) for part, log in topic.partitions.items()}
            case "read":
                numbers, lost, place = read(reader)
                got += numbers
                assert not lost
    reader = open_kafka(Opening("t", CONFIG, place)) if place else reader
    numbers, lost, _ = read(reader)
    assert not lost and sorted(got + numbers) == list(range(sent))


def test_what_was_deleted_unread_is_told_with_how_much_it_may_be() -> None:
    topic = played(partitions={0: [1, 2, MARK]})
    reader = open_kafka(Opening("t", CONFIG))
    _, _, place = read(reader)
    topic.partitions[0] += [3, MARK, 4]
    topic.low = {0: 5}
    numbers, [letter], _ = read(open_kafka(Opening("t", CONFIG, place)))
    assert numbers == [4] and "up to 2 events were deleted by Kafka" in letter.reason


def test_a_topic_that_was_made_anew_with_fewer_partitions_is_read_on() -> None:
    played(partitions={0: [1], 1: [2], 2: [3]})
    _, _, place = read(open_kafka(Opening("t", CONFIG)))
    played(partitions={0: [1, 4]})
    numbers, lost, place = read(open_kafka(Opening("t", CONFIG, place)))
    assert numbers == [4] and not lost and list(place["offsets"]["rows"]) == ["0"]


def test_a_deleted_key_is_an_event_of_kafkas_time_where_the_time_is_a_field_of_the_message() -> None:
    played(partitions={0: [7, None]})
    config = CONFIG | {"include": ("kafka_key",), "columns": ["n:bigint", "at:bigint"], "time_field": "at"}
    reader = open_kafka(Opening("t", config))
    messages = [message for _ in range(3) for message in reader.poll(0.0).messages]
    decoded = decode(messages, layout_of(config), now_ms=1_700_000_000_002)
    assert decoded.rows == [(None, None, "k")] and decoded.times_ms == [1_700_000_000_001]
    [letter] = decoded.dead
    assert "has no time in its field at" in letter.reason, "a message that has a value says when it was"


@pytest.mark.parametrize("runs", [True, False], ids=["while it is read", "while nothing reads it"])
@given(before=st.integers(0, 5), after=st.integers(0, 9))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_topic_that_was_made_anew_is_told_by_its_id_and_read_whole(runs: bool, before: int, after: int) -> None:
    played(partitions={0: list(range(before))}, id=confluent_kafka.Uuid(1, 1))
    reader = open_kafka(Opening("t", CONFIG))
    assert read(reader)[0] == list(range(before))
    _, _, place = read(reader)
    assert place["ids"] == {"rows": str(confluent_kafka.Uuid(1, 1))}
    played(partitions={0: list(range(100, 100 + after)), 1: [7]}, id=confluent_kafka.Uuid(1, 2))
    if runs:
        reader._look_at_s = 0.0
    else:
        reader = open_kafka(Opening("t", CONFIG, place))
    numbers, [letter], place = read(reader)
    assert sorted(numbers) == [7, *range(100, 100 + after)] and "made anew" in letter.reason
    assert place["offsets"] == {"rows": {"0": after, "1": 1}}
    assert read(open_kafka(Opening("t", CONFIG, place))) == ([], [], place)


@pytest.mark.parametrize("first_id", [None, confluent_kafka.Uuid(1, 1)])
@pytest.mark.parametrize("given_id", [None, confluent_kafka.Uuid(0, 0), confluent_kafka.Uuid(1, 1)])
def test_a_cluster_that_tells_no_ids_or_the_same_ones_is_read_on(first_id: Any, given_id: Any) -> None:
    topic = played(partitions={0: [1, 2]}, id=first_id)
    _, _, place = read(open_kafka(Opening("t", CONFIG)))
    topic.id = given_id
    topic.partitions[0].append(3)
    numbers, lost, place = read(open_kafka(Opening("t", CONFIG, place)))
    assert (numbers, lost) == ([3], [])
    has_ids = first_id is not None or str(given_id) == str(confluent_kafka.Uuid(1, 1))
    assert place.get("ids") == ({"rows": str(confluent_kafka.Uuid(1, 1))} if has_ids else None)
