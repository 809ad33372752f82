"""A node that comes back with an empty data folder begins nothing that could go on from copies of its state."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.contracts.desired import DESIRED_STATES, DesiredState, WantedSlot
from scheduler.contracts.reports import NodeReport, Reports
from workers.engine import observed
from workers.engine.agents.node_files.node_store import NodeStore
from workers.engine.agents.supervising.state_elsewhere import MOST_S, StateElsewhere
from workers.engine.agents.transport.copy_takeover import go_on_from_copy
from workers.engine.channels import keys

from .test_state_copies import AFTER, BEFORE, lost

PLANNED = DesiredState(node="n1", version=2, remote_heirs={"n2": (AFTER,)})
NOT_YET = DesiredState(node="n1", version=1, slots={"0": WantedSlot((BEFORE,))})


class World:
    """A node's folder, the copies on another node, and the time."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, copy: bool = True) -> None:
        self.broker, _, self.files = lost(folder / "n2", copy=copy)
        self.living, self.now_s = {"n1", "n2"}, 5.0
        monkeypatch.setattr(
            observed, "read_reports", lambda _: Reports({name: NodeReport(name) for name in self.living}))
        self.store = NodeStore(folder / "n1", "n1")
        self.start = StateElsewhere(self.broker, self.store, clock_s=lambda: self.now_s)

    def wanted(self, desired: DesiredState) -> bool:
        """Whether the node begins where that is desired of it."""
        self.broker.set(keys.desired("n1"), DESIRED_STATES.dumps(desired))
        return self.start.may_begin()


def test_it_waits_until_another_node_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, monkeypatch)
    assert not world.wanted(NOT_YET), "the site may still move it"
    assert not world.wanted(PLANNED), "its heir would be told that there is nothing to hand over"
    assert go_on_from_copy(world.broker, world.files, "f1-1", AFTER, node="n2")
    assert world.wanted(PLANNED)


def test_it_waits_for_nothing_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert World(tmp_path / "a", monkeypatch, copy=False).wanted(NOT_YET), "nobody has a copy"
    world = World(tmp_path / "b", monkeypatch)
    assert world.start.may_begin(), "nothing is desired of it"
    world.living.discard("n2")
    assert world.wanted(NOT_YET), "who has one is lost, too"
    world.living.add("n2")
    world.now_s += MOST_S
    assert not world.start.may_begin()
    world.now_s += MOST_S
    assert world.start.may_begin(), "nobody moves it: it begins, and says so"


def test_what_cannot_be_read_keeps_it_from_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, monkeypatch)
    world.broker.set(keys.desired("n1"), "{")
    assert world.start.may_begin()
    world = World(tmp_path, monkeypatch)
    world.broker.delete(keys.ranges("f1-1"))
    world.broker.set(keys.ranges("f1-1"), "no hash")
    assert world.wanted(NOT_YET)


def test_a_folder_that_has_something_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, monkeypatch)
    world.store.write_desired(NOT_YET)
    assert world.wanted(PLANNED)
