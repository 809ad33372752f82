"""State folders of earlier versions open: what ran goes on where it ended, and what was stored still reads."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.engine.spark.rig import catalogue, running_agent
from workers.launcher.backup import serving

from .stored_rows import rows_of
from .system import System
from .waiting import wait_until

FOLDER = Path(__file__).parent
# Made by `./weir up` of commit af0fdcb: seven queries run, two of them share a chain of another team's, a dataflow is
# paused, one removed, one runs by a schedule, and one waits for its approval.
STATE = FOLDER / "state_af0fdcb.tar.xz"
STATUSES = {
    "Urban sensing: variability": "running", "Warm for mobility": "paused", "Files of warm": "running",
    "Warm sensors": "removed", "Scheduled": "running", "Waits for approval": "planned",
}
LAST_BATCHES = {"f2-0": 654, "f3-0": 437, "f5-0": 44, "f8-0": 185, "f8-1": 181, "f8-2": 181, "f8-3": 177}


def opened(tmp_path: Path) -> Path:
    """That folder, as an upgrade finds it."""
    data = tmp_path / "data"
    with tarfile.open(STATE) as archive:
        archive.extractall(data, filter="data")
    data.chmod(0o700)
    return data


@pytest.mark.long  # test_kept_state.py reads the rows and checkpoints of a version
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_rows_of_af0fdcb_read_and_its_queries_go_on(
    tmp_path: Path, with_jar: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REDIS_URL", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    data = with_jar(opened(tmp_path))
    with serving.started(data) as url, redis.Redis.from_url(url) as broker:
        reads(data, "--migrate")
        with running_agent(broker, url, data, slots=2, task_types=catalogue(), node="n1", WEIR_FILE_S="3"):
            go_on(data, broker)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_state_of_af0fdcb_opens_and_goes_on(
    tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_FILE_S", "3")
    data = opened(tmp_path)
    system = System(data, free_port, slots=2)
    try:
        system.until_ready()
        go_on(data, redis.Redis.from_url((data / "broker" / "url").read_text().strip()))
        reads(data)
    finally:
        system.process.terminate()
        system.process.wait(60)


def reads(data: Path, *options: str) -> None:
    """What was stored is all there, and every page opens."""
    stored = rows_of(data, (data / "broker" / "url").read_text().strip(), *options)
    assert stored["statuses"] == STATUSES
    assert stored["altered_plans"] == []
    assert {address: status for address, status in stored["pages"].items() if status != 200} == {}


def go_on(data: Path, broker: redis.Redis) -> None:
    """Every query goes on behind its last batch, and files have each event once."""
    wait_until(lambda: set(LAST_BATCHES) <= running_past(broker, LAST_BATCHES), limit_s=400)
    assert [entry for entry in broker.xrange("weir:events") if b"fragment_failed" in str(entry).encode()] == []
    before = events_in(data / "outputs", "part-*")
    wait_until(lambda: list(data.glob("outputs/*/*/events-*")), limit_s=240)
    after = before + events_in(data / "outputs", "events-*")
    assert events_in(data / "outputs", "part-*") == before, "what Spark's own sink wrote stays"
    assert len(set(after)) == len(after) > len(before) > 9_000, "each event once"
    numbers = {number for number, _ in after}
    assert numbers == set(range(min(numbers), max(numbers) + 1)), "and none is left out"
    assert list(data.glob("outputs/*/*/_spark_metadata")) == []


def running_past(broker: redis.Redis, batches: dict[str, int]) -> set[str]:
    """The queries that run and have done a batch after the last one that the folder holds."""
    report = json.loads(broker.get("weir:observed:n1") or "{}")
    fragments = {
        name: fragment for slot in report.get("slots", {}).values() for name, fragment in slot["fragments"].items()}
    return {
        name for name, last in batches.items()
        if name in fragments and fragments[name]["state"] == "running" and (fragments[name]["batch"] or 0) > last
    }


def events_in(outputs: Path, names: str) -> list[tuple[int, str]]:
    """The readings in files of these names, by their numbers and what was observed."""
    lines = [line for path in sorted(outputs.glob(f"*/*/{names}.json")) for line in path.read_text().splitlines()]
    return [(event["_seq"], event["obs"]) for event in map(json.loads, lines)]
