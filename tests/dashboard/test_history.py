"""Kept history: one suite for the history in memory and the one in the database, and what only the latter promises."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
import pytest
from django.db import transaction
from hypothesis import given
from hypothesis import strategies as st

from dashboard.history import blocks, downsampling, point_reading
from dashboard.history.blocks import InvalidBlock, Matrix, decoded, encoded, rows_of
from dashboard.history.history_store import DatabaseHistory
from dashboard.history.models import AnnotationRow, Block, SeriesRow
from scheduler.history.memory_history import MemoryHistory
from scheduler.history.port import History
from scheduler.history.series import (
    ALARM,
    GRAINS,
    MINUTE,
    OVER,
    SECOND,
    TEN_SECONDS,
    Annotation,
    Grain,
    Series,
)

NOW_S = 1_800_000_000  # a whole number of hours and of 6 hours
CLOSE = 2.0**-12  # of a value that is stored
RATE, LATENCY, OTHER = (
    Series("task", "a", "rate_per_s"), Series("task", "a", "latency_p99_ms"), Series("dataflow", "d", "cpu"))
YOUNGEST = Series("dataflow", "d", "latency_min_ms")


@pytest.fixture(params=[MemoryHistory, pytest.param(DatabaseHistory, marks=pytest.mark.django_db)])
def history(request: pytest.FixtureRequest) -> History:
    return request.param()


def played(history: History, seconds: Mapping[int, Mapping[Series, float]], *, tidied: bool = True) -> None:
    for count, (at_s, values) in enumerate(seconds.items()):
        history.append(at_s, values)
        if count % 5 == 4:
            history.flush()
    history.flush()
    if tidied and seconds:
        history.tidy(max(seconds))


def values_of(history: History, series: Series, grain: Grain, begin_s: int, end_s: int) -> dict[int, float]:
    """Points by time, without those that are not there."""
    points = history.read([series], grain, begin_s=begin_s, end_s=end_s).get(series)
    if points is None:
        return {}
    assert points.step_s == grain.step_s and points.begin_s % grain.step_s == 0
    return {at_s: value for at_s, value in zip(points.times_s.tolist(), points.values.tolist(), strict=True)
            if not math.isnan(value)}


def by_hand(seconds: Mapping[int, float], grain: Grain, fold: str) -> dict[int, float]:
    """The points of a grain by their definition: each is made of those of the next finer one."""
    points = dict(seconds)
    for _, coarse in pairwise(GRAINS[:GRAINS.index(grain) + 1]):
        groups: dict[int, list[float]] = {}
        for at_s, value in points.items():
            groups.setdefault(at_s - at_s % coarse.step_s, []).append(value)
        made = {"max": max, "min": min, "mean": lambda group: sum(group) / len(group)}[fold]
        points = {at_s: made(group) for at_s, group in groups.items()}
    return points


def check(read: Mapping[int, float], wanted: Mapping[int, float]) -> None:
    assert read.keys() == wanted.keys()
    for at_s, value in wanted.items():
        assert read[at_s] == pytest.approx(value, rel=CLOSE, abs=1e-6), at_s


# The contract of any history -----------------------------------------------------------------------------------------


def test_nothing_is_known_at_first(history: History) -> None:
    assert history.read([RATE], SECOND, begin_s=NOW_S, end_s=NOW_S + 10) == {}
    assert list(history.series_of("task", ["a"])) == []
    assert list(history.annotations(begin_s=0, end_s=NOW_S, subjects=[("task", "a")])) == []
    history.flush()
    history.tidy(NOW_S)


def test_seconds_come_back_with_their_gaps(history: History) -> None:
    played(history, {NOW_S: {RATE: 1.5, LATENCY: 10.0}, NOW_S + 1: {LATENCY: 20.0}, NOW_S + 4: {RATE: 0.0}})
    points = history.read([LATENCY, RATE, OTHER], SECOND, begin_s=NOW_S - 1, end_s=NOW_S + 6)
    assert set(points) == {RATE, LATENCY}
    np.testing.assert_array_equal(points[RATE].values, np.float32([np.nan, 1.5, np.nan, np.nan, np.nan, 0.0, np.nan]))
    np.testing.assert_array_equal(
        points[LATENCY].values, np.float32([np.nan, 10, 20, np.nan, np.nan, np.nan, np.nan]))


def test_a_second_that_is_there_stays_as_it_is(history: History) -> None:
    played(history, {NOW_S: {RATE: 1.0}})
    history.append(NOW_S, {RATE: 2.0})
    history.append(NOW_S - 5, {RATE: 3.0})
    history.flush()
    check(values_of(history, RATE, SECOND, NOW_S - 10, NOW_S + 10), {NOW_S: 1.0})


def test_a_value_that_is_none_is_left_out(history: History) -> None:
    played(history, {NOW_S: {RATE: math.nan, OTHER: 1.0}})
    assert values_of(history, RATE, SECOND, NOW_S, NOW_S + 1) == {}


def test_coarser_points_are_means_or_the_highest(history: History) -> None:
    played(history, {NOW_S + at_s: {RATE: float(at_s), LATENCY: float(at_s % 7)} for at_s in range(60)})
    check(values_of(history, RATE, TEN_SECONDS, NOW_S, NOW_S + 60), {NOW_S + 10 * i: 10 * i + 4.5 for i in range(6)})
    check(values_of(history, LATENCY, MINUTE, NOW_S, NOW_S + 60), {NOW_S: 6.0})
    check(values_of(history, RATE, MINUTE, NOW_S + 59, NOW_S + 61), {NOW_S: 29.5})


def test_points_are_the_same_before_and_after_they_are_made_coarser(history: History) -> None:
    chance = random.Random(7)
    seconds = {
        NOW_S - 200 + at_s: {RATE: chance.uniform(0, 1e5), LATENCY: chance.uniform(0, 1e3), YOUNGEST: chance.random()}
        for at_s in range(2_400) if chance.random() > 0.3}
    played(history, seconds, tidied=False)
    for moment_s in (NOW_S, NOW_S + 900, NOW_S + 2_000, NOW_S + 3_000, NOW_S + 20_000):
        history.tidy(moment_s)
        for series, fold in ((RATE, "mean"), (LATENCY, "max"), (YOUNGEST, "min")):
            wanted = {at_s: values[series] for at_s, values in seconds.items()}
            for grain in (TEN_SECONDS, MINUTE):
                check(values_of(history, series, grain, NOW_S - 600, NOW_S + 3_600), by_hand(wanted, grain, fold))


def test_each_grain_keeps_as_long_as_it_says(history: History) -> None:
    played(history, {NOW_S + at_s: {RATE: 4.0} for at_s in range(120)}, tidied=False)

    def counts(now_s: int) -> list[int]:
        history.tidy(now_s)
        return [len(values_of(history, RATE, grain, NOW_S, NOW_S + 120)) for grain in GRAINS]

    assert counts(NOW_S + 120) == [120, 12, 2]
    assert counts(NOW_S + 120 + SECOND.keep_s - 120) == [120, 12, 2]
    assert counts(NOW_S + 2 * 3_600) == [0, 12, 2]
    assert counts(NOW_S + 23 * 3_600) == [0, 12, 2]
    assert counts(NOW_S + 32 * 3_600) == [0, 0, 2]
    assert counts(NOW_S + 89 * 86_400) == [0, 0, 2]
    assert history.series_of("task", ["a"]) == [RATE]
    assert counts(NOW_S + 93 * 86_400) == [0, 0, 0]
    assert list(history.series_of("task", ["a"])) == []


def test_a_series_that_comes_back_after_it_was_forgotten_is_there_again(history: History) -> None:
    played(history, {NOW_S: {RATE: 1.0}}, tidied=False)
    later_s = NOW_S + 100 * 86_400
    for moment_s in (NOW_S + 10_000, NOW_S + 40_000, later_s):
        history.tidy(moment_s)
    played(history, {later_s + 1: {RATE: 2.0}})
    check(values_of(history, RATE, SECOND, later_s, later_s + 10), {later_s + 1: 2.0})


def test_series_are_told_by_subject(history: History) -> None:
    played(history, {NOW_S: {RATE: 1.0, LATENCY: 1.0, OTHER: 1.0, Series("task", "b", "cpu"): 1.0}})
    assert list(history.series_of("task", ["a", "b", "c"])) == [LATENCY, RATE, Series("task", "b", "cpu")]
    assert list(history.series_of("stream", ["a"])) == []


def test_what_happened_is_told_once_and_in_order(history: History) -> None:
    over, alarm = Annotation(NOW_S + 1, OVER, "task", "a"), Annotation(NOW_S, ALARM, "task", "a", "It failed.")
    history.annotate([over, alarm, Annotation(NOW_S, ALARM, "task", "b")])
    history.annotate([alarm])
    assert list(history.annotations(begin_s=NOW_S, end_s=NOW_S + 2, subjects=[("task", "a")])) == [alarm, over]
    assert list(history.annotations(begin_s=NOW_S, end_s=NOW_S + 1, subjects=[("task", "a")])) == [alarm]
    assert list(history.annotations(begin_s=NOW_S, end_s=NOW_S + 2, subjects=[("query", "a")])) == []
    history.tidy(NOW_S + 91 * 86_400)
    assert list(history.annotations(begin_s=NOW_S, end_s=NOW_S + 2, subjects=[("task", "a")])) == []


@pytest.mark.parametrize("seed", range(6))
def test_any_course_of_events_gives_what_was_measured(history: History, seed: int) -> None:
    chance = random.Random(seed)
    lines = [Series("query", f"q{number}", chance.choice(["batch_ms", "latency_p95_ms"])) for number in range(30)]
    seconds: dict[int, dict[Series, float]] = {}
    at_s = NOW_S - chance.randrange(5_000)
    for _ in range(300):
        at_s += chance.choice([1, 1, 1, 2, 9, 61, 400])
        seconds[at_s] = {line: chance.lognormvariate(3, 2) for line in lines if chance.random() < 0.8}
        history.append(at_s, seconds[at_s])
        if chance.random() < 0.3:
            history.flush()
        if chance.random() < 0.1:
            history.tidy(at_s)
    history.flush()
    for line in chance.sample(lines, 4):
        wanted = {when: values[line] for when, values in seconds.items() if line in values}
        begin_s = at_s - SECOND.keep_s
        check(values_of(history, line, SECOND, begin_s, at_s + 1), {
            when: value for when, value in wanted.items() if when >= begin_s})
        for grain in (TEN_SECONDS, MINUTE):
            check(values_of(history, line, grain, NOW_S - 6_000, at_s + 1), by_hand(wanted, grain, line.fold))


# What the database promises besides -----------------------------------------------------------------------------------


@pytest.mark.django_db
def test_what_was_flushed_outlives_the_process_and_the_rest_is_lost() -> None:
    first = DatabaseHistory()
    first.append(NOW_S, {RATE: 1.0})
    first.flush()
    first.append(NOW_S + 1, {RATE: 2.0})
    second = DatabaseHistory()  # as after a kill
    second.append(NOW_S + 2, {RATE: 3.0})
    second.flush()
    check(values_of(second, RATE, SECOND, NOW_S, NOW_S + 9), {NOW_S: 1.0, NOW_S + 2: 3.0})
    second.tidy(NOW_S + 2_000)
    check(values_of(DatabaseHistory(), RATE, TEN_SECONDS, NOW_S, NOW_S + 9), {NOW_S: 2.0})


@pytest.mark.django_db
@pytest.mark.parametrize("breaks_at", ["bulk_create", "note_seen", "prune"])
def test_tidying_that_is_broken_off_anywhere_is_done_by_the_next_one(
    monkeypatch: pytest.MonkeyPatch, breaks_at: str
) -> None:
    history = DatabaseHistory()
    played(history, {NOW_S + at_s: {RATE: float(at_s), OTHER: 1.0} for at_s in range(100)}, tidied=False)

    def broken(*_: object, **__: object) -> None:
        raise OSError("no space left")

    target: object = Block.objects if breaks_at == "bulk_create" else downsampling
    with monkeypatch.context() as patched, pytest.raises(OSError), transaction.atomic():
        patched.setattr(target, breaks_at, broken)
        history.tidy(NOW_S + 20_000)
    wanted = {NOW_S + 60 * number: 29.5 if number == 0 else 79.5 for number in range(2)}
    check(values_of(history, RATE, MINUTE, NOW_S, NOW_S + 120), wanted)
    for _ in range(2):
        history.tidy(NOW_S + 200_000)
        check(values_of(history, RATE, MINUTE, NOW_S, NOW_S + 120), wanted)
    assert not Block.objects.exclude(grain_s=60).exists()


@pytest.mark.django_db
def test_of_two_that_append_the_first_block_of_a_time_stays() -> None:
    first, second = DatabaseHistory(), DatabaseHistory()
    for history, value in ((first, 1.0), (second, 2.0)):
        history.append(NOW_S, {RATE: value})
    first.flush()
    second.flush()
    check(values_of(first, RATE, SECOND, NOW_S, NOW_S + 1), {NOW_S: 1.0})


@pytest.mark.django_db
def test_seconds_that_cannot_be_written_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    history = DatabaseHistory()

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    for at_s in range(100):
        history.append(NOW_S + at_s, {RATE: float(at_s)})
        with monkeypatch.context() as patched, pytest.raises(OSError):
            patched.setattr(Block.objects, "bulk_create", full)
            history.flush()
    history.flush()
    check(values_of(history, RATE, SECOND, NOW_S, NOW_S + 100), {NOW_S + at_s: at_s for at_s in range(40, 100)})


@pytest.mark.django_db
def test_many_series_lie_in_few_rows_and_each_is_read_from_its_own() -> None:
    lines = [Series("task", f"t{number}", "rate_per_s") for number in range(2_500)]
    history = DatabaseHistory()
    played(history, {NOW_S + at_s: {line: n + at_s / 100 for n, line in enumerate(lines)} for at_s in range(5)},
           tidied=False)
    assert Block.objects.count() in (10, 11)  # ids go on where another test ended
    some = lines[::400]
    points = history.read(some, SECOND, begin_s=NOW_S, end_s=NOW_S + 5)
    for line in some:
        wanted = [lines.index(line) + at_s / 100 for at_s in range(5)]
        np.testing.assert_allclose(points[line].values, wanted, rtol=CLOSE)
    history.tidy(NOW_S + 40_000)
    assert Block.objects.filter(grain_s=60).count() in (40, 41)
    points = history.read(some, MINUTE, begin_s=NOW_S, end_s=NOW_S + 60)
    np.testing.assert_allclose([points[line].values[0] for line in some],
                               [lines.index(line) + 0.02 for line in some], rtol=2 * CLOSE)


@pytest.mark.django_db
def test_long_gaps_end_in_no_endless_windows() -> None:
    history = DatabaseHistory()
    for day in range(3):
        played(history, {NOW_S + day * 30 * 86_400: {RATE: 1.0}})
    history.tidy(NOW_S + 61 * 86_400)
    assert Block.objects.filter(grain_s=60).count() == 3
    assert downsampling.seal(NOW_S + 61 * 86_400) == 0


@pytest.mark.django_db
def test_rows_hold_long_names_and_texts() -> None:
    history = DatabaseHistory()
    stream = Series("stream", f"{'a' * 100}>{'b' * 100}", "rate_per_s")
    played(history, {NOW_S: {stream: 1.0}})
    history.annotate([Annotation(NOW_S, ALARM, "stream", stream.subject, "x" * 5_000)])
    assert SeriesRow.objects.get().series == stream
    assert len(AnnotationRow.objects.get().text) == 500


SHAPES = st.tuples(st.integers(1, 40), st.integers(1, 40))


@given(SHAPES, st.integers(0, 2**32 - 1))
def test_a_block_gives_back_what_it_was_made_of(shape: tuple[int, int], seed: int) -> None:
    chance = np.random.default_rng(seed)
    values = (10 ** chance.uniform(-20, 20, shape) * chance.choice([-1, 1, 0], shape)).astype(np.float32)
    values[chance.random(shape) < 0.2] = np.nan
    ids = np.sort(chance.choice(1024, shape[0], replace=False)).astype(np.uint16)
    block = encoded(Matrix(ids, values))
    result = decoded(block)
    np.testing.assert_array_equal(result.ids, ids)
    np.testing.assert_allclose(result.values, values, rtol=2.0**-13, atol=0)
    wanted = [int(ids[0]), int(ids[-1]), 1025]
    rows = dict(rows_of(memoryview(block), wanted))
    assert set(rows) == {int(ids[0]), int(ids[-1])}
    np.testing.assert_array_equal(rows[int(ids[-1])], result.values[-1])


@pytest.mark.parametrize("read", [decoded, lambda block: list(rows_of(block, [1]))])
def test_a_block_of_another_version_is_refused(read: Callable[[bytes], object]) -> None:
    block = encoded(Matrix(np.array([1], np.uint16), np.zeros((1, 2), np.float32)))
    with pytest.raises(InvalidBlock):
        read(bytes([blocks.VERSION + 1]) + block[1:])


@pytest.mark.django_db
@pytest.mark.parametrize(("begin_s", "end_s"), [
    (NOW_S - 90 * 24 * 3600, NOW_S + 90 * 24 * 3600), (NOW_S + 60, NOW_S + 170 * 24 * 3600),
    (NOW_S - 170 * 24 * 3600, NOW_S - 60)])
def test_a_long_range_is_looked_for_no_finer_than_there_is_something(monkeypatch, begin_s: int, end_s: int):
    """In seconds half a year takes 60 MB for each series."""
    history, counts = DatabaseHistory(), []
    history.append(NOW_S, {OTHER: 0.5})
    history.flush()
    full = np.full

    def counted(shape: int | tuple[int, ...], *arguments: object, **options: object):
        counts.append(int(np.prod(shape)))
        return full(shape, *arguments, **options)

    monkeypatch.setattr(point_reading.np, "full", counted)
    [points] = history.read([OTHER], MINUTE, begin_s=begin_s, end_s=end_s).values()
    assert max(counts) <= (end_s - begin_s) // 60 + 2
    assert np.isfinite(points.values).sum() == (begin_s <= NOW_S < end_s)
