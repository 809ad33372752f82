"""Real slots: dataflows join and leave without a restart, failures are told and survived, kills are resumed."""

import os
import signal
import time

import psutil
import pyarrow.parquet as pq
import pytest

from scheduler.contracts.trials import TrialOrder
from scheduler.model.fragment import Fragment, RunningTask
from scheduler.performance.attribution import Counters, attribute, grown, query_work
from workers.engine import trial_store
from workers.engine.agents.supervising.slot_usage import TREE_EVERY_MS
from workers.engine.channels import keys
from workers.engine.counters import read_counters
from workers.engine.files.folder import staged_in
from workers.engine.measuring.trial_figures import TrialBatch, achieved_per_s, latency_slope

from .flow import Flow, bundle
from .rig import NODE, Rig, estate_of

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def chain(name: str, *types: tuple[str, dict], parent: str | None = None) -> list[RunningTask]:
    """Tasks in a row: ``<name>0``, ``<name>1`` …"""
    tasks = []
    for index, (type_name, config) in enumerate(types):
        parents = (tasks[-1].id,) if tasks else (parent,) if parent else ()
        tasks.append(RunningTask(f"{name}{index}", type_name, config, parents))
    return tasks


def fragment(name: str, tasks: list[RunningTask], *, slot: int = 0, active: int = 0, outlets=None) -> Fragment:
    return Fragment(name, tuple(task.id for task in tasks), f"{NODE}/{slot}", active or len(tasks), outlets or {})


def source(name: str, *more, rate_per_s: float = 50.0) -> list[RunningTask]:
    return chain(name, ("numbers", {"rate_per_s": rate_per_s}), *more, ("kept", {}))


@pytest.fixture(autouse=True)
def afterwards_nothing(rig: Rig):
    yield
    rig.publish(estate_of([], []))
    rig.wait(lambda: not any(slot["fragments"] for slot in rig.report()["slots"].values()), what="nothing runs")


def numbers(rig: Rig, channel: str) -> list[int]:
    return [event["n"] for event in rig.events(channel)]


def identity(rig: Rig, fragment_id: str) -> tuple:
    run = rig.fragment(fragment_id)
    return run["run_id"], run["since_ms"], run["restarts"]


def test_a_dataflow_joins_and_leaves_without_restarting_what_runs(rig):
    first = source("a", ("shift", {"by": 1000}))
    alone = fragment("m1-0", first)
    rig.publish(estate_of([alone], first, slots=2))
    rig.wait_running("m1-0")
    rig.wait(lambda: len(numbers(rig, "m1-0.2")) > 20)
    before = identity(rig, "m1-0")

    # On the other slot, behind the first task of what runs.
    second = chain("b", ("in_python", {"tag": "b"}), ("kept", {}), parent="a0")
    shared = fragment("m1-0", first, outlets={"a0": ("m2-0",)})
    joined = fragment("m2-0", second, slot=1)
    rig.publish(estate_of([shared, joined], [*first, *second], slots=2))
    rig.wait_running("m2-0")
    rig.wait(lambda: len(numbers(rig, "m2-0.1")) > 50)
    assert identity(rig, "m1-0") == before
    assert rig.fragment("m1-0")["outlets"] == {"0": ["m2-0"]}
    joined_numbers = numbers(rig, "m2-0.1")
    assert joined_numbers == list(range(joined_numbers[0], joined_numbers[-1] + 1)) and joined_numbers[0] > 0

    # A third reads the same stream: the outlet is open already.
    third = chain("c", ("kept", {}), parent="a0")
    shared = fragment("m1-0", first, outlets={"a0": ("m2-0", "m3-0")})
    rig.publish(estate_of([shared, joined, fragment("m3-0", third)], [*first, *second, *third], slots=2))
    rig.wait_running("m3-0")
    rig.wait(lambda: numbers(rig, "m3-0.0"))

    # All leave again.
    rig.publish(estate_of([alone], first, slots=2))
    rig.wait(lambda: rig.fragment("m2-0") is None and rig.fragment("m3-0") is None)
    rig.wait(lambda: rig.fragment("m1-0")["outlets"] == {})
    assert identity(rig, "m1-0") == before
    so_far = numbers(rig, "m1-0.2")
    rig.wait(lambda: numbers(rig, "m1-0.2")[-1] > so_far[-1] + 20)
    seqs = numbers(rig, "m1-0.2")
    assert seqs == list(range(seqs[0], seqs[-1] + 1))
    assert rig.channels.info("m1-0.0").readers == {}
    left = ("weir:valve:m2-0", "weir:ch:m2-0.0:meta")
    assert [key for key in left if rig.broker.exists(key)] == []
    assert rig.broker.ttl("weir:meter:m2-0") > 0, "what was counted last may still arrive"
    assert rig.broker.ttl("weir:ch:m2-0.1") > 0, "an output stays for a while, not for ever"
    assert numbers(rig, "m2-0.1")[: len(joined_numbers)] == joined_numbers


@pytest.mark.long  # test_outputs_sacred.py begins over both slots, too, and misses nothing
def test_new_fragments_miss_nothing_whatever_slot_starts_first(rig):
    first = source("a")
    readers = [chain(name, ("in_python", {"tag": name}), ("kept", {}), parent="a0") for name in ("b", "c")]
    fragments = [
        fragment("n1-0", first, outlets={"a0": ("n1-1", "n1-2")}),
        fragment("n1-1", readers[0], slot=1), fragment("n1-2", readers[1], slot=0),
    ]
    rig.publish(estate_of(fragments, [*first, *readers[0], *readers[1]], slots=2))
    rig.wait_running("n1-0", "n1-1", "n1-2")
    for channel in ("n1-1.1", "n1-2.1"):
        seqs = rig.wait(lambda: len(numbers(rig, channel)) > 30 and numbers(rig, channel))  # noqa: B023
        assert seqs == list(range(len(seqs)))


@pytest.mark.long  # the channels' contract has it: test_valve.py; that nothing restarts, test_reconcile.py
def test_a_tail_closes_and_opens_without_a_restart(rig):
    tasks = source("a", ("shift", {"by": 0}))
    rig.publish(estate_of([fragment("t1-0", tasks)], tasks))
    rig.wait_running("t1-0")
    rig.wait(lambda: numbers(rig, "t1-0.2"))
    before = identity(rig, "t1-0")
    rig.publish(estate_of([fragment("t1-0", tasks, active=1)], tasks))
    rig.wait(lambda: rig.fragment("t1-0")["active"] == 1)
    rig.wait(lambda: "tail:from" in rig.channels.control("t1-0"))
    # Not only asked for: more has come than went out.
    rig.wait(lambda: rig.channels.meters("t1-0").get("0:n", 0) > len(numbers(rig, "t1-0.2")) + 30)
    closed = numbers(rig, "t1-0.2")
    rig.publish(estate_of([fragment("t1-0", tasks)], tasks))
    rig.wait(lambda: len(numbers(rig, "t1-0.2")) > len(closed))
    assert numbers(rig, "t1-0.2")[len(closed)] > closed[-1] + 1, "nothing came while the tail was closed"
    assert identity(rig, "t1-0") == before


@pytest.mark.long
def test_without_its_failing_tail_a_query_goes_on_where_it_was(rig, tmp_path):
    """Whoever needs the tasks before the one that fails gets each event once, those of the failing batch, too."""
    broken = tmp_path / "broken"
    fragile = source("a", ("fragile", {"broken_while": str(broken)}))
    reader = chain("r", ("kept", {}), parent="a0")
    tasks, reads = [*fragile, *reader], {"a0": ("r1-0",)}
    rig.publish(estate_of([fragment("w1-0", fragile, outlets=reads), fragment("r1-0", reader)], tasks))
    rig.wait_running("w1-0", "r1-0")
    rig.wait(lambda: numbers(rig, "r1-0.0") and numbers(rig, "w1-0.2"))
    broken.touch()
    rig.wait(lambda: rig.fragment("w1-0")["failures"] >= 2)
    stood = numbers(rig, "r1-0.0")
    rig.publish(estate_of(
        [fragment("w1-0", fragile, outlets=reads, active=1), fragment("r1-0", reader)], tasks))
    rig.broker.set(keys.try_again("w1-0"), "1")
    rig.wait(lambda: len(numbers(rig, "r1-0.0")) > len(stood) + 100)
    assert rig.fragment("w1-0")["state"] == "running" and broken.exists()
    seqs = numbers(rig, "r1-0.0")
    assert seqs == list(range(seqs[0], seqs[-1] + 1)) and seqs[: len(stood)] == stood


def test_what_cannot_be_compiled_says_which_task(rig):
    tasks = source("a", ("shift", {}))
    rig.publish(estate_of([fragment("y1-0", tasks)], tasks))
    failed = rig.wait(lambda: (rig.fragment("y1-0") or {}).get("error") and rig.fragment("y1-0"))
    assert failed["error"] == "task a1: KeyError: 'by'"


@pytest.mark.long  # the test of schedules below kills one, too
def test_a_killed_slot_resumes_everything_exactly_once(rig, tmp_path):
    first = source("a", ("in_python", {"tag": "a"}))
    second = chain("b", ("in_python", {"tag": "b"}), ("kept", {}), parent="a0")
    files = chain("c", ("whole_files", {"folder": "c"}), parent="a0")
    fragments = [
        fragment("k1-0", first, slot=0, outlets={"a0": ("k1-1", "k1-2")}), fragment("k1-1", second, slot=1),
        fragment("k1-2", files, slot=0),
    ]
    with rig.collecting("k1-0.2", "k1-1.1") as collected:
        rig.publish(estate_of(fragments, [*first, *second, *files], slots=2))
        rig.wait_running("k1-0", "k1-1", "k1-2")
        for killed in ("0", "1"):
            reached = len(collected["k1-1.1"])
            rig.wait(lambda: len(collected["k1-1.1"]) > reached + 20)  # noqa: B023
            pid = rig.slot_pid(killed)
            os.kill(pid, signal.SIGKILL)
            rig.wait(lambda: rig.slot_pid(killed) not in (None, pid), what="the slot is back")  # noqa: B023
            rig.wait_running("k1-0", "k1-1", "k1-2")
        reached = len(collected["k1-1.1"])
        rig.wait(lambda: len(collected["k1-1.1"]) > reached + 50)
    for channel, events in collected.items():
        assert [event["n"] for event in events] == list(range(len(events))), channel
    rig.publish(estate_of([], []))
    rig.wait(lambda: rig.fragment("k1-2") is None)
    folder = rig.data_dir / "outputs" / "c-c0" / "k1-2"
    rig.wait(lambda: not staged_in(folder), what="all files are closed")
    written = sorted(pq.read_table(folder).column("n").to_pylist())
    assert written == list(range(len(written))) and len(written) > 50


@pytest.mark.long  # test_usage.py holds what a tree uses to its processes' own figures, test_attribution.py its sharing
def test_what_tasks_used_adds_up_to_what_their_slot_used(rig):
    busy = chain("a", ("numbers", {"rate_per_s": 200.0}), ("pi_viete", {"iterations": 40_000}), ("kept", {}))
    quiet = chain("b", ("numbers", {"rate_per_s": 0.2}), ("shift", {"by": 1}), ("kept", {}))
    reader = chain("c", ("kept", {}), parent="a1")
    tasks = {task.id: task for task in (*busy, *quiet, *reader)}
    fragments = {
        "u1-0": fragment("u1-0", busy, outlets={"a1": ("u1-2",)}), "u1-1": fragment("u1-1", quiet),
        "u1-2": fragment("u1-2", reader),
    }
    rig.publish(estate_of(list(fragments.values()), list(tasks.values())))
    rig.wait_running(*fragments)

    def read() -> Counters:
        return Counters(**read_counters(rig.broker, lambda ids: fragments)[f"{NODE}/0"])

    def events(counters: Counters) -> int:
        return counters.queries.get("u1-0", {}).get("1:n", 0)

    def busy_ms(counters: Counters) -> int:
        return counters.queries.get("u1-0", {}).get("busy_ms", 0)

    rig.wait(lambda: read().queries.get("u1-2", {}).get("in:bytes") and numbers(rig, "u1-1.2"))

    def when_told() -> tuple[Counters, float]:
        """Counters as they come: a slow machine may tell them long before they are read."""
        before = read().cpu_ms
        rig.wait(lambda: read().cpu_ms != before)
        return read(), cpu_s_of_tree(rig.slot_pid())

    # A process counts from its beginning once it is found, Python's workers among them.
    rig.wait(lambda: age_s_of_youngest(rig.slot_pid()) > TREE_EVERY_MS / 1000 + 2, what="every process is found")
    before, cpu_s_before = when_told()
    # Time is told when a batch ends, events while it runs: on a slow machine one batch may bring all of them.
    rig.wait(lambda: events(read()) > events(before) + 1_000 and busy_ms(read()) > busy_ms(before))
    after, cpu_s_after = when_told()
    growth = grown({"0": before}, {"0": after})["0"]
    # Two measurements of the same processes; each of the report's ends may be a second old.
    assert growth.cpu_ms / 1000 == pytest.approx(cpu_s_after - cpu_s_before, rel=0.3, abs=0.6)
    assert growth.memory_mb_s > 0
    used = attribute(cpu_us=1000 * growth.cpu_ms, memory_mb_s=growth.memory_mb_s, queries=[
        query_work(growth.queries[fragment.id], [
            (task, rig.task_types[tasks[task].type].cost_us, fragment.channel_of(task)) for task in fragment.tasks])
        for fragment in fragments.values()])
    assert set(used) == set(tasks)
    assert sum(usage.cpu_us for usage in used.values()) == 1000 * growth.cpu_ms
    assert used["a1"].cpu_us > 2 * used["b1"].cpu_us, "computing π costs more than nearly nothing"
    assert used["a1"].cpu_us > used["a2"].cpu_us
    # What is read was written; the reader comes to it soon, on a busy machine a little later.
    written, read_back = after.queries["u1-0"]["ch:u1-0.1"], after.queries["u1-2"]["in:bytes"]
    assert 0 < read_back <= written
    rig.wait(lambda: read().queries["u1-2"]["in:bytes"] >= written)
    assert used["a1"].traffic_bytes > 0 and used["c0"].traffic_bytes > 0


def tree(pid: int) -> list[psutil.Process]:
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def cpu_s_of_tree(pid: int) -> float:
    times = [process.cpu_times() for process in tree(pid)]
    return sum(cpu_times.user + cpu_times.system for cpu_times in times)


def age_s_of_youngest(pid: int) -> float:
    return time.time() - max(process.create_time() for process in tree(pid))


@pytest.mark.long  # test_moves.py has it with state
def test_a_fragment_that_moves_to_another_slot_goes_on_where_it_was(rig):
    tasks = source("a")
    rig.publish(estate_of([fragment("v1-0", tasks, slot=0)], tasks, slots=2))
    rig.wait_running("v1-0")
    rig.wait(lambda: len(numbers(rig, "v1-0.1")) > 20)
    rig.publish(estate_of([fragment("v1-0", tasks, slot=1)], tasks, slots=2))
    rig.wait(lambda: rig.report()["slots"]["1"]["fragments"].get("v1-0", {}).get("state") == "running")
    reached = len(numbers(rig, "v1-0.1"))
    rig.wait(lambda: len(numbers(rig, "v1-0.1")) > reached + 20)
    seqs = numbers(rig, "v1-0.1")
    assert seqs == list(range(len(seqs)))
    assert "v1-0" not in rig.report()["slots"]["0"]["fragments"]
    assert rig.channels.info("v1-0.1").fence == 2


def test_a_task_is_measured_in_a_slot_that_nothing_runs_on(rig):
    """More of trials, which take longer, is in test_trials.py."""
    order = TrialOrder(
        "t", NODE, "1", "in_python", {}, threads=2, rate_per_s=100.0, warm_up_s=1.0, first_warm_up_s=3.0, seconds=2.5,
        driver_warm_up_s=0.5,
        feed=({"type": "numbers", "config": {"rate_per_s": 20}},))
    trial_store.order(rig.broker, order)
    result = rig.wait(lambda: trial_store.result(rig.broker, "t"), what="the trial has a result")
    assert result.ok, result
    # What piled up while a busy machine started the query comes through besides, however much that is.
    assert result.achieved_per_s > 60 and result.selectivity == pytest.approx(1.0)
    assert result.latency_s and result.cpu > 0 and result.memory > 0 and result.versions["type"] == 1
    batches = [TrialBatch(*row) for row in result.batches]
    trigger_s = result.machine["trigger_ms"] / 1000
    told_again = latency_slope(batches, trigger_s=trigger_s, now_s=result.measured_s)
    assert told_again == pytest.approx(result.latency_slope, abs=1e-3), "it can be judged by what is kept"
    assert achieved_per_s(batches, measured_s=result.measured_s) == pytest.approx(result.achieved_per_s, rel=1e-2)
    assert not rig.broker.keys("weir:ch:trial-*") and not list((rig.data_dir / "checkpoints").glob("trial-*"))


@pytest.mark.long  # test_bundles.py plays it; test_moved_bundles.py has a divided task on Spark
def test_a_schedule_changes_twice_and_a_slot_dies_and_every_event_arrives_once(rig: Rig):
    flow = Flow(rig, "d", [bundle("d1-1", 0, 3, 0.5), bundle("d1-4", 1, 3, 0.5)], [bundle("d1-2", 1)])
    rig.publish(estate_of([], []))
    folder = rig.data_dir / "nodes" / NODE
    rig.wait(lambda: list(folder.glob("slot-*/base_cpu")), what="a slot has rested: what a driver takes is no bundle's")
    flow.publish()
    rig.wait_running("d1-0", "d1-1", "d1-4", "d1-2", "d1-3")
    flow.grows()
    source = rig.fragment("d1-0")["run_id"]
    rig.wait(lambda: rig.fragment("d1-1").get("cpu") and 80 < (rig.fragment("d1-1")["rate_per_s"] or 0) < 120,
             what="half of 200 events/s, and what that takes")

    # Other weights, other threads, and a bundle more; the slot of half of it dies meanwhile.
    flow.divide(1, bundle("d1-1", 0, 2, 0.25), bundle("d1-4", 1, 3, 0.75))
    flow.divide(2, bundle("d1-2", 1, 1, 0.5), bundle("d2-0", 0, 1, 0.5))
    flow.publish()
    pid = rig.slot_pid("1")
    os.kill(pid, signal.SIGKILL)
    rig.wait(lambda: rig.slot_pid("1") not in (None, pid), what="the slot is back")
    rig.wait_running("d1-0", "d1-1", "d1-4", "d1-2", "d2-0", "d1-3")
    weights = {"d1-2": 0.5, "d2-0": 0.5}
    rig.wait(lambda: all(rig.fragment(fragment_id)["routes"] == {"0": {"d1-2": weights}}
        for fragment_id in ("d1-1", "d1-4")))
    rig.wait(lambda: rig.fragment("d1-1")["threads"] == 2)
    rig.wait(lambda: 35 < (rig.fragment("d1-1")["rate_per_s"] or 0) < 65
             and 120 < (rig.fragment("d1-4")["rate_per_s"] or 0) < 180, what="a quarter and three of 200 events/s")
    flow.grows()

    # All of it on slot 0; what was on the other one leaves.
    flow.divide(1, bundle("d1-1", 0, 2, 1.0), bundle("d1-4", 1, 3, 0.0))
    flow.divide(2, bundle("d2-0", 0, 1, 1.0), bundle("d1-2", 1, 1, 0.0))
    flow.publish()
    rig.wait(lambda: flow.left() == {"d1-4", "d1-2"}, what="two bundles have left")
    flow.divide(1, bundle("d1-1", 0, 2, 1.0))
    flow.divide(2, bundle("d2-0", 0, 1, 1.0))
    flow.publish()
    rig.wait(lambda: rig.fragment("d1-4") is None and rig.fragment("d1-2") is None, what="they are gone")
    rig.wait(lambda: rig.broker.ttl("weir:ch:d1-0.0@d1-4:meta") > 0, what="its part may go")
    assert rig.broker.ttl("weir:ch:d1-4.0@d2-0:meta") > 0
    flow.grows()
    flow.check()
    assert rig.fragment("d1-0")["run_id"] == source, "the source ran on through all of it"
