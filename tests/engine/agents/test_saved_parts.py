"""The parts of named savepoints on a node: told of, kept, and deleted when their savepoint is."""

from __future__ import annotations

import pytest

from scheduler.contracts.desired import DesiredState, WantedFragment, WantedSlot
from scheduler.contracts.reports import NODE_REPORTS
from scheduler.contracts.savepoints import Savepoint
from workers.engine.agents.reconciling.named_savepoints import save
from workers.engine.agents.supervising.saved_parts import SavedParts
from workers.engine.agents.transport.parcels import FilesBeside

MONDAY, TUESDAY, OTHERS = "n1-00000001", "n1-00000002", "n1-2-00000001"


@pytest.fixture
def files(tmp_path):
    return FilesBeside(tmp_path / "checkpoints")


def desired_state(names, *saving):
    fragments = tuple(WantedFragment(name, (), savepoints=savepoints) for name, savepoints in saving)
    return DesiredState(kept_savepoints=names, slots={"0": WantedSlot(fragments)})


def report(parts, desired):
    """As the site reads it."""
    return NODE_REPORTS.read({"node": "n1", "savepoints": parts.report(desired)}).savepoints


def test_a_node_that_was_told_nothing_of_savepoints_deletes_and_tells_nothing(tmp_path, files):
    save(files, "f1-0", [MONDAY], Savepoint({"t0": 5, "next": 12}))
    assert report(SavedParts(tmp_path, "n1"), DesiredState()) is None
    assert files.size("f1-0", f"saved-{MONDAY}")


@pytest.mark.parametrize(("part", "expected"), [
    (Savepoint({"t0": 5, "next": 12}), 12), (Savepoint({"next": 0, "t0": 5}, states={"c": ["x" * 5000]}), 0),
    (Savepoint(None, states={"c": ['"ticks": {"next": 7}}']}), None)])
def test_a_part_is_told_with_its_size_and_its_sources_next_event(tmp_path, files, part, expected):
    parts, desired = SavedParts(tmp_path, "n1"), desired_state((MONDAY,), ("f1-0", (MONDAY,)))
    assert report(parts, desired) == {}
    save(files, "f1-0", [MONDAY], part)
    [(name, part_told)] = report(parts, desired).items()
    assert name == MONDAY and part_told.fragment == "f1-0" and part_told.next_event == expected
    assert part_told.size_bytes == files.size("f1-0", f"saved-{MONDAY}") and part_told.at_ms > 0
    again = SavedParts(tmp_path, "n1")  # the agent, started anew; the query is gone
    assert report(again, desired_state((MONDAY,)))[MONDAY] == part_told


def test_parts_of_savepoints_that_nobody_keeps_are_deleted_and_no_others(tmp_path, files):
    save(files, "f1-0", [MONDAY, TUESDAY, OTHERS], Savepoint({"next": 1}))
    files.write("f1-0", "begun", b"{}")
    parts = SavedParts(tmp_path, "n1")
    assert report(parts, desired_state((MONDAY, TUESDAY))).keys() == {MONDAY, TUESDAY}
    assert report(parts, desired_state((TUESDAY,))).keys() == {TUESDAY}
    assert files.size("f1-0", f"saved-{MONDAY}") is None and files.size("f1-0", f"saved-{TUESDAY}")
    assert report(parts, desired_state(())) == {}
    assert files.size("f1-0", f"saved-{TUESDAY}") is None
    assert files.size("f1-0", f"saved-{OTHERS}") and files.size("f1-0", "begun"), "another node's, and no part"


def test_a_part_that_is_lost_is_told_no_more(tmp_path, files):
    save(files, "f1-0", [MONDAY], Savepoint({"next": 1}))
    parts = SavedParts(tmp_path, "n1")
    assert report(parts, desired_state((MONDAY,))).keys() == {MONDAY}
    files.drop("f1-0", f"saved-{MONDAY}")
    assert report(parts, desired_state((MONDAY,))) == {}


def test_what_is_no_file_is_not_followed(tmp_path, files):
    (tmp_path / "secret").write_text("x")
    files.folder.mkdir()
    (files.folder / f"f1-0.saved-{MONDAY}").symlink_to(tmp_path / "secret")
    assert report(SavedParts(tmp_path, "n1"), desired_state((MONDAY,))) == {}
