"""Another version takes the place of one that runs: sinks that are in both get every event once, whenever slots die."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.applying import apply_plan
from scheduler.changing import plan_change
from scheduler.model.dataflow import Dataflow, Stream, Task
from scheduler.model.estate import Estate
from scheduler.model.prices import Prices
from scheduler.model.task_types import TaskTypes
from scheduler.planning import plan_submission

from .divided_world import EVERYTHING, SLOTS, World
from .divided_world import TYPES as PLAYED
from .test_bundles import some_turns
from .test_first_schedules import turn

TYPES = TaskTypes(PLAYED.values())
AT_FIRST, THEN, AT_LAST = 40, 160, 200  # numbers that the source has given by then
KEEPS = {"keep_events": EVERYTHING}
ARMS = ("left", "right", "far")
# What a version does besides what all have: for some arms a marking task, told apart by a number, before an output.
versions = st.dictionaries(st.sampled_from(ARMS), st.integers(0, 2), min_size=1)
histories = st.lists(st.tuples(st.integers(0, 30), versions), min_size=1, max_size=4)


def version(arms: dict[str, int]) -> Dataflow:
    """A source, a task and a count before an output, which stay; and arms that differ from version to version."""
    tasks = [Task("s", "src", {}), Task("a", "mark", {}), Task("n", "count", {}), Task("o", "out", KEEPS)]
    streams = [("s", "a"), ("a", "n"), ("n", "o")]
    for arm, number in arms.items():
        tasks += [Task(arm, "mark", {"arm": arm, "number": number}), Task(f"{arm}-o", "out", KEEPS)]
        streams += [("s" if arm == "far" else "a", arm), (arm, f"{arm}-o")]
    return Dataflow("whole", tuple(tasks), tuple(Stream(*ends) for ends in streams))


class Versions:
    """The estate from version to version, beside a dataflow of another team that shares its first tasks."""

    def __init__(self, arms: dict[str, int]) -> None:
        self.now = version(arms)
        before = self._submitted(Estate(slots=SLOTS), "other", version({"far": 7}))
        self.estate = self._submitted(before, "own", self.now)

    @staticmethod
    def _submitted(estate: Estate, name: str, dataflow: Dataflow) -> Estate:
        return apply_plan(estate, plan_submission(
            estate, dataflow, dataflow_id=name, team=name, task_types=TYPES, prices=Prices()))

    def change(self, arms: dict[str, int]) -> Estate:
        """The next version."""
        before, self.now = self.now, version(arms)
        self.estate = apply_plan(self.estate, plan_change(
            self.estate, self.now, former=before, dataflow_id="own", team="own", task_types=TYPES, prices=Prices()))
        return self.estate

    def out(self, world: World, name: str, task: str) -> list:
        """The events of an output as they came."""
        running = self.estate.submitted[name].running
        return list(world.broker.events(self.estate.channel_of(running[task])))


def numbers(events: list) -> list[int]:
    """The source's number of each event, through the marks around it."""
    values = []
    for event in events:
        while isinstance(event, tuple):
            event = event[1]
        values.append(event)
    return values


def play(
    first: dict[str, int], history: list[tuple[int, dict[str, int]]], seed: int, patch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    world, made = World(chance, patch), Versions(first)
    world.limit = AT_FIRST
    world.want(made.estate)
    for _ in range(60):
        some_turns(world, 1)
    world.limit = THEN
    for turns, arms in history:
        world.want(made.change(arms))
        some_turns(world, turns)
    world.deadly = False
    for limit in (THEN, AT_LAST):
        world.limit = limit
        for _ in range(400):
            turn(world)
            if is_all_there(world, made, limit):
                break
    # A reader that stops may be let go before its node hears so, and fails until then: nobody waits for it.
    for name in ("own", "other"):
        counted = made.out(world, name, "o")
        assert Counter(numbers(counted)) == Counter(range(AT_LAST)), "a sink of all versions missed or repeated events"
        assert sorted(count for count, _ in counted) == list(range(AT_LAST)), "state got lost, or came twice"
    assert Counter(numbers(made.out(world, "other", "far-o"))) == Counter(range(AT_LAST)), "the other team noticed"
    for arm in history[-1][1]:
        came = numbers(made.out(world, "own", f"{arm}-o"))
        assert len(set(came)) == len(came) and set(came) == set(range(min(came), AT_LAST)), "a new sink has holes"


def is_all_there(world: World, made: Versions, limit: int) -> bool:
    outputs = [("own", "o"), ("other", "o"), ("other", "far-o"), *(
        ("own", task.id) for task in made.now.tasks if task.type == "out")]
    return all(limit - 1 in numbers(made.out(world, *output)) for output in outputs)


@settings(max_examples=15, deadline=None)
@given(first=versions, history=histories, seed=st.integers(0, 2**32))
def test_what_is_in_both_versions_loses_nothing_whenever_slots_die(first, history, seed):
    with pytest.MonkeyPatch.context() as patch:
        play(first, history, seed, patch)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@settings(max_examples=2_000, deadline=None)
@given(first=versions, history=histories, seed=st.integers(0, 2**32))
def test_thousands_of_histories_of_versions_lose_nothing(first, history, seed):
    with pytest.MonkeyPatch.context() as patch:
        play(first, history, seed, patch)
