"""First light: the whole system, started with one command, does its main job in front of a browser.

Real broker, site, Celery, node agent and Spark: a dataflow is uploaded, approved, runs, and its page is live. In the
long run a second one overlaps with it, is merged after review, and goes on flowing when the first one is removed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import flows
from tests.browser.documents import ETL, SHARED, STATS
from tests.browser.drive import context, drawn, expected, log_in, settled, until, watch
from tests.launcher.waiting import is_alive
from workers.launcher.broker import free_port
from workers.processes import descendants, kill_group, spawn

pytestmark = [
    pytest.mark.browser, pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.xdist_group("first light")]
ROOT = Path(__file__).resolve().parents[2]
READY_S = 480  # beside Spark, on a machine that is slow now
SPARK_MS = 120_000
STOP_S = 12.0  # ten that a stop may take, and a margin for the machine that counts


@dataclass(frozen=True)
class System:
    """A running system, and who may log in with which password."""

    url: str
    passwords: dict[str, str]
    process: subprocess.Popen[bytes]
    log: Path


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """`./weir up` on a free port, with state of its own."""
    folder = tmp_path_factory.mktemp("first-light")
    data_dir, log, port = folder / "data", folder / "up.log", free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("WEIR_", "DJANGO_"))}
    environment["WEIR_CLASS_ARCHIVE"] = "0"  # nothing here starts a second driver
    for name in ("REDIS_URL", "DATABASE_URL"):
        environment.pop(name, None)
    argv = [str(ROOT / "weir"), "up", "--port", str(port), "--data-dir", str(data_dir), "--slots", "1"]
    with log.open("ab") as output:
        process = spawn(argv, env=environment, cwd=ROOT, stdout=output, stderr=output)
    try:
        logins = data_dir / "logins.json"
        until(lambda: _ready(process, log, port), "the system is ready", wait_s=READY_S)
        passwords = {login["username"]: login["password"] for login in json.loads(logins.read_text())}
        yield System(url=f"http://127.0.0.1:{port}", passwords=passwords, process=process, log=log)
        pids = descendants(process.pid)
        names = {process.info["name"] for process in psutil.process_iter(["name"]) if process.pid in pids}
        assert {"java", "valkey-server"} <= names
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0
        assert [pid for pid in pids if is_alive(pid)] == [], "something of it lives on"
        assert "did not stop in time" not in log.read_text(errors="replace")
    finally:
        kill_group(process)


@dataclass(frozen=True)
class Signed:
    """Pages of people who have logged in, by name; what went wrong on each; the dataflow that they brought first."""

    pages: dict[str, Page]
    problems: dict[str, list[str]]
    etl: str


@pytest.fixture(scope="module")
def signed(system: System, browser: Browser) -> Iterator[Signed]:
    """Carla's dataflow runs: she has submitted it and ana has approved it, which starts everything that it needs."""
    people = {name: log_in(_context(browser), system.url, name, system.passwords[name])
              for name in ("carla", "ana")}
    problems = {name: watch(page) for name, page in people.items()}
    first = flows.submit(people["carla"], system.url, ETL, team="city")
    flows.approve(people["ana"], first)
    flows.done(people["carla"], within_ms=SPARK_MS)
    yield Signed(people, problems, system.url + flows.dataflow_of(people["carla"]))
    for name, page in people.items():
        page.context.close()
        assert [text for text in problems[name] if not expected(text)] == [], name


def test_a_dataflow_runs_and_its_pages_are_live(system: System, signed: Signed) -> None:
    carla = signed.pages["carla"]
    _flows(carla, signed.etl, outputs=1)
    _rate_moves(carla, system)


# test_pages.py and test_live_pages.py have pages of merged dataflows over a played node. In
# tests/engine/spark/test_outputs_sacred.py dataflows join and leave on Spark while what they share goes on.
@pytest.mark.long
def test_two_dataflows_run_as_one_and_one_outlives_the_other(system: System, signed: Signed, browser: Browser) -> None:
    people, etl = signed.pages, signed.etl
    people["ben"] = log_in(_context(browser), system.url, "ben", system.passwords["ben"])
    signed.problems["ben"] = watch(people["ben"])
    carla = people["carla"]

    # The second one overlaps: reviewers of both teams see it before anything changes.
    second = flows.submit(carla, system.url, STATS, team="mobility")
    drawn(carla)
    expect(carla.locator("#decision")).to_contain_text(re.compile(rf"4 tasks start, {SHARED} "))
    expect(carla.get_by_role("button", name="Approve this plan")).to_have_count(0)  # its author does not approve
    flows.approve(people["ana"], second, comment="The filters are ours anyway.")
    expect(people["ana"].locator("#head .chip")).to_have_attribute("data-status", "pending")
    flows.approve(people["ben"], second)
    flows.done(carla, within_ms=SPARK_MS)
    stats = system.url + flows.dataflow_of(carla)
    _flows(carla, stats, outputs=2)
    _flows(carla, etl, outputs=1)
    expect(carla.locator("#notes")).to_contain_text(f"{SHARED} of 5 tasks are shared")

    # Rates move on the first page, and less runs than without sharing.
    _rate_moves(carla, system)
    assert _number(carla, "running_tasks") <= _number(carla, "without_reuse") - SHARED

    # The first one is removed; the second one does not notice.
    carla.goto(f"{etl}#settings")
    settled(carla)
    carla.get_by_role("button", name="Remove").click()
    carla.get_by_role("dialog").get_by_role("button", name="Propose removal").click()
    carla.wait_for_url(re.compile("/proposals/"))
    expect(carla.locator("#head .chip")).to_have_attribute("data-status", "pending")
    expect(carla.locator("#decision")).to_contain_text(re.compile(rf"stops?, .*{SHARED} go on"))
    flows.approve(people["ana"], carla.url)
    flows.done(carla, within_ms=SPARK_MS)
    carla.goto(etl)
    expect(carla.locator("#head .chip").first).to_have_text("removed")
    _flows(carla, stats, outputs=2)
    expect(carla.locator("#notes .note-bad")).to_have_count(0)


def _context(browser: Browser):
    return context(browser, viewport={"width": 1280, "height": 900})


def _ready(process: subprocess.Popen[bytes], log: Path, port: int) -> bool:
    log_text = log.read_text(errors="replace")
    assert process.poll() is None, log_text
    return re.search(rf"ready after .*:{port}/", log_text) is not None


def _flows(page: Page, address: str, *, outputs: int) -> None:
    """Every output of a dataflow shows events, and newer ones a moment later."""
    page.goto(f"{address}#data")
    settled(page)
    sections = page.locator("[data-output]")
    expect(sections).to_have_count(outputs)
    for number in range(outputs):
        section = sections.nth(number)
        expect(section.locator("th[data-column='_seq']")).to_be_visible(timeout=SPARK_MS)
        place = section.locator("th").evaluate_all("cells => cells.findIndex(cell => cell.dataset.column === '_seq')")
        newest = section.locator("tbody tr").first.locator("td").nth(place)
        expect(newest).to_have_text(re.compile(r"^\d+$"), timeout=SPARK_MS)
        seen = int(newest.text_content())
        until(lambda newest=newest, seen=seen: int(newest.text_content()) > seen, "newer events", wait_s=120)


def _rate_moves(page: Page, system: System) -> None:
    """The first page shows a rate that changes."""
    page.goto(system.url)
    settled(page)
    figure = page.locator("[data-live='counts|events_in_per_s']")
    until(lambda: re.match(r"[1-9]", figure.text_content()), "a rate that is not zero", wait_s=120)
    before = figure.text_content()
    until(lambda: figure.text_content() != before, "the rate moves", wait_s=120)


def _number(page: Page, name: str) -> int:
    return int(re.sub(r"\D", "", page.locator(f"[data-live='counts|{name}']").text_content()))
