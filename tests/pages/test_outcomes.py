"""Planned against actual: what is kept of a running schedule, and what its page says of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import prepare_proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate import load_estate
from dashboard.pages.templatetags.schedules import seconds
from dashboard.pages.templatetags.weir import share
from dashboard.profiles.models import SweepRecord, TrialRecord
from dashboard.schedules.models import Reading
from dashboard.schedules.observing import KEPT, record_readings
from dashboard.schedules.promises import in_force
from scheduler.model.promise import BundlePromise, Promise
from tests.dashboard.building import World, approved, enacted, planned, running
from tests.pages.conftest import ClientOf
from tests.pages.scheduling import linear, measured
from tests.pages.test_every_page import assert_sound
from workers.observed import Flows, TaskFlow

RATE = 190


@pytest.fixture
def scheduled(world: World, client_of: ClientOf) -> DataflowRecord:
    """A dataflow that runs by MBA with SAM, for 190 events/s."""
    measured(world, slots=16)
    record = planned(world.carla, world.city, linear()).dataflow
    client_of("carla").post(reverse("schedule_propose", args=[record.pk]), {"pair": "MBA-SAM", "rate": str(RATE)})
    return enacted(approved(prepare_proposal(proposal_id=Proposal.objects.get(dataflow=record).pk), world.ana)).dataflow


@dataclass
class Observed:
    """A node that does as a promise says, but for what a test changes; the tests' clock moves on by readings."""

    record: DataflowRecord
    promise: Promise
    patch: Callable[[jobs.LiveReading], None]
    at: datetime = field(default_factory=lambda: timezone.now() + timedelta(minutes=1))

    def keep(self, *, factor: float = 1.0, count: int = 4, **bundles: dict[str, Any]) -> None:
        """Some readings at so many times the promised rate; ``bundles`` are changes by task."""
        for _ in range(count):
            self.patch(self._reading(factor, bundles))
            record_readings(at=self.at)
            self.at += timedelta(seconds=10)

    def _reading(self, factor: float, changes: dict[str, dict[str, Any]]) -> jobs.LiveReading:
        slots: dict[str, dict[str, Any]] = {}
        for bundle in self.promise.bundles:
            index = bundle.slot.rpartition("/")[2]
            slot = slots.setdefault(index, {"state": "running", "cpu": 0.0, "memory_mb": 900, "fragments": {}})
            told = self._told(bundle, factor) | changes.get(bundle.task, {})
            slot["fragments"][bundle.id] = told
            slot["cpu"] = min(1.0, slot["cpu"] + told["cpu"])
        estate = load_estate()
        submitted = estate.submitted[str(self.record.pk)].running
        rates = {task: rate * factor for task, rate in self.promise.rates_per_s.items()}
        return jobs.LiveReading(
            measured=True, reports={"n1": {"node": "n1", "memory_mb": 8192, "slots": slots}},
            flows=Flows(tasks={
                running: TaskFlow(self._made(task, rates, changes), 0, 800.0, 900.0)
                for task, running in submitted.items()}))

    def _told(self, bundle: BundlePromise, factor: float) -> dict[str, Any]:
        return {"state": "running", "rate_per_s": bundle.rate_per_s * factor, "cpu": bundle.cpu * factor,
                "memory": bundle.memory, "throttled_by": None, "error": None}

    def _made(self, task: str, rates: dict[str, float], changes: dict[str, dict[str, Any]]) -> float:
        """What leaves a task: all that its reader is to get, or what it read where that is less."""
        made = {"sense": rates["parse"], "parse": rates["pi"]}.get(task, rates["out"])
        return changes.get(task, {}).get("made", made)


@pytest.fixture
def observed(scheduled: DataflowRecord, monkeypatch: pytest.MonkeyPatch) -> Observed:
    """What is observed of it."""
    def patch(reading: jobs.LiveReading) -> None:
        monkeypatch.setattr(jobs, "read_live", lambda *_: reading)

    kept = in_force([scheduled.pk])[str(scheduled.pk)]
    return Observed(scheduled, kept.promise, patch)


def page_of(client_of: ClientOf, record: DataflowRecord, *, user: str = "carla") -> str:
    """The text of its outcome."""
    address = reverse("schedule_outcome", args=[record.pk])
    response = client_of(user).get(address)
    assert_sound(response, address)
    return " ".join(re.sub(r"<[^>]+>", " ", response.text).split())


def test_what_is_promised_stands_there_before_anything_is_measured(
    client_of: ClientOf, scheduled: DataflowRecord
) -> None:
    page = page_of(client_of, scheduled)
    assert "Too soon to say." in page and "It keeps what it promised." not in page
    assert "MBA with SAM for 190/s" in page


def test_a_schedule_that_keeps_its_promises_is_said_to(client_of: ClientOf, observed: Observed) -> None:
    observed.keep()
    page = page_of(client_of, observed.record)
    assert "It keeps what it promised." in page
    assert "planned 190/s" in page and "measured 190/s" in page
    for bundle in observed.promise.bundles:
        assert re.search(rf"{bundle.slot} {bundle.threads} threads?", page)
    figure = client_of("carla").get(reverse("schedule_outcome_plots", args=[observed.record.pk])).json()["rate"]
    assert [trace["name"] for trace in figure["data"]] == ["measured", "planned", "predicted to sustain"]
    assert figure["data"][0]["y"] == pytest.approx([190.0] * 4)


def test_a_source_that_gives_less_is_told(client_of: ClientOf, observed: Observed) -> None:
    observed.keep(factor=0.5)
    page = page_of(client_of, observed.record)
    assert "Rate: 95/s instead of 190/s." in page
    assert "95 of 190 events/s came from the sources" in page
    assert "Compare schedules for the rate that comes" in page


def test_a_task_that_does_less_than_its_profile_asks_for_a_measurement(
    client_of: ClientOf, observed: Observed
) -> None:
    behind = [bundle for bundle in observed.promise.bundles if bundle.task == "pi"]
    observed.keep(pi={"rate_per_s": 40.0})
    response = client_of("carla").get(reverse("schedule_outcome", args=[observed.record.pk])).text
    assert f"{reverse('measure')}?dataflow={observed.record.pk}&amp;task=pi" in response
    page = page_of(client_of, observed.record)
    assert re.search(rf"Rate: [\d.]+/s instead of 190/s\. The \d threads? of pi on {behind[0].slot[:2]}", page)
    assert "though their profile allows" in page


def test_a_slot_that_takes_more_names_the_task(client_of: ClientOf, observed: Observed) -> None:
    observed.keep(parse={"cpu": 0.97})
    page = page_of(client_of, observed.record)
    assert re.search(r"CPU of n1/\d: \d+% instead of \d+%\. Parse takes 97% of it", page)


def test_one_odd_reading_changes_nothing(client_of: ClientOf, observed: Observed) -> None:
    observed.keep(count=3)
    observed.keep(factor=0.1, count=1)
    observed.keep(count=2)
    assert "It keeps what it promised." in page_of(client_of, observed.record)


def test_what_a_schedule_does_at_its_beginning_is_not_held_against_it(
    client_of: ClientOf, observed: Observed
) -> None:
    observed.at = timezone.now() + timedelta(seconds=2)
    observed.keep(factor=0.1, count=4)
    assert "Too soon to say." in page_of(client_of, observed.record)


def test_readings_are_of_scheduled_dataflows_alone_and_are_forgotten(world: World, observed: Observed) -> None:
    other = running(world.carla, world.city, linear("other", rate=30), world.ana)
    observed.keep()
    assert set(Reading.objects.values_list("dataflow_id", flat=True)) == {observed.record.pk}
    assert in_force([other.pk]) == {}
    observed.at += KEPT + timedelta(minutes=1)
    observed.keep(count=1)
    assert Reading.objects.count() == 1


def test_a_dataflow_without_a_schedule_says_how_to_get_one(world: World, client_of: ClientOf) -> None:
    record = running(world.carla, world.city, linear(), world.ana)
    page = page_of(client_of, record, user="vera")
    assert "runs by no schedule" in page and "Compare schedules" in page


def test_slots_show_what_was_promised_of_their_bundles(client_of: ClientOf, observed: Observed) -> None:
    page = client_of("carla").get("/estate/slots").text
    for slot in observed.promise.slots:
        load = observed.promise.load_of(slot)
        found = re.search(rf'data-slot="{slot}".*?planned</dt><dd>CPU (\S+), memory ([^<]+)<', page, re.DOTALL)
        assert found.groups() == (share(load.cpu), share(load.memory)), slot


def test_the_api_says_the_same(client_of: ClientOf, observed: Observed) -> None:
    observed.keep(factor=0.5)
    found = client_of("carla").get(f"/api/dataflows/{observed.record.pk}/schedule/outcome").json()
    assert (found["readings"], found["judged"], found["promise"]["rate_per_s"]) == (4, True, RATE)
    assert [(miss["what"], miss["reason"]["cause"]) for miss in found["missed"]] == [("rate", "source")]
    assert found["seen"]["rate_per_s"] == pytest.approx(RATE / 2)
    slots = client_of("carla").get("/api/slots").json()
    assert {bundle["id"] for slot in slots for bundle in slot["bundles"]} == {
        bundle.id for bundle in observed.promise.bundles}


def test_what_a_driver_takes_by_itself_is_no_load(world: World, observed: Observed) -> None:
    sweep = SweepRecord.objects.create(
        task_type="pi_viete", config="{}", version=1, feed=[], slot="n1/0", bounds={}, warm_up_s=1, seconds=1,
        author=world.carla)
    for number, base in enumerate((0.03, 0.04, 0.9)):
        TrialRecord.objects.create(
            sweep=sweep, number=number, threads=1, rate_per_s=1, why="", stable=True, base_cpu=base,
            ended=timezone.now())
    observed.keep(count=1)
    seen = Reading.objects.get().seen["slots"]
    for slot in observed.promise.slots:
        assert seen[slot]["cpu"] == pytest.approx(max(0.0, observed.promise.load_of(slot).cpu - 0.04))


def test_each_task_shows_planned_predicted_and_measured(client_of: ClientOf, observed: Observed) -> None:
    observed.keep()
    page = page_of(client_of, observed.record)
    for task, (cpu, memory) in observed.promise.allocated.items():
        bundles = [bundle for bundle in observed.promise.bundles if bundle.task == task]
        predicted = [sum(getattr(bundle, field) for bundle in bundles) for field in ("cpu", "memory")]
        shown = " ".join(
            f"{share(measured)} {share(measured)} predicted {share(planned)} planned"
            for measured, planned in zip(predicted, (cpu, memory), strict=True))
        assert shown in page, (task, shown)


def test_latency_is_shown_task_by_task_as_far_as_it_was_predicted(client_of: ClientOf, observed: Observed) -> None:
    observed.keep()
    page, along = page_of(client_of, observed.record), observed.promise.latencies_s
    assert along["out"] == pytest.approx(observed.promise.latency_s)
    assert along["sense"] < along["parse"] < along["pi"] < along["out"]
    for predicted_s in along.values():
        assert f"800 ms ≈ {seconds(predicted_s)} predicted" in page
