"""What a schedule is missing: the profiles that nobody has measured, named, asked for at once, and followed."""

from __future__ import annotations

from django.urls import reverse

from dashboard.operations.models import SlotRow
from dashboard.operations.services import register_node
from dashboard.profiles.models import ProfileRecord, SweepRecord
from dashboard.profiles.services.choosing import set_aside_profile
from tests.dashboard.building import World, planned
from tests.pages.conftest import ClientOf
from tests.pages.scheduling import linear, measured
from tests.pages.test_every_page import assert_sound
from tests.pages.test_schedules import JSON, rows


def test_tasks_that_nobody_has_measured_are_named(world: World, client_of: ClientOf) -> None:
    register_node(name="n1", slots=8)
    record = planned(world.carla, world.city, linear()).dataflow
    address = f"/dataflows/{record.pk}/schedule"
    page = client_of("carla").get(address)
    assert_sound(page, address)
    assert "no profile in use, of types pi_viete, senml_parse" in page.text
    for task in ("parse", "pi"):
        assert f"{reverse('measure')}?dataflow={record.pk}&amp;task={task}" in page.text
    assert rows(page.text) == {}
    found = client_of("carla").get(f"{address}/pairs.json?rate=5", headers=JSON)
    assert (found.status_code, found.json()["code"]) == (409, "missing_profile")


def test_a_profile_that_was_set_aside_is_named_where_it_is_missing(world: World, client_of: ClientOf) -> None:
    measured(world)
    record, client = planned(world.carla, world.city, linear()).dataflow, client_of("carla")
    aside = ProfileRecord.objects.get(task_type="pi_viete")
    set_aside_profile(actor=world.carla, profile_id=aside.pk)
    page = client.get(reverse("schedule", args=[record.pk])).text
    assert "1 of" in page and "set aside" in page and reverse("profile", args=[aside.pk]) in page


def test_all_that_is_missing_is_measured_at_once(world: World, client_of: ClientOf) -> None:
    register_node(name="n1", slots=8)
    record = planned(world.carla, world.city, linear()).dataflow
    ask, client = reverse("schedule_measure", args=[record.pk]), client_of("carla")
    refused = client.post(ask, {"slot": "n1/0", "budget_minutes": "many"}, follow=True)
    assert "budget minutes is &#x27;many&#x27;" in refused.text and not SweepRecord.objects.exists()
    page = client.post(ask, {"slot": "n1/0", "budget_minutes": "2"}, follow=True)
    assert_sound(page, ask)
    found = SweepRecord.objects.order_by("task_type")
    assert [(one.task_type, one.slot, one.bounds["budget_s"]) for one in found] == [
        ("pi_viete", "n1/0", 120.0), ("senml_parse", "n1/0", 120.0)]
    assert [task["type"] for task in found[0].feed] == ["urban_sensing", "senml_parse"]
    assert page.text.count('data-status="queued"') == 2
    client.post(ask, {"slot": "n1/0"})  # again: what is under way is not asked for twice
    assert SweepRecord.objects.count() == 2
    SweepRecord.objects.filter(task_type="pi_viete").update(status="failed", reason="It is broken.")
    page = client.get(reverse("schedule", args=[record.pk])).text
    assert "It is broken." in page and "Measure it" in page, "what has failed is asked for again from here"
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
    page = client.get(reverse("schedule", args=[record.pk])).text
    assert "It is broken." not in page and page.count('data-status="queued"') == 2


def test_only_who_may_measure_is_offered_it(world: World, client_of: ClientOf) -> None:
    register_node(name="n1", slots=8)
    record = planned(world.carla, world.city, linear()).dataflow
    address, ask = f"/dataflows/{record.pk}/schedule", reverse("schedule_measure", args=[record.pk])
    assert ask in client_of("carla").get(address).text
    page = client_of("vera").get(address).text
    assert ask not in page and "Measuring needs the role engineer" in page
    client_of("vera").post(ask, {"slot": "n1/0"})
    assert not SweepRecord.objects.exists()


def test_what_is_missing_is_measured_at_the_rate_that_was_looked_at(world: World, client_of: ClientOf) -> None:
    """No slot holds the source at its own rate, so it is by another that its tasks are asked for."""
    register_node(name="n1", slots=8)
    record = planned(world.carla, world.city, linear(rate=1_000_000)).dataflow
    ask, client = reverse("schedule_measure", args=[record.pk]), client_of("carla")
    page = client.get(f"/dataflows/{record.pk}/schedule?rate=50")
    assert ask in page.text and '<input type="hidden" name="rate" value="50">' in page.text
    answer = client.post(ask, {"slot": "n1/0", "rate": "50"}, follow=True)
    assert SweepRecord.objects.count() == 2 and "They are measured one after the other" in answer.text
    assert answer.request["QUERY_STRING"] == "rate=50" and answer.text.count('data-status="queued"') == 2


def test_where_nothing_is_left_to_ask_for_it_is_said(world: World, client_of: ClientOf) -> None:
    measured(world)
    record = planned(world.carla, world.city, linear(rate=1_000_000)).dataflow
    ask, client = reverse("schedule_measure", args=[record.pk]), client_of("carla")
    asked = (("50", "Nothing is missing here"), ("", "events/s of urban_sensing"), ("x", "&#x27;x&#x27; is no"))
    for rate, told in asked:
        answer = client.post(ask, {"slot": "n1/0", "rate": rate}, follow=True)
        assert told in answer.text and "one after the other" not in answer.text, rate
    assert not SweepRecord.objects.exists()


def test_what_was_filled_in_stays_where_measuring_is_refused(world: World, client_of: ClientOf) -> None:
    register_node(name="n1", slots=8)
    SlotRow.objects.filter(name="n1/3").update(reserved_for="something else")
    record = planned(world.carla, world.city, linear()).dataflow
    ask = reverse("schedule_measure", args=[record.pk])
    page = client_of("carla").post(ask, {"slot": "n1/3", "budget_minutes": "2.5", "rate": "40"}, follow=True).text
    assert "Slot n1/3 is reserved for something else" in page and not SweepRecord.objects.exists()
    assert '<option value="n1/3" selected>' in page and 'step="any" value="2.50"' in page and 'value="40"' in page
