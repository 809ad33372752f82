"""Many elements: who is looked at, in which order, at which time, and how they go on."""

from __future__ import annotations

import json
from math import inf

import pytest

from scheduler.guards.element_watch import ElementWatch
from scheduler.guards.guard_compiling import compile_element
from scheduler.guards.guard_values import GuardCatalog, GuardedAlternate, GuardedElement, GuardEvent
from tests.benches.guard_engine import GuardEngine

CATALOG = GuardCatalog({"": {"rate": "number", "cpu": "number"}, "x": {"u": "number"}, "y": {"v": "number"}})


def two(guard: str, name: str = "e") -> GuardedElement:
    return GuardedElement(name, (GuardedAlternate("one", guard), GuardedAlternate("two")))


def engine_of(**guards: str) -> GuardEngine:
    engine = GuardEngine(0)
    for name, guard in guards.items():
        engine.put(name, compile_element(two(guard, name), CATALOG))
    return engine


def on(engine: GuardEngine, name: str = "e") -> str:
    choice = engine.watch(name).choice
    assert choice is not None
    return choice.alternate


def test_an_event_reaches_those_alone_that_it_touches(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(a="x.u > 1", b="y.v > 1", c="x.u > 1 AND y.v > 1", d="rate > 1")
    looked: list[str] = []
    step = ElementWatch._step
    monkeypatch.setattr(ElementWatch, "_step", lambda watch, at_ms: (
        looked.append(watch.compiled.element.name), step(watch, at_ms))[1])
    engine.take(GuardEvent(1, "x", {"u": 2.0}))
    assert looked == ["a", "c"]
    engine.take(GuardEvent(2, "x", {"other": 2.0}))
    engine.take(GuardEvent(3, "", {"cpu": 2.0}))
    engine.take(GuardEvent(4, "z", {"u": 2.0}))
    assert looked == ["a", "c"]
    engine.drop("a")
    engine.take(GuardEvent(5, "x", {"u": 0.0}))
    assert looked == ["a", "c", "c"]


def test_time_alone_turns_a_condition_on_at_its_own_moment() -> None:
    engine = engine_of(e="for_at_least(rate > 1, '10 s')")
    engine.take(GuardEvent(1_000, "", {"rate": 2.0}))
    assert engine.due == 11_000 and engine.advance(10_999) == []
    [change] = engine.advance(60_000)
    assert (change.at_ms, change.before, change.choice.alternate) == (11_000, "two", "one")
    assert engine.due == inf and engine.now_ms == 60_000


def test_what_time_changes_comes_before_events_of_the_same_moment() -> None:
    engine = engine_of(e="for_at_least(rate > 1, '10 s')")
    engine.take(GuardEvent(0, "", {"rate": 2.0}))
    changes = engine.take(GuardEvent(10_000, "", {"rate": 0.0}))
    assert [(change.at_ms, change.choice.alternate) for change in changes] == [(10_000, "one"), (10_000, "two")]


def test_an_event_of_one_element_lets_time_pass_for_all_others_first() -> None:
    engine = engine_of(waits="for_at_least(rate > 1, '10 s')", b="x.u > 1")
    engine.take(GuardEvent(0, "", {"rate": 2.0}))
    changes = engine.take(GuardEvent(20_000, "x", {"u": 2.0}))
    assert [(change.at_ms, change.element) for change in changes] == [(10_000, "waits"), (20_000, "b")]


def test_changes_by_time_come_in_the_order_of_time() -> None:
    engine = engine_of(late="for_at_least(rate > 1, '9 s')", early="for_at_least(rate > 1, '3 s')",
                       both="for_at_least(rate > 1, '5 s') AND NOT for_at_least(rate > 1, '7 s')")
    engine.take(GuardEvent(0, "", {"rate": 2.0}))
    assert [(change.at_ms, change.element) for change in engine.advance(20_000)] == [
        (3_000, "early"), (5_000, "both"), (7_000, "both"), (9_000, "late")]


def test_of_equal_times_each_event_counts_in_the_order_in_which_it_came() -> None:
    engine = engine_of(e="latch(rate > 1, cpu > 1)", f="count(rate, '1 s') = 3")
    for value in (2.0, 0.0, 0.0):
        engine.take(GuardEvent(0, "", {"rate": value}))
    assert (on(engine, "e"), on(engine, "f")) == ("one", "one")


def test_a_late_event_changes_nothing_and_is_counted() -> None:
    engine = engine_of(e="rate > 1")
    engine.take(GuardEvent(5_000, "", {"rate": 0.0}))
    engine.take(GuardEvent(4_999, "", {"rate": 9.0}))
    assert on(engine) == "two" and engine.watch("e").late == 1


def test_an_event_behind_another_stream_counts_from_when_it_is_known() -> None:
    engine = engine_of(e="for_at_least(x.u > 1, '10 s')", other="y.v > 1")
    engine.take(GuardEvent(8_000, "y", {"v": 1.0}))
    engine.take(GuardEvent(5_000, "x", {"u": 2.0}))
    assert engine.watch("e").late == 0
    assert [change.at_ms for change in engine.advance(30_000)] == [18_000]


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), True, "7", 1e250])
def test_what_is_no_value_of_its_kind_is_not_known(value: object) -> None:
    engine = engine_of(e="rate > 1 OR max(rate, '1 min') > 1")
    engine.take(GuardEvent(0, "", {"rate": value}))
    assert engine.watch("e").results == [None] and on(engine) == "two"
    json.dumps(engine.state_of("e"), allow_nan=False)


def test_a_value_function_that_cannot_be_computed_is_worth_less_than_any_other() -> None:
    element = GuardedElement("e", (
        GuardedAlternate("learned", value="1 - mean(rate, '1 min') / cpu"), GuardedAlternate("plain", value=0.25)),
        "value")
    engine = GuardEngine(0)
    engine.put("e", compile_element(element, CATALOG))
    assert on(engine) == "plain"
    engine.take(GuardEvent(0, "", {"rate": 1.0, "cpu": 4.0}))
    assert on(engine) == "learned"
    for at_ms, cpu in ((1, 0.0), (2, float("nan"))):
        engine.take(GuardEvent(at_ms, "", {"cpu": cpu}))
        assert on(engine) == "plain"


def test_who_goes_on_from_its_state_misses_nothing_that_time_changed_meanwhile() -> None:
    engine = engine_of(e="for_at_least(rate > 1, '10 s')")
    engine.take(GuardEvent(0, "", {"rate": 2.0}))
    after = GuardEngine(60_000)
    [change] = after.put(
        "e", compile_element(two("for_at_least(rate > 1, '10 s')"), CATALOG), state=engine.state_of("e"))
    assert (change.at_ms, change.before, change.choice.alternate) == (10_000, "two", "one")


def test_a_changed_guard_keeps_what_it_has_in_common_with_the_one_before() -> None:
    engine = engine_of(e="mean(rate, '1 min') > 1")
    for second in range(30):
        engine.take(GuardEvent(1_000 * second, "", {"rate": 4.0}))
    changed = compile_element(two("mean( RATE,'60 s') > 5 OR max(rate, '1 min') > 3"), CATALOG)
    engine.put("e", changed, state=engine.state_of("e"))
    readings = engine.watch("e").readings()
    assert readings == {"rate": 4.0, "mean(rate, '1 min')": 4.0, "max(rate, '1 min')": None}
    assert on(engine) == "two"  # 4 is not above 5; the highest begins anew


def test_an_element_that_switches_too_often_is_told_what_helps() -> None:
    engine = GuardEngine(0)
    engine.put("e", compile_element(two("rate > 1"), CATALOG), most_switches_per_h=3)
    advice = [change.advice for number in range(6)
              for change in engine.take(GuardEvent(60_000 * number, "", {"rate": 2.0 * (number % 2 == 0)}))]
    assert advice[:3] == ["", "", ""] and all("more than 3 times an hour" in text for text in advice[3:])
    assert "for_at_least" in advice[3] and len(advice) == 6
    slow = engine_of(e="rate > 1")
    assert [change.advice for number in range(40) for change in slow.take(
        GuardEvent(1_000_000 * number, "", {"rate": 2.0 * (number % 2 == 0)})) if change.advice] == []


def test_a_switch_says_why_with_what_it_saw() -> None:
    engine = engine_of(e="latch(rate > 100, rate < 80) AND mean(cpu, '1 min') < 0.5")
    [change] = engine.take(GuardEvent(0, "", {"rate": 130, "cpu": 0.25}))
    assert change.is_switch and change.because == (
        "the guard of one is true (latch(rate > 100, rate < 80) = true, rate = 130, mean(cpu, '1 min') = 0.25)")
