"""The state of commit c3b94a08 (27 November 2026), whose dataflows keep state by key: windows, blocks, what has passed,
pairs, and a Python function's. Every later version restores it and goes on with it: files show no seam.

The function fails at a reading of 13, so its query may stand; the others do not."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from scheduler.contracts.desired import DESIRED_STATES
from tests.library.package import install_package
from workers.engine.agents.node_files.checkpoint import read_progress
from workers.launcher.backup import backup_cli, serving

from .keyed_estate import TASKS, faults, written
from .stored_rows import rows_of
from .system import System
from .waiting import wait_until

# Made by that version's `./weir backup` of a folder in which the dataflows of `keyed_estate` and some samples had run,
# until Ctrl-C.
STATE = Path(__file__).parent / "state_c3b94a08.weir"
SAMPLES = {"Urban sensing: variability", "Urban sensing: statistics", "Word count"}
RUNNING = {"Raw", *(name.title() for name in TASKS)} | SAMPLES


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder that was restored from it."""
    for name in ("REDIS_URL", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "data"
    assert backup_cli.main(["restore", str(STATE), "--data-dir", str(folder)]) == 0
    return folder


def last_batches(data: Path) -> dict[str, int]:
    """The last batch of each query that is to run, by its checkpoint."""
    desired = DESIRED_STATES.loads((data / "nodes" / "n1" / "desired.json").read_text())
    names = [fragment.id for slot in desired.slots.values() for fragment in slot.fragments]
    return {name: read_progress(data / "checkpoints" / name).batch for name in names}


@pytest.mark.broker
def test_its_rows_read_and_its_queries_have_their_checkpoints(data: Path) -> None:
    with serving.started(data) as url, redis.Redis.from_url(url):
        stored = rows_of(data, url, "--migrate")
    assert stored["statuses"] == dict.fromkeys(RUNNING, "running")
    assert stored["altered_plans"] == []
    assert {address: status for address, status in stored["pages"].items() if status != 200} == {}
    batches = last_batches(data)
    assert len(batches) > len(TASKS)
    assert min(batches.values()) >= 0
    assert faults(data) == []


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(900)
def test_windows_blocks_and_pairs_go_on_from_it(
    data: Path, tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_package(tmp_path / "packages", monkeypatch)
    monkeypatch.setenv("WEIR_FILE_S", "3")
    before = {name: written(data, name)[-1]["_seq"] for name in ("raw", *TASKS) if name != "summed"}
    system = System(data, free_port, slots=2)
    try:
        system.until_ready()
        wait_until(
            lambda: all(written(data, name)[-1]["_seq"] > last + 100 for name, last in before.items()), limit_s=600)
    finally:
        system.process.terminate()
        system.process.wait(60)
    assert faults(data) == []
