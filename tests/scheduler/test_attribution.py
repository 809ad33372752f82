"""What a slot used, divided among its tasks: nothing lost, busy work pays, counters that restart count from zero."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.amounts import Amounts
from scheduler.model.prices import Prices, VmSize
from scheduler.performance.attribution import (
    NOBODY,
    Counters,
    QueryWork,
    TaskWork,
    attribute,
    batch_shares,
    grown,
    query_work,
)
from scheduler.performance.pricing import cost_nanos

tasks = st.builds(
    TaskWork, id=st.sampled_from("abcdef"), events=st.integers(0, 10**6), traffic_bytes=st.integers(0, 10**9),
    cost_us=st.floats(0, 10**4))
queries = st.builds(
    QueryWork, busy_ms=st.integers(0, 10**5), batches=st.integers(0, 1000),
    tasks=st.lists(tasks, max_size=5).map(tuple))


@given(st.integers(0, 10**10), st.integers(0, 10**8), st.lists(queries, max_size=6))
def test_tasks_together_used_what_their_slot_used(cpu_us: int, memory_mb_s: int, work: list[QueryWork]) -> None:
    used = attribute(cpu_us=cpu_us, memory_mb_s=memory_mb_s, queries=work)
    total = sum(used.values(), Amounts())
    traffic = sum(task.traffic_bytes for query in work for task in query.tasks)
    assert total == Amounts(cpu_us=cpu_us, memory_mb_s=memory_mb_s, traffic_bytes=traffic)
    assert (NOBODY in used) == (not any(query.tasks for query in work) and bool(cpu_us or memory_mb_s))


def test_cpu_goes_where_the_time_went_and_within_a_query_by_declared_cost() -> None:
    idle = QueryWork(busy_ms=100, batches=0, tasks=(TaskWork("quiet"),))
    busy = QueryWork(busy_ms=900, batches=0, tasks=(
        TaskWork("source", events=100, cost_us=10), TaskWork("pi", events=100, cost_us=80)))
    used = attribute(cpu_us=1_000_000, memory_mb_s=1000, queries=[idle, busy])
    assert {task: usage.cpu_us for task, usage in used.items()} == {
        "quiet": 100_000, "source": 100_000, "pi": 800_000}
    assert {task: usage.memory_mb_s for task, usage in used.items()} == {"quiet": 100, "source": 100, "pi": 800}


def used_by(query: QueryWork, cpu_us: int) -> dict[str, int]:
    return {task: usage.cpu_us for task, usage in attribute(cpu_us=cpu_us, memory_mb_s=0, queries=[query]).items()}


def test_what_a_batch_takes_whatever_is_in_it_is_shared_evenly() -> None:
    query = QueryWork(busy_ms=50, batches=4, tasks=(TaskWork("a", events=1000, cost_us=100), TaskWork("b")))
    # 4 batches of 33 ms and 6 for each task, and 100 ms of events
    assert used_by(query, 280_000) == {"a": 190_000, "b": 90_000}
    assert used_by(query, 140_000) == {"a": 95_000, "b": 45_000}  # less than the model says: all alike
    assert used_by(query, 980_000) == {"a": 890_000, "b": 90_000}  # more: it went into the events


def test_without_declared_costs_a_query_is_shared_evenly() -> None:
    query = QueryWork(busy_ms=50, batches=0, tasks=(TaskWork("a", events=10), TaskWork("b")))
    assert used_by(query, 1001) == {"a": 501, "b": 500}


def test_a_task_works_on_what_reaches_it() -> None:
    counts = {"busy_ms": 7, "batches": 3, "in:n": 50, "in:bytes": 900, "0:n": 20, "1:n": 5, "ch:f.1": 300}
    work = query_work(counts, [("parse", 4.0, "f.0"), ("filter", 2.0, "f.1")])
    assert work == QueryWork(7, 3, (
        TaskWork("parse", events=50, traffic_bytes=900, cost_us=4.0, events_out=20),
        TaskWork("filter", events=20, traffic_bytes=300, cost_us=2.0, events_out=5)))
    source = query_work({"0:n": 20, "1:n": 20}, [("source", 8.0, "f.0"), ("next", 1.0, "f.1")])
    assert [task.events for task in source.tasks] == [20, 20]


def test_counters_grow() -> None:
    before = Counters(5, 1000, 400, {"f": {"busy_ms": 10, "batches": 1, "0:n": 100}})
    after = Counters(5, 1500, 900, {"f": {"busy_ms": 30, "batches": 3, "0:n": 160}, "g": {"busy_ms": 4, "0:n": 9}})
    assert grown({"s": before}, {"s": after}) == {
        "s": Counters(5, 500, 500, {"f": {"busy_ms": 20, "batches": 2, "0:n": 60}, "g": {"busy_ms": 4, "0:n": 9}})}


def test_a_slot_that_was_started_anew_counts_from_zero_and_the_brokers_counters_go_on() -> None:
    before = Counters(5, 1000, 400, {"f": {"busy_ms": 10, "0:n": 100}})
    after = Counters(9, 1500, 900, {"f": {"busy_ms": 30, "0:n": 160}})  # ahead of the old one: only its beginning tells
    assert grown({"s": before}, {"s": after}) == {"s": Counters(9, 1500, 900, {"f": {"busy_ms": 30, "0:n": 60}})}


def test_a_query_that_moves_takes_the_brokers_counters_along() -> None:
    before = {"s": Counters(5, 0, 0, {"f": {"busy_ms": 10, "0:n": 100, "ch:f.0": 500}}), "t": Counters(5, 0, 0)}
    after = {"t": Counters(5, 0, 0, {"f": {"busy_ms": 3, "0:n": 130, "ch:f.0": 700}})}
    assert grown(before, after)["t"].queries == {"f": {"busy_ms": 3, "0:n": 30, "ch:f.0": 200}}


def test_a_channel_that_another_query_takes_over_is_not_charged_again() -> None:
    before = {"s": Counters(5, 0, 0, {"old": {"0:n": 100, "ch:old.0": 500}})}
    after = {"s": Counters(5, 0, 0, {"new": {"0:n": 7, "ch:old.0": 540}})}
    assert grown(before, after)["s"].queries == {"new": {"0:n": 7, "ch:old.0": 40}}


def test_counters_that_went_backwards_count_from_zero() -> None:
    before = Counters(5, 1000, 400, {"f": {"0:n": 100}})
    after = Counters(5, 200, 500, {"f": {"0:n": 30}})  # the broker lost its meters
    assert grown({"s": before}, {"s": after}) == {"s": Counters(5, 200, 100, {"f": {"0:n": 30}})}


def test_what_is_on_disk_for_a_slow_reader_is_its_first_tasks() -> None:
    work = query_work({"in:n": 5, "0:n": 5, "1:n": 5, "spilled_kb_s": 7_200_000}, [("a", 1.0, "c"), ("b", 1.0, "d")])
    used = attribute(cpu_us=100, memory_mb_s=10, queries=[work])
    assert (used["a"].disk_kb_s, used["b"].disk_kb_s) == (7_200_000, 0)
    prices = Prices(core_hour=0.0, spill_gb_hour=0.5)
    assert cost_nanos(used["a"], node="n1", prices=prices) == 1_000_000  # 2 MB for an hour at 0.50 a GB
    assert grown({"s": Counters(5, 0, 0, {"q": {"spilled_kb_s": 90}})}, {"s": Counters(5, 0, 0, {
        "q": {"spilled_kb_s": 30}})})["s"].queries == {"q": {"spilled_kb_s": 30}}, "the agent was started again"


def test_what_was_used_costs_by_the_size_of_the_node() -> None:
    prices = Prices(
        core_hour=0.05, memory_gb_hour=0.01, traffic_gb=0.02, sizes=(("n2", VmSize("large", slots=8, hour=0.32)),))
    used = Amounts(cpu_us=1_800_000_000, memory_mb_s=2 * 1024 * 3600, traffic_bytes=3_000_000_000)
    assert cost_nanos(used, node="n1", prices=prices) == 25_000_000 + 20_000_000 + 60_000_000
    assert cost_nanos(used, node="n2", prices=prices) == 20_000_000 + 20_000_000 + 60_000_000
    assert cost_nanos(Amounts(), node="n1", prices=prices) == 0


def test_what_batches_took_is_told_apart_from_what_events_took() -> None:
    idle = QueryWork(busy_ms=10, batches=4, tasks=(TaskWork("a", events=0, cost_us=10.0), TaskWork("b", cost_us=1.0)))
    busy = QueryWork(busy_ms=30, batches=4, tasks=(TaskWork("c", events=1_000_000, cost_us=100.0),))

    shares = batch_shares(cpu_us=10_000_000, queries=[idle, busy])

    assert shares["a"] == shares["b"] == 1.0
    assert 0 < shares["c"] < 0.1
    assert batch_shares(cpu_us=1, queries=[]) == {}


@given(st.integers(1, 10**9), queries, st.floats(0, 100))
def test_groups_of_open_batches_are_a_part_of_what_batches_took(cpu_us: int, work: QueryWork, cpu_s: float) -> None:
    plain = batch_shares(cpu_us=cpu_us, queries=[work])
    opened = batch_shares(cpu_us=cpu_us, queries=[replace(work, groups_cpu_s=cpu_s)])
    assert opened.keys() == plain.keys()
    assert all(plain[task] <= opened[task] <= 1.0 for task in plain)
