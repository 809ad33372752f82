"""MQTT: TLS with certificates of both sides, every QoS, and what else of a message is asked for."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt import publish as publishing
from paho.mqtt.properties import Properties, VariableByteIntegers

from scheduler.contracts.offsets import START
from scheduler.model.bounds import PACKET_BYTES
from workers.engine import mqtt_packets
from workers.engine.connectors import mqtt_source
from workers.engine.connectors.contract import MOST_BYTES, MOST_MESSAGES, Message, Opening, SourceAway, SourceRefused
from workers.engine.connectors.formats import SAMPLE_BYTES
from workers.engine.connectors.mqtt_source import LastMessages, MqttReader, open_mqtt
from workers.engine.sinks import mqtt_sink
from workers.engine.sinks.contract import Batch, SinkAway, SinkOpening
from workers.engine.sinks.mqtt_sink import MqttWriter

from .authority import Authority
from .rigs import MqttRig


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


def take(reader: MqttReader, count: int) -> list[Message]:
    messages: list[Message] = []
    for _ in range(50):
        messages += reader.poll(0.2).messages
        reader.written()
        if len(messages) >= count:
            break
    return messages


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


@contextmanager
def serving(*packets: bytes, again: bool = False, version: str = "3.1.1") -> Iterator[int]:
    """A server that takes every client and then sends some packets, or sends them on and on, whatever is acknowledged;
    its port."""
    none = b"\0" if version == "5" else b""
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve() -> None:
            with suppress(OSError):
                client, _ = server.accept()
                with client:
                    client.recv(4_096)
                    client.sendall(bytes([0x20, 2 + len(none), 0, 0]) + none)  # CONNACK
                    mid = client.recv(4_096)[2:4]
                    client.sendall(bytes([0x90, 3 + len(none)]) + mid + none + b"\1")  # SUBACK, with QoS 1
                    client.sendall(b"".join(packets))
                    while again:
                        client.sendall(b"".join(packets) * 100)
                    while client.recv(4_096):  # what it acknowledges, until it goes
                        pass

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def reader_of(port: int, *, version: str = "3.1.1") -> MqttReader:
    return MqttReader(Opening("t", {
        "server": f"127.0.0.1:{port}", "topics": ["t"], "qos": 1, "version": version, "tls": False, "ca": None,
        "certificate": None, "private_key": None, "username": None, "password": None, "include": ()}))


def packet(kind: int, content: bytes) -> bytes:
    return bytes([kind]) + VariableByteIntegers.encode(len(content)) + content


def properties(count: int) -> bytes:
    """So many properties of a user's, which are empty."""
    content = b"\x26\0\0\0\0" * count
    return VariableByteIntegers.encode(len(content)) + content


@pytest.mark.parametrize(("head", "kind"), [(b"\0\1t", 0x30), (b"\0\1t\0\7", 0x32)], ids=["QoS 0", "QoS 1"])
@pytest.mark.parametrize("count", [0, 1, 30, 200_000], ids=str)
def test_properties_of_a_message_are_not_read_however_many_they_are(monkeypatch, head, kind, count):
    read = []
    monkeypatch.setattr(Properties, "readProperty", lambda *_: read.append(_) or (b"", 4))
    with serving(packet(kind, head + properties(count) + b"body"), packet(0x30, b"\0\1t\0next"), version="5") as port:
        reader = reader_of(port, version="5")
        messages = take(reader, 2)
        assert [(message.body, message.place) for message in messages] == [(b"body", "t"), (b"next", "t")] and not read
        reader._client.disconnect()


UNASKED = {
    "a message with QoS 2": packet(0x34, b"\0\1t\0\7\0body"), "CONNACK": packet(0x20, b"\0\0" + properties(10_000)),
    "DISCONNECT": packet(0xE0, b"\0" + properties(10_000)), "PUBACK": packet(0x40, b"\0\7\0" + properties(10_000)),
    "a message to a sink": packet(0x30, b"\0\1t\0body")}


@pytest.mark.parametrize(("end", "what"), [
    ("source", what) for what in UNASKED if what != "a message to a sink"] + [("sink", what) for what in UNASKED])
def test_what_nobody_asked_for_ends_the_connection_and_is_not_read(monkeypatch, end, what):
    read = []
    monkeypatch.setattr(Properties, "readProperty", lambda *_: read.append(_) or (b"", 4))
    with serving(UNASKED[what], version="5") as port:
        if end == "source":
            client = reader_of(port, version="5")
            with pytest.raises(SourceAway, match="protocol"):
                take(client, 1)
        else:
            client = MqttWriter(SinkOpening("s", "t", {
                "server": f"127.0.0.1:{port}", "topic": "t", "columns": [], "qos": 1, "retain": False, "version": "5",
                "tls": False, "ca": None, "username": None, "password": None}, ["n"], START))
            client._publish("t", b"1")
            with pytest.raises(SinkAway, match="protocol"):
                client._wait(lambda: False)
        assert not client._client._in_messages and not read


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


def test_a_topic_that_is_no_text_takes_no_message_with_it():
    with serving(packet(0x30, b"\0\2\xff\xfea"), packet(0x30, b"\0\1tb")) as port:
        reader = reader_of(port)
        assert [message.body for message in take(reader, 2)] == [b"a", b"b"]
        reader._client.disconnect()


@pytest.mark.parametrize("flood", [
    b"\x30\x07\x00\x01tbody", b"\x32\x09\x00\x01t\x00\x07body", b"\x30\xcb\x86\x03\x00\x01t" + b"b" * 49_992],
    ids=["with QoS 0", "more than may be unacknowledged", "large ones"])
def test_while_a_source_waits_a_server_that_sends_on_fills_no_memory(monkeypatch, flood):
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "127.0.0.1")
    with serving(flood, again=True) as port:
        reader = reader_of(port)
        for _ in range(5_000):
            reader.rest(0.0)
        assert 0 < len(reader._messages) <= MOST_MESSAGES and reader._got_bytes <= MOST_BYTES + len(flood)
        assert reader.poll(1).messages, "and what came is given"
        reader._client.disconnect()


@contextmanager
def flooding(first: bytes) -> Iterator[int]:
    """A server that sends that, and then messages of 50,000 bytes on and on before it confirms anything; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve() -> None:
            with suppress(OSError):
                client, _ = server.accept()
                with client:
                    client.recv(4_096)
                    client.sendall(first)
                    while True:
                        client.sendall(b"\x30\xcb\x86\x03\x00\x01t" + b"b" * 49_992)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def test_what_comes_before_a_confirmation_fills_no_memory(monkeypatch):
    """For ten seconds everything was kept, as fast as a server sends it: 270 MB a second."""
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "127.0.0.1")
    with flooding(b"\x20\x02\x00\x00") as port:  # it takes the client; what is retained may come at once
        reader = reader_of(port)
        assert len(reader._messages) < 100 and reader.poll(1).messages
        reader._client.disconnect()
    with flooding(b"") as port, pytest.raises(SourceAway, match="does not answer"):
        reader_of(port)


def test_a_server_that_takes_no_answers_fills_no_memory_with_them(monkeypatch):
    monkeypatch.setattr(mqtt_packets, "MOST_OWED", 100)
    with serving(b"\xc0\0", again=True) as port:  # PINGREQ
        reader = reader_of(port)
        reader._client.socket().setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        with pytest.raises(SourceAway, match="protocol"):
            for _ in range(100_000):
                reader._turn(0)
        assert len(reader._client._out_packet) <= 101


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
