"""The sink over HTTP: what it posts, to whom, and that it says when that fails."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from scheduler.model.task_types import TaskTypes
from workers.library import registry
from workers.library.config import InvalidConfig
from workers.library.http import HTTP_POST, NotPosted, allowed_hosts, http_post_check, post_lines

from .conftest import build


class Receiver(HTTPServer):
    """Keeps what it gets: (path, headers, events)."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.got: list[tuple[str, dict, list]] = []
        self.status = 200
        self.answer_bytes = self.sent_bytes = 0

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.got.append((self.path, dict(self.headers), [json.loads(line) for line in body.splitlines()]))
        self.send_response(self.server.status)
        if self.server.status == 302:
            self.send_header("Location", f"http://{self.server.host}/elsewhere")
        self.send_header("Content-Length", str(self.server.answer_bytes))
        self.end_headers()
        with suppress(OSError):  # whoever posted does not read all of it
            for _ in range(self.server.answer_bytes // 65536):
                self.wfile.write(b"x" * 65536)
                self.server.sent_bytes += 65536

    def log_message(self, *_):
        pass


@pytest.fixture
def receiver(monkeypatch):
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("WEIR_HTTP_HOSTS", f"{server.host}, other.example.org")
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def post(receiver, rows, token="t0ken"):
    post_lines(rows, url=f"http://{receiver.host}/in?x=1", token=token, patience_s=5)


def test_events_go_as_lines_with_the_token_and_a_key_of_their_own(receiver):
    rows = [{"_seq": 1, "value": 1.5}, {"_seq": 2, "value": None}]
    post(receiver, rows)
    post(receiver, rows)
    post(receiver, rows[:1], token=None)
    (path, headers, events), again, other = receiver.got
    assert path == "/in?x=1" and events == rows and headers["Authorization"] == "Bearer t0ken"
    assert again[1]["Idempotency-Key"] == headers["Idempotency-Key"] != other[1]["Idempotency-Key"]
    assert "Authorization" not in other[1]


@pytest.mark.parametrize("status", [302, 401, 500])
def test_what_is_not_taken_is_an_error_without_the_token_and_no_redirect_is_followed(receiver, status):
    receiver.status = status
    with pytest.raises(NotPosted, match=f"{receiver.host} answered {status}") as error:
        post(receiver, [{"_seq": 1}])
    assert "t0ken" not in str(error.value) and [path for path, *_ in receiver.got] == ["/in?x=1"]


def test_an_answer_is_not_read_to_its_end(receiver):
    receiver.answer_bytes = 64 * 1024 * 1024
    post(receiver, [{"_seq": 1}])
    assert len(receiver.got) == 1 and receiver.sent_bytes < receiver.answer_bytes / 2


def test_nobody_there_is_an_error():
    with pytest.raises(NotPosted, match="did not take 1 events"):
        post_lines([{"_seq": 1}], url="http://127.0.0.1:9/in", token="t0ken", patience_s=1)


def test_the_operator_says_where_events_may_go(monkeypatch):
    monkeypatch.delenv("WEIR_HTTP_HOSTS", raising=False)
    assert allowed_hosts() == frozenset()
    with pytest.raises(InvalidConfig, match=r"hooks\.example\.org"):
        http_post_check({"url": "https://hooks.example.org/in"})
    monkeypatch.setenv("WEIR_HTTP_HOSTS", "Hooks.example.org")
    http_post_check({"url": "https://hooks.example.org/in"})
    http_post_check({"url": "http://hooks.example.org/in"})
    http_post_check({"url": "http://HOOKS.example.org:443/in"})
    for port in (8443, 22, 6379, 8000, 65536, "x"):  # another service of the same machine
        with pytest.raises(InvalidConfig):
            http_post_check({"url": f"https://hooks.example.org:{port}/in"})
    with pytest.raises(InvalidConfig):
        http_post_check({"url": "https://hooks.example.org.evil.example/in"})
    monkeypatch.setenv("WEIR_HTTP_HOSTS", "hooks.example.org:8443, [::1], [::1]:8080, plain.example:80")
    http_post_check({"url": "https://hooks.example.org:8443/in"})
    for url in ("http://[::1]/in", "http://[::1]:8080/in", "http://plain.example/in"):
        http_post_check({"url": url})
    for url in ("https://hooks.example.org/in", "http://[::1]:8081/in", "https://plain.example/in"):
        with pytest.raises(InvalidConfig) as error:
            http_post_check({"url": url})
        assert "WEIR_HTTP_HOSTS" in error.value.remedy


def test_it_is_a_sink_whose_token_is_a_secret():
    assert registry.task_types()["http_post"] is HTTP_POST and HTTP_POST.parameter("token").secret
    assert isinstance(registry.task_types(), TaskTypes)


@pytest.mark.spark
def test_on_spark_each_event_is_posted_in_order_and_passed_on(receiver, ticks):
    frame = build("http_post", ticks(25), url=f"http://{receiver.host}/in", token="t0ken", events=10)
    assert [row["_seq"] for row in frame.collect()] == list(range(25))
    posted = [event["_seq"] for _, _, events in receiver.got for event in events]
    assert posted == list(range(25)) and [len(events) for *_, events in receiver.got] == [10, 10, 5]
    assert {headers["Authorization"] for _, headers, _ in receiver.got} == {"Bearer t0ken"}
    explained = frame._jdf.queryExecution().toString()
    assert "t0ken" not in explained, "the token is in no plan"
