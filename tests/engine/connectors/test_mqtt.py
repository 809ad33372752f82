"""MQTT: TLS with certificates of both sides, every QoS, and what else of a message is asked for."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt import publish as publishing

from scheduler.contracts.offsets import START
from scheduler.model.bounds import PACKET_BYTES
from workers.engine.connectors import mqtt_source
from workers.engine.connectors.contract import Opening, SourceAway, SourceRefused
from workers.engine.connectors.formats import SAMPLE_BYTES
from workers.engine.connectors.mqtt_source import LastMessages, MqttReader, open_mqtt
from workers.engine.sinks import mqtt_sink
from workers.engine.sinks.contract import Batch, SinkAway, SinkOpening
from workers.engine.sinks.mqtt_sink import MqttWriter

from .authority import Authority
from .rigs import MqttRig, take


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqttRig]:
    rig = MqttRig(tmp_path_factory.mktemp("mqtt"))
    yield rig
    rig.close()


@pytest.fixture
def generous(tmp_path: Path) -> Iterator[MqttRig]:
    """One that lets many messages be unacknowledged."""
    rig = MqttRig(tmp_path, more="max_inflight_messages 500\n")
    yield rig
    rig.close()


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[MqttRig]:
    folder = tmp_path_factory.mktemp("mqtts")
    certificate, key = authority.issue("localhost")
    for name, text in (("ca", authority.ca), ("certificate", certificate), ("key", key)):
        (folder / name).write_text(text)
    rig = MqttRig(folder, more=(
        f"cafile {folder}/ca\ncertfile {folder}/certificate\nkeyfile {folder}/key\nrequire_certificate true\n"))
    yield rig
    rig.close()


def opening(rig: MqttRig, monkeypatch: pytest.MonkeyPatch, **config: Any) -> Opening:
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", rig.environment["WEIR_CONNECTOR_HOSTS"])
    rig.anew()
    return Opening(f"task{rig.port}{rig.task().id}", {
        **rig.task().config, "tls": False, "ca": None, "certificate": None, "private_key": None, "username": None,
        "password": None, "include": (), **config})


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("version", ["3.1.1", "5"])
def test_every_qos_gives_each_message_once_while_nothing_fails(plain, monkeypatch, qos, version):
    reader = open_mqtt(opening(plain, monkeypatch, qos=qos, version=version, include=("mqtt_topic",)))
    plain.qos = qos
    plain.publish(b"1", b"2", b"3")
    messages = take(reader, 3)
    assert sorted(message.body for message in messages) == [b"1", b"2", b"3"]
    assert {message.extras["mqtt_topic"] for message in messages} == {messages[0].place}
    assert take(reader, 0) == []
    reader.close(for_good=True)


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("version", ["3.1.1", "5"])
def test_a_packet_larger_than_one_may_be_is_a_dead_letter_and_takes_no_other_with_it(plain, monkeypatch, qos, version):
    monkeypatch.setattr(mqtt_source, "PACKET_BYTES", replace(PACKET_BYTES, most=10_000))
    source = opening(plain, monkeypatch, qos=qos, version=version)
    reader = open_mqtt(source)
    topic = source.config["topics"][0].replace("#", "a").replace("+", "a")
    for size in (9_000, 3_000_000, 10):
        publishing.single(topic, b"x" * size, qos=1, hostname="127.0.0.1", port=plain.port)
    sizes, lost = [], []
    for _ in range(100):
        polled = reader.poll(0.2)
        reader.written()
        sizes += [len(message.body) for message in polled.messages]
        lost += polled.lost
        if len(sizes) + len(lost) == 3:
            break
    reader.close(for_good=False)
    assert sizes == [9_000, 10]
    [letter] = lost
    assert "more than 10,000 bytes" in letter.reason and letter.place == topic and len(letter.sample) <= SAMPLE_BYTES
    again = open_mqtt(source)
    assert not again.poll(0.5).lost, "it was acknowledged"
    again.close(for_good=True)


def test_what_may_be_unacknowledged_becomes_one_block(generous, monkeypatch):
    reader = open_mqtt(opening(generous, monkeypatch, qos=1, version="5"))
    bodies = [b"%d" % number for number in range(300)]
    generous.publish(*bodies)
    sizes, messages = [], []
    while len(messages) < len(bodies):
        sizes.append(len(polled := reader.poll(5).messages))
        assert polled, f"only {len(messages)} came"
        messages += [message.body for message in polled]
        reader.written()
    assert messages == bodies and max(sizes) > 20
    reader.close(for_good=True)


def test_an_event_whose_topic_would_be_no_text_is_refused_alone(plain, monkeypatch):
    """Half a surrogate pair is no UTF-8: it ended the sink, as often as it began anew."""
    reader = open_mqtt(opening(plain, monkeypatch, include=("mqtt_topic",)))
    base = plain.task().config["topics"][0].rstrip("/#")
    octets = pa.array([b"a", b"\xed\xa0\x80", b"b", None, b"\xff"], pa.binary())
    rows = pa.table({
        "where": pa.Array.from_buffers(pa.string(), len(octets), octets.buffers()), "n": [0, 1, 2, 3, 4]})
    writer = MqttWriter(SinkOpening("s", "t", {
        "server": f"127.0.0.1:{plain.port}", "topic": f"{base}/{{where}}", "columns": ["n"], "qos": 1,
        "retain": False, "version": "5", "tls": False, "ca": None, "username": None, "password": None},
        rows.column_names, START))
    refused = []
    writer.write(Batch(rows, START, START), refused.extend)
    assert [letter.row for letter in refused] == [1, 3, 4] and "where cannot be read as text" in refused[0].reason
    assert [(message.body, message.extras["mqtt_topic"]) for message in take(reader, 2)] == [
        (b'{"n":0}', f"{base}/a"), (b'{"n":2}', f"{base}/b")]
    writer.close()
    reader.close(for_good=True)


def test_an_encrypted_server_is_read_by_certificates_of_both_sides(encrypted, authority, monkeypatch):
    certificate, key = authority.issue("weir")
    tls = {"tls": True, "ca": authority.ca, "certificate": certificate, "private_key": key}
    reader = open_mqtt(opening(encrypted, monkeypatch, **tls))
    assert reader.poll(0.1).messages == []
    reader.close(for_good=True)


@pytest.mark.parametrize("end", ["source", "sink"])
def test_a_server_that_draws_its_handshake_out_is_given_up(authority, monkeypatch, end: str):
    """It sends a little of its first message again and again: each piece is in time, and all of it is not."""
    monkeypatch.setattr(mqtt_sink, "CONNECT_S", 0.5)
    monkeypatch.setattr(MqttReader, "connect_s", 0.5)
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "127.0.0.1")
    tls = {"tls": True, "ca": authority.ca, "username": None, "password": None}
    is_over = threading.Event()

    def draw_out(client: socket.socket) -> None:
        client.recv(4_096)
        client.sendall(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc\x03\x03")  # a hello of 16 kB
        while not is_over.wait(0.05):
            client.sendall(b"a")

    with socket.create_server(("127.0.0.1", 0)) as server:
        def accept() -> None:
            client, _ = server.accept()
            with client, suppress(OSError):
                draw_out(client)

        thread = threading.Thread(target=accept)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        try:
            with pytest.raises((SourceAway, SinkAway), match="TimeoutError"):
                if end == "source":
                    MqttReader(Opening("task", {
                        "server": address, "topics": ["t"], "qos": 1, "version": "5", "certificate": None,
                        "private_key": None, "include": (), **tls}))
                else:
                    MqttWriter(SinkOpening("s", "t", {
                        "server": address, "topic": "t", "columns": [], "qos": 1, "retain": False, "version": "5",
                        **tls}, ["n"], START))
        finally:
            is_over.set()
            thread.join(10)


@pytest.mark.parametrize(("changes", "why"), [
    ({"ca": "another"}, "not trusted"), ({"ca": "garbage"}, "cannot be used"),
    ({"private_key": "garbage"}, "cannot be used"), ({"private_key": "another"}, "cannot be used")])
def test_what_is_wrong_with_certificates_is_told_without_them(encrypted, authority, monkeypatch, changes, why):
    certificate, key = authority.issue("weir")
    tls = {"tls": True, "ca": authority.ca, "certificate": certificate, "private_key": key}
    others = {"ca": Authority().ca, "private_key": authority.issue("weir")[1]}
    wrong = {name: others[name] if value == "another" else value for name, value in changes.items()}
    with pytest.raises(SourceRefused, match=why) as refused:
        open_mqtt(opening(encrypted, monkeypatch, **{**tls, **wrong}))
    assert "BEGIN" not in str(refused.value) and Path(key[:20]).name not in str(refused.value)


@pytest.mark.parametrize("version", ["3.1.1", "5"])
def test_what_is_retained_is_told_apart_and_not_taken_twice_by_a_new_session(plain, monkeypatch, version):
    opened = opening(plain, monkeypatch, version=version, include=("mqtt_retained", "mqtt_topic"))

    def publish(**bodies: bytes) -> None:
        publishing.multiple(
            [{"topic": f"{plain.task().config['topics'][0][:-2]}/{topic}", "payload": body, "qos": 1, "retain": True}
             for topic, body in bodies.items()], hostname="127.0.0.1", port=plain.port)

    def read(position: Any, count: int, *, then: dict[str, bytes] | None = None) -> tuple[list[Any], Any]:
        """What a session of its own gives, and the place after it; ``then`` is published when it is there."""
        reader = open_mqtt(replace(opened, position=position))
        if then:
            publish(**then)
        came = []
        for _ in range(30):
            polled = reader.poll(0.2)
            came += [(message.extras["mqtt_topic"][-1], message.body, message.extras["mqtt_retained"])
                     for message in polled.messages]
            position = polled.position or position
            reader.written()
            if len(came) >= count and not polled.messages and not reader._last_messages.has_changed:
                break
        reader.close(for_good=True)  # the broker forgets the session, as one that lost it
        return sorted(came), position

    publish(a=b"1", b=b"2")
    came, place = read(None, 2)
    assert came == [("a", b"1", True), ("b", b"2", True)]
    came, place = read(json.loads(json.dumps(place)), 1, then={"a": b"3"})
    assert came == [("a", b"3", False)], "b's was taken before"
    publish(b=b"4")
    came, place = read(place, 1)
    assert came == [("b", b"4", True)], "a's came as it was published"
    assert read(place, 1, then={"c": b"5"})[0] == [("c", b"5", False)]


@given(st.lists(st.one_of(st.integers(0, 5), st.just("lost")), max_size=40), st.integers(0, 63))
def test_each_message_of_a_topic_is_taken_once_however_often_sessions_are_lost(steps, retaining):
    seen, retained, taken, sent = LastMessages(), {}, [], []
    for number, step in enumerate(steps):
        if step == "lost":
            seen = LastMessages.of(json.loads(json.dumps(seen.position())))
            taken += [body for topic, body in retained.items() if seen.is_new(topic, body, is_retained=True)]
            continue
        topic, body = f"t{step}", b"%d" % number
        sent.append(body)
        taken += [body] if seen.is_new(topic, body, is_retained=False) else []
        if retaining >> step & 1:
            retained[topic] = body
    assert taken == sent


def test_only_topics_that_spoke_last_are_remembered(monkeypatch):
    monkeypatch.setattr(mqtt_source, "REMEMBERED_TOPICS", 2)
    seen = LastMessages()
    for topic in ("a", "b", "a", "c"):
        seen.is_new(topic, b"1", is_retained=False)
    assert [seen.is_new(topic, b"1", is_retained=True) for topic in ("a", "c", "b")] == [False, False, True]
    assert len(seen.position()["last"]) == 2
