"""The site's doors: bodies, headers, connections and live messages beyond their bounds, before any of it is kept.

The application is asked as a server asks it; where the connection itself counts, through a real server.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import websockets
from django.utils import timezone

from dashboard import jobs
from dashboard.config import bodies
from dashboard.teams.models import ApiToken
from dashboard.teams.services import create_token
from scheduler.model import bounds
from tests.dashboard.building import World
from tests.dashboard.test_ingest import TOKEN, URL, Posted
from tests.dashboard.test_live import Server, client_of, connected, received, server, subscribe  # noqa: F401
from tests.dashboard.test_routes import expected

pytestmark = [pytest.mark.django_db(transaction=True)]
CHUNK = b"x" * 32_768
HOST = [(b"host", b"testserver")]


class Asked:
    """What the application answered, and how much of the body it took."""

    status = 0
    taken = 0
    goes_on = True
    headers: dict[str, str]
    body = b""

    @property
    def error(self) -> dict[str, Any]:
        return json.loads(self.body)


async def _answer_to(
    method: str, path: str, headers: list[tuple[bytes, bytes]], chunks: AsyncIterator[bytes] | None, *,
    body: bytes = b"",
) -> Asked:
    from dashboard.config.asgi import application

    answer = Asked()

    async def receive() -> dict[str, Any]:
        await (asyncio.sleep(0) if answer.goes_on else asyncio.Event().wait())
        chunk = body if chunks is None else await anext(chunks, b"")
        answer.taken, answer.goes_on = answer.taken + len(chunk), chunks is not None and bool(chunk)
        return {"type": "http.request", "body": chunk, "more_body": answer.goes_on}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            answer.body += message.get("body", b"")

    await application({
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": [*HOST, *headers],
        "server": ("testserver", 80), "client": ("127.0.0.1", 1)}, receive, send)
    return answer


def submit(method: str, path: str, headers: dict[str, str] | None = None, *, most: int = 0, body: bytes = b"") -> Asked:
    """Ask with a body that goes on up to so many bytes, or with this one."""
    pairs = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(most // len(CHUNK) + 1):
            yield CHUNK

    return asyncio.run(_answer_to(method, path, pairs, chunks() if most else None, body=body))


def written() -> list[tuple[str, str]]:
    """A real address of every route that takes a body."""
    return [
        (method.upper(), "/" + re.sub(r"<[^>]*>", "1", pattern)) for method, pattern in expected()
        if method in ("post", "put", "patch", "delete")]


@pytest.fixture
def nothing_on_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a body went to disk")

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", refused)
    yield


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused is not read to its end."""
    monkeypatch.setattr(bodies, "DRAINED_S", 0.0)


def test_no_route_takes_a_large_body_of_somebody_who_is_not_known(
    committed_world: World, nothing_on_disk: None, quick: None
) -> None:
    limit = bounds.ANONYMOUS_BODY.most
    for method, path in [*written(), ("POST", "/"), ("POST", "/nothing"), ("GET", "/login/")]:
        streamed = submit(method, path, most=4 * limit)
        announced = submit(method, path, {"Content-Length": str(limit + 1)}, most=4 * limit)
        for answer in (streamed, announced):
            assert answer.status == 413, (method, path, answer.status)
            assert answer.taken <= limit + 2 * len(CHUNK), (method, path)
            assert f"{limit >> 10} KiB" in answer.body.decode() and "WEIR_ANONYMOUS_KB" in answer.body.decode()
        assert announced.taken <= len(CHUNK)


@pytest.mark.parametrize(("charset", "status"), [("base64", 400), ("rot13", 400), ("utf-16", 400), ("UTF-8", 403)])
def test_a_form_in_an_encoding_of_no_text_is_refused_and_not_failed_by(charset: str, status: int) -> None:
    """Anybody could have a traceback logged by each: Python knows ``base64`` as an encoding."""
    body = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n--x--\r\n'
    answer = submit("POST", "/login/", {
        "Content-Type": f"multipart/form-data; boundary=x; charset={charset}", "Content-Length": str(len(body)),
        "Cookie": f"weir_csrf={'a' * 32}"}, body=body)
    assert answer.status == status and ("not in UTF-8" in answer.body.decode()) is (status == 400)


def test_no_route_takes_more_than_a_document_of_somebody_who_is(
    committed_world: World, nothing_on_disk: None, quick: None
) -> None:
    client = client_of(committed_world.carla)
    token = create_token(actor=committed_world.carla, name="t")[1]
    session = {"Cookie": f"weir_session={client.cookies['weir_session'].value}", "X-CSRFToken": "x"}
    for headers in (session, {"Authorization": f"Bearer {token}"}):
        for method, path in written():
            if path.startswith("/ingest/"):
                continue
            limit = bounds.REQUEST_BODY.most
            answer = submit(method, path, {**headers, "Content-Length": str(limit + 1)}, most=4 * limit)
            assert (answer.status, answer.taken <= len(CHUNK)) == (413, True), (method, path)
    streamed = submit("POST", "/api/validate", session, most=4 * bounds.REQUEST_BODY.most)
    assert streamed.status == 413 and streamed.error["facts"]["limit_bytes"] == bounds.DOCUMENT_BYTES.most
    assert streamed.taken <= bounds.REQUEST_BODY.most + 2 * len(CHUNK)


@pytest.mark.parametrize("wrong", [
    {"Cookie": "weir_session=abc"}, {"Authorization": "Bearer weir_abc"}, {"Authorization": "Basic x"},
    {"Cookie": "=;;\x01\xff=;weir_session"}, {"Authorization": "Bearer {ended}"}])
def test_a_session_or_token_that_is_not_good_is_none(
    committed_world: World, quick: None, wrong: dict[str, str]
) -> None:
    token, ended = create_token(actor=committed_world.carla, name="t")
    ApiToken.objects.filter(pk=token.pk).update(expires=timezone.now())
    wrong = {name: value.replace("{ended}", ended) for name, value in wrong.items()}
    assert submit("POST", "/api/validate", wrong, most=1_000_000).error["facts"]["setting"] == "WEIR_ANONYMOUS_KB"


def test_a_body_within_its_bound_arrives_whole(committed_world: World) -> None:
    token = create_token(actor=committed_world.carla, name="t")[1]
    text = json.dumps({"text": "#" * (bounds.DOCUMENT_BYTES.most - 100)}).encode()
    answer = submit("POST", "/api/validate", {
        "Authorization": f"Bearer {token}", "Content-Type": "application/json"}, body=text)
    assert answer.status == 200 and [problem["code"] for problem in answer.error["problems"]] == ["empty"]
    assert submit("POST", "/login/", body=b"username=x").status == 403, "a form without its token"


def test_a_body_that_does_not_come_in_time_is_ended(committed_world: World, settings: Any, quick: None) -> None:
    settings.BODY_WAIT_S = 0.3

    async def trickling() -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0.01)
            yield b" "

    answer = asyncio.run(_answer_to("POST", "/api/validate", [], trickling()))
    assert (answer.status, answer.error["code"]) == (408, "too_slow") and "WEIR_BODY_WAIT_S" in answer.error["remedy"]


@pytest.mark.broker
def test_an_address_of_a_source_takes_much_with_its_token_alone(
    committed_world: World, broker: Any, broker_url: str, settings: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch,
    quick: None,
) -> None:
    settings.DATA_DIR, settings.REDIS_URL, settings.INGEST_LIMIT_BYTES = tmp_path, broker_url, 300_000
    monkeypatch.delenv("WEIR_SECRETS_KEY", raising=False)
    jobs.broker.cache_clear()
    posted = Posted(committed_world, broker)
    right = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    body = b'{"a": 1}' + b" " * 200_000
    assert submit("POST", URL, right, body=body).status == 202 and posted.rows() == [1]
    for address, headers in ((URL, {"Authorization": "Bearer other"}), (URL, {}), ("/ingest/city/none", right)):
        assert submit("POST", address, headers, body=body).error["facts"]["setting"] == "WEIR_ANONYMOUS_KB"
    beyond = submit("POST", URL, right, most=1_000_000)
    assert (beyond.status, beyond.error["facts"]["setting"]) == (413, "WEIR_INGEST_MB") and posted.rows() == [1]


@pytest.mark.parametrize("form", [
    {str(number): "x" for number in range(bounds.REQUEST_FIELDS.most + 1)},
    {str(number): io.BytesIO(b"x") for number in range(bounds.REQUEST_FILES.most + 1)}])
def test_a_form_of_too_many_fields_or_files_is_refused(committed_world: World, form: dict[str, Any]) -> None:
    client = client_of(committed_world.carla)
    assert client.post("/dataflows/new", form).status_code == 400


@pytest.mark.broker
class TestConnections:
    """Through a real server."""

    def test_headers_that_do_not_come_are_ended_and_others_are_answered(
        self, committed_world: World, server: Server, settings: Any  # noqa: F811
    ) -> None:
        settings.HEADER_WAIT_S = 0.5
        beginnings = (b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A", b"\r\n\r\n\r\n", b"POST")
        halves = [opened(server, beginning) for beginning in beginnings]
        reused = opened(server, b"GET /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert until(reused, b"</html>").startswith(b"HTTP/1.1 200")
        reused.sendall(b"GET /login/ HT")  # the next request on a connection that is reused
        for half in halves:
            assert b"408 Request Timeout" in read_to_end(half)
        assert b"408 Request Timeout" in read_to_end(reused)
        assert until(opened(server, b"GET /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"), b"</html>")

    def test_headers_and_trailers_are_counted_as_they_come(
        self, committed_world: World, server: Server  # noqa: F811
    ) -> None:
        most, begin = bounds.REQUEST_HEADERS.most, b"GET /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        upgrade = b"GET /ws/live HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        body = b"POST /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"
        beyond = {
            "one header": begin + b"X-A: " + b"a" * most,
            "many headers": begin + b"X-A: a\r\n" * (most // 8),
            "the address": b"GET /" + b"a" * most,
            "nothing": b"\r\n" * most,
            "by one byte": headers_of(begin, most + 1),
            "of a live connection": upgrade + b"X-A: " + b"a" * most,
            "trailers": body + b"0\r\nX-A: " + b"a" * 2 * most,
            "of a part of a body": body + b"1;" + b"a" * 2 * most}
        for size in (most, 256):
            clients = {name: dripped(server, text, size) for name, text in beyond.items()}
            answers = {name: read_to_end(client)[:13] for name, client in clients.items()}
            assert answers == dict.fromkeys(beyond, b"HTTP/1.1 431 ")
        pipelined = dripped(server, headers_of(begin, most) + begin + b"X-A: " + b"a" * 2 * most, 3_000)
        with contextlib.suppress(ConnectionError):  # it may end before the first answer, or within it
            assert read_to_end(pipelined).count(b"HTTP/1.1 200") <= 1
        for text in (headers_of(begin, most), headers_of(begin, most) * 2):  # each request is counted anew
            client = dripped(server, text, 3_000)
            answers = until(client, b"</html>", times=len(text) // most)
            assert answers.count(b"HTTP/1.1 200") == len(text) // most
            client.sendall(begin + b"X-A: " + b"a" * most)
            assert read_to_end(client).startswith(b"HTTP/1.1 431")
        framed = dripped(server, body + b"1\r\nx\r\n" * (most // 4), 7_000)  # more frame than that, between its bytes
        framed.sendall(b"0\r\n\r\n")
        assert until(framed, b"</html>").startswith(b"HTTP/1.1 403")

    def test_a_live_connection_outlasts_the_wait_for_headers(
        self, committed_world: World, server: Server, settings: Any  # noqa: F811
    ) -> None:
        settings.HEADER_WAIT_S, client = 0.5, client_of(committed_world.vera)

        async def run() -> dict[str, Any]:
            async with connected(server, client) as live:
                later = await asyncio.to_thread(opened, server, b"GET /")
                assert b"408 Request Timeout" in await asyncio.to_thread(read_to_end, later)
                await subscribe(live, "estate", 5)
                return await received(live)

        assert asyncio.run(run()) == {"type": "refetch", "topic": "estate"}

    def test_connections_beyond_their_number_are_told_to_come_again(
        self, committed_world: World, server: Server, settings: Any  # noqa: F811
    ) -> None:
        settings.CONNECTIONS = 3
        held = [opened(server, b"GET /") for _ in range(3)]
        awaited(lambda: server.connections() == 3)
        refused = read_to_end(opened(server, b"GET /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))
        assert refused.startswith(b"HTTP/1.1 503") and b"retry-after: 5" in refused and b"WEIR_CONNECTIONS" in refused
        held.pop().close()
        awaited(lambda: server.connections() == 2)
        assert until(opened(server, b"GET /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"), b"</html>")

    def test_who_takes_nothing_of_an_answer_is_cut_off(
        self, committed_world: World, server: Server, monkeypatch: pytest.MonkeyPatch  # noqa: F811
    ) -> None:
        from dashboard.config import http_server as site_server

        monkeypatch.setattr(site_server, "ANSWER_WAIT", bounds.InputBound("", "", 0, ""))
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.port))
        awaited(lambda: server.connections() == 1)
        client.sendall(b"GET /static/vendor/plotly/plotly-cartesian.min.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 50)
        awaited(lambda: server.connections() == 0)

    def test_a_large_body_reads_its_answer(self, committed_world: World, server: Server) -> None:  # noqa: F811
        client = opened(server, b"POST /api/validate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 400000\r\n\r\n")
        client.sendall(b"x" * 400_000)
        assert read_to_end(client).startswith(b"HTTP/1.1 413")

    def test_a_live_connection_that_asks_too_much_is_closed_and_another_goes_on(
        self, committed_world: World, server: Server  # noqa: F811
    ) -> None:
        client = client_of(committed_world.vera)

        async def run() -> tuple[int, dict[str, Any]]:
            async with connected(server, client) as quiet, connected(server, client) as loud:
                with pytest.raises(websockets.ConnectionClosed) as closed:
                    for _ in range(bounds.LIVE_MESSAGES.most + 1):
                        await loud.send("{}")
                    while True:
                        await received(loud)
                await quiet.send("x" * (bounds.LIVE_MESSAGE.most + 1))
                assert (await received(quiet))["type"] == "error"
                await subscribe(quiet, "estate", 5)
                return closed.value.rcvd.code, await received(quiet)

        assert asyncio.run(run()) == (4429, {"type": "refetch", "topic": "estate"})


def opened(server: Server, text: bytes) -> socket.socket:  # noqa: F811
    client = socket.create_connection(("127.0.0.1", server.port), timeout=120)
    client.sendall(text)
    return client


def headers_of(begin: bytes, size: int) -> bytes:
    """A request's headers of so many bytes."""
    return begin + b"X-A: " + b"a" * (size - len(begin) - 9) + b"\r\n\r\n"


def dripped(server: Server, text: bytes, size: int) -> socket.socket:  # noqa: F811
    """A connection to which a text is sent in pieces of so many bytes, until it ends."""
    client = opened(server, b"")
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(ConnectionError):
        for begin in range(0, len(text), size):
            client.sendall(text[begin:begin + size])
    return client


def read_to_end(client: socket.socket) -> bytes:
    parts = []
    while part := client.recv(65_536):
        parts.append(part)
    return b"".join(parts)


def until(client: socket.socket, end: bytes, *, times: int = 1) -> bytes:
    got = b""
    while got.count(end) < times:
        part = client.recv(65_536)
        assert part, got
        got += part
    return got


def awaited(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
