"""Stores that are nobody's friends, to a sink that puts objects there: what they answer fills no memory, and leads
nowhere else."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
import pytest

from scheduler.contracts.offsets import START, Offset
from workers.engine.sinks.contract import Batch, Overtaken, SinkAway, SinkOpening, SinkRefused
from workers.engine.sinks.objects import ANSWER_BYTES, ObjectWriter, open_s3
from workers.library.config import InvalidConfig

EMPTY = b"<ListBucketResult></ListBucketResult>"
LISTED = (b"<ListBucketResult><Contents><Key>sink-%020d.json</Key><Size>1</Size>"
          b"<LastModified>2026-05-01T12:00:00Z</LastModified></Contents></ListBucketResult>" % 7)


def _request(client: socket.socket) -> str:
    """A request with its body: one whose end is not taken is answered by a reset."""
    text = ""
    while "\r\n\r\n" not in text:
        text += client.recv(65_536).decode()
    head, _, body = text.partition("\r\n\r\n")
    length = re.search(r"Content-Length: (\d+)", head)
    while length and len(body) < int(length[1]):
        body += client.recv(65_536).decode()
    return head


class HostileStore:
    """Lists what it is told to, and answers all else by a line with headers, and by one text over and over."""

    def __init__(self, listing: bytes, answer: bytes, endless: bytes) -> None:
        self._listing, self._answer, self._endless = listing, answer, endless
        self.requests: list[str] = []
        self.sent = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                with client, suppress(OSError):
                    request = _request(client)
                    self.requests.append(request.partition(" HTTP/")[0])
                    if "list-type" in request:
                        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (
                            len(self._listing), self._listing))
                        continue
                    client.sendall(b"HTTP/1.1 " + self._answer + b"\r\n\r\n")
                    while self._endless:
                        self.sent += client.send(self._endless * 10_000)

    def close(self) -> None:
        self._server.close()


@contextmanager
def hostile(monkeypatch: pytest.MonkeyPatch, answer: bytes, *, listing: bytes = EMPTY, endless: bytes = b""
            ) -> Iterator[HostileStore]:
    store = HostileStore(listing, answer, endless)
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", f"127.0.0.1:{store.port}")
    yield store
    store.close()


def writer_to(store: HostileStore, host: str = "127.0.0.1") -> ObjectWriter:
    return open_s3(SinkOpening("sink", "t" * 12, {
        "endpoint": f"http://{host}:{store.port}", "region": "us-east-1", "access_key": "one", "secret_key": "two",
        "bucket": "buck", "prefix": "", "format": "json", "columns": ["n"], "every": 1.0, "megabytes": 1.0}, ["n"],
        START))


def put(writer: ObjectWriter) -> None:
    writer.write(Batch(pa.table({"n": [1]}), START, Offset("1-0")), lambda _: None)


def test_an_answer_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client that was used before kept all that came with a refusal, four times: 2 GB of 500 MB."""
    refused = pytest.raises(SinkAway, match="does not answer")
    with hostile(monkeypatch, b"400 Bad Request", endless=b"<a>") as store, refused:
        put(writer_to(store))
    assert store.requests[-1] == f"PUT /buck/sink-{0:020d}.json" and store.sent < 400 * ANSWER_BYTES


@pytest.mark.parametrize(("answer", "error", "why"), [
    (b"307 Elsewhere\r\nLocation: http://169.254.169.254/latest", SinkRefused, "another region"),
    (b"302 Elsewhere\r\nLocation: http://127.0.0.1:6379/", SinkAway, "does not answer"),
    (b"403 Forbidden", SinkRefused, "does not let"), (b"404 Not Found", SinkRefused, "not there"),
    (b"412 Precondition Failed", Overtaken, ""), (b"no answer", SinkAway, "does not answer")])
def test_what_a_store_answers_to_an_object_is_told_and_leads_nowhere(
    monkeypatch: pytest.MonkeyPatch, answer: bytes, error: type[Exception], why: str
) -> None:
    with hostile(monkeypatch, answer) as store, pytest.raises(error) as refusal:
        put(writer_to(store))
    assert why in str(refusal.value) and "127.0.0.1" not in str(refusal.value) and len(store.requests) == 2


@pytest.mark.parametrize(("answer", "error", "why"), [
    (b"200 OK", SinkRefused, "did not write"), (b"200 OK\r\nx-amz-meta-weir-until: 1-0; more", SinkRefused, "did not"),
    (b"404 Not Found", SinkAway, "does not answer"),
    (b"301 Moved\r\nLocation: http://169.254.169.254/", SinkRefused, "another region")])
def test_an_object_that_is_not_what_its_name_says_is_told(
    monkeypatch: pytest.MonkeyPatch, answer: bytes, error: type[Exception], why: str
) -> None:
    with hostile(monkeypatch, answer, listing=LISTED) as store, pytest.raises(error, match=why):
        writer_to(store)


def test_a_sink_goes_on_behind_what_its_newest_object_says(monkeypatch: pytest.MonkeyPatch) -> None:
    with hostile(monkeypatch, b"200 OK\r\nX-Amz-Meta-Weir-Until: 8-0", listing=LISTED) as store:
        assert writer_to(store).position() == Offset("8-0")


def test_a_name_that_comes_to_lead_to_this_machine_is_not_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    with hostile(monkeypatch, b"200 OK") as store:
        monkeypatch.setenv("WEIR_SINK_HOSTS", f"store.example.org:{store.port}")
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(2, 1, 6, "", ("127.0.0.1", store.port))])
        with pytest.raises(InvalidConfig, match="this machine") as refusal:
            writer_to(store, "store.example.org")
    assert "WEIR_SINK_HOSTS" in refusal.value.remedy and not store.requests
