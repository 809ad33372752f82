"""Output buffers, chains, and what managers know of latency."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.contracts.qos import QosReport
from scheduler.latency.buffers import BufferSizing, adapted_size
from scheduler.latency.constraints import LatencyConstraint, along
from scheduler.latency.latency_reports import ChannelSample, QuerySample, Reporter, RunningHistogram, RunningMeans
from scheduler.latency.managing import QosManager
from scheduler.latency.runtime_graph import Channel, RuntimeGraph, Vertex
from scheduler.latency.setting_up import qos_setups
from scheduler.latency.task_chaining import ChainingFacts, chainable_series

SIZING = BufferSizing()


def test_buffers_follow_the_papers_second_equation() -> None:
    # Events wait 20 ms in a buffer that takes 40 ms to fill.
    assert adapted_size(32768, lifetime_s=0.04, source_latency_s=0, sizing=SIZING) == pytest.approx(32768 * 0.98**20)
    assert adapted_size(220, lifetime_s=0.04, source_latency_s=0, sizing=SIZING) == 200
    # The task that fills it is slower than the buffer, or the buffer is no matter.
    assert adapted_size(32768, lifetime_s=0.04, source_latency_s=0.03, sizing=SIZING) == 32768
    assert adapted_size(32768, lifetime_s=0.008, source_latency_s=0, sizing=SIZING) == 32768
    assert adapted_size(1000, lifetime_s=0, source_latency_s=0, sizing=SIZING) == 1000


@given(st.floats(100, 1e7), st.floats(0, 0.5))
def test_a_buffer_that_fills_at_a_steady_rate_comes_to_rest(per_s: float, source_s: float) -> None:
    size = 65536.0
    for _round in range(400):
        size = adapted_size(size, lifetime_s=size / per_s, source_latency_s=source_s, sizing=SIZING)
    latency_s = size / per_s / 2
    if latency_s > max(SIZING.least_latency_s, source_s):
        assert size == SIZING.smallest
    assert adapted_size(size, lifetime_s=size / per_s, source_latency_s=source_s, sizing=SIZING) == size


@pytest.mark.parametrize("bad", [{"smallest": 0}, {"shrink": 0}, {"shrink": 1}])
def test_parameters_that_cannot_work_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="buffer"):
        BufferSizing(**bad)


@st.composite
def _chains(draw: st.DrawFn) -> tuple[list[str], RuntimeGraph, ChainingFacts]:
    path = [f"v{number}" for number in range(draw(st.integers(1, 7)))]
    channels = [Channel(before, after) for before, after in pairwise(path)]
    for number, (source, target) in enumerate(draw(st.lists(
            st.tuples(st.sampled_from(path), st.sampled_from(["in", "out"])), max_size=3))):
        channels.append(Channel(source, f"x{number}") if target == "out" else Channel(f"x{number}", source))
    vertices = sorted({end for channel in channels for end in (channel.source, channel.target)} | set(path))
    facts = ChainingFacts(
        slots={vertex: draw(st.sampled_from(["n1/0", "n1/0", "n1/0", "n1/1"])) for vertex in vertices},
        cores={vertex: draw(st.sampled_from([0.0, 0.125, 0.25, 0.5])) for vertex in vertices},
        apart=draw(st.sets(st.sampled_from(path), max_size=1)),
        chains=dict.fromkeys(draw(st.sets(st.sampled_from(path), max_size=1)), "f1"))
    return path, RuntimeGraph([Vertex(vertex, vertex, "n1") for vertex in vertices], channels), facts


@given(_chains())
def test_the_longest_chain_is_that_of_all_series(given_: tuple[list[str], RuntimeGraph, ChainingFacts]) -> None:
    path, graph, facts = given_

    def may(series: list[str]) -> bool:
        inside_in = all(len(graph.into(vertex)) == 1 for vertex in series[1:])
        inside_out = all(len(graph.out_of(vertex)) == 1 for vertex in series[:-1])
        return (inside_in and inside_out and len({facts.slots[vertex] for vertex in series}) == 1
                and sum(facts.cores[vertex] for vertex in series) < 0.9
                and not set(series) & ({*facts.apart} | set(facts.chains)))

    possible = [path[start:end] for start, end in combinations(range(len(path) + 1), 2)
                if end - start > 1 and may(path[start:end])]
    best = max(possible, key=len, default=[])

    assert next(map(list, chainable_series(path, graph, facts)), []) == best


def test_a_reporter_takes_one_sample_an_interval_and_sends_no_empty_report() -> None:
    reporter = Reporter("n1", {"a": (), "b": ("a>b",)}, interval_s=15, offset_s=4)
    assert reporter.due(3) is None
    assert reporter.wants("a")
    assert not reporter.wants("c")
    reporter.take("a", QuerySample(0.2, interval_s=1.0, batch_s=0.1, lifetime_s=1.0))
    assert not reporter.wants("a")
    reporter.take("a", QuerySample(0.9, interval_s=1.0, batch_s=0.1))
    reporter.take("b", QuerySample(0.1, interval_s=2.0, batch_s=0.1, channel_s=0.5))
    assert reporter.due(4) == QosReport(
        "n1", {"a": 0.2, "b": 0.1, "a>b": 0.5}, {"a": 1.0}, {"a": 1.0, "b": 2.0}, {"a": 0.1, "b": 0.1})
    assert reporter.due(18) is None  # the next is due at 19
    assert reporter.due(60) is None  # three have passed, nothing was measured
    reporter.take("a", QuerySample(0.1, interval_s=1.0, batch_s=0.1))
    assert reporter.due(63) is None
    assert reporter.due(64) is not None
    with pytest.raises(ValueError, match="offset"):
        Reporter("n1", {}, interval_s=5, offset_s=5)


def test_each_channel_is_reported_with_its_own_latency_and_ages_where_they_are_told() -> None:
    reporter = Reporter("n1", {"c": ("a>c", "b>c", "x>c")}, interval_s=5, offset_s=0)
    reporter.take("c", QuerySample(
        0.1, interval_s=1.0, batch_s=0.1, lifetime_s=0.3, channel_s=0.5,
        channels={"a": ChannelSample(0.2, 0.1), "b": ChannelSample(0.9, 1.0)}, ages={20: 3}))
    assert reporter.due(0) == QosReport(
        "n1", {"c": 0.1, "a>c": 0.2, "b>c": 0.9}, {"c": 0.3, "a>c": 0.1, "b>c": 1.0}, {"c": 1.0}, {"c": 0.1},
        {"c": {20: 3}}), "nothing came along the third"


def test_ages_are_of_the_reports_within_the_span() -> None:
    ages = RunningHistogram(over_s=30)
    ages.add(0, {20: 1})
    ages.add(15, {20: 2, 30: 1})
    assert ages.at(15) == {20: 3, 30: 1}
    assert ages.at(30) == {20: 2, 30: 1}
    ages.forget()
    assert ages.at(30) == {}


def test_only_what_lies_on_a_slow_channel_is_made_quicker() -> None:
    """Two sources into one query, with a limit on both paths: events of the second wait."""
    graph = RuntimeGraph(
        [Vertex(query, query, "n1") for query in "abc"], [Channel("a", "c"), Channel("b", "c")])
    setups = qos_setups(
        graph, [LatencyConstraint(along((source, "c")), 2.0, 60) for source in "ab"],
        longest_ms=dict.fromkeys("abc", 8_000), sources={"a", "b"})
    manager, decided = QosManager(setups["n1"], now_s=0.0), []
    for now_s in range(0, 60, 5):
        manager.take(QosReport(
            "n1", {"a": 0.5, "b": 0.5, "c": 0.1, "a>c": 0.1, "b>c": 2.0},
            {"a": 0.8, "b": 0.8, "c": 0.0, "a>c": 0.2, "b>c": 4.0}, dict.fromkeys("abc", 0.8),
            dict.fromkeys("abc", 0.1)), now_s=now_s)
        decided += manager.decide(now_s)
    assert decided[0].intervals_s.keys() == {"b", "c"}
    assert decided[0].worst_s == pytest.approx(2.6)


def test_means_are_of_the_samples_within_the_span() -> None:
    means = RunningMeans(over_s=30)
    means.add(0, {"a": 0.1, "b": 9.0})
    means.add(15, {"a": 0.3})
    assert means.at(15) == {"a": pytest.approx(0.2), "b": 9.0}
    assert means.at(30) == {"a": pytest.approx(0.3)}
    means.forget("a")
    assert means.at(30) == {}
