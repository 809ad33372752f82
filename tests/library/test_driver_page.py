"""Spark's own pages of a real driver: who gets them, where they are, and what they do not say."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from dashboard.pages.foreign_html import harmless
from scheduler.contracts.driver_pages import SHOWN
from workers.engine.agents.supervising.driver_page_fetching import PageAddress, fetch

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]
DRIVER = """
import json, sys
from pathlib import Path
from workers.engine.channels.channel_config import ChannelConfig
from workers.engine.channels.spark_channels import spark_conf
from workers.engine.spark import driver_page
from workers.engine.spark.session import open_session
from workers.engine.worker_settings import Settings
folder = Path(sys.argv[1])
spark = open_session(
    Settings(data_dir=folder, threads=2, pin="never", spark_pages=True), slot=0, slot_dir=folder / "slot-0",
    channel_conf=spark_conf(ChannelConfig("redis://user:a-password-of-slots@127.0.0.1:1", data_dir=folder)))
twice = lambda batches: (batch.assign(value=2 * batch["value"]) for batch in batches)
numbers = spark.readStream.format("rate").option("rowsPerSecond", 5).load().select("value")
query = numbers.mapInPandas(twice, "value bigint").writeStream.format("noop").queryName("counted").option(
    "checkpointLocation", str(folder / "checkpoint")).trigger(processingTime="200 milliseconds").start()
while not query.lastProgress or query.lastProgress["numInputRows"] == 0:
    query.processAllAvailable()
print(json.dumps([driver_page.reported(), str(query.runId)]), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory, with_jar: Callable[[Path], Path]) -> Iterator[Any]:
    """A driver with its pages and a query: its process, what it says of its pages, and the query's run."""
    folder = with_jar(tmp_path_factory.mktemp("driver"))
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(folder)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        text, run = json.loads(process.stdout.readline())
        yield process, text, run
    finally:
        for started in [*psutil.Process(process.pid).children(recursive=True), process]:
            started.kill()
        process.communicate()


def status(port: int, path: str, *, method: str = "GET", **headers: str) -> int:
    """What the driver answers to a request of anybody's."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_driver_shows_its_pages_to_who_has_the_key_and_to_nobody_else(driver: Any) -> None:
    _, text, run = driver
    address = PageAddress.read(text)
    assert b"counted" in fetch(address, "StreamingQuery/", within_s=60)
    assert run.encode() in fetch(address, "StreamingQuery/statistics/", query=f"id={run}", within_s=60)
    for path in SHOWN.keys() - {"StreamingQuery/statistics/", "SQL/execution/", "storage/rdd/"}:
        query = "id=0" if path == "jobs/job/" else "id=0&attempt=0" if path == "stages/stage/" else ""
        assert harmless(fetch(address, path, query=query, within_s=60).decode(), link=lambda *_: None), path
    other = PageAddress(address.port, "A" * 43)
    for headers in ({}, {"Authorization": "Bearer x.y.z"},
                    {"Authorization": f"Bearer {other.token(now_s=time.time())}"},
                    {"Authorization": f"Bearer {address.token(now_s=time.time() - 600)}"},
                    {"Cookie": f"key={address.key}"}):
        for path in ("/jobs/", "/environment/", "/static/webui.css", "/api/v1/applications", "/",
                     f"/jobs/?{address.key}"):
            assert status(address.port, path, **headers) == 403, (headers, path)
    token = address.token(now_s=time.time())
    for path in ("/jobs/job/kill/?id=0", "/stages/stage/kill/?id=0", "/StreamingQuery/"):
        assert status(address.port, path, method="POST", Authorization=f"Bearer {token}") in (403, 404, 405)


def test_the_key_is_in_no_command_line_and_no_environment_and_pages_are_of_this_machine_alone(driver: Any) -> None:
    process, text, _ = driver
    address = PageAddress.read(text)
    tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    texts, listening = [], set()
    for member in tree:
        with suppress(psutil.NoSuchProcess):  # a Python worker may end meanwhile
            texts.append(" ".join([*member.cmdline(), *member.environ().values()]))
            listening |= {connection.laddr.ip for connection in member.net_connections("tcp")
                          if connection.status == psutil.CONN_LISTEN and connection.laddr.port == address.port}
    assert len(texts) > 1 and not any(address.key in text for text in texts), "the JVM, and what started it"
    assert listening and all(ip.removeprefix("::ffff:").startswith("127.") for ip in listening)


def test_no_page_that_is_shown_has_the_key_or_the_password_of_the_broker(driver: Any) -> None:
    _, text, run = driver
    address = PageAddress.read(text)
    queries = {"StreamingQuery/statistics/": f"id={run}", "SQL/execution/": "id=0", "jobs/job/": "id=0",
               "stages/stage/": "id=0&attempt=0"}
    for path in SHOWN.keys() - {"storage/rdd/"}:
        page = fetch(address, path, query=queries.get(path, ""), within_s=60).decode()
        assert address.key not in page and "a-password-of-slots" not in page, path
