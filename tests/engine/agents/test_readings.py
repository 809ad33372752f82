"""Rates over a window that all readers of a process share: whatever one asks for, what the others are told is right."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.fragment import Fragment, RunningBundle
from workers.engine import observed
from workers.engine.observed import Meters
from workers.engine.readings import EstateReading, RateWindow
from workers.engine.steady import Track

FRAGMENTS = [Fragment(f"f{number}-0", (f"t{number}",), "n1/0", 1) for number in range(4)]
BEFORE = 10_000_000  # what every query has counted long ago
PER_S = 1_000


@dataclass
class Played:
    """Queries that count on and on, in batches where these take some time, and a clock that tests turn."""

    now_s: float = 0.0
    batch_s: float = 0.001
    began_s: dict[str, float] = field(default_factory=dict)  # of queries that have not always been there

    def read_meters(self, _broker: object, names: frozenset[str], **_: object) -> Meters:
        return Meters(round(1000 * self.now_s), {name: self._counted(name) for name in names})

    def _counted(self, name: str) -> dict[str, int]:
        began_s = self.began_s.get(name)
        if began_s is not None and self.now_s < began_s:
            return {}
        counted, since_s = (BEFORE, 0.0) if began_s is None else (0, began_s)
        batches = math.floor((self.now_s - since_s) / self.batch_s + 1e-6)
        return {"0:n": counted + round(PER_S * self.batch_s * batches)}


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    broker = Played()
    monkeypatch.setattr(observed, "read_meters", broker.read_meters)
    monkeypatch.setattr(observed, "read_reports", lambda _broker: {"n1": {"node": "n1", "at_s": broker.now_s}})
    return broker


@pytest.fixture
def window(played: Played) -> RateWindow:
    return RateWindow(None, monotonic_s=lambda: played.now_s)


def rates(flows: observed.Flows) -> set[float]:
    return {round(flow.rate_per_s) for flow in flows.tasks.values()}


def whole(window: RateWindow) -> EstateReading:
    return window.read(FRAGMENTS, {})


def test_rates_are_over_the_last_seconds(window: RateWindow, played: Played):
    assert not whole(window).measured
    for second in range(1, 20):
        played.now_s = second
        reading = whole(window)
        assert reading.measured and len(reading.flows.tasks) == 4 and rates(reading.flows) == {PER_S}


def test_meters_are_read_once_for_those_who_look_twice_a_second_and_reports_each_time(
    window: RateWindow, played: Played, monkeypatch: pytest.MonkeyPatch
):
    read_at_s = []
    monkeypatch.setattr(
        observed, "read_meters",
        lambda broker, names, **_: read_at_s.append(played.now_s) or played.read_meters(broker, names))
    looked_at_s = [0.5 * number for number in range(9)]
    for played.now_s in looked_at_s:
        reading, again = whole(window), whole(window)
        assert reading.reports["n1"]["at_s"] == played.now_s
        assert again.flows is reading.flows or not reading.measured
    assert read_at_s == [0.0, *looked_at_s[1::2]], "the first rates come soon"
    window.read([*FRAGMENTS, Fragment("f9-0", ("t9",), "n1/0", 1)], {})
    assert read_at_s[-1] == played.now_s and len(read_at_s) == 6, "what is new is not waited for"


def test_who_asks_for_reports_alone_leaves_no_trace_in_the_rates(window: RateWindow, played: Played):
    assert window.read([], {}).reports["n1"]["at_s"] == 0.0
    played.now_s = 3.0
    assert not whole(window).measured, "nothing was read of them before"
    played.now_s = 6.0
    assert window.read([], {}).reports["n1"]["at_s"] == 6.0
    for now_s in (6.1, 13.0, 19.0):
        played.now_s = now_s
        assert rates(whole(window).flows) == {PER_S}


def test_parts_are_measured_against_the_whole_and_change_nothing_for_it(window: RateWindow, played: Played):
    assert window.read_part(FRAGMENTS[:1], {}) == observed.Flows(), "nobody has looked"
    whole(window)
    for round_s in (10.0, 20.0, 30.0):
        for number, fragment in enumerate(FRAGMENTS):
            played.now_s = round_s + number
            reading = window.read_part([fragment], {})
            assert set(reading.tasks) == {f"t{number}"} and rates(reading) == {PER_S}
        played.now_s = round_s + 5
        reading = whole(window).flows
        assert len(reading.tasks) == 4 and rates(reading) == {PER_S}
    played.now_s = 200.0
    assert window.read_part(FRAGMENTS[:1], {}) == observed.Flows(), "the last look was too long ago"
    whole(window)
    assert window.read_part([Fragment("new", ("t",), "n1/0", 1)], {}) == observed.Flows(), "it is in no reading"


def test_a_second_look_soon_after_the_first_is_over_as_long_a_time(window: RateWindow, played: Played):
    """Batches come once a second: over less than that a rate is none, or twice the truth."""
    played.batch_s = 1.0
    for beat in range(12):
        for after_s in (0.0, 0.4):
            played.now_s = 10.02 * beat + after_s
            reading = whole(window)
            assert beat == 0 or all(
                flow.rate_per_s == pytest.approx(PER_S, rel=0.15) for flow in reading.flows.tasks.values())
    assert reading.measured


def test_a_query_that_has_begun_since_counts_from_its_start(window: RateWindow, played: Played):
    played.began_s["f3-0"] = 7.0
    window.read(FRAGMENTS[:3], {})
    for now_s in (5.0, 10.0):
        played.now_s = now_s
        reading = whole(window)
    assert reading.flows.tasks["t3"].rate_per_s == pytest.approx(600), "3 of the 5 seconds"
    assert reading.flows.tasks["t0"].rate_per_s == pytest.approx(PER_S)


def test_a_query_that_was_away_for_a_moment_counts_nothing_twice(window: RateWindow, played: Played):
    for now_s in (0.0, 1.0, 2.0):
        played.now_s = now_s
        whole(window)
    played.now_s = 3.0
    window.read(FRAGMENTS[:3], {})
    for now_s in (4.0, 5.0, 6.0):
        played.now_s = now_s
        assert rates(whole(window).flows) == {PER_S}


BATCHES = st.lists(  # query, bucket of its latencies, events
    st.tuples(st.sampled_from(["f1-0", "f2-0", "f3-0"]), st.integers(0, 40), st.integers(1, 9)), max_size=5)


@settings(max_examples=60, deadline=None)
@given(looks=st.lists(st.tuples(BATCHES, st.sampled_from(["on", "anew", "fewer tasks"])), min_size=3, max_size=14))
def test_what_is_not_worked_out_again_is_as_if_it_were(looks: list[tuple[list[tuple[str, int, int]], str]]):
    """Against flows of the same growths that remember nothing, while queries count, rest, begin anew and lose tasks."""
    counts: dict[str, dict[str, int]] = {name: {} for name in ("f1-0", "f2-0", "f3-0")}
    tracks, latencies, parents = {name: Track() for name in counts}, {}, {"b": ("a",), "c": ("b",)}
    for second, (batches, event) in enumerate(looks):
        for name, bucket, events in batches:
            grown = Counter(counts[name])
            grown.update({"0:n": events, f"0:lat:{bucket}": events, f"1:lat:{bucket}": 1, f"in:chan:{bucket}": events})
            counts[name] = dict(grown)
        if event == "anew":
            counts["f1-0"] = {}
        active = 1 if event == "fewer tasks" else 2
        fragments = [
            Fragment("f1-0", ("a", "b"), "n1/0", active),
            Fragment("f2-0", ("c",), "n1/0", 1, bundles=(
                RunningBundle("f2-0", "n1/0", 1, 0.5), RunningBundle("f3-0", "n1/1", 1, 0.5)))]
        for name, track in tracks.items():
            track.look(1000 * second, counts[name], before_ms=None)
        growths, after = {name: track.growth() for name, track in tracks.items()}, Meters(1000 * second, dict(counts))
        for _ in range(2):
            remembering = observed.flows_of(growths, after, fragments, parents, over_s=1.0, before=latencies)
            assert remembering == observed.flows_of(growths, after, fragments, parents, over_s=1.0)
