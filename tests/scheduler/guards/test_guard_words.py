"""Windows in panes, hours and days on local clocks, and bounds on what they keep."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from math import ceil
from random import Random
from zoneinfo import ZoneInfo

import pytest

from scheduler.guards.guard_compiling import compile_element
from scheduler.guards.guard_reading import read_guard
from scheduler.guards.guard_timetables import Timetable
from scheduler.guards.guard_values import GuardCatalog, GuardedAlternate, GuardedElement, GuardEvent
from scheduler.guards.guard_windows import (
    ACCURACY,
    LEAST,
    MOST,
    MOST_BINS,
    PANES,
    QUANTILE_PANES,
    QuantileWindow,
    bin_of,
    middle_of,
)
from scheduler.model.bounds import GUARD_WORDS
from tests.benches.guard_engine import GuardEngine

MINUTE_MS, DAY_MS = 60_000, 86_400_000
CATALOG = GuardCatalog({"": {"rate": "number"}}, {"holidays": frozenset({date(2026, 3, 29), date(2026, 10, 25)})})


@pytest.mark.parametrize("share", [0.0, 0.5, 0.95, 1.0])
def test_a_quantile_is_near_the_exact_one(share: float) -> None:
    rng = Random(7)
    for _ in range(50):
        window = QuantileWindow(share, 60_000)
        values = [rng.choice((-1, 1)) * 10 ** rng.uniform(-5, 11) for _ in range(rng.randint(1, 200))]
        for value in values:
            window.take(value, 0)
        exact = sorted(values)[max(1, ceil(share * len(values))) - 1]
        estimate = window.refresh((), 0)
        assert estimate is not None and abs(estimate - exact) <= ACCURACY * abs(exact) * 1.000001


def test_a_quantile_counts_in_a_bounded_number_of_bins() -> None:
    assert bin_of(1e300) == bin_of(MOST) == -bin_of(-1e300) and bin_of(MOST) * 2 + 1 <= 2_075
    assert bin_of(LEAST) >= 1 and bin_of(LEAST / 2) == 0


def element(guard: str) -> GuardedElement:
    return GuardedElement("e", (GuardedAlternate("x", guard), GuardedAlternate("y")))


@pytest.mark.parametrize(("word", "duration_ms", "panes"), [
    ("mean(rate, '1 min')", 60_000, PANES), ("max(rate, '1 d')", DAY_MS, PANES),
    ("count(rate, '31 d')", 31 * DAY_MS, PANES), ("rate_of_change(rate, '7 s')", 7_000, PANES),
    ("quantile(rate, 0.9, '1 h')", 3_600_000, QUANTILE_PANES)])
def test_what_a_window_keeps_is_bounded_however_much_comes(word: str, duration_ms: int, panes: int) -> None:
    engine, rng = GuardEngine(0), Random(3)
    engine.put("e", compile_element(element(f"{word} > 3"), CATALOG))
    for number in range(1_500):
        engine.take(GuardEvent(number * duration_ms // 500, "", {"rate": rng.uniform(-1e9, 1e9)}))
        [panes_kept] = engine.state_of("e")["words"].values()
        assert len(panes_kept) <= panes
    assert len(json.dumps(engine.state_of("e"))) < 100_000


def test_windows_give_what_their_words_say() -> None:
    words = {"mean": 2.0, "sum": 8.0, "count": 4.0, "min": -4.0, "max": 9.0, "rate_of_change": 1 / 50}
    guard = " OR ".join(f"{word}(rate, '1 min') > 99" for word in words)
    engine = GuardEngine(0)
    engine.put("e", compile_element(element(guard), CATALOG))
    for second, value in ((0, 99.0), (10, 1.0), (10, 9.0), (12, -4.0), (60, 2.0)):
        engine.take(GuardEvent(1_000 * second, "", {"rate": value}))
    # The pane of second 0 has left at 60 s: the first value is 1 at 10 s, the last 2 at 60 s.
    assert engine.watch("e").readings() == {
        "rate": 2.0, **{f"{word}(rate, '1 min')": value for word, value in words.items()}}


def test_a_window_without_values_is_null_and_counts_none() -> None:
    engine = GuardEngine(0)
    engine.put("e", compile_element(element("max(rate, '10 s') IS NULL AND count(rate, '10 s') = 0"), CATALOG))
    watch = engine.watch("e")
    assert watch.results == [True]
    engine.take(GuardEvent(1_000, "", {"rate": 5.0}))
    assert watch.results == [False] and engine.due == 11_000
    assert [change.at_ms for change in engine.advance(20_000)] == [11_000] and watch.results == [True]
    engine.take(GuardEvent(20_500, "", {"rate": None}))  # a value that is not known is in no window
    assert watch.results == [True]


@pytest.mark.parametrize(("guard", "is_on"), [
    ("hours('08:00', '18:30', '{zone}')", lambda at: (8, 0) <= (at.hour, at.minute) < (18, 30)),
    ("hours('22:00', '02:30', '{zone}')", lambda at: not (2, 30) <= (at.hour, at.minute) < (22, 0)),
    ("hours('01:30', '24:00', '{zone}')", lambda at: (at.hour, at.minute) >= (1, 30)),
    ("hours('05:00', '05:00', '{zone}')", lambda at: True),
    ("weekdays('mon', 'fri', '{zone}')", lambda at: at.weekday() < 5),
    ("weekdays('sat', 'mon', '{zone}')", lambda at: at.weekday() in (5, 6, 0)),
    ("days('holidays', '{zone}')", lambda at: (at.month, at.day) in ((3, 29), (10, 25)))])
@pytest.mark.parametrize(("zone", "begin"), [
    ("Europe/Berlin", datetime(2026, 3, 27, tzinfo=UTC)), ("Europe/Berlin", datetime(2026, 10, 23, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 3, tzinfo=UTC)), ("Asia/Kolkata", datetime(2026, 3, 27, tzinfo=UTC))])
def test_a_timetable_follows_the_clocks_of_its_zone_also_where_they_are_set(guard, is_on, zone, begin) -> None:
    """Each minute of four days, with the days on which summer time begins and ends; asked for in minutes and alone."""
    node = read_guard(guard.format(zone=zone), CATALOG)
    always = Timetable(node, CATALOG.calendars["holidays"])
    at_ms, end_ms = int(begin.timestamp() * 1000), int((begin + timedelta(days=4)).timestamp() * 1000)
    due = at_ms
    while at_ms < end_ms:
        expected = is_on(datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone)))
        if at_ms >= due:  # nothing is asked between a moment that it names and the next
            always.refresh((), at_ms)
            due = int(always.due)
            assert at_ms < due <= at_ms + DAY_MS
        assert always.is_on == expected, datetime.fromtimestamp(at_ms / 1000, UTC)
        at_ms += MINUTE_MS


def test_a_pane_has_so_many_bins_however_much_comes_and_in_whichever_order() -> None:
    rng = Random(11)
    values = [rng.choice((-1, 1)) * 10 ** rng.uniform(-5, 11) for _ in range(5 * MOST_BINS)]
    dumped = []
    for _ in range(3):
        window = QuantileWindow(0.99, 60_000)
        for value in values:
            window.take(value, 0)
        exact = sorted(values)[ceil(0.99 * len(values)) - 1]
        assert abs(window.refresh((), 0) - exact) <= ACCURACY * abs(exact) * 1.000001, "high quantiles stay near"
        dumped.append(window.dump())
        rng.shuffle(values)
    [[_, bins]] = dumped[0]
    assert dumped[0] == dumped[1] == dumped[2] and len(bins) == MOST_BINS
    assert sum(times for _, times in bins) == len(values)


def test_what_an_earlier_version_kept_of_more_bins_is_taken_up() -> None:
    window = QuantileWindow(1.0, 60_000)
    window.load([[0, [[number, 1] for number in range(2 * MOST_BINS)]]])
    [[_, bins]] = window.dump()
    assert len(bins) == MOST_BINS and sum(times for _, times in bins) == 2 * MOST_BINS and window.count == len(bins) * 2
    assert window.refresh((), 0) == middle_of(2 * MOST_BINS - 1)


def test_what_is_kept_of_the_most_quantiles_that_a_task_may_have_is_bounded() -> None:
    window, rng = QuantileWindow(0.9, 20_000), Random(5)
    for pane in range(QUANTILE_PANES):
        for _ in range(4 * MOST_BINS):
            window.take(10 ** rng.uniform(-5, 11), 1_000 * pane)
    assert [len(bins) for _, bins in window.dump()] == [MOST_BINS] * QUANTILE_PANES
    assert GUARD_WORDS.most * len(json.dumps(window.dump(), separators=(",", ":"))) < 2_500_000
