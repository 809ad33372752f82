"""The state of the version of 25 November 2026 (0fc29840), kept as a back-up: every later version restores it, opens it
and goes on with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import redis

from scheduler.contracts.desired import DESIRED_STATES
from workers.engine.agents.node_files.checkpoint import read_progress
from workers.launcher.backup import backup_cli, serving

from .stored_rows import rows_of
from .system import System
from .test_upgrade import running_past
from .waiting import wait_until

# Made by `python -m tests.launcher.make_state`: two dataflows share a chain with state and write files, one is paused,
# one removed, one runs by a schedule, one waits for its approval, and there is the sample of a new installation.
STATE = Path(__file__).parent / "state_2026_11_25.weir"
STATUSES = {
    "Urban sensing: variability": "running", "Smoothed": "running", "Read": "running", "Resting": "paused",
    "Gone": "removed", "Scheduled": "running", "Waits for approval": "planned",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder that was restored from it."""
    folder = tmp_path_factory.mktemp("kept") / "data"
    with pytest.MonkeyPatch.context() as patched:
        for name in ("REDIS_URL", "DATABASE_URL"):
            patched.delenv(name, raising=False)
        assert backup_cli.main(["restore", str(STATE), "--data-dir", str(folder)]) == 0
    return folder


@pytest.mark.broker
def test_its_rows_read_its_pages_open_and_its_queries_have_their_checkpoints(data: Path) -> None:
    desired = DESIRED_STATES.loads((data / "nodes" / "n1" / "desired.json").read_text())
    with serving.started(data) as url, redis.Redis.from_url(url) as client:
        stored = rows_of(data, url, "--migrate")
        assert DESIRED_STATES.loads(client.get("weir:desired:n1").decode()).version == desired.version
    assert stored["statuses"] == STATUSES
    assert stored["altered_plans"] == []
    assert {address: status for address, status in stored["pages"].items() if status != 200} == {}


    fragments = [fragment for slot in desired.slots.values() for fragment in slot.fragments]
    assert len(fragments) == 7
    for fragment in fragments:
        assert read_progress(data / "checkpoints" / fragment.id).batch >= 0, fragment.id


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(600)
def test_it_goes_on_with_each_event_once(data: Path, free_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_FILE_S", "3")
    last = {path.name: max(int(offset.name) for offset in (path / "offsets").glob("[0-9]*"))
            for path in (data / "checkpoints").iterdir() if (path / "offsets").is_dir()}
    system = System(data, free_port, slots=2)
    try:
        system.until_ready()
        broker = redis.Redis.from_url((data / "broker" / "url").read_text().strip())
        report = json.loads(broker.get("weir:desired:n1"))
        wanted = {fragment["id"]: last[fragment["id"]] for slot in report["slots"].values()
                  for fragment in slot["fragments"] if fragment["active"] and not fragment.get("leaving")}
        wait_until(lambda: set(wanted) <= running_past(broker, wanted), limit_s=240)
        closed = set(data.glob("outputs/*/*/events-*.json"))
        wait_until(lambda: len({path.parts[-3] for path in set(data.glob("outputs/*/*/events-*.json")) - closed}) >= 2,
                   limit_s=120)
    finally:
        system.process.terminate()
        system.process.wait(60)
    for folder in ("smoothed", "read"):
        keys = events_of(data, folder)
        assert len(keys) == len(set(keys)) > 100, "each event once"
        numbers = {number for number, _ in keys}
        assert numbers == set(range(min(numbers), max(numbers) + 1)), "and none is left out"


def events_of(data: Path, folder: str) -> list[tuple[int, str]]:
    """The readings of one sink, by their numbers and what was observed."""
    lines = [line for path in sorted(data.glob(f"outputs/{folder}-*/*/events-*.json"))
             for line in path.read_text().splitlines()]
    return [(event["_seq"], event["obs"]) for event in map(json.loads, lines)]
