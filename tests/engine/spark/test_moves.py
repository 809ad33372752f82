"""Random moves, fusions and cuts of a chain with state, while slots are killed: outputs as of an undisturbed run."""

from __future__ import annotations

import os
import random
import signal
import threading
import time

import pytest

from scheduler.model.fragment import Fragment, RunningTask

from .rig import NODE, Rig, estate_of

pytestmark = [
    pytest.mark.spark, pytest.mark.broker, pytest.mark.usefixtures("afterwards_nothing"),
    pytest.mark.xdist_group("slots that die")]

KEPT = {"keep_events": 1_000_000}
CHAIN = ("count", "t1", "shift", "t2", "hoard", "out")
KEYS, LENGTH = 40, 20_000  # so much that state is kept by key
TASKS = [
    RunningTask("count", "numbers", {"rate_per_s": 50.0}, ()),
    RunningTask("t1", "total", {"name": "t1"}, ("count",)),
    RunningTask("shift", "shift", {"by": 7}, ("t1",)),
    RunningTask("t2", "total", {"name": "t2"}, ("shift",)),
    RunningTask("hoard", "hoard", {"keys": KEYS, "bytes": LENGTH}, ("t2",)),
    RunningTask("out", "kept", KEPT, ("hoard",)),
    RunningTask("look", "in_python", {"tag": "look"}, ("t1",)),
    RunningTask("looked", "kept", KEPT, ("look",)),
]


class Moving:
    """A chain that is cut anew at random, its parts on random slots; somebody reads its second task all along."""

    def __init__(self, rig: Rig, seed: int) -> None:
        self.rig, self.chance, self.name = rig, random.Random(seed), f"m{seed}x"
        self.watcher = Fragment(f"{self.name}1-9", ("look", "looked"), f"{NODE}/1", 2)
        self.generation = 0
        self.fragments: list[Fragment] = []

    def move(self) -> None:
        """Another cut, or other slots, until it is in force."""
        self.generation += 1
        before = self.fragments
        while True:
            cuts = sorted(self.chance.sample(range(1, len(CHAIN)), self.chance.randint(0, 2)))
            slots = [self.chance.randint(0, 1) for _ in range(len(cuts) + 1)]
            self.fragments = self._cut(cuts, slots, before)
            shape = [(fragment.tasks, fragment.slot) for fragment in self.fragments]
            if shape != [(fragment.tasks, fragment.slot) for fragment in before]:
                break
        self.rig.publish(estate_of([*self.fragments, self.watcher], TASKS, slots=2))

    def _cut(self, cuts: list[int], slots: list[int], before: list[Fragment]) -> list[Fragment]:
        bounds = [0, *cuts, len(CHAIN)]
        names = [f"{self.name}{self.generation}-{number}" for number in range(len(slots))]
        fragments = []
        for number, name in enumerate(names):
            tasks = CHAIN[bounds[number]:bounds[number + 1]]
            outlets = {tasks[-1]: (names[number + 1],)} if number + 1 < len(names) else {}
            if "t1" in tasks:
                outlets["t1"] = (self.watcher.id, *outlets.get("t1", ()))
            channels = {
                task: next(
                    (part.channel_of(task) for part in before if task in part.tasks), f"{name}.{tasks.index(task)}")
                for task in ("t1", "out") if task in tasks}
            inherits = tuple(part.id for part in before if set(part.tasks) & set(tasks))
            fragments.append(Fragment(
                name, tasks, f"{NODE}/{slots[number]}", len(tasks), outlets, channels=channels, inherits=inherits))
        return fragments

    def is_done(self) -> None:
        """Wait until what is planned runs, and what was before it is gone."""
        names = [fragment.id for fragment in self.fragments]
        self.rig.wait_running(*names, self.watcher.id)
        old = f"{self.name}{self.generation - 1}-"
        self.rig.wait(what="an end", is_so=lambda: not [
            name for name, _ in self.rig.reports().queries() if name.startswith(old) and name != self.watcher.id])

    def out(self) -> list[dict]:
        return self.rig.events(next(part.channel_of("out") for part in self.fragments if "out" in part.tasks))


def play(rig: Rig, seed: int, *, moves: int, kills: int, on_cluster: bool = False) -> None:
    moving = Moving(rig, seed)
    moving.move()
    moving.is_done()
    rig.wait(lambda: len(moving.out()) > 50, what="events")
    deadly = set(moving.chance.sample(range(moves), kills))
    for number in range(moves):
        moving.move()
        if number in deadly:
            after_s, slot = moving.chance.uniform(0, 3), str(moving.chance.randint(0, 1))
            killer = threading.Timer(after_s, lambda slot=slot: os.kill(rig.slot_pid(slot), signal.SIGKILL))
            killer.start()
            killer.join()
        moving.is_done()
        count = len(moving.out())
        rig.wait(lambda count=count: len(moving.out()) > count, what="more events")
    time.sleep(1)
    check(moving, on_cluster=on_cluster)


def check(moving: Moving, *, on_cluster: bool) -> None:
    """Every number once and in order, with the sums up to it: what the chain gives that nobody touches."""
    total = shifted = 0.0
    sums = dict.fromkeys(range(KEYS), 0.0)
    events = moving.out()
    assert [event["_seq"] for event in events] == list(range(len(events)))
    for event in events:
        total += event["_seq"]
        shifted += event["_seq"] + 7
        assert (float(event["t1"]), float(event["t2"])) == (total, shifted)
        sums[event["_seq"] % KEYS] += event["_seq"] + 7
        assert (event["sum"], event["held"]) == (sums[event["_seq"] % KEYS], LENGTH)
    looked = [event["_seq"] for event in moving.rig.events(f"{moving.watcher.id}.1")]
    stores = [store.name.split("-")[0] for store in (moving.rig.data_dir / "folds").glob(f"{moving.name}*.fold")]
    assert stores == ([] if on_cluster else [f"{moving.name}1"]), "all moved with one store"
    assert looked == list(range(looked[0], looked[0] + len(looked))), "and nobody who reads notices"


def test_moves_and_a_kill_change_no_output(rig: Rig) -> None:
    play(rig, 13, moves=3, kills=1)


@pytest.mark.long
@pytest.mark.timeout(5_400)
@pytest.mark.parametrize("seed", [2, 3])
def test_two_hundred_moves_and_kills_change_no_output(rig: Rig, seed: int) -> None:
    play(rig, seed, moves=100, kills=20)
