"""What somebody who broke out of a task puts where the agent reads: it stops no agent, and no other team's files."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from scheduler.contracts.desired import DesiredState
from workers.engine.agents.node_files.node_store import TAKEN, NodeStore
from workers.engine.agents.supervising.saved_parts import SavedParts
from workers.engine.agents.supervising.usage_attribution import _stored_figure
from workers.engine.files.closing import FileLimits
from workers.engine.files.folder import META, STATE
from workers.engine.files.keeper import FileKeeper
from workers.engine.files.retention import Retention
from workers.engine.measuring import feed

SAVED = "n1-00000001"
OUTSIDE = "5.0"  # what a link leads to
EVENTS = pa.table({"text": ["x" * 1000] * 10_000})


def packed(path: Path) -> None:
    """A few bytes that decode to ten megabytes."""
    with pa.ipc.new_file(str(path), EVENTS.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(EVENTS)


def beyond(path: Path) -> None:
    """A text of which Arrow is told that it is longer than what holds it: what lies behind would be copied."""
    honest = pa.table({"text": ["short"]})
    with pa.ipc.new_file(str(path), honest.schema) as writer:
        writer.write_table(honest)
    content = path.read_bytes()
    ends_at = content.rindex(b"\0\0\0\0\x05\0\0\0", 0, content.index(b"short")) + 4
    path.write_bytes(content[:ends_at] + (1 << 20).to_bytes(4, "little") + content[ends_at + 4:])


def folder(path: Path) -> None:
    (path / "inner").mkdir(parents=True)


def link(path: Path) -> None:
    outside = path.parent / "outside"
    outside.write_text(OUTSIDE)
    path.symlink_to(outside)


PUT: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo, "a folder": folder, "a link": link, "a link to nowhere": lambda path: path.symlink_to("gone"),
    "a link without end": lambda path: path.symlink_to("/dev/zero")}
ARROW = {"a few bytes that are many": packed, "a text beyond its bytes": beyond}
TEXTS = {"no number": lambda path: path.write_text("nan"), "no JSON": lambda path: path.write_text("[" * 100_000)}


def ends(do: Callable[[], object]) -> object:
    """What comes of it; a pipe would be waited for without end."""
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(do()), daemon=True)
    thread.start()
    thread.join(60)
    assert results, "it waits, or failed"
    return results[0]


@pytest.mark.parametrize("put", PUT.values(), ids=PUT)
@pytest.mark.parametrize("names", [(SAVED,), ()], ids=["kept", "deleted"])
def test_parts_of_savepoints(tmp_path, put, names):
    (tmp_path / "checkpoints").mkdir()
    path = tmp_path / "checkpoints" / f"f1-0.saved-{SAVED}"
    put(path)
    parts, before = SavedParts(tmp_path, "n1"), len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        assert ends(lambda: parts.report(DesiredState(kept_savepoints=names))) == {}
    assert os.path.lexists(path) is bool(names) and len(os.listdir("/proc/self/fd")) <= before


def test_a_part_that_is_of_no_time(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    for number, at_s in enumerate((-1e9, 9e9)):
        path = tmp_path / "checkpoints" / f"f1-0.saved-n1-0000000{number}"
        path.write_text("{}")
        os.utime(path, (at_s, at_s))
    report = SavedParts(tmp_path, "n1").report(DesiredState(kept_savepoints=("n1-00000000", "n1-00000001")))
    assert len(report) == 2 and all(0 <= part["at_ms"] / 1000 <= time.time() for part in report.values())


@pytest.mark.parametrize("put", [*PUT.values(), TEXTS["no number"]], ids=[*PUT, "no number"])
def test_what_a_slot_keeps_of_its_memory(tmp_path, put):
    put(tmp_path / "base_mb")
    assert ends(lambda: [_stored_figure(tmp_path / "base_mb")]) == [None]


@pytest.mark.parametrize("put", PUT.values(), ids=PUT)
def test_marks_of_what_was_taken(tmp_path, put):
    store = NodeStore(tmp_path, "n1")
    (store.folder / TAKEN).mkdir(parents=True)
    put(store.folder / TAKEN / "f9-0")
    assert ends(lambda: store.write_desired(DesiredState(version=1)))
    assert not os.path.lexists(store.folder / TAKEN / "f9-0")


@pytest.mark.parametrize("put", [*PUT.values(), *ARROW.values()], ids=[*PUT, *ARROW])
def test_what_trials_are_fed_with(tmp_path, put):
    put(tmp_path / "feed.arrow")
    assert ends(lambda: [feed.read_kept(tmp_path / "feed.arrow")]) == [None]


@pytest.mark.parametrize("name", [STATE, "0-000000000001.staged"])
@pytest.mark.parametrize("put", [*PUT.values(), *ARROW.values(), *TEXTS.values()], ids=[*PUT, *ARROW, *TEXTS])
def test_files_of_a_sink(tmp_path, name, put):
    for query, staged in (("hostile", b"{}\n"), ("other", b'{"x": 1}\n')):
        (tmp_path / query / META).mkdir(parents=True)
        (tmp_path / query / META / "0-000000000002.staged").write_bytes(staged)
    put(tmp_path / "hostile" / META / name)
    deep = tmp_path
    for _ in range(40):
        deep /= "d" * 3
    for _ in range(20):  # deeper than Python goes
        deep /= "/".join("d" * 40)
        deep.mkdir(parents=True)
    keeper = FileKeeper(tmp_path, FileLimits(file_s=0.0), Retention(), report=lambda *_, **facts: None)
    ends(lambda: [keeper.turn(now_s=2e9)])
    [closed] = (tmp_path / "other").glob("events-*")
    assert closed.read_text() == '{"x": 1}\n'
    assert OUTSIDE not in "".join(path.read_text(errors="replace") for path in (tmp_path / "hostile").glob("events-*"))
    assert not list((tmp_path / "hostile").glob("*.parquet"))
