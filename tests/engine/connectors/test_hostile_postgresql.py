"""A server of PostgreSQL that says more than anybody has room for: it ends for who asked, and for nobody else."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import psycopg
import pytest

from scheduler.contracts.offsets import Offset
from scheduler.model.bounds import PACKET_BYTES
from scheduler.model.errors import WeirError
from tests.postgresql import cluster
from workers.engine.connectors import postgresql_source
from workers.engine.connectors.contract import Opening
from workers.engine.sinks import postgresql_sink
from workers.engine.sinks.contract import SinkOpening
from workers.library import databases

ROOM, TOTAL = 1 << 20, 96 << 20  # that there is, and that the server would send: more than sockets hold
_SSL, _GSS = 80877103, 80877104


class HostileServer:
    """Lets anybody in, and sends ``TOTAL`` bytes in one of the ways of ``FLOODS`` where it is asked for rows."""

    def __init__(self, flood: str) -> None:
        self.flood, self.sent, self.is_told = flood, 0, False
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._speak, args=(client,), daemon=True).start()

    def _speak(self, client: socket.socket) -> None:
        try:
            with client, client.makefile("rb") as requests:
                self._answer(client, requests)
        except (OSError, struct.error):
            pass  # it has gone

    def _answer(self, client: socket.socket, requests: object) -> None:
        while True:
            length, code = struct.unpack("!II", requests.read(8))
            requests.read(length - 8)
            if code not in (_SSL, _GSS):
                break
            client.sendall(b"N")
        client.sendall(message(b"R", struct.pack("!I", 0)))
        if self.flood == "before anybody asks":
            self._send(client, message(b"N", b"M" + b"x" * 60_000 + b"\0\0"))
        for name, value in {"client_encoding": "UTF8", "server_version": "16.0"}.items():
            client.sendall(message(b"S", f"{name}\0{value}\0".encode()))
        client.sendall(message(b"K", struct.pack("!II", 1, 1)) + ready())
        query = b""
        while True:
            kind, length = struct.unpack("!cI", requests.read(5))
            body = requests.read(length - 4)
            query = body.split(b"\0")[1] if kind == b"P" else body.rstrip(b"\0") if kind == b"Q" else query
            self._do(client, kind, query)
            if kind == b"X":
                return

    def _do(self, client: socket.socket, kind: bytes, query: bytes) -> None:
        columns = ([b"n", b"id", b"settled"] if b"grows" in query and b'"n"' in query else
                   [b"id", b"settled"] if b"grows" in query else [b"a", b"b"])
        if kind in b"PBCD" and kind != b"D":
            client.sendall(message({b"P": b"1", b"B": b"2", b"C": b"3"}[kind], b""))
        elif kind == b"D":
            client.sendall(described(columns))
        elif kind == b"S":
            client.sendall(ready())
        elif kind in b"EQ":
            if kind == b"Q":
                client.sendall(described(columns))
            if b"attname::text, format_type" in query and b"order by" not in query:  # the columns of a source
                client.sendall(row(b"id", b"int8") + row(b"n", b"text"))
            elif self.flood == "one large row" and b'"n"' not in query:  # the place of a row alone
                client.sendall(row(b"7", b"t"))
                self.is_told = True
            elif not self.is_told:
                self._flood(client)
            client.sendall(message(b"C", b"SELECT 1\0") + (ready() if kind == b"Q" else b""))

    def _flood(self, client: socket.socket) -> None:
        if self.flood == "rows without end":
            self._send(client, row(b"x" * 60_000, b"1", b"t"))
        elif self.flood == "small rows without end":
            self._send(client, row(b"", b"1", b"t") * 1_000)
        elif self.flood == "notices without end":
            self._send(client, message(b"N", b"M" + b"x" * 60_000 + b"\0\0"))
        elif self.flood in ("a row without end", "one large row"):
            client.sendall(b"D" + struct.pack("!IHI", TOTAL + 4 + 2 + 4, 1, TOTAL))
            self._send(client, b"x" * (1 << 16), pause_s=0.001)
            client.shutdown(socket.SHUT_RDWR)

    def _send(self, client: socket.socket, piece: bytes, *, pause_s: float = 0.0) -> None:
        while self.sent < TOTAL:
            client.sendall(piece)
            self.sent += len(piece)
            time.sleep(pause_s)  # as a network has: libpq reads one message on for as long as some of it is there


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def ready() -> bytes:
    return message(b"Z", b"I")


def row(*values: bytes) -> bytes:
    return message(b"D", struct.pack("!H", len(values)) + b"".join(
        struct.pack("!I", len(value)) + value for value in values))


def described(columns: list[bytes]) -> bytes:
    """Columns of text, but the one that is called settled: it is true or false."""
    return message(b"T", struct.pack("!H", len(columns)) + b"".join(
        name + b"\0" + struct.pack("!IhIhih", 0, 0, 16 if name == b"settled" else 25, -1, -1, 0) for name in columns))


@contextmanager
def hostile(flood: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[HostileServer, str]]:
    server = HostileServer(flood)
    monkeypatch.setenv("WEIR_DATABASE_HOSTS", f"127.0.0.1:{server.port}")
    monkeypatch.setattr(postgresql_source, "PACKET_BYTES", replace(PACKET_BYTES, most=ROOM))
    monkeypatch.setattr(databases, "_HEAP_BYTES", ROOM)
    monkeypatch.setattr(postgresql_sink, "ANSWER_BYTES", ROOM)
    try:
        yield server, f"postgres://any:any@127.0.0.1:{server.port}/any?sslmode=disable"
    finally:
        server.close()


def read_source(address: str) -> None:
    reader = postgresql_source.open_postgresql(source(address))
    try:
        polled = reader.poll(0.1)
    finally:
        reader.close(for_good=True)
    size = sum(len(message.values["n"]) for message in polled.messages)
    assert size < postgresql_source.MOST_BYTES + ROOM and len(polled.messages) <= postgresql_source.MOST_MESSAGES


def look_at_source(address: str) -> None:
    list(postgresql_source.look_at_postgresql(source(address), 5))


def look_up(address: str) -> None:
    database = databases.open_database(databases.locate(address), patience_s=30)
    try:
        database.rows("select 1", {}, most=10)
    finally:
        database.close()


def open_sink(address: str) -> None:
    postgresql_sink.open_postgresql(SinkOpening(
        "s", "t", {"database": address, "table": "orders", "columns": [], "key": []}, ["n"], Offset("1-0"))).close()


def source(address: str) -> Opening:
    return Opening("t", {"database": address, "table": "orders", "column": "id", "columns": ["n"], "every": 0.0,
                         "start": "oldest"}, None)


IN_ANY_ANSWER = ["before anybody asks", "notices without end", "rows without end", "a row without end"]
EVERY = [(asking, flood) for asking in (read_source, look_at_source, look_up, open_sink) for flood in IN_ANY_ANSWER]


@pytest.mark.parametrize(("asking", "flood"), [*EVERY, (read_source, "small rows without end")])
def test_a_server_that_says_more_than_there_is_room_for_is_cut_off(
    asking: Callable[[str], None], flood: str, monkeypatch: pytest.MonkeyPatch
):
    with (hostile(flood, monkeypatch) as (server, address),
          suppress(WeirError, LookupError, ConnectionError)):  # in words: the next attempt may meet another server
        asking(address)
    assert 0 < server.sent < TOTAL


def test_a_row_that_is_too_large_is_a_dead_letter_and_no_row_is_asked_for_again(monkeypatch: pytest.MonkeyPatch):
    with hostile("one large row", monkeypatch) as (_, address):
        reader = postgresql_source.open_postgresql(source(address))
        polled = reader.poll(0.1)
        reader.close(for_good=True)
    [letter] = polled.lost
    assert not polled.messages and polled.position == {"after": "7"}
    assert letter.place == "orders, id 7" and f"more than {ROOM:,} bytes" in letter.reason


@pytest.mark.parametrize("size", [0, 100, 3_000, 20_000])
def test_large_rows_come_some_at_a_time_each_once_and_in_order(size: int, monkeypatch: pytest.MonkeyPatch):
    most = 10_000
    monkeypatch.setattr(postgresql_source, "MOST_BYTES", most)
    with cluster() as address:
        monkeypatch.setenv("WEIR_DATABASE_HOSTS", address.partition("@")[2].partition(":")[0].replace(
            "%2F", "/").lower())
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("create table orders (id bigserial primary key, n text)")
            connection.execute(
                "insert into orders (n) select g || repeat('x', %s) from generate_series(1, 40) g", (size,))
        reader = postgresql_source.open_postgresql(source(address))
        read: list[str] = []
        while polled := reader.poll(0.1).messages:
            read += [message.values["n"] for message in polled]
            assert len(polled) == 1 or sum(len(message.values["n"]) for message in polled[:-1]) < most
        reader.close(for_good=True)
    assert read == [str(number) + "x" * size for number in range(1, 41)]
