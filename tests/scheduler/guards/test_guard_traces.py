"""What guards saw: values at each moment, limits, and when each guard was true, held to looking at every moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.guards.guard_compiling import compile_element
from scheduler.guards.guard_dry_run import dry_run
from scheduler.guards.guard_traces import GuardLimit, GuardTrace, GuardTracer
from scheduler.guards.guard_values import VALUE, GuardedAlternate, GuardedElement, GuardEvent
from scheduler.guards.task_figures import TASK_CATALOG

END_MS = 60_000


def traced(guard: str, events: list[GuardEvent], *, begin_ms: int = 0) -> GuardTrace:
    """What the guard of one of two alternates saw until the end."""
    element = GuardedElement("work", (GuardedAlternate("a", guard, 2.0), GuardedAlternate("b")), VALUE)
    tracer = GuardTracer(compile_element(element, TASK_CATALOG))
    dry_run(element, TASK_CATALOG, events, begin_ms=begin_ms, end_ms=END_MS, on="b", observe=tracer)
    return tracer.trace(begin_ms=begin_ms, end_ms=END_MS)


def rates(*values: float | None) -> list[GuardEvent]:
    """One a second."""
    return [GuardEvent(1000 * second, "", {"rate": value}) for second, value in enumerate(values)]


def test_windows_are_drawn_with_their_figure_and_calculations_apart() -> None:
    trace = traced("mean(rate, '3 s') > 5 AND rate / cpu < 2 AND 7 >= count(rate, '3 s')", [
        GuardEvent(0, "", {"rate": 4.0, "cpu": 2.0}), GuardEvent(1000, "", {"rate": 8.0})])
    assert trace.limits == (
        GuardLimit("a", "mean(rate, '3 s')", ">", 5.0), GuardLimit("a", "rate / cpu", "<", 2.0),
        GuardLimit("a", "count(rate, '3 s')", "<=", 7.0))
    assert {term.text: term.drawn_with for term in trace.terms} == {
        "rate": "rate", "mean(rate, '3 s')": "rate", "rate / cpu": "rate / cpu",
        "count(rate, '3 s')": "count(rate, '3 s')", "cpu": "cpu"}
    values = {term.text: term.at([0, 999, 1000]) for term in trace.terms}
    assert values["rate"] == [4.0, 4.0, 8.0] and values["rate / cpu"] == [2.0, 2.0, 4.0]
    assert values["mean(rate, '3 s')"] == [4.0, 4.0, 6.0]


def test_what_a_window_samples_is_no_limit_of_the_guard() -> None:
    trace = traced("sum(CASE WHEN rate > 3 THEN 1 ELSE 0 END, '5 s') >= 2", rates(4, 5, 1))
    assert [limit.value for limit in trace.limits] == [2.0]


def test_a_guard_becomes_true_and_false_by_time_alone() -> None:
    trace = traced("for_at_least(rate > 3, '5 s')", rates(1, 4))
    assert trace.true_ms == {"a": [(6000, END_MS)]}
    assert traced("count(rate, '10 s') > 0", rates(1)).true_ms["a"][0][1] < 12_000


def test_nothing_is_known_before_the_first_event_and_a_trace_begins_where_it_is_asked_for() -> None:
    trace = traced("rate > 3", [GuardEvent(5000, "", {"rate": 9.0})], begin_ms=8000)
    assert [term.at([4999, 5000]) for term in trace.terms] == [[None, 9.0]]
    assert trace.true_ms == {"a": [(8000, END_MS)]}


@given(st.lists(st.one_of(st.none(), st.integers(0, 10).map(float)), min_size=1, max_size=30), st.integers(0, 10))
def test_spans_are_just_the_moments_at_which_the_guard_is_true(values: list[float | None], limit: int) -> None:
    trace = traced(f"rate > {limit}", rates(*values))
    spans = trace.true_ms["a"]
    for second in range(60):
        value = values[min(second, len(values) - 1)]
        is_true = any(begin <= 1000 * second < end for begin, end in spans)
        assert is_true == (value is not None and value > limit)
        assert trace.terms[0].at([1000 * second]) == [value]
