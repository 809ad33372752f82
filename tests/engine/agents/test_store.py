"""What a slot keeps on disk: records, the chain of a checkpoint, locks, and the sweep of what was removed."""

import json
import os
import subprocess
import sys
from pathlib import Path

from scheduler.contracts.desired import DesiredState, WantedFragment
from scheduler.contracts.savepoints import RestorePoint, Savepoint
from scheduler.model.dataflow import Task
from workers.engine.agents.node_files.atomic_files import write_atomically
from workers.engine.agents.node_files.node_store import NewestDesired, NodeStore
from workers.engine.agents.reconciling.started_fragments import FileLock, SlotStore

GRACE_S = 100.0


def fragment(name: str) -> WantedFragment:
    return WantedFragment(id=name, tasks=(Task("a", "x", {"k": [1]}), Task("b", "y")), active=2)


def begin(store: SlotStore, name: str) -> None:
    store.record(fragment(name))
    (store.checkpoint(name) / "offsets").mkdir(parents=True)
    (store.checkpoint(name) / "offsets" / "0").touch()


def test_a_record_survives_its_slot(tmp_path):
    SlotStore(tmp_path, tmp_path / "slot-0").record(fragment("f1-0"))
    assert SlotStore(tmp_path, tmp_path / "slot-0").records() == {"f1-0": fragment("f1-0")}
    assert SlotStore(tmp_path, tmp_path / "slot-1").records() == {}
    SlotStore(tmp_path, tmp_path / "slot-0").forget("f1-0")
    assert SlotStore(tmp_path, tmp_path / "slot-0").records() == {}


def test_another_slot_knows_the_chain_of_a_checkpoint(tmp_path):
    SlotStore(tmp_path, tmp_path / "slot-0").record(fragment("f1-0"))
    other = SlotStore(tmp_path, tmp_path / "slot-1")
    assert other.known_fragment("f1-0") == fragment("f1-0")
    assert other.known_fragment("f9-9") is None


def test_a_fragment_has_begun_when_a_batch_was_planned(tmp_path):
    store = SlotStore(tmp_path, tmp_path / "slot-0")
    assert not store.has_begun("f1-0")
    (store.checkpoint("f1-0") / "offsets").mkdir(parents=True)
    (store.checkpoint("f1-0") / "offsets" / ".0.tmp").touch()
    assert not store.has_begun("f1-0")
    begin_file = store.checkpoint("f1-0") / "offsets" / "0"
    begin_file.touch()
    assert store.has_begun("f1-0")


def test_what_was_removed_is_swept_after_its_time_of_grace_and_not_while_it_runs(tmp_path):
    store = SlotStore(tmp_path, tmp_path / "slot-0")
    for name in ("gone", "running", "kept"):
        begin(store, name)
    store.mark_removed("gone")
    store.mark_removed("running")
    marked_s = (tmp_path / "checkpoints" / "gone.removed").stat().st_mtime
    assert store.sweep(now_s=marked_s + GRACE_S - 1, grace_s=GRACE_S) == []
    held = store.lock("running")
    assert held.acquire()
    assert store.sweep(now_s=marked_s + GRACE_S + 60, grace_s=GRACE_S) == ["gone"]
    assert not store.checkpoint("gone").exists() and store.has_begun("running") and store.has_begun("kept")
    assert not list((tmp_path / "checkpoints").glob("gone*"))
    held.release()
    store.record(fragment("running"))  # wanted again: nothing marks it any more
    assert store.sweep(now_s=marked_s + 10 * GRACE_S, grace_s=GRACE_S) == []


def test_what_stood_by_and_that_no_slot_has_any_more_is_swept_too(tmp_path):
    store = SlotStore(tmp_path, tmp_path / "slot-0")
    for name in ("stands", "gone"):
        store.record_standby(name, [f"{name}.0"])
        begin(store, name)
    assert store.standby("gone") == ("gone.0",) and store.standby("other") is None
    assert store.standing() == frozenset(), "neither has done its empty batch"
    (store.checkpoint("gone") / "commits").mkdir()
    (store.checkpoint("gone") / "commits" / "0").touch()
    assert store.standing() == {"gone"}
    held = store.lock("stands")
    assert held.acquire()
    later_s = (tmp_path / "checkpoints" / "gone.standby").stat().st_mtime + GRACE_S + 60
    assert store.sweep(now_s=later_s, grace_s=GRACE_S) == ["gone"]
    assert store.standby("gone") is None and not store.checkpoint("gone").exists()


def test_a_lock_is_its_holders_until_that_dies(tmp_path):
    path = tmp_path / "f.lock"
    code = (
        "import sys, time\nfrom pathlib import Path\n"
        "from workers.engine.agents.reconciling.started_fragments import FileLock\n"
        "lock = FileLock(Path(sys.argv[1]))\n"
        "assert lock.acquire()\nprint('held', flush=True)\ntime.sleep(600)\n"
    )
    root = str(Path(__file__).parents[3])
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": root},
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        mine = FileLock(path)
        assert not mine.acquire()
        holder.kill()
        holder.wait()
        assert mine.acquire() and mine.acquire(), "a lock that is held stays held"
        mine.release(remove=True)
        assert not path.exists()
    finally:
        holder.kill()
        holder.wait()


def test_a_reader_never_sees_half_a_file(tmp_path):
    path = tmp_path / "sub" / "x.json"
    write_atomically(path, "old")
    write_atomically(path, "new")
    assert path.read_text() == "new" and [path_there.name for path_there in path.parent.iterdir()] == ["x.json"]


def test_what_is_desired_is_parsed_once_however_often_it_is_asked_for(tmp_path, monkeypatch):
    """The executor asks for it many times for each reader of a stream; it is as large as its node has bundles."""
    parsed, read = [], NodeStore.read_desired
    monkeypatch.setattr(NodeStore, "read_desired", lambda store: parsed.append(store) or read(store))
    store = NodeStore(tmp_path, "n1")
    newest = NewestDesired(store)
    assert newest().version == 0
    for version in (1, 2):
        store.write_desired(DesiredState(version))
        parsed.clear()
        assert [newest().version for _ in range(5)] == 5 * [version] and len(parsed) == 1
    store.desired_path.unlink()
    assert newest().version == 2, "nothing that runs is stopped for that"


def test_what_earlier_versions_recorded_of_a_handover_is_read_and_written_alike(tmp_path):
    states = {"count": ["7"]}
    store = SlotStore(tmp_path, tmp_path / "slot-0")
    documents = {
        "begun": {"ticks": {"t0": 5, "next": 9}, "places": {"a.0": "3-0"}, "bases": {"b.0": 4}, "states": states},
        "ended": {"ticks": None, "places": {"a.0": "3-0"}, "lasts": {"b.0": "8-1"}, "bases": {"b.0": 8},
                  "states": states},
    }
    (tmp_path / "checkpoints").mkdir()
    for what, document in documents.items():
        (tmp_path / "checkpoints" / f"f1-0.{what}").write_text(json.dumps(document | {"of a later version": 1}))
    begun, ended = store.begun("f1-0"), store.ended("f1-0")
    assert begun == RestorePoint({"t0": 5, "next": 9}, {"a.0": "3-0"}, {"b.0": 4}, states)
    assert ended == Savepoint(None, {"a.0": "3-0"}, {"b.0": "8-1"}, {"b.0": 8}, states)
    store.record_begun("f2-0", begun)
    store.record_ended("f2-0", ended)
    for what, document in documents.items():
        assert json.loads((tmp_path / "checkpoints" / f"f2-0.{what}").read_text()) == document
