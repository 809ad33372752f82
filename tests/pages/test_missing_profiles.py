"""What a schedule is missing: the profiles that nobody has measured, named, asked for at once, and followed."""

from __future__ import annotations

from datetime import timedelta

from django.urls import reverse
from django.utils import timezone

from dashboard.operations.models import NodeRow, SlotRow
from dashboard.operations.services import register_node
from dashboard.profiles.models import ProfileRecord, SweepRecord
from dashboard.profiles.services.choosing import set_aside_profile
from dashboard.profiles.services.sweeps import start_sweep
from dashboard.profiles.targets import target_of_type
from scheduler.performance.shipped import SPEED
from tests.dashboard.building import World, document, planned, running
from tests.pages.building import JSON, rows
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup, assert_sound
from tests.pages.scheduling import linear, measured


def test_a_first_comparison_works_by_estimates_and_names_what_nobody_has_measured(
    world: World, client_of: ClientOf
) -> None:
    register_node(name="n1", slots=8)
    record = planned(world.carla, world.city, linear()).dataflow
    address = f"/dataflows/{record.pk}/schedule"
    page = client_of("carla").get(address)
    assert_sound(page, address)
    markup = Markup(page.text)
    assert markup.values("data-error") == [] and {"estimated", "not-calibrated"} <= set(markup.notes)
    assert markup.number("estimated") == 2
    missing = {name: row.attributes["data-tasks"] for name, row in markup.by("data-missing").items()}
    assert missing == {"pi_viete": "pi", "senml_parse": "parse"}
    for task in missing.values():
        assert markup.links(f"{reverse('measure')}?dataflow={record.pk}&task={task}")
    assert rows(page.text), "and there are schedules to choose from"
    assert client_of("carla").get(f"{address}/pairs.json?rate=5", headers=JSON).status_code == 200
    assert set(markup.values("data-profile-warning")) == {"estimated"}
    NodeRow.objects.update(machine="a class", speed=2 * SPEED)
    scaled = Markup(client_of("carla").get(address).text)
    assert "calibrated" in scaled.notes and scaled.values("data-factor") == ["2.00"]


def test_the_page_of_profiles_tells_measured_from_estimated(world: World, client_of: ClientOf) -> None:
    measured(world)
    page = client_of("carla").get("/profiles/")
    assert_sound(page, "/profiles/")
    markup = Markup(page.text)
    estimated = set(markup.by("data-estimate"))
    assert {"kalman_filter", "block_average"} <= estimated
    assert not {"pi_viete", "senml_parse", "urban_sensing", "output"} & estimated
    assert markup.links(f"{reverse('measure')}?type=kalman_filter")


def test_a_profile_that_was_set_aside_is_named_where_it_is_missing(world: World, client_of: ClientOf) -> None:
    measured(world)
    record, client = planned(world.carla, world.city, linear()).dataflow, client_of("carla")
    aside = ProfileRecord.objects.get(task_type="pi_viete")
    set_aside_profile(actor=world.carla, profile_id=aside.pk)
    page = Markup(client.get(reverse("schedule", args=[record.pk])).text)
    [row] = page.by("data-missing").values()
    assert row.attributes["data-aside"] == str(aside.pk) and row.links(reverse("profile", args=[aside.pk]))


def test_all_that_is_missing_is_measured_at_once(world: World, client_of: ClientOf) -> None:
    register_node(name="n1", slots=8)
    record = planned(world.carla, world.city, linear()).dataflow
    ask, client = reverse("schedule_measure", args=[record.pk]), client_of("carla")
    refused = client.post(ask, {"slot": "n1/0", "budget_minutes": "many"}, follow=True)
    assert Markup(refused.text).flashes == ["bad_input"] and not SweepRecord.objects.exists()
    page = client.post(ask, {"slot": "n1/0", "budget_minutes": "2"}, follow=True)
    assert_sound(page, ask)
    sweeps = SweepRecord.objects.order_by("task_type")
    assert [(sweep.task_type, sweep.slot, sweep.bounds["budget_s"]) for sweep in sweeps] == [
        ("pi_viete", "n1/0", 120.0), ("senml_parse", "n1/0", 120.0)]
    assert [task["type"] for task in sweeps[0].feed] == ["urban_sensing", "senml_parse"]
    assert Markup(page.text).statuses.count("queued") == 2
    client.post(ask, {"slot": "n1/0"})  # again: what is under way is not asked for twice
    assert SweepRecord.objects.count() == 2
    SweepRecord.objects.filter(task_type="pi_viete").update(status="failed", reason="It is broken.")
    page = Markup(client.get(reverse("schedule", args=[record.pk])).text)
    assert page.by("data-missing")["pi_viete"].values("data-reason") == ["It is broken."]
    assert page.submits(ask), "what has failed is asked for again from here"
    client.post(ask, {"slot": "n1/1"})
    assert list(SweepRecord.objects.order_by("created").values_list("task_type", "slot", "status"))[2:] == [
        ("pi_viete", "n1/1", "queued")]


def test_what_is_measured_for_a_private_dataflow_keeps_nobody_else_from_measuring(
    world: World, client_of: ClientOf
) -> None:
    register_node(name="n1", slots=8)
    client = client_of("carla")
    private = planned(world.carla, world.city, linear("hush", visibility="private")).dataflow
    shared = planned(world.carla, world.city, linear()).dataflow
    client.post(reverse("schedule_measure", args=[private.pk]), {"slot": "n1/0"})
    assert SweepRecord.objects.filter(team=world.city).count() == 2
    ask = reverse("schedule_measure", args=[shared.pk])
    assert ask in client.get(reverse("schedule", args=[shared.pk])).text
    client.post(ask, {"slot": "n1/1"})
    assert SweepRecord.objects.filter(team=None, slot="n1/1").count() == 2, "those will count for it"
    other = planned(world.carla, world.city, linear("hush2", visibility="private")).dataflow
    assert reverse("schedule_measure", args=[other.pk]) not in client.get(reverse("schedule", args=[other.pk])).text


def test_what_is_under_way_is_told_before_what_has_failed_since(world: World, client_of: ClientOf) -> None:
    register_node(name="n1", slots=8)
    record = planned(world.carla, world.city, linear()).dataflow
    ask, client = reverse("schedule_measure", args=[record.pk]), client_of("carla")
    client.post(ask, {"slot": "n1/0"})
    for sweep in list(SweepRecord.objects.all()):
        SweepRecord.objects.create(**{
            field.attname: getattr(sweep, field.attname) for field in SweepRecord._meta.concrete_fields
            if field.name not in ("id", "created")} | {"status": "failed", "reason": "It is broken."})
    page = Markup(client.get(reverse("schedule", args=[record.pk])).text)
    assert "It is broken." not in page.values("data-reason") and page.statuses.count("queued") == 2


def test_only_who_may_measure_is_offered_it(world: World, client_of: ClientOf) -> None:
    register_node(name="n1", slots=8)
    record = planned(world.carla, world.city, linear()).dataflow
    address, ask = f"/dataflows/{record.pk}/schedule", reverse("schedule_measure", args=[record.pk])
    assert ask in client_of("carla").get(address).text
    page = Markup(client_of("vera").get(address).text)
    assert not page.submits(ask) and "may-not-measure" in page.notes
    client_of("vera").post(ask, {"slot": "n1/0"})
    assert not SweepRecord.objects.exists()


def test_what_is_missing_is_measured_at_the_rate_that_was_looked_at(world: World, client_of: ClientOf) -> None:
    """No slot holds the source at its own rate, so it is by another that its tasks are asked for."""
    register_node(name="n1", slots=8)
    record = planned(world.carla, world.city, linear(rate=1_000_000)).dataflow
    ask, client = reverse("schedule_measure", args=[record.pk]), client_of("carla")
    page = Markup(client.get(f"/dataflows/{record.pk}/schedule?rate=50").text)
    assert "50" in [field.attributes["value"] for field in page.one("action", ask).having("name", "rate")]
    answer = client.post(ask, {"slot": "n1/0", "rate": "50"}, follow=True)
    assert SweepRecord.objects.count() == 2 and Markup(answer.text).flashes == ["measuring"]
    assert answer.request["QUERY_STRING"] == "rate=50" and Markup(answer.text).statuses.count("queued") == 2


def test_where_nothing_is_left_to_ask_for_it_is_said(world: World, client_of: ClientOf) -> None:
    measured(world)
    record = planned(world.carla, world.city, linear(rate=1_000_000)).dataflow
    ask, client = reverse("schedule_measure", args=[record.pk]), client_of("carla")
    for rate, code in (("50", "nothing_to_change"), ("", "rate_not_held"), ("x", "invalid_resources")):
        answer = client.post(ask, {"slot": "n1/0", "rate": rate}, follow=True)
        assert Markup(answer.text).flashes == [code], rate
    assert not SweepRecord.objects.exists()


def test_what_was_filled_in_stays_where_measuring_is_refused(world: World, client_of: ClientOf) -> None:
    register_node(name="n1", slots=8)
    SlotRow.objects.filter(name="n1/3").update(reserved_for="something else")
    record = planned(world.carla, world.city, linear()).dataflow
    ask = reverse("schedule_measure", args=[record.pk])
    form = {"slot": "n1/3", "budget_minutes": "2.5", "rate": "40"}
    page = Markup(client_of("carla").post(ask, form, follow=True).text)
    assert page.flashes == ["slot_taken"] and not SweepRecord.objects.exists()
    sent = page.one("action", ask)
    [place] = sent.having("selected")
    assert (place.attributes["value"], place.attributes["data-use"]) == ("n1/3", "reserved")
    values = {field.attributes["name"]: field.attributes.get("value") for field in sent.every("input")}
    assert float(values["budget_minutes"]) == 2.5 and values["rate"] == "40"


def test_measuring_cannot_be_asked_for_where_no_slot_is_free_and_says_how_long_it_takes(
    world: World, client_of: ClientOf
) -> None:
    register_node(name="n1", slots=1)
    record = planned(world.carla, world.city, linear()).dataflow
    client, address = client_of("carla"), reverse("schedule", args=[record.pk])

    def button(page: Markup) -> dict[str, str | None]:
        [form] = page.having("action", reverse("schedule_measure", args=[record.pk]))
        return form.one("type", "submit").attributes

    page = Markup(client.get(address).text)
    assert "disabled" not in button(page) and page.field("measuring.minutes") == ""
    began = timezone.now()
    sweep = start_sweep(
        actor=world.carla, target=target_of_type("block_average", {"window": 2}, feed_key=""), slot="n1/0")
    SweepRecord.objects.filter(pk=sweep.pk).update(
        status="done", started=began, ended=began + timedelta(minutes=6))
    SlotRow.objects.update(reserved_for="")
    assert Markup(client.get(address).text).number("measuring.minutes") == 12, "two types, six minutes each"
    running(world.carla, world.city, document("traffic"), world.ana)
    page = Markup(client.get(address).text)
    assert "disabled" in button(page) and "no-slot-free" in page.notes
