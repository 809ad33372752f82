"""Running chains are fused and cut: nobody loses an event, none comes twice, and every task keeps its state."""

import json
import os
import signal
import time
from dataclasses import replace

import pytest

from scheduler.model.fragment import Fragment, RunningTask
from scheduler.reuse.handover import CutPiece, recut_in
from workers.engine.channels import keys

from .rig import NODE, Rig, estate_of

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.usefixtures("afterwards_nothing")]

BY = 7
COUNT = ("numbers", {"rate_per_s": 200.0})
TASKS = [
    RunningTask("count", *COUNT, ()),
    RunningTask("t1", "total", {"name": "t1"}, ("count",)),
    RunningTask("shift", "shift", {"by": BY}, ("t1",)),
    RunningTask("t2", "total", {"name": "t2"}, ("shift",)),
    RunningTask("out", "kept", {"keep_events": 100_000}, ("t2",)),
    RunningTask("look", "in_python", {"tag": "look"}, ("t1",)),
    RunningTask("looked", "kept", {"keep_events": 100_000}, ("look",)),
]


def fragment(name: str, *tasks: str, slot: int = 0, outlets=None, **more) -> Fragment:
    return Fragment(name, tasks, f"{NODE}/{slot}", more.pop("active", len(tasks)), outlets or {}, **more)


def publish(rig: Rig, *fragments: Fragment) -> None:
    rig.publish(estate_of(list(fragments), TASKS, slots=2))


def handed_over(rig: Rig, new: tuple[str, ...], old: tuple[str, ...]) -> float:
    """Wait for the handover; how long it took, in seconds. A slot that was killed often comes back after a minute."""
    began = time.monotonic()
    rig.wait_running(*new)
    rig.wait(lambda: all(rig.fragment(fragment_id) is None for fragment_id in old), what=f"an end of {old}")
    return time.monotonic() - began


def check_pauses_told(rig: Rig, *heirs: str) -> None:
    """Slots tell once of each heir for how long nothing worked at its tasks."""
    def paused_heirs() -> list[str]:
        events = [fields for _, fields in rig.broker.xrange(keys.EVENTS) if fields[b"kind"] == b'"handed_over"']
        assert all(json.loads(fields[b"gap_ms"]) >= 0 for fields in events)
        assert not any(json.loads(fields[b"between_nodes"]) for fields in events)
        return [heir for fields in events if (heir := json.loads(fields[b"fragment"])) in heirs]

    rig.wait(lambda: set(paused_heirs()) == set(heirs), what=f"the pauses of {heirs}")
    assert len(paused_heirs()) == len(heirs)


def check_out(events: list[dict]) -> None:
    """What the output delivers is what the dataflow delivers alone: every number, with the sums up to it."""
    seqs = [event["_seq"] for event in events]
    assert seqs == list(range(len(seqs)))
    total = shifted = 0.0
    for event in events:
        total += event["_seq"]
        shifted += event["_seq"] + BY
        assert (event["n"], float(event["t1"]), event["t2"]) == (event["_seq"] + BY, total, shifted)


def check_looked(events: list[dict]) -> None:
    seqs = [event["_seq"] for event in events]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    assert all(float(event["t1"]) == event["_seq"] * (event["_seq"] + 1) / 2 for event in events)


def grown(rig: Rig, channel: str, by: int = 60) -> None:
    count = len(rig.events(channel))
    rig.wait(lambda: len(rig.events(channel)) > count + by, what=f"more of {channel}")


def test_a_chain_with_state_and_a_fork_is_fused_and_cut(rig: Rig):
    looking = fragment("a1-2", "look", "looked", slot=1)
    first = fragment("a1-0", "count", "t1", "shift", outlets={"shift": ("a1-1",), "t1": ("a1-2",)})
    second = fragment("a1-1", "t2", "out", slot=1)
    publish(rig, first, second, looking)
    rig.wait_running("a1-0", "a1-1", "a1-2")
    grown(rig, "a1-1.1")
    bystander = rig.fragment("a1-2")["run_id"]

    fused = fragment(
        "a2-0", "count", "t1", "shift", "t2", "out", outlets={"t1": ("a1-2",)},
        channels={"t1": "a1-0.1", "out": "a1-1.1"}, inherits=("a1-0", "a1-1"),
    )
    publish(rig, fused, looking)
    handed_over(rig, ("a2-0",), ("a1-0", "a1-1"))
    check_pauses_told(rig, "a2-0")
    grown(rig, "a1-1.1")
    # Gone, or about to go: a node that hears late may still read what was handed over.
    left = ("weir:valve:a1-0", "weir:ch:a1-0.2:meta", "weir:valve:a1-1")
    rig.wait(lambda: all(rig.broker.ttl(key) != -1 for key in left), what="clear")

    # The second part begins behind the fork, in the channel that the bystander reads, too.
    upper = fragment(
        "a3-0", "count", "t1", outlets={"t1": ("a1-2", "a3-1")}, channels={"t1": "a1-0.1"}, inherits=("a2-0",),
    )
    lower = fragment("a3-1", "shift", "t2", "out", slot=1, channels={"out": "a1-1.1"}, inherits=("a2-0",))
    publish(rig, upper, lower, looking)
    handed_over(rig, ("a3-0", "a3-1"), ("a2-0",))
    check_pauses_told(rig, "a3-0", "a3-1")
    grown(rig, "a1-1.1")
    grown(rig, "a1-2.1")
    assert rig.fragment("a1-2")["run_id"] == bystander
    check_out(rig.events("a1-1.1"))
    check_looked(rig.events("a1-2.1"))
    assert set(rig.channels.info("a1-0.1").readers) == {"a1-2", "a3-1"}


UNDISTURBED = [
    replace(task, id=f"u-{task.id}", parents=tuple(f"u-{parent}" for parent in task.parents))
    for task in TASKS if task.id not in {"look", "looked"}]


class Series:
    """A dataflow in four queries with a bystander, which become one in one step and four again; and one undisturbed."""

    def __init__(self, rig: Rig, name: str) -> None:
        self.rig, self.out, self.seen = rig, f"{name}1-3.0", f"{name}1-4.1"
        parts = [("count", "t1"), ("shift",), ("t2",), ("out",)]
        readers = [("t1", f"{name}1-1", f"{name}1-4"), ("shift", f"{name}1-2"), ("t2", f"{name}1-3")]
        line = [
            fragment(f"{name}1-{at}", *tasks, slot=at % 2, outlets={task: to for task, *to in readers[at:at + 1]})
            for at, tasks in enumerate(parts)]
        looking = fragment(f"{name}1-4", "look", "looked", slot=1)
        alone = fragment(f"{name}1-5", *(task.id for task in UNDISTURBED), slot=1)
        self.undisturbed, self.path = f"{name}1-5.4", [part.id for part in line]
        self.estate = estate_of([*line, looking, alone], TASKS + UNDISTURBED, slots=2)
        rig.publish(self.estate)
        rig.wait_running(*self.estate.fragments)
        self.estate = replace(self.estate, generation=rig.version)
        grown(rig, self.out)

    def recut(self, *pieces: CutPiece) -> tuple[str, ...]:
        """Ask for the line in other pieces, in one step; their names."""
        path = [self.estate.fragments[name] for name in self.path]
        change = recut_in(self.estate, path, pieces, outputs={"out"})
        others = {name: part for name, part in self.estate.fragments.items() if name not in self.path}
        self.estate = replace(self.estate, fragments=others | change.after, generation=self.rig.version + 1)
        self.path = [step.fragment for step in change.steps]
        self.rig.publish(self.estate)
        return tuple(self.path)

    def check(self) -> None:
        """As alone, event by event, and nothing is left but who reads now."""
        events, alone = self.rig.events(self.out), self.rig.events(self.undisturbed)
        check_out(events)
        assert all(
            [event[name] for name in ("_seq", "n", "t1", "t2")] == [other[name] for name in ("_seq", "n", "t1", "t2")]
            for event, other in zip(events, alone, strict=False))
        check_looked(self.rig.events(self.seen))
        reader = next(name for name in self.path if "shift" in self.estate.fragments[name].tasks)
        outside = {self.seen.split(".")[0], reader} - {self.path[0]}
        assert set(self.rig.channels.info(self.estate.channel_of("t1")).readers) == outside


FOUR = (CutPiece(2, f"{NODE}/0"), CutPiece(1, f"{NODE}/1"), CutPiece(1, f"{NODE}/0"), CutPiece(1, f"{NODE}/1"))


@pytest.mark.long  # the test above fuses and cuts, by the same step
def test_four_queries_become_one_in_one_step_and_four_again(rig: Rig):
    series = Series(rig, "s")
    bystander = rig.fragment("s1-4")["run_id"]
    for pieces in ((CutPiece(5, f"{NODE}/0"),), FOUR):
        before = tuple(series.path)
        handed_over(rig, series.recut(*pieces), before)
        grown(rig, series.out)
        grown(rig, series.seen)
        series.check()
    assert rig.fragment("s1-4")["run_id"] == bystander


@pytest.mark.long
@pytest.mark.parametrize("slot", ["0", "1"])
@pytest.mark.parametrize("after_ms", [0, 200, 400, 700, 1_000, 1_500])
def test_whenever_a_slot_dies_while_four_become_one_and_four_again_nothing_is_lost(
    rig: Rig, slot: str, after_ms: int
):
    series = Series(rig, f"k{slot}x{after_ms}x")
    for pieces in ((CutPiece(5, f"{NODE}/0"),), FOUR):
        before = tuple(series.path)
        new = series.recut(*pieces)
        time.sleep(after_ms / 1000)
        os.kill(rig.slot_pid(slot), signal.SIGKILL)
        handed_over(rig, new, before)
        grown(rig, series.out)
        grown(rig, series.seen)
        series.check()


def handover_with_a_kill(rig: Rig, name: str, *, slot: str, after_s: float) -> None:
    """A chain behind somebody else's stream is fused; a slot dies in the middle of it."""
    out = f"{name}1-2.1"
    head = fragment(f"{name}1-0", "count", outlets={"count": (f"{name}1-1",)}, slot=1)
    upper = fragment(f"{name}1-1", "t1", "shift", outlets={"shift": (f"{name}1-2",)})
    lower = fragment(f"{name}1-2", "t2", "out", slot=1)
    publish(rig, head, upper, lower)
    rig.wait_running(f"{name}1-0", f"{name}1-1", f"{name}1-2")
    grown(rig, out)
    fused = fragment(
        f"{name}2-0", "t1", "shift", "t2", "out", channels={"out": out}, inherits=(f"{name}1-1", f"{name}1-2"),
    )
    publish(rig, fragment(f"{name}1-0", "count", outlets={"count": (f"{name}2-0",)}, slot=1), fused)
    time.sleep(after_s)
    os.kill(rig.slot_pid(slot), signal.SIGKILL)
    handed_over(rig, (f"{name}2-0",), (f"{name}1-1", f"{name}1-2"))
    grown(rig, out)
    check_out(rig.events(out))
    assert set(rig.channels.info(f"{name}1-0.0").readers) == {f"{name}2-0"}


@pytest.mark.long
def test_a_slot_that_dies_in_a_handover_loses_nothing(rig: Rig):
    handover_with_a_kill(rig, "i", slot="0", after_s=0.25)


@pytest.mark.long
@pytest.mark.parametrize("slot", ["0", "1"])
@pytest.mark.parametrize("after_ms", [0, 100, 200, 300, 400, 500, 700, 900])
def test_whenever_a_slot_dies_in_a_handover_nothing_is_lost(rig: Rig, slot: str, after_ms: int):
    handover_with_a_kill(rig, f"l{slot}x{after_ms}x", slot=slot, after_s=after_ms / 1000)


@pytest.mark.long
def test_state_that_cannot_move_stops_the_handover_with_a_message(rig: Rig):
    end = RunningTask("end", "kept", {"keep_events": 100_000}, ("once",))
    tasks = [*TASKS[:1], RunningTask("once", "distinct", {}, ("count",)), end]

    def wanted(*fragments: Fragment) -> None:
        rig.publish(estate_of(list(fragments), tasks, slots=2))

    wanted(fragment("w1-0", "count", "once", "end"))
    rig.wait_running("w1-0")
    grown(rig, "w1-0.2")
    wanted(fragment("w2-0", "count", "once", "end", channels={"end": "w1-0.2"}, inherits=("w1-0",)))
    rig.wait(lambda: "cannot be handed" in ((rig.fragment("w1-0") or {}).get("error") or ""), what="a refusal")
    assert rig.fragment("w2-0")["state"] == "waiting"
    wanted(fragment("w1-0", "count", "once", "end"))  # taken back: it goes on where it was
    rig.wait_running("w1-0")
    grown(rig, "w1-0.2")
    seqs = [event["_seq"] for event in rig.events("w1-0.2")]
    assert seqs == list(range(len(seqs)))
