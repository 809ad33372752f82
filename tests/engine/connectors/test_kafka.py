"""Kafka: what of a message is asked for beside its content, how much one look takes, and configs that do not work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from scheduler.model.bounds import PACKET_BYTES
from workers.engine.connectors import kafka_source
from workers.engine.connectors.avro import Registry
from workers.engine.connectors.contract import Message, Opening, SourceRefused
from workers.engine.connectors.formats import decode, layout_of
from workers.engine.connectors.kafka_source import KafkaReader, open_kafka

from .rigs import KafkaRig


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaRig]:
    rig = KafkaRig()
    yield rig
    rig.close()


@pytest.fixture
def rig(cluster: KafkaRig, monkeypatch: pytest.MonkeyPatch) -> KafkaRig:
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", cluster.environment["WEIR_CONNECTOR_HOSTS"])
    cluster.anew()
    return cluster


def config_of(rig: KafkaRig, **config: Any) -> dict[str, Any]:
    return {
        **rig.task().config, "security": "plaintext", "mechanism": "PLAIN", "username": None, "password": None,
        "ca": None, "certificate": None, "private_key": None, "include": (), **config}


def take(reader: KafkaReader, count: int) -> tuple[list[Message], list[Any]]:
    messages, lost = [], []
    for _ in range(50):
        polled = reader.poll(0.2)
        messages, lost = messages + list(polled.messages), lost + list(polled.lost)
        if len(messages) + len(lost) >= count:
            return messages, lost
    raise AssertionError(f"{len(messages)} of {count} came")


def test_key_headers_and_kafkas_own_time_are_columns_where_they_are_asked_for(rig: KafkaRig) -> None:
    names = ("kafka_headers", "kafka_key", "kafka_offset", "kafka_partition", "kafka_time", "kafka_topic")
    config = config_of(rig, columns=["n:bigint"], include=names, time_field="kafka_time")
    rig._producer.produce(
        rig.topics[0], b'{"n": 7}', key=b"k", headers=[("a", b"1"), ("a", None)], partition=0,
        timestamp=1_700_000_000_000)
    rig._producer.produce(rig.topics[0], None, key=b"deleted", partition=0, timestamp=1_700_000_000_001)
    rig._producer.flush(10)
    reader = open_kafka(Opening("t", config))
    messages, lost = take(reader, 2)
    reader.close(for_good=True)
    layout = layout_of(config)
    decoded = decode(messages, layout, now_ms=1_700_000_000_000)
    assert {message.partition for message in messages} == {f"{rig.topics[0]}[0]"}
    assert not lost and not decoded.dead and list(decoded.times_ms) == [1_700_000_000_000, 1_700_000_000_001]
    first, deleted = (dict(zip(layout.columns, row, strict=True)) for row in decoded.rows)
    assert first["n"] == 7 and first["kafka_key"] == "k" and first["kafka_headers"] == '[["a", "1"], ["a", null]]'
    assert (first["kafka_topic"], first["kafka_partition"], first["kafka_offset"]) == (rig.topics[0], 0, 0)
    assert deleted["n"] is None and deleted["kafka_key"] == "deleted"


def test_a_message_without_a_value_is_told_where_no_key_is_asked_for(rig: KafkaRig) -> None:
    rig._producer.produce(rig.topics[0], None, key=b"deleted", partition=0)
    rig._producer.flush(10)
    reader = open_kafka(Opening("t", config_of(rig)))
    messages, [letter] = take(reader, 1)
    reader.close(for_good=True)
    assert not messages and "has no value" in letter.reason and letter.sample == b"deleted"
    assert reader.position()["offsets"][rig.topics[0]]["0"] == 1


def test_a_message_that_decompresses_to_too_much_is_told_and_takes_no_other_with_it(
    rig: KafkaRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_source, "PACKET_BYTES", replace(PACKET_BYTES, most=10_000))
    for size in (10_000, 10_001, 1):
        rig._producer.produce(rig.topics[0], b"x" * size, partition=0)
    assert rig._producer.flush(30) == 0
    reader = open_kafka(Opening("t", config_of(rig, columns=[], format="text")))
    messages, [letter] = take(reader, 3)
    reader.close(for_good=True)
    assert sorted(len(message.body) for message in messages) == [1, 10_000]
    assert "more than 10,000 bytes" in letter.reason and not letter.sample


def test_one_look_takes_few_large_messages(rig: KafkaRig, monkeypatch: pytest.MonkeyPatch) -> None:
    size, most_bytes = 100_000, 500_000  # the mock keeps 5 MB of a partition
    monkeypatch.setattr(kafka_source, "MOST_BYTES", most_bytes)
    for _ in range(40):
        rig._producer.produce(rig.topics[0], b"x" * size, partition=0)
    assert rig._producer.flush(30) == 0
    reader = open_kafka(Opening("t", config_of(rig, columns=[], format="text")))
    counts = [len(reader.poll(0.5).messages) for _ in range(30)]
    reader.close(for_good=True)
    assert sum(counts) == 40 and max(counts) * size <= most_bytes + 2 * size


def test_a_certificate_that_is_none_is_told_in_words(rig: KafkaRig) -> None:
    config = config_of(rig, security="ssl", certificate="garbage", private_key="garbage")
    with pytest.raises(SourceRefused, match="does not work") as refused:
        open_kafka(Opening("t", config))
    assert "PEM" in refused.value.full_message


def test_avro_is_read_by_its_registry_and_what_is_not_avro_is_told(
    rig: KafkaRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]})
    hosts = rig.environment["WEIR_CONNECTOR_HOSTS"]
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", f"{hosts},registry.example.org:8081")
    monkeypatch.setattr(Registry, "_registry_answer", lambda self, number: {"schema": schema})
    rig.produce(b"\0\0\0\0\1\x0e", b'{"n": 8}', b"\0\0\0\0\1\x12")
    config = config_of(rig, columns=["n:bigint"], format="avro", registry="http://registry.example.org:8081")
    reader = open_kafka(Opening("t", config))
    messages, [letter] = take(reader, 3)
    reader.close(for_good=True)
    decoded = decode(messages, layout_of(config), now_ms=1)
    assert decoded.rows == [(7,), (9,)] and "not framed" in letter.reason and letter.sample == b'{"n": 8}'
    assert reader.position()["offsets"][rig.topics[0]]["0"] == 3


def test_the_end_of_a_partition_says_nothing_of_the_size_of_messages(
    rig: KafkaRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, most_bytes = 100_000, 500_000
    monkeypatch.setattr(kafka_source, "MOST_BYTES", most_bytes)
    reader = open_kafka(Opening("t", config_of(rig, columns=[], format="text")))
    ends, messages = [_End()], [_Text(size) for _ in range(40)]
    monkeypatch.setattr(reader, "_consumer", _Waiting([*ends, *messages], reader._consumer))
    assert len(reader._consume(0.1)) * size <= most_bytes + 2 * size
    reader.close(for_good=True)


class _Text:
    """A message of so many bytes."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def error(self) -> None:
        return None


class _End(_Text):
    """What the client gives where a partition ends."""

    def __init__(self) -> None:
        super().__init__(40)

    def error(self) -> str:  # type: ignore[override]
        return "end of partition"


class _Waiting:
    """A consumer with messages that wait; all else is the real one's."""

    def __init__(self, messages: list[Any], consumer: Any) -> None:
        self._messages, self._consumer = messages, consumer

    def consume(self, most: int, timeout: float) -> list[Any]:
        taken, self._messages = self._messages[:most], self._messages[most:]
        return taken

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)
