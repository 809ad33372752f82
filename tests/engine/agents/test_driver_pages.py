"""An agent that fetches Spark's own pages: for whom it asks what, with what bounds; the driver is played."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from scheduler.contracts.driver_pages import (
    MOST_BYTES,
    NO_ANSWER,
    NO_DRIVER,
    REFUSED,
    SHOWN,
    DriverPage,
    DriverPageOrder,
)
from workers.engine.agents.supervising import driver_page_fetching
from workers.engine.agents.supervising.driver_page_fetching import DriverPages, PageAddress, driver_pages_thread
from workers.engine.driver_page_store import PAGES_OF_DRIVERS
from workers.engine.worker_settings import Settings

KEY = base64.urlsafe_b64encode(b"k" * 32).rstrip(b"=").decode()


class Driver(ThreadingHTTPServer):
    """Answers what a test says, and notes what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.status, self.headers, self.pieces, self.pause_s = 200, {"Content-Type": "text/html"}, [b"<p>fine"], 0.0


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            for piece in self.server.pieces:
                self.wfile.write(piece)
                self.wfile.flush()
                time.sleep(self.server.pause_s)
        except OSError:
            pass

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def driver() -> Iterator[Driver]:
    server = Driver()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def pages_of(*addresses: object, broker: Any = None, folder: Path = Path("/data/of/weir")) -> DriverPages:
    slots = [SimpleNamespace(name=str(index), report={"spark_page": text}) for index, text in enumerate(addresses)]
    return DriverPages(broker, Settings(node="n1", data_dir=folder, spark_pages=True), slots=lambda: slots)


def order(path: str = "jobs/", slot: str = "0", **query: str) -> DriverPageOrder:
    return DriverPageOrder("an-order", "n1", slot, path, query)


def test_a_page_is_asked_for_with_a_token_of_the_slots_own_key_and_nothing_else(driver: Driver) -> None:
    other = Driver()
    pages = pages_of(f"{other.server_port}:{KEY}", f"{driver.server_port}:{KEY}")
    driver.pieces = [b"<p>in /data/of/weir/checkpoints</p>"]
    page = pages.read(order("stages/stage/", "1", id="3", attempt="0"))
    assert page == DriverPage("<p>in <data folder>/checkpoints</p>") and not other.asked
    other.server_close()
    [(path, headers)] = driver.asked
    assert path == "/stages/stage/?id=3&attempt=0"
    assert headers.keys() == {"Host", "Accept-Encoding", "Authorization", "Accept", "Connection"}
    signed, _, signature = headers["Authorization"].removeprefix("Bearer ").rpartition(".")
    expected = hmac.digest(b"k" * 32, signed.encode(), hashlib.sha256)
    assert base64.urlsafe_b64decode(signature + "=") == expected
    head, body = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in signed.split("."))
    assert head["alg"] == "HS256" and 0 < body["exp"] - time.time() <= 30


@pytest.mark.parametrize(("path", "query"), [
    ("environment/", {}), ("executors/threadDump/", {"executorId": "driver"}), ("api/v1/applications", {}), ("", {}),
    ("jobs/job/kill/", {"id": "0"}), ("stages/stage/kill/", {"id": "0"}), ("jobs", {}), ("/jobs/", {}),
    ("jobs/../environment/", {}), ("//evil.example/", {}), ("jobs/?x", {}), ("jobs/\r\nX: y", {}),
    ("static/webui.css", {}),
    ("jobs/job/", {"id": "0\r\nX: y"}), ("jobs/job/", {"id": "0&terminate=true"}), ("jobs/job/", {"terminate": "true"}),
    ("jobs/job/", {"id": "٣"}), ("jobs/job/", {"id": ""}), ("jobs/", {"showIncomplete": "true"}),
    ("StreamingQuery", {})])
def test_no_other_page_is_asked_for(driver: Driver, path: str, query: dict[str, str]) -> None:
    assert pages_of(f"{driver.server_port}:{KEY}").read(order(path, **query)) == DriverPage(failure=REFUSED)
    assert not driver.asked


@pytest.mark.parametrize("text", [
    None, "", "8080", f"0:{KEY}", f"70000:{KEY}", f"٣٣٣:{KEY}", "80:short", f"80:{KEY}\r\nX: y", f"evil:80:{KEY}", 5,
    {}])
def test_what_a_slot_says_of_its_pages_is_an_address_or_nothing(text: object) -> None:
    assert PageAddress.read(text) is None
    assert pages_of(text).read(order()) == DriverPage(failure=NO_DRIVER)
    assert pages_of().read(order()) == DriverPage(failure=NO_DRIVER)


def test_a_redirect_is_not_followed_and_what_is_no_page_is_none(driver: Driver) -> None:
    pages = pages_of(f"{driver.server_port}:{KEY}")
    for status, kind in ((302, "text/html"), (200, "application/json"), (403, "text/html"), (500, "text/html")):
        driver.status, driver.headers = status, {"Content-Type": kind, "Location": "/environment/"}
        assert pages.read(order()) == DriverPage(failure=NO_ANSWER)
    assert len(driver.asked) == 4
    driver.shutdown()
    driver.server_close()
    assert pages.read(order()) == DriverPage(failure=NO_ANSWER)


def test_a_page_has_a_size_and_a_time(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = pages_of(f"{driver.server_port}:{KEY}")
    driver.pieces = [b"x" * 100_000] * 20
    page = pages.read(order())
    assert page.is_cut and len(page.html) == MOST_BYTES
    monkeypatch.setattr(driver_page_fetching, "ANSWERS_S", 0.3)
    driver.pieces, driver.pause_s = [b"x"] * 1000, 0.05  # something comes all the time, and never all of it
    assert pages.read(order()) == DriverPage(failure=NO_ANSWER)


@pytest.mark.broker
def test_who_asks_through_the_broker_is_answered(driver: Driver, broker: redis.Redis) -> None:
    pages = pages_of(f"{driver.server_port}:{KEY}", broker=broker)
    pages.start()
    try:
        broker.rpush("weir:driver-pages:n1", "no order")  # of another version
        assert PAGES_OF_DRIVERS.ask(broker, [order()], within_s=60)[order().node] == DriverPage("<p>fine")
    finally:
        pages.stop()
        pages.join()
    assert not broker.keys("weir:driver-pages:*"), "nothing waits"


def test_there_is_a_thread_only_where_pages_are_shown() -> None:
    shown = [driver_pages_thread(None, Settings(spark_pages=pages, spark_master=master), slots=list)
             for pages, master in ((True, ""), (False, ""), (True, "spark://host:7077"))]
    assert list(map(len, shown)) == [1, 0, 0]
    assert "environment/" not in SHOWN
