"""Named savepoints: parts that a query leaves while it works, and other queries that begin with them."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.contracts.desired import DESIRED_STATES, WANTED_FRAGMENTS, WantedFragment
from scheduler.contracts.savepoints import SAVEPOINTS, Savepoint
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask, channel_id
from scheduler.model.saved_states import SavedTask
from workers.engine.agents.reconciling.named_savepoints import save, saved, unsaved
from workers.engine.agents.reconciling.reconcile import FragmentState
from workers.engine.agents.transport.parcels import FilesBeside
from workers.engine.spark.failure_messages import FragmentFailed

from .divided_world import EVERYTHING, NUMBERS, SLOTS, World
from .looked_at import READER, SOURCE

NEAR = [slot.name for slot in SLOTS if slot.node == "n1"]
KIND = "saved-monday"


def chain(mark: str = "") -> dict[str, RunningTask]:
    """A source, a task that counts, and an output; another past, as a mark has it, has other ids."""
    number, count, out = (f"{name}{mark}" for name in ("number", "count", "out"))
    return {
        number: RunningTask(number, "src", {}, ()),
        count: RunningTask(count, "count", {}, (number,)),
        out: RunningTask(out, "out", {"keep_events": EVERYTHING}, (count,))}


class SavingWorld(World):
    """One chain at a time on a node of two slots, whose slots die often."""

    DEADLINESS = 0.04
    generation = 0

    def run(self, mark: str, slot: int, *, inherits: tuple[str, ...] = (), **more: object) -> str:
        """Want the chain in a new query, told what a plan cannot say yet; its id."""
        self.generation += 1
        tasks, name = chain(mark), f"f{self.generation}-0"
        channels = {f"out{mark}": channel_id("f2-0", 2)} if inherits else {}
        fragment = Fragment(name, tuple(tasks), SLOTS[slot].name, len(tasks), inherits=inherits, channels=channels)
        self.want(Estate(self.generation, tasks=tasks, fragments={name: fragment}, slots=SLOTS))
        self.hear("n1")
        self.tell(name, **more)
        return name

    def tell(self, name: str, **more: object) -> None:
        heard = self.heard["n1"]
        slots = {index: replace(slot, fragments=tuple(
            replace(fragment, **more) if fragment.id == name else fragment for fragment in slot.fragments))
            for index, slot in heard.slots.items()}
        self.heard["n1"] = DESIRED_STATES.loads(DESIRED_STATES.dumps(replace(heard, slots=slots)))

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.turn(self.chance.choice(NEAR))

    def until(self, is_so) -> None:
        for _ in range(3_000):
            if is_so():
                return
            self.turns(1)
        raise AssertionError("it did not come true")

    @property
    def files(self):
        return self.stores[NEAR[0]].files


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), before=st.integers(0, 60), after=st.integers(0, 30), moves=st.booleans(),
       slots=st.lists(st.integers(0, 1), min_size=3, max_size=3))
def test_who_begins_with_a_savepoint_goes_on_exactly_there_whenever_slots_die(seed, before, after, moves, slots):
    """Its rows are those of a run that nothing disturbed, from the savepoint on: each number once, with its count."""
    with pytest.MonkeyPatch.context() as patch:
        world = SavingWorld(random.Random(seed), patch)
        old = world.run("", slots[0])
        world.turns(before)
        world.tell(old, savepoints=("monday",))
        world.until(lambda: world.files.size(old, KIND) is not None)
        part = world.files.read(old, KIND)
        world.turns(after)
        assert world.files.read(old, KIND) == part, "a savepoint is of one moment"
        first = (SAVEPOINTS.loads(part.decode()).source_offset or {"next": 0})["next"]
        places = {f"{task}+": SavedTask("monday", old, task) for task in chain()}
        new = world.run("+", slots[1], restores=places)
        assert new == "f2-0"
        if moves:  # perhaps before it has begun
            world.turns(after)
            heir = world.run("+", slots[2], inherits=(new,))
        world.deadly = False
        events = [] if first == NUMBERS else [(number, number) for number in range(first, NUMBERS)]
        world.until(lambda: set(world.running) == {heir if moves else new}
                    and list(world.broker.events(channel_id(new, 2))) == events)
        assert not world.gaps and world.files.read(old, KIND) == part


def test_a_query_works_on_while_it_leaves_its_part():
    with pytest.MonkeyPatch.context() as patch:
        world = SavingWorld(random.Random(1), patch)
        world.deadly = False
        name = world.run("", 0)
        world.until(lambda: name in world.running)
        query = world.running[name]
        world.tell(name, savepoints=("monday", "tuesday"))
        world.until(lambda: world.files.size(name, KIND) is not None)
        assert world.running[name] is query and not world.broker.hexists(f"weir:valve:{name}", "paused")
        assert world.files.read(name, "saved-tuesday") == world.files.read(name, KIND)
        world.until(lambda: list(world.broker.events(channel_id(name, 2))) == [(n, n) for n in range(NUMBERS)])


def test_a_part_that_is_not_there_is_named_and_nothing_begins():
    with pytest.MonkeyPatch.context() as patch:
        world = SavingWorld(random.Random(1), patch)
        world.deadly = False
        name = world.run("+", 0, restores={"count+": SavedTask("monday", "f9-9", "count")})
        world.turns(60)
        run = world.runs[NEAR[0]][name]
        assert run.state is FragmentState.BACKOFF and name not in world.running
        error = run.report({}, throttled_by=None, now_ms=world.now_ms)["error"]
        assert "monday" in error and "f9-9" in error


def test_a_part_is_of_one_moment_and_asked_for_until_it_is_there(tmp_path):
    files, first, later = FilesBeside(tmp_path), Savepoint({"next": 1}), Savepoint({"next": 2})
    saving = replace(SOURCE, savepoints=("monday", "tuesday"))
    [action] = unsaved(files, [saving, READER])
    assert action.fragment == saving and action.savepoints == ("monday", "tuesday")
    save(files, SOURCE.id, ["monday"], first)
    [action] = unsaved(files, [saving])
    assert action.savepoints == ("tuesday",)
    save(files, SOURCE.id, ["monday", "tuesday"], later)
    assert unsaved(files, [saving]) == ()
    places = [SavedTask(name, SOURCE.id, "s") for name in saving.savepoints]
    assert list(saved(files, places).values()) == [first, later]
    with pytest.raises(FragmentFailed, match="Savepoint friday has no part of query f1-0 on this node"):
        saved(files, [SavedTask("friday", SOURCE.id, "s")])


def test_agents_of_earlier_versions_are_told_nothing_new():
    assert not {"savepoints", "restores"} & WANTED_FRAGMENTS.document(WantedFragment("f1-0", ())).keys()
