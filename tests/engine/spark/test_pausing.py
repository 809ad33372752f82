"""A dataflow is paused and goes on with its state while others are untouched; a new reader begins where it asks to."""

import time
from pathlib import Path

import pytest

from scheduler.model.fragment import Fragment, RunningTask
from tests.written_blocks import read_blocks
from workers.engine.channels import keys

from .rig import NODE, Rig, estate_of

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.usefixtures("afterwards_nothing")]

KEEP = {"keep_events": 100_000}
TASKS = [
    RunningTask("count", "numbers", {"rate_per_s": 100.0}, ()),
    RunningTask("out", "kept", KEEP, ("count",)),
    RunningTask("sum", "total", {"name": "sum"}, ("count",)),
    RunningTask("summed", "kept", KEEP, ("sum",)),
    *(RunningTask(f"join_{where}", "kept", KEEP | {"where": where}, ("count",)) for where in ("now", "oldest", "then")),
]


def fragment(name: str, *tasks: str, slot: int = 0, outlets=None, **more) -> Fragment:
    active = more.pop("active", len(tasks))
    return Fragment(name, tasks, f"{NODE}/{slot}", active, outlets or {}, **more)


def publish(rig: Rig, *fragments: Fragment) -> None:
    rig.publish(estate_of(list(fragments), TASKS, slots=2))


def grown(rig: Rig, channel: str, by: int = 40) -> None:
    count = len(rig.events(channel))
    rig.wait(lambda: len(rig.events(channel)) > count + by, what=f"more of {channel}")


def numbers(rig: Rig, channel: str) -> list[int]:
    return [event["_seq"] for event in rig.events(channel)]


def test_one_of_two_dataflows_is_paused_and_goes_on_with_its_state(rig: Rig):
    shared = fragment("p1-0", "count", "out", outlets={"count": ("p1-1",)})
    alone = fragment("p1-0", "count", "out")
    summing = fragment("p1-1", "sum", "summed", slot=1)
    publish(rig, shared, summing)
    rig.wait_running("p1-0", "p1-1")
    grown(rig, "p1-1.1")
    untouched = rig.fragment("p1-0")["run_id"]

    resting = fragment("p1-1", "sum", "summed", slot=1, active=0, resting=2)
    publish(rig, alone, resting)
    rig.wait(lambda: rig.fragment("p1-1")["state"] == "stopped", what="a pause")
    rig.wait(lambda: not rig.channels.info("p1-0.0").readers, what="its place given up")
    before = numbers(rig, "p1-1.1")
    grown(rig, "p1-0.1", by=100)
    assert numbers(rig, "p1-1.1") == before

    publish(rig, shared, summing)
    rig.wait_running("p1-1")
    grown(rig, "p1-1.1")
    assert rig.fragment("p1-0")["run_id"] == untouched
    check_sums(rig, before)

    # Once more; and what it reads moves to another channel meanwhile.
    publish(rig, alone, resting)
    rig.wait(lambda: rig.fragment("p1-1")["state"] == "stopped", what="a pause")
    publish(rig, fragment("p2-0", "count", "out", channels={"out": "p1-0.1"}, inherits=("p1-0",)), resting)
    rig.wait_running("p2-0")
    moved = fragment(
        "p2-0", "count", "out", outlets={"count": ("p1-1",)}, channels={"out": "p1-0.1"}, inherits=("p1-0",))
    publish(rig, moved, summing)
    rig.wait_running("p1-1")
    grown(rig, "p1-1.1")
    check_sums(rig, before)
    seqs = numbers(rig, "p1-0.1")
    assert seqs == list(range(len(seqs)))


def check_sums(rig: Rig, before: list[int]) -> None:
    """The sums of all that came, in their order, though nothing came during a pause."""
    events = rig.events("p1-1.1")
    after = [event["_seq"] for event in events[len(before):]]
    assert before == list(range(len(before))) and after[0] > before[-1] + 100 and after == sorted(set(after))
    total = 0.0
    for event in events:
        total += event["_seq"]
        assert event["sum"] == total


@pytest.mark.long
def test_what_fails_with_its_batch_comes_to_rest_and_goes_on_behind_it(rig: Rig, tmp_path: Path):
    broken = tmp_path / "broken"
    failing = RunningTask("fails", "fragile", {"broken_while": str(broken)}, ("count",))
    tasks = [*TASKS[:2], failing, RunningTask("failed", "kept", KEEP, ("fails",))]

    def wanted(reader: Fragment, **outlets: tuple[str, ...]) -> None:
        rig.publish(estate_of([fragment("r1-0", "count", "out", outlets=outlets), reader], tasks, slots=2))

    works = fragment("r1-1", "fails", "failed", slot=1)
    wanted(works, count=("r1-1",))
    rig.wait_running("r1-0", "r1-1")
    grown(rig, "r1-1.1")
    broken.touch()
    rig.wait(lambda: rig.fragment("r1-1")["failures"] >= 2, what="failures")
    wanted(fragment("r1-1", "fails", "failed", slot=1, active=0, resting=2))
    rig.wait(lambda: rig.fragment("r1-1")["state"] == "stopped" and not rig.channels.info("r1-0.0").readers,
             what="a pause, though what it failed with is still to be done")
    before = numbers(rig, "r1-1.1")
    grown(rig, "r1-0.1", by=100)

    broken.unlink()
    wanted(works, count=("r1-1",))
    rig.wait_running("r1-1")
    grown(rig, "r1-1.1")
    after = numbers(rig, "r1-1.1")[len(before):]
    assert before == list(range(len(before))) and after[0] > before[-1] + 100
    assert after == list(range(after[0], after[0] + len(after)))
    seqs = numbers(rig, "r1-0.1")
    assert seqs == list(range(len(seqs))), "who reads the same stream gets all"


@pytest.mark.long  # the channels' contract has it: test_begin.py
def test_a_paused_source_goes_on_with_its_next_number_and_no_burst(rig: Rig):
    publish(rig, fragment("q1-0", "count", "out"))
    rig.wait_running("q1-0")
    grown(rig, "q1-0.1")
    publish(rig, fragment("q1-0", "count", "out", active=0, resting=2))
    rig.wait(lambda: rig.fragment("q1-0")["state"] == "stopped", what="a pause")
    before = numbers(rig, "q1-0.1")
    time.sleep(2)
    resumed_ms = time.time_ns() // 1_000_000
    publish(rig, fragment("q1-0", "count", "out"))
    rig.wait_running("q1-0")
    grown(rig, "q1-0.1", by=100)
    events = rig.events("q1-0.1")
    assert [event["_seq"] for event in events] == list(range(len(events)))
    assert all(event["_born"] >= resumed_ms for event in events[len(before):])


@pytest.mark.long  # tests/engine/channels/test_registry.py has where, test_slot.py a reader that joins
def test_a_new_reader_begins_where_it_asks_to(rig: Rig):
    alone = fragment("j1-0", "count", "out", outlets={"count": ("j1-1",)})
    publish(rig, alone, fragment("j1-1", "sum", "summed"))
    rig.wait_running("j1-0", "j1-1")
    place = rig.channels.join("j1-0.0", "holder").offset  # a slow reader, so that the channel keeps something
    grown(rig, "j1-1.1", by=150)
    rig.wait(lambda: rig.channels.info("j1-0.0").trimmed == place, what="what is kept stays")
    entries = rig.broker.xrange(keys.channel("j1-0.0"))
    middle = entries[len(entries) // 2]
    blocks = dict(read_blocks(rig.channels, "j1-0.0", count=1_000))
    oldest, then = blocks[entries[0][0].decode()][0]["_seq"], blocks[middle[0].decode()][0]["_seq"]

    beginnings = {"now": {}, "oldest": {"count": "oldest"}, "then": {"count": middle[1][b"t"].decode()}}
    joining = [fragment(f"j2-{where}", f"join_{where}", slot=1, joins=joins) for where, joins in beginnings.items()]
    both = fragment("j1-0", "count", "out", outlets={"count": ("j1-1", *(reader.id for reader in joining))})
    newest = max(numbers(rig, "j1-0.0"))
    publish(rig, both, fragment("j1-1", "sum", "summed"), *joining)
    for joining_fragment in joining:
        rig.wait(lambda: len(rig.events(f"{joining_fragment.id}.0")) > 20, what=joining_fragment.id)  # noqa: B023
    seqs = {where: numbers(rig, f"j2-{where}.0") for where in beginnings}
    assert (seqs["oldest"][0], seqs["then"][0]) == (oldest, then) and seqs["now"][0] > newest
    assert all(numbers == list(range(numbers[0], numbers[0] + len(numbers))) for numbers in seqs.values())
    rig.channels.unregister("j1-0.0", "holder")
