"""Files of sinks on Spark: whatever is killed, whoever reads the folder finds each event once, in few files."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest
import redis

from tests.conftest import running_broker
from workers.engine.files.folder import META, staged_in

from .conftest import TRIGGER_MS
from .rig import Rig, catalogue, estate_of, running_agent
from .test_slot import chain, fragment

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def publish(rig: Rig) -> dict[str, Path]:
    """A source with two sinks, each a query of its own: the folders of Parquet and of JSON lines."""
    first = chain("a", ("numbers", {"rate_per_s": 50.0}), ("kept", {"keep_events": 100_000}))
    columns = chain("p", ("in_python", {"tag": "p"}), ("whole_files", {"folder": "columns"}), parent="a0")
    lines = chain("j", ("json_lines", {"folder": "lines"}), parent="a0")
    fragments = [
        fragment("x1-0", first, outlets={"a0": ("x1-1", "x1-2")}), fragment("x1-1", columns, slot=1),
        fragment("x1-2", lines, slot=1)]
    rig.publish(estate_of(fragments, [*first, *columns, *lines], slots=rig.slots))
    rig.wait_running("x1-0", "x1-1", "x1-2")
    outputs = rig.data_dir / "outputs"
    return {"parquet": outputs / "columns-p1" / "x1-1", "json": outputs / "lines-j0" / "x1-2"}


def read(folder: Path, format: str) -> list[int]:
    """What a reader finds there that knows nothing of Weir."""
    if format == "parquet":
        table = ds.dataset(folder, format="parquet").to_table() if folder.exists() else None
        return sorted(table["n"].to_pylist()) if table is not None and table.num_columns else []
    return sorted(json.loads(line)["n"] for path in folder.glob("*.json") for line in path.read_text().splitlines())


def check_whole(folders: dict[str, Path]) -> None:
    for format, folder in folders.items():
        numbers = read(folder, format)
        assert numbers == list(range(len(numbers))), format


def grown(rig: Rig, folders: dict[str, Path], *, by: int) -> None:
    """Wait until there is more in both; what there is is whole at every look."""
    counts = {format: len(read(folder, format)) for format, folder in folders.items()}

    def is_more() -> bool:
        check_whole(folders)
        return all(len(read(folder, format)) > counts[format] + by for format, folder in folders.items())

    rig.wait(is_more, what="more in files")


@pytest.mark.long  # tests/engine/files writes them by Spark, too, and kills whoever writes at every step
@pytest.mark.parametrize("killed", [False, True], ids=["undisturbed", "killed"])
def test_files_hold_each_event_once_and_are_closed_by_age(rig: Rig, afterwards_nothing: None, *, killed: bool) -> None:
    folders = publish(rig)
    grown(rig, folders, by=50)
    if killed:
        pid = rig.slot_pid("1")
        os.kill(pid, signal.SIGKILL)
        rig.wait(lambda: rig.slot_pid("1") not in (None, pid), what="the slot is back")
        rig.wait_running("x1-1", "x1-2")
    grown(rig, folders, by=50)
    rig.publish(estate_of([], [], slots=rig.slots))
    rig.wait(lambda: rig.fragment("x1-1") is None and rig.fragment("x1-2") is None, what="both are gone")
    rig.wait(lambda: not any(staged_in(folder) for folder in folders.values()), what="all is closed")
    check_whole(folders)
    for format, folder in folders.items():
        assert len(read(folder, format)) > 100
        batches = max(int(path.stem.split("-")[-1]) for path in folder.glob("events-*")) + 1
        assert len(list(folder.glob("events-*"))) < batches, "fewer files than batches"
        assert {path.name for path in (folder / META).iterdir()} == {"lock", "state.json"}


@pytest.fixture
def restarted_rig(tmp_path_factory: pytest.TempPathFactory, test_types, with_jar) -> Iterator[Rig]:
    """An agent of this test's own, which it may kill."""
    plugin_folder, types = test_types
    data_dir = with_jar(tmp_path_factory.mktemp("data"))
    with running_broker(tmp_path_factory.mktemp("broker")) as url, redis.Redis.from_url(url) as client, running_agent(
        client, url, data_dir, slots=2, plugin=plugin_folder, task_types=catalogue(*types), WEIR_FILE_S="1",
    ) as rig:
        rig.trigger_ms = TRIGGER_MS
        yield rig


@pytest.mark.long
@pytest.mark.timeout(900)
def test_files_hold_each_event_once_where_the_whole_machine_dies(restarted_rig: Rig) -> None:
    folders = publish(restarted_rig)
    for _ in range(3):
        grown(restarted_rig, folders, by=50)
        restarted_rig.kill()
        check_whole(folders)
        restarted_rig.start()
        restarted_rig.wait_running("x1-0", "x1-1", "x1-2")
    grown(restarted_rig, folders, by=50)
    restarted_rig.stop()
    assert not any(staged_in(folder) for folder in folders.values()), "what is staged is closed when the agent ends"
    check_whole(folders)
    restarted_rig.start()
    restarted_rig.wait_running("x1-0", "x1-1", "x1-2")
    grown(restarted_rig, folders, by=50)
