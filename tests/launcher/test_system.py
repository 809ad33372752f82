"""The whole system, started and ended for real: what `./weir up` promises of its processes."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from workers.launcher import up_services

from .system import ENDED_LIMIT_S, System
from .waiting import is_alive, wait_until


@pytest.fixture
def start(tmp_path: Path, free_port: int) -> Iterator:
    running: list[System] = []

    def start() -> System:
        running.append(System(tmp_path / "data", free_port))
        return running[-1]

    yield start
    for system in running:
        system.process.kill()
        system.process.wait()


# With stand-ins each of this is in test_supervise.py and test_broker.py; a real start and stop in the browser's first
# light.
@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_it_starts_goes_on_and_leaves_nothing(start, tmp_path: Path) -> None:
    first = start()
    first.until_ready()
    assert first.status() in (200, 302)
    for login in json.loads((tmp_path / "data" / "logins.json").read_text()):
        assert first.has_said(f"log in as {login['username']}")
    pids = first.pids()
    names = {psutil.Process(pid).name() for pid in pids}
    assert {"java", "valkey-server"} <= names
    address = (tmp_path / "data" / "broker" / "url").read_text()
    first.end(signal.SIGTERM)
    assert first.process.returncode == 0
    assert [pid for pid in pids if is_alive(pid)] == []
    assert not first.has_said("did not stop in time")

    second = start()
    second.until_ready()
    assert (tmp_path / "data" / "broker" / "url").read_text() == address
    web = second.child("uvicorn")
    web.kill()
    wait_until(lambda: second.has_said("web was killed by SIGKILL; starting again"))
    wait_until(lambda: second.status() in (200, 302), limit_s=180)
    pids = second.pids()
    second.end(signal.SIGKILL)
    wait_until(lambda: not any(is_alive(pid) for pid in pids), limit_s=ENDED_LIMIT_S)


def test_all_stages_of_the_stop_fit_in_ten_seconds() -> None:
    assert sum(stage.limit_s for stage in up_services.STOP_STAGES) < 9.5
