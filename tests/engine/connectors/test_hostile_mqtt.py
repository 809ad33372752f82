"""MQTT of servers that are nobody's friends: what nobody asked for is not read, and nothing they send fills memory."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from paho.mqtt.properties import Properties, VariableByteIntegers

from scheduler.contracts.offsets import START
from workers.engine import mqtt_packets
from workers.engine.connectors.contract import MOST_BYTES, MOST_MESSAGES, Opening, SourceAway
from workers.engine.connectors.mqtt_source import MqttReader
from workers.engine.sinks.contract import SinkAway, SinkOpening
from workers.engine.sinks.mqtt_sink import MqttWriter

from .rigs import take


@contextmanager
def serving(
    *packets: bytes, again: bool = False, version: str = "3.1.1", before: str = ""
) -> Iterator[int]:
    """A server that takes every client and then sends some packets, or sends them on and on, whatever is acknowledged;
    its port. It sends them ``before`` CONNACK or SUBACK, or behind both."""
    none = b"\0" if version == "5" else b""
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve() -> None:
            with suppress(OSError):
                client, _ = server.accept()
                with client:
                    client.recv(4_096)
                    if before != "CONNACK":
                        client.sendall(bytes([0x20, 2 + len(none), 0, 0]) + none)
                    if not before:
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


def test_what_comes_before_a_confirmation_fills_no_memory(monkeypatch):
    """For ten seconds everything was kept, as fast as a server sends it: 270 MB a second."""
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "127.0.0.1")
    large = b"\x30\xcb\x86\x03\x00\x01t" + b"b" * 49_992
    with serving(large, again=True, before="SUBACK") as port:  # as what is retained may come
        reader = reader_of(port)
        assert len(reader._messages) < 100 and reader.poll(1).messages
        reader._client.disconnect()
    with serving(large, again=True, before="CONNACK") as port, pytest.raises(SourceAway, match="does not answer"):
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
