"""Planned against actual: what is kept of a running schedule, and what its page says of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from dashboard.catalog.models import DataflowRecord
from dashboard.profiles.models import SweepRecord, TrialRecord
from dashboard.schedules.models import ScheduleReading
from dashboard.schedules.outcome_store import WINDOW
from dashboard.schedules.planned_vs_actual import figures_of
from dashboard.schedules.promises import in_force
from scheduler.model.promise import Load
from scheduler.performance.outcome import misses
from scheduler.performance.seen import BundleSeen, DataflowSeen
from tests.dashboard.building import World, running
from tests.pages.conftest import ClientOf
from tests.pages.markup import Element, Markup
from tests.pages.observed import RATE, Observed
from tests.pages.outcomes import misses_on, page_of, schedule_on, whole
from tests.pages.scheduling import linear
from tests.scheduler.test_outcome import PROMISE, seen_at


def says_missed(element: Element) -> bool:
    """Whether a figure says to who does not see colours that it missed."""
    return any("visually-hidden" in (inner.attributes.get("class") or "") and inner.text for inner in element.elements)


def test_what_is_promised_stands_there_before_anything_is_measured(
    client_of: ClientOf, scheduled: DataflowRecord
) -> None:
    page = page_of(client_of, scheduled)
    assert "too-soon" in page.notes and "keeps" not in page.notes
    assert schedule_on(page) == ("MBA-SAM", 190)


def test_a_schedule_that_keeps_its_promises_is_said_to(client_of: ClientOf, observed: Observed) -> None:
    observed.keep()
    page = page_of(client_of, observed.record)
    assert "keeps" in page.notes
    for name in ("planned", "measured"):
        assert float(whole(page, name).attributes["data-value"]) == pytest.approx(190)
    shown = page.by("data-bundle")
    for bundle in observed.promise.bundles:
        row = shown[bundle.id].attributes
        assert (row["data-on"], int(row["data-threads"])) == (bundle.slot, bundle.threads)
    figure = client_of("carla").get(reverse("schedule_outcome_plots", args=[observed.record.pk])).json()["rate"]
    assert [trace["name"] for trace in figure["data"]] == ["measured", "planned", "predicted to sustain"]
    assert figure["data"][0]["y"] == pytest.approx([190.0] * 4)


@pytest.mark.long  # tests/scheduler/test_outcome.py has it
def test_a_source_that_gives_less_is_told(client_of: ClientOf, observed: Observed) -> None:
    observed.keep(factor=0.5)
    page = page_of(client_of, observed.record)
    [miss] = misses_on(page)
    assert (miss.what, miss.measured, miss.promised, miss.cause) == ("rate", 95, 190, "source")
    assert page.one("id", "outcome-notes").links(f"{reverse('schedule', args=[observed.record.pk])}?rate=95")
    measured = whole(page, "measured")
    assert "data-missed" in measured.attributes and says_missed(measured), "not by colour alone"


@pytest.mark.long  # tests/scheduler/test_outcome.py has it
def test_a_node_that_is_silent_is_the_reason_and_not_the_source(client_of: ClientOf, observed: Observed) -> None:
    observed.keep(count=2)
    observed.silent = True
    observed.keep(factor=0.1, count=4)
    [miss] = misses_on(page_of(client_of, observed.record))
    assert (miss.what, miss.measured, miss.promised, miss.cause) == ("rate", 19, 190, "silent")
    assert "node n1" in miss.text


@pytest.mark.long  # tests/scheduler/test_outcome.py has it
def test_a_driver_that_is_away_is_the_reason(client_of: ClientOf, observed: Observed) -> None:
    slot = observed.promise.bundles[-1].slot
    observed.states = {slot.rpartition("/")[2]: "starting"}
    observed.keep(factor=0.1)
    [miss] = misses_on(page_of(client_of, observed.record))
    assert miss.cause == "silent" and f"slot {slot}" in miss.text and "starting" in miss.text


def test_a_slot_that_misses_says_so_without_colour(client_of: ClientOf, observed: Observed) -> None:
    observed.keep(parse={"cpu": 0.97})
    page = page_of(client_of, observed.record)
    missed = [element for element in page.having("data-missed") if "data-value" in element.attributes]
    assert missed and all(says_missed(element.above[-1]) for element in missed)
    assert "0.97" in {element.attributes["data-value"] for element in missed}
    assert "data-missed" not in whole(page, "measured").attributes


def test_a_task_that_does_less_than_its_profile_asks_for_a_measurement(
    client_of: ClientOf, observed: Observed
) -> None:
    behind = [bundle for bundle in observed.promise.bundles if bundle.task == "pi"]
    observed.keep(pi={"rate_per_s": 40.0})
    page = page_of(client_of, observed.record)
    assert page.one("id", "outcome-notes").links(f"{reverse('measure')}?dataflow={observed.record.pk}&task=pi")
    [miss] = misses_on(page)
    assert (miss.what, miss.promised, miss.cause, miss.remedy) == ("rate", 190, "drift", "measure")
    assert any(bundle.slot in miss.text for bundle in behind)


@pytest.mark.long  # tests/scheduler/test_outcome.py has it
def test_a_slot_that_takes_more_names_those_that_share_it(client_of: ClientOf, observed: Observed) -> None:
    observed.keep(parse={"cpu": 0.97})
    misses = [miss for miss in misses_on(page_of(client_of, observed.record)) if miss.what == "CPU"]
    assert misses and {miss.where for miss in misses} <= set(observed.promise.slots)
    assert all(miss.measured > miss.promised and "parse" in miss.text for miss in misses)
    assert {(miss.cause, miss.remedy) for miss in misses} == {("together", "measure")}


@pytest.mark.long  # tests/scheduler/test_outcome.py has it
def test_of_a_slot_that_others_are_on_too_no_task_is_named(client_of: ClientOf, observed: Observed) -> None:
    """By time, parsing is given what another's π takes."""
    observed.beside = 0.0
    observed.keep(parse={"cpu": 0.97})
    page = page_of(client_of, observed.record)
    misses = [miss for miss in misses_on(page) if miss.what == "CPU"]
    assert {(miss.cause, miss.remedy) for miss in misses} == {("together", "slots")}
    assert page.one("id", "outcome-notes").links(reverse("slots"))


def test_who_was_behind_at_first_is_not_blamed_once_it_keeps_up(client_of: ClientOf, observed: Observed) -> None:
    observed.keep(count=5, pi={"rate_per_s": 40.0})
    assert [miss.cause for miss in misses_on(page_of(client_of, observed.record))] == ["drift"]
    observed.keep(count=3)
    assert misses_on(page_of(client_of, observed.record)) == []


def test_nothing_is_judged_in_the_first_minute_and_a_half(client_of: ClientOf, observed: Observed) -> None:
    observed.at -= timedelta(minutes=1)
    observed.keep(count=3, pi={"rate_per_s": 40.0})
    page = page_of(client_of, observed.record)
    assert misses_on(page) == [] and "too-soon" in page.notes


def test_one_odd_reading_changes_nothing(client_of: ClientOf, observed: Observed) -> None:
    observed.keep(count=3)
    observed.keep(factor=0.1, count=1)
    observed.keep(count=2)
    assert "keeps" in page_of(client_of, observed.record).notes


def test_what_a_schedule_does_at_its_beginning_is_not_held_against_it(
    client_of: ClientOf, observed: Observed
) -> None:
    observed.at = timezone.now() + timedelta(seconds=2)
    observed.keep(factor=0.1, count=4)
    assert "too-soon" in page_of(client_of, observed.record).notes


def test_readings_are_of_scheduled_dataflows_alone_and_are_forgotten(world: World, observed: Observed) -> None:
    other = running(world.carla, world.city, linear("other", rate=30), world.ana)
    observed.keep()
    assert set(ScheduleReading.objects.values_list("proposal__dataflow", flat=True)) == {observed.record.pk}
    assert in_force([other.pk]) == {}
    observed.at += WINDOW + timedelta(minutes=1)
    observed.keep(count=1)
    assert ScheduleReading.objects.count() == 1


def test_a_dataflow_without_a_schedule_says_how_to_get_one(world: World, client_of: ClientOf) -> None:
    record = running(world.carla, world.city, linear(), world.ana)
    page = page_of(client_of, record, user="vera")
    assert page.one("data-note", "no-schedule").links(reverse("schedule", args=[record.pk]))


def test_slots_show_what_was_promised_of_their_bundles(client_of: ClientOf, observed: Observed) -> None:
    cells = Markup(client_of("carla").get("/estate/slots").text).by("data-slot")
    for slot in observed.promise.slots:
        load = observed.promise.load_of(slot)
        planned = [cells[slot].number(name) for name in ("planned.cpu", "planned.memory")]
        assert planned == pytest.approx([load.cpu, load.memory]), slot


def test_the_api_says_the_same(client_of: ClientOf, observed: Observed) -> None:
    observed.keep(factor=0.5)
    answer = client_of("carla").get(f"/api/dataflows/{observed.record.pk}/schedule/outcome").json()
    assert (answer["readings"], answer["judged"], answer["promise"]["rate_per_s"]) == (4, True, RATE)
    assert [(miss["what"], miss["reason"]["cause"]) for miss in answer["missed"]] == [("rate", "source")]
    assert answer["seen"]["rate_per_s"] == pytest.approx(RATE / 2)
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
    seen = ScheduleReading.objects.get().seen["slots"]
    for slot in observed.promise.slots:
        assert seen[slot]["cpu"] == pytest.approx(max(0.0, observed.promise.load_of(slot).cpu - 0.04))


def test_each_task_shows_planned_predicted_and_measured(client_of: ClientOf, observed: Observed) -> None:
    observed.keep()
    page = page_of(client_of, observed.record)
    for task, (cpu, memory) in observed.promise.allocated.items():
        bundles = [bundle for bundle in observed.promise.bundles if bundle.task == task]
        row = page.one("data-task", task)
        for part, planned in (("cpu", cpu), ("memory", memory)):
            predicted = sum(getattr(bundle, part) for bundle in bundles)
            figures = [row.one("data-part", part).number(name) for name in ("measured", "predicted", "planned")]
            assert figures == pytest.approx([predicted, predicted, planned]), (task, part)


def test_latency_is_shown_task_by_task_as_far_as_it_was_predicted(client_of: ClientOf, observed: Observed) -> None:
    observed.keep()
    page, along = page_of(client_of, observed.record), observed.promise.latencies_s
    assert along["out"] == pytest.approx(observed.promise.latency_s)
    assert along["sense"] < along["parse"] < along["pi"] < along["out"]
    for task, predicted_s in along.items():
        latency = page.one("data-task", task).one("data-part", "latency")
        assert [latency.number(name) for name in ("measured", "predicted")] == pytest.approx([0.8, predicted_s])


def test_what_is_predicted_of_a_slot_is_of_the_schedules_own_bundles_before_they_are_measured_too() -> None:
    """What others are expected to take beside them is added where only all of it together is measured."""
    promise = replace(PROMISE, others={"n1/0": Load(0.2, 0.1)})
    load = promise.own_load_of("n1/0")
    for seen in (DataflowSeen(), seen_at()):
        [slot] = [slot for slot in figures_of(promise, seen, ()).slots if slot.name == "n1/0"]
        assert (slot.cpu.predicted, slot.memory.predicted) == (load.cpu, load.memory)


def test_a_task_that_takes_more_is_not_red_while_its_slot_keeps_what_was_promised() -> None:
    """What it takes more, another takes less: nothing is missed, so nothing is coloured."""
    before = seen_at()
    seen = replace(before, bundles=before.bundles | {
        "f1-1": BundleSeen(100, Load(0.55, 0.2)), "f1-3": BundleSeen(40, Load(0.05, 0.1))})
    assert misses(PROMISE, seen) == () and reds(seen) == set()


@given(
    st.lists(st.floats(0, 3), min_size=12, max_size=12), st.floats(0, 4), st.floats(0, 4), st.floats(0, 3))
def test_every_red_figure_has_its_reason(
    factors: list[float], latency_s: float, task_latency_s: float, read: float
) -> None:
    before = seen_at()
    bundles = {
        bundle.id: BundleSeen(bundle.rate_per_s * factors[at],
            Load(bundle.cpu * factors[at + 1], bundle.memory * factors[at + 2]))
        for at, bundle in zip(range(0, 12, 3), PROMISE.bundles, strict=True)}
    seen = replace(
        before, bundles=bundles, latency_s=latency_s, latencies_s={"parse": task_latency_s},
        read_per_s=before.read_per_s | {"parse": 100 * read})
    assert reds(seen) <= {miss.what for miss in misses(PROMISE, seen)}


def reds(seen: DataflowSeen) -> set[str]:
    """What kinds of figures are red."""
    promise = replace(PROMISE, latencies_s={"parse": 0.5})
    of_bundles = figures_of(promise, seen, misses(promise, seen))
    parts = [*of_bundles.tasks, *of_bundles.slots]
    figures = [("rate", of_bundles.rate), ("latency", of_bundles.latency)]
    for part in [*parts, *(bundle for divided in parts for bundle in divided.bundles)]:
        figures += [("rate", part.rate), ("CPU", part.cpu), ("memory", part.memory)]
        figures += [("latency", getattr(part, "latency", None))]
    return {what for what, figure in figures if figure is not None and figure.missed}
