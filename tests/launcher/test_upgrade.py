"""State folders of earlier versions open: what ran goes on where it ended, and what was stored still reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import redis

from .system import System
from .waiting import ROOT, wait_until

FOLDER = Path(__file__).parent
# Made by `./weir up` of commit af0fdcb: seven queries run, two of them share a chain of another team's, a dataflow is
# paused, one removed, one runs by a schedule, and one waits for its approval.
STATE = FOLDER / "state_af0fdcb.tar.xz"
STATUSES = {
    "Urban sensing: variability": "running", "Warm for mobility": "paused", "Files of warm": "running",
    "Warm sensors": "removed", "Scheduled": "running", "Waits for approval": "planned",
}
LAST_BATCHES = {"f2-0": 654, "f3-0": 437, "f5-0": 44, "f8-0": 185, "f8-1": 181, "f8-2": 181, "f8-3": 177}


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_state_of_af0fdcb_opens_and_goes_on(tmp_path: Path, free_port: int) -> None:
    data = tmp_path / "data"
    with tarfile.open(STATE) as archive:
        archive.extractall(data, filter="data")
    data.chmod(0o700)
    system = System(data, free_port, slots=2)
    try:
        system.until_ready()
        broker = redis.Redis.from_url((data / "broker" / "url").read_text().strip())
        wait_until(lambda: set(LAST_BATCHES) <= running_past(broker, LAST_BATCHES), limit_s=180)
        stored = ask(data)
        assert stored["statuses"] == STATUSES
        assert stored["altered_plans"] == []
        assert {address: status for address, status in stored["pages"].items() if status != 200} == {}
        assert [entry for entry in broker.xrange("weir:events") if b"fragment_failed" in str(entry).encode()] == []
        before = events_in(data / "outputs", "part-*")
        wait_until(lambda: list(data.glob("outputs/*/*/events-*")), limit_s=120)
        after = before + events_in(data / "outputs", "events-*")
        assert events_in(data / "outputs", "part-*") == before, "what Spark's own sink wrote stays"
        assert len(set(after)) == len(after) > len(before) > 9_000, "each event once"
        numbers = {number for number, _ in after}
        assert numbers == set(range(min(numbers), max(numbers) + 1)), "and none is left out"
        assert list(data.glob("outputs/*/*/_spark_metadata")) == []
    finally:
        system.process.terminate()
        system.process.wait(60)


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


def ask(data: Path) -> dict:
    """What the site makes of the stored rows, in a process of its own with that state folder."""
    variables = {name: value for name, value in os.environ.items() if name not in ("REDIS_URL", "DATABASE_URL")}
    done = subprocess.run(
        (sys.executable, "-P", "-m", "tests.launcher.stored_rows"), capture_output=True, text=True, timeout=120,
        cwd=ROOT, env={**variables, "WEIR_DATA_DIR": str(data), "PYTHONPATH": str(ROOT),
                       "REDIS_URL": (data / "broker" / "url").read_text().strip()})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
