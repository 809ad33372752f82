"""Objects over HTTP: which address, over which connection, and what becomes of an event that gets none."""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pytest

from workers.library import download, registry
from workers.library.config import InvalidConfig
from workers.library.download import HTTP_GET, address, fetch
from workers.library.outside import NotAnswered


class Store(ThreadingHTTPServer):
    """Answers with the path it is asked for, as text; some names stand for trouble."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str | None]] = []
        self.connections = 0
        self.hang_up = False

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.server.connections += 1

    def do_GET(self):
        self.server.asked.append((self.path, self.headers["Authorization"]))
        name = unquote(self.path.rpartition("/")[2])
        if name == "slow":
            time.sleep(1)
        status = {"missing": 404, "moved": 302, "broken": 500}.get(name, 200)
        body = (b"x" * 100_000) if name == "large" else f"<{name}>".encode()
        self.send_response(status)
        if status == 302:
            self.send_header("Location", f"http://{self.server.host}/elsewhere")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if name == "trickle":
            with suppress(OSError):  # nobody waits for all of it
                for byte in body:
                    self.wfile.write(bytes([byte]))
                    time.sleep(0.2)
            return
        self.wfile.write(body)
        if self.server.hang_up:
            self.close_connection = True

    def log_message(self, *_):
        pass


@pytest.fixture
def store(monkeypatch):
    server = Store()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    monkeypatch.setenv("WEIR_HTTP_HOSTS", server.host)
    yield server
    while download._lines:
        download._lines.popitem()[1].close()
    server.shutdown()
    server.server_close()
    thread.join()


def get(store, name, *, most_bytes=1000, patience_s=5.0, headers=None):
    return fetch(f"http://{store.host}/o/{name}", headers=headers or {}, most_bytes=most_bytes, patience_s=patience_s)


def test_one_connection_serves_many_events(store):
    assert [get(store, name, headers={"Authorization": "Bearer t"})[1] for name in "abc"] == [b"<a>", b"<b>", b"<c>"]
    assert store.connections == 1 and store.asked[0] == ("/o/a", "Bearer t")


def test_an_object_that_trickles_in_takes_no_longer_than_the_patience(store):
    with pytest.raises(NotAnswered, match="not within"):
        get(store, "trickle", patience_s=0.5)
    assert len(store.asked) == 1, "what is too slow is not asked for again"


def test_a_connection_that_was_closed_meanwhile_is_opened_anew(store):
    store.hang_up = True
    assert [get(store, name)[1] for name in "abc"] == [b"<a>", b"<b>", b"<c>"]
    assert store.connections == 3 and len(store.asked) == 3


@pytest.mark.parametrize("name,why", [("missing", "404"), ("moved", "302"), ("broken", "500"), ("large", "more than")])
def test_what_is_no_object_is_no_answer_and_the_next_event_gets_its_own(store, name, why):
    with pytest.raises(NotAnswered, match=why):
        get(store, name)
    assert get(store, "after") == (200, b"<after>")
    assert not any("elsewhere" in path for path, _ in store.asked)


def test_a_slow_answer_is_not_waited_for_and_not_taken_for_the_next(store):
    with pytest.raises(NotAnswered, match="not within"):
        get(store, "slow", patience_s=0.1)
    assert get(store, "after", patience_s=0.1)[1] == b"<after>"
    assert sum("slow" in path for path, _ in store.asked) == 1, "what took too long is not asked twice"


def test_nobody_there_is_no_answer():
    with pytest.raises(NotAnswered, match="gave no answer"):
        fetch("http://127.0.0.1:9/x", headers={}, most_bytes=1, patience_s=1)


def test_values_stand_in_the_address_as_what_they_are():
    assert address("http://h/{a}/{b}?q={a}", {"a": "x/../y z", "b": 7}) == "http://h/x%2F..%2Fy%20z/7?q=x%2F..%2Fy%20z"
    for value in (None, "", ".", ".."):
        with pytest.raises(NotAnswered, match="names no object"):
            address("http://h/{a}/secret", {"a": value})


@pytest.mark.parametrize("path,more", [
    ("/{a", {}), ("/a}", {}), ("/{a}", {"into": "a"}), ("/{a}", {"into": "_seq"}),
])
def test_a_config_that_cannot_be_built_is_told(store, path, more):
    assert registry.check(HTTP_GET, {"url": f"http://{store.host}/{{a}}"}) is None
    assert isinstance(registry.check(HTTP_GET, {"url": f"http://{store.host}{path}", **more}), InvalidConfig)
    assert isinstance(registry.check(HTTP_GET, {"url": "http://elsewhere.example/{a}"}), InvalidConfig)


def test_no_column_leads_to_another_host():
    pattern = re.compile(HTTP_GET.parameter("url").pattern)
    assert pattern.fullmatch("https://store.example:8443/{a}")
    for url in ("http://{host}/a", "http://a{b}.example/x", "http://user@host/x", "ftp://host/x", "http://host"):
        assert not pattern.fullmatch(url)
