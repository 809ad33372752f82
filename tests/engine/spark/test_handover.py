"""Running chains are fused and cut: nobody loses an event, none comes twice, and every task keeps its state."""

import json
import os
import signal
import time

import pytest

from scheduler.model.fragment import Fragment, RunningTask
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
    def told() -> list[str]:
        events = [fields for _, fields in rig.broker.xrange(keys.EVENTS) if fields[b"kind"] == b'"handed_over"']
        assert all(json.loads(fields[b"gap_ms"]) >= 0 for fields in events)
        return [heir for fields in events if (heir := json.loads(fields[b"fragment"])) in heirs]

    rig.wait(lambda: set(told()) == set(heirs), what=f"the pauses of {heirs}")
    assert len(told()) == len(heirs)


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
