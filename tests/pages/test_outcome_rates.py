"""Outcomes of what makes less of its events than its type declares, of several sources, and of few events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import pytest
from django.urls import reverse

from dashboard import jobs
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import prepare_proposal
from dashboard.schedules.measurements import typical
from dashboard.schedules.promises import in_force
from scheduler.performance.seen import BundleSeen, DataflowSeen
from tests.dashboard.building import World, approved, enacted, planned
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup
from tests.pages.observed import RATE, Observed
from tests.pages.outcomes import misses_on, page_of, whole
from tests.pages.scheduling import linear, measured, two_sources

Running = Callable[..., Observed]


@pytest.fixture
def runs(world: World, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch) -> Running:
    """A dataflow that runs by a schedule for a rate of each source, or for their own, and is observed."""
    def patch(reading: jobs.LiveReading) -> None:
        monkeypatch.setattr(jobs, "read_live", lambda *_: reading)

    def run(text: str, rate: str = "") -> Observed:
        measured(world, slots=16)
        record = planned(world.carla, world.city, text).dataflow
        client_of("carla").post(reverse("schedule_propose", args=[record.pk]), {"pair": "MBA-SAM", "rate": rate})
        proposal = Proposal.objects.get(dataflow=record)
        record = enacted(approved(prepare_proposal(proposal_id=proposal.pk), world.ana)).dataflow
        return Observed(record, in_force([record.pk])[str(record.pk)].promise, patch)

    return run


def links(client_of: ClientOf, observed: Observed) -> set[str]:
    """The queries of the links from its outcome's notices to Compare."""
    notes = page_of(client_of, observed.record).one("id", "outcome-notes")
    compare = reverse("schedule", args=[observed.record.pk])
    return {address.removeprefix(compare) for address in notes.values("href") if address.startswith(compare)}


@pytest.mark.long  # tests/scheduler/test_outcome.py has it
def test_a_task_that_makes_less_of_its_events_is_told_and_nothing_is_missed(
    client_of: ClientOf, observed: Observed
) -> None:
    observed.keep(pi={"made": 19.0}, out={"rate_per_s": 19.0})
    page = page_of(client_of, observed.record)
    assert "keeps" in page.notes and not page.having("data-missed") and misses_on(page) == []
    assert page.one("data-deviation", "out").attributes["data-cause"] == "selectivity"
    assert links(client_of, observed) == {f"?rate={RATE}"}
    answer = client_of("carla").get(f"/api/dataflows/{observed.record.pk}/schedule/outcome").json()
    assert answer["missed"] == []
    assert [(deviation["task"], deviation["reason"]["cause"], deviation["measured_per_s"])
        for deviation in answer["deviations"]] == [
        ("out", "selectivity", 19.0)]


def test_sources_that_give_less_are_compared_for_what_each_of_them_gives(client_of: ClientOf, runs: Running) -> None:
    observed = runs(two_sources(), "40")
    observed.keep(factor=0.5)
    [miss] = misses_on(page_of(client_of, observed.record))
    assert (miss.cause, miss.measured, miss.promised) == ("source", 40, 80)
    assert links(client_of, observed) == {"?rate=20"}


def test_a_rate_of_several_sources_is_said_to_be_of_all_of_them(client_of: ClientOf, runs: Running) -> None:
    """It was asked for of each."""
    observed = runs(two_sources(), "40")
    promised = page_of(client_of, observed.record).one("data-field", "promised.rate").attributes
    assert float(promised["data-value"]) == 80 and "data-together" in promised
    proposal = Proposal.objects.get(dataflow=observed.record)
    page = Markup(client_of("carla").get(reverse("proposal", args=[proposal.pk])).text)
    assert page.one("data-together").number("promise.rate") == 80 <= page.number("promise.sustained")


def test_sources_of_different_rates_are_compared_for_their_own(client_of: ClientOf, runs: Running) -> None:
    observed = runs(two_sources(rates=(10, 40)))
    observed.keep(factor=0.5)
    [miss] = misses_on(page_of(client_of, observed.record))
    assert (miss.cause, miss.measured, miss.promised) == ("source", 25, 50)
    assert links(client_of, observed) == {""}


def test_a_slow_dataflow_is_judged_by_its_rate_as_it_was_measured(client_of: ClientOf, runs: Running) -> None:
    observed = runs(linear(), "0.64")
    observed.over_s = 10.0
    observed.keep()
    page = page_of(client_of, observed.record)
    assert {"keeps", "few-events"} <= page.notes and page.number("by-chance") == pytest.approx(0.59, abs=0.005)
    assert float(whole(page, "measured").attributes["data-value"]) == pytest.approx(0.64)


@pytest.mark.long  # tests/scheduler/test_outcome.py has it
def test_of_few_events_none_is_missed_in_most_readings(client_of: ClientOf, runs: Running) -> None:
    """One event in 20 s: three of five readings saw none."""
    observed = runs(linear(), "0.05")
    observed.over_s = 10.0
    for factor in (0.0, 2.0, 0.0, 2.0, 0.0):
        observed.keep(factor=factor, count=1)
    page = page_of(client_of, observed.record)
    assert "keeps" in page.notes and float(whole(page, "measured").attributes["data-value"]) == pytest.approx(0.04)
    observed.keep(factor=0.0, count=80)
    [miss] = misses_on(page_of(client_of, observed.record))
    assert miss.what == "rate" and miss.measured < 0.003, "yet one that has stopped is not taken for slow"


def test_where_many_events_come_no_odd_reading_says_anything_and_few_are_counted_together() -> None:
    def reading(rate_per_s: float, over_s: float | None = 10.0) -> dict[str, object]:
        return asdict(DataflowSeen(
            rate_per_s=rate_per_s, read_per_s={"a": rate_per_s}, offered_per_s={"a": 2 * rate_per_s},
            bundles={"b": BundleSeen(rate_per_s / 2)}, over_s=over_s))

    many = typical([reading(100.0), reading(0.0), reading(100.0)])
    assert (many.rate_per_s, many.read_per_s["a"], many.bundles["b"].rate_per_s, many.over_s) == (100, 100, 50, 30)
    few = typical([reading(0.3), reading(0.0), reading(0.0, over_s=20.0)])
    assert (few.rate_per_s, few.read_per_s["a"], few.offered_per_s["a"]) == pytest.approx((0.075, 0.075, 0.15))
    assert few.bundles["b"].rate_per_s == pytest.approx(0.0375)
    unknown = typical([reading(0.3, over_s=None), reading(0.1, over_s=None), reading(0.2, over_s=None)])
    assert (unknown.rate_per_s, unknown.over_s) == (0.2, None), "an earlier version did not note for how long"
