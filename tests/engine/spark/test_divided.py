"""Divided dataflows on real slots: whatever becomes of their schedule, they deliver what they deliver alone.

A short one is in ``test_slot.py``, whose slots run already.
"""

import itertools
import os
import random
import signal
from functools import partial

import pytest

from scheduler.model.fragment import Fragment, RunningBundle, RunningTask
from scheduler.reuse.cutting import TaskDivision, scheduled_anew
from scheduler.reuse.division import WantedBundle, divided_anew

from .flow import BY, Flow, bundle
from .rig import NODE, Rig, estate_of
from .test_slot import chain

pytestmark = [pytest.mark.spark, pytest.mark.broker]


@pytest.fixture(autouse=True)
def afterwards_nothing(rig: Rig):
    yield
    rig.publish(estate_of([], []))
    rig.wait(lambda: not any(slot["fragments"] for slot in rig.report()["slots"].values()), what="nothing runs")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_schedules_change_and_slots_die_at_any_time(rig: Rig, seed: int):
    chance = random.Random(seed)
    name = f"h{seed}-"
    flow = Flow(rig, name, [bundle(f"{name}1-1", 0, 2)], [bundle(f"{name}1-2", 1)])
    flow.publish()
    rig.wait_running(*(fragment.id for fragment in flow.fragments))
    flow.grows()
    for generation in range(2, 7):
        ids = (f"{name}{generation}-{number}" for number in itertools.count())
        gone = flow.left()
        for number in chance.sample([1, 2], chance.randint(1, 2)):
            slots = chance.choices([0, 1], k=chance.randint(1, 3))
            parts = [WantedBundle(f"{NODE}/{slot}", chance.randint(1, 3), 1 / len(slots)) for slot in slots]
            before = flow.fragments[number]
            change = divided_anew(before.tasks[0], before, parts, ids=ids, left_bundles=gone)
            flow.fragments[number] = change.after[before.id]
        flow.publish()
        if chance.random() < 0.6:
            chance_s = chance.random() * 3
            end = rig.report()["at_ms"] + 1000 * chance_s
            rig.wait(lambda: rig.report()["at_ms"] >= end)  # noqa: B023
            slot = chance.choice("01")
            pid = rig.slot_pid(slot)
            os.kill(pid, signal.SIGKILL)
            rig.wait(lambda: rig.slot_pid(slot) not in (None, pid), what="the slot is back")  # noqa: B023
        flow.grows(by=chance.randint(1, 300))
    leaving = {bundle.id for fragment in flow.fragments for bundle in fragment.queries if bundle.leaving}
    rig.wait(lambda: flow.left() == leaving, what=f"{leaving} have left")
    rig.wait_running(*(bundle.id for fragment in flow.fragments for bundle in fragment.queries if not bundle.leaving))
    flow.grows()
    flow.check()


@pytest.mark.long
def test_a_batch_of_many_seconds_ends_before_its_query_reads_another_bundle(rig: Rig):
    """Cut short it would be repeated, and cut short again: its output stood still for good."""
    tasks = chain(
        "w", ("numbers", {"rate_per_s": 40.0}), ("in_python", {"tag": "w"}), ("wait", {"pause": 150.0}),
        ("kept", {"keep_events": 100_000}))

    def publish(*bundles: RunningBundle) -> None:
        rig.publish(estate_of([
            Fragment("w1-0", ("w0",), f"{NODE}/0", 1, {"w0": ("w1-1",)}),
            Fragment("w1-1", ("w1",), f"{NODE}/0", 1, {"w1": ("w1-2",)}, bundles=bundles),
            Fragment("w1-2", ("w2", "w3"), f"{NODE}/1", 2)], tasks, slots=rig.slots))

    def numbers() -> list[int]:
        return [event["_seq"] for event in rig.events("w1-2.1")]

    publish(bundle("w1-1", 0))
    rig.wait_running("w1-0", "w1-1", "w1-2")
    # It takes six times as many events in each batch as in the one before, until one takes half a minute.
    rig.wait(lambda: len(numbers()) > 20 and rig.fragment("w1-2")["batch_for_ms"], what="a long batch")
    reached, run_id = len(numbers()), rig.fragment("w1-2")["run_id"]
    publish(bundle("w1-1", 0, weight=0.5), bundle("w2-0", 1, weight=0.5))
    rig.wait(lambda: rig.fragment("w1-2")["run_id"] not in (None, run_id), within_s=600, what="it reads both")
    assert len(numbers()) > reached, "the batch was done"
    assert numbers() == list(range(len(numbers())))


class Fused:
    """Two chains without a schedule, the second behind a fork of the first: a sum, and what is made of it, each of
    which says whether all came, once, with the right state.

    count → t1 → shift → out run as one query, look → looked as another, and back, a third output, reads t1 as well.
    """

    def __init__(self, rig: Rig, name: str) -> None:
        self.rig, self.name = rig, name
        name_of = partial("{}-{}".format, name)
        self.tasks = [
            RunningTask(name_of("count"), "numbers", {"rate_per_s": 200.0}, ()),
            RunningTask(name_of("t1"), "total", {"name": "t1"}, (name_of("count"),)),
            RunningTask(name_of("shift"), "shift", {"by": BY}, (name_of("t1"),)),
            RunningTask(name_of("out"), "kept", {"keep_events": 100_000}, (name_of("shift"),)),
            RunningTask(name_of("look"), "in_python", {"tag": name}, (name_of("t1"),)),
            RunningTask(name_of("looked"), "kept", {"keep_events": 100_000}, (name_of("look"),)),
            RunningTask(name_of("back"), "kept", {"keep_events": 100_000}, (name_of("t1"),)),
        ]
        main, look, back = (f"{name}1-{number}" for number in range(3))
        ids = [task.id for task in self.tasks]
        self.fragments = {
            main: Fragment(main, tuple(ids[:4]), f"{NODE}/0", 4, {ids[1]: (look, back)}),
            look: Fragment(look, tuple(ids[4:6]), f"{NODE}/1", 2),
            back: Fragment(back, tuple(ids[6:]), f"{NODE}/1", 1)}
        self.out, self.looked, self.back = f"{main}.3", f"{look}.1", f"{back}.0"

    def publish(self) -> None:
        self.rig.publish(estate_of(list(self.fragments.values()), self.tasks, slots=2))

    def schedule(self, generation: int, parts: dict[str, list[WantedBundle]]) -> None:
        """A schedule for all but the third output, whose readers go on."""
        wanted = {}
        for task in self.tasks[:-1]:
            name = task.id.rpartition("-")[2]
            bundles = parts.get(name)
            wanted[task.id] = TaskDivision(
                name,
                tuple(bundles or [WantedBundle(f"{NODE}/{generation % 2}", 1, 1.0)]),
                whole=bundles is None,
                serial=bundles is None,
            )
        ids = (f"{self.name}{generation}-{number}" for number in itertools.count())
        estate = estate_of(list(self.fragments.values()), self.tasks, slots=2)
        change = scheduled_anew(
            estate, wanted, ids=ids, task_types=self.rig.task_types, left_bundles=self.rig.reports().left)
        unchanged = {
            fragment_id: fragment for fragment_id, fragment in self.fragments.items()
            if fragment_id not in change.before}
        self.fragments = unchanged | dict(change.after)
        self.publish()

    def grows(self, by: int = 100) -> None:
        counts = {channel: len(self.rig.events(channel)) for channel in (self.out, self.looked, self.back)}
        for channel, count in counts.items():
            self.rig.wait(lambda: len(self.rig.events(channel)) > count + by, what=channel)  # noqa: B023

    def runs(self) -> None:
        queries = [query for fragment in self.fragments.values() for query in fragment.queries]
        self.rig.wait_running(*(query.id for query in queries if not query.leaving))
        for query in queries:
            if query.leaving:
                self.rig.wait(lambda: query.id in self.rig.reports().left, what=query.id)  # noqa: B023

    def check(self) -> None:
        for channel in (self.out, self.looked, self.back):
            events = self.rig.events(channel)
            reached = max(event["_seq"] for event in events)
            self.rig.wait(
                lambda: {event["_seq"] for event in self.rig.events(channel)} >= set(range(reached)),  # noqa: B023
                what=f"all up to {reached} in {channel}")
            events = self.rig.events(channel)
            assert len(events) == len({event["_seq"] for event in events}), "an event came twice"
            assert all(float(event["t1"]) == event["_seq"] * (event["_seq"] + 1) / 2 for event in events)
        assert all(event["n"] == event["_seq"] + BY for event in self.rig.events(self.out))
        seqs = [event["_seq"] for event in self.rig.events(self.back)]
        assert seqs == sorted(seqs), "what is not divided keeps its order"


def first_schedule(rig: Rig, name: str, *, slot: str, after_s: float) -> Fused:
    """It runs fused, is scheduled while events flow, and a slot is killed in the middle of that."""
    fused = Fused(rig, name)
    fused.publish()
    fused.runs()
    fused.grows()
    fused.schedule(2, {
        "shift": [WantedBundle(f"{NODE}/0", 2, 0.25), WantedBundle(f"{NODE}/1", 1, 0.75)],
        "look": [WantedBundle(f"{NODE}/0", 1, 0.5), WantedBundle(f"{NODE}/1", 1, 0.5)]})
    end = rig.report()["at_ms"] + 1000 * after_s
    rig.wait(lambda: rig.report()["at_ms"] >= end)
    pid = rig.slot_pid(slot)
    os.kill(pid, signal.SIGKILL)
    rig.wait(lambda: rig.slot_pid(slot) not in (None, pid), what="the slot is back")
    fused.runs()
    fused.grows()
    fused.check()
    rig.wait(lambda: all(rig.fragment(fragment_id) is None for fragment_id in (f"{name}1-0", f"{name}1-1")),
        what="an end of both")
    return fused


@pytest.mark.long  # what the short run proves of it: test_first_schedules.py, the channels' contract, test_slot.py
@pytest.mark.timeout(600)
def test_what_runs_fused_gets_its_first_schedule_while_a_slot_dies(rig: Rig):
    first_schedule(rig, "c", slot="0", after_s=0.5)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_what_has_its_first_schedule_gets_others(rig: Rig):
    fused = first_schedule(rig, "e", slot="1", after_s=1.0)
    fused.schedule(3, {"shift": [WantedBundle(f"{NODE}/1", 1, 1.0)], "look": [WantedBundle(f"{NODE}/0", 2, 1.0)]})
    fused.runs()
    fused.grows()
    fused.check()


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("slot", ["0", "1"])
@pytest.mark.parametrize("after_ms", [0, 200, 400, 800, 1_200, 2_000, 3_000])
def test_whenever_a_slot_dies_in_a_first_schedule_nothing_is_lost(rig: Rig, slot: str, after_ms: int):
    first_schedule(rig, f"d{slot}x{after_ms}x", slot=slot, after_s=after_ms / 1000)
