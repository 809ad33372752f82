"""Clients of a real server that do not read: they are cut off, also where a closing frame cannot be sent."""

from __future__ import annotations

import itertools
import json
import socket
import time
from base64 import b64encode

import pytest
from django.conf import settings as django_settings
from websockets.frames import Frame, Opcode

from scheduler.model.bounds import LIVE_FRAMES
from tests.dashboard.building import World
from tests.dashboard.test_live import Server, client_of, server, snapshot  # noqa: F401

pytestmark = [pytest.mark.broker, pytest.mark.django_db(transaction=True)]


def not_reading(server: Server, cookie: str, seq: int) -> socket.socket:  # noqa: F811
    """A connection that has subscribed to the estate, of which nobody reads what comes."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", server.port))
    lines = [
        "GET /ws/live HTTP/1.1", f"Host: 127.0.0.1:{server.port}", f"Origin: http://127.0.0.1:{server.port}",
        "Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {b64encode(b'0123456789abcdef').decode()}",
        "Sec-WebSocket-Version: 13", f"Cookie: {cookie}", "", ""]
    client.sendall("\r\n".join(lines).encode())
    assert client.recv(2048).startswith(b"HTTP/1.1 101")
    text = json.dumps({"type": "subscribe", "topic": "estate", "seq": seq}).encode()
    client.sendall(Frame(Opcode.TEXT, text).serialize(mask=True))
    return client


def until_none_is_left(server: Server) -> None:  # noqa: F811
    deadline = time.monotonic() + 180
    while server.connections():
        assert time.monotonic() < deadline, "the server keeps the connection"
        time.sleep(0.05)


def test_who_does_not_read_is_cut_off_though_its_buffers_are_full(
    committed_world: World, server: Server, monkeypatch  # noqa: F811
):
    numbers = itertools.count()
    monkeypatch.setattr("dashboard.live.consumer.SEND_WITHIN_S", 0.5)
    monkeypatch.setattr("dashboard.live.consumer.CLOSE_WITHIN_S", 0.1)
    monkeypatch.setattr("dashboard.live.websocket_server.ENDS_WITHIN_S", 0.1)
    # Each version is another, and more than a socket's buffers hold after some of them.
    monkeypatch.setattr("dashboard.live.hub.build", lambda *_, **__: {"text": f"{next(numbers):09}" * 200_000})
    client = client_of(committed_world.vera)
    name = django_settings.SESSION_COOKIE_NAME
    seq = snapshot(client, "estate")["seq"]
    with not_reading(server, f"{name}={client.cookies[name].value}", seq):
        until_there_is_one(server)
        until_none_is_left(server)


@pytest.mark.parametrize("flood", [
    Frame(Opcode.PING, b"p" * 125), Frame(Opcode.PONG, b"p" * 125), Frame(Opcode.CONT, b"", fin=False),
], ids=["pings", "pongs", "parts of a message"])
def test_who_sends_frames_without_end_is_cut_off(
    committed_world: World, server: Server, flood: Frame  # noqa: F811
):
    client = client_of(committed_world.vera)
    name = django_settings.SESSION_COOKIE_NAME
    with not_reading(server, f"{name}={client.cookies[name].value}", snapshot(client, "estate")["seq"]) as flooding:
        begun = Frame(Opcode.TEXT, b"", fin=False).serialize(mask=True) if flood.opcode is Opcode.CONT else b""
        try:
            # Within one of two spans of ten seconds there are more than may be, however slow the server is.
            flooding.sendall(begun + flood.serialize(mask=True) * 3 * LIVE_FRAMES.most)
            came = b"".join(iter(lambda: flooding.recv(65_536), b""))
        except ConnectionError:  # the server was first
            came = b""
    assert b"keepalive" not in came  # not because it answers nothing
    until_none_is_left(server)


def until_there_is_one(server: Server) -> None:  # noqa: F811
    deadline = time.monotonic() + 180
    while not server.connections():
        assert time.monotonic() < deadline
        time.sleep(0.01)
