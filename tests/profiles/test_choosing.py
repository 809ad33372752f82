"""Which profile of a kind is in use: an import or a measurement is undone, and that as well."""

from __future__ import annotations

import io

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from dashboard.audit.models import AuditEntry
from dashboard.profiles import selectors
from dashboard.profiles.models import ProfileRecord
from dashboard.profiles.services.choosing import set_aside_profile, use_profile
from dashboard.profiles.services.importing import import_profiles
from dashboard.teams.permissions import viewer_of
from scheduler.model.dataflow import Task
from scheduler.model.errors import MissingProfile, NotFound, PermissionDenied
from tests.dashboard.building import World
from tests.dashboard.concurrency import at_once
from tests.pages.markup import Markup
from tests.profiles.building import HEADER

TASK = Task("t", "a", {})


def imported(world: World, *peaks: float) -> list[ProfileRecord]:
    """Profiles of one kind, each superseding the one before."""
    return [import_profiles(actor=world.carla, text=f"{HEADER}\na,1,{peak},10,10\n")[0] for peak in peaks]


def planned_with() -> float:
    return selectors.profiles_for([TASK]).of([TASK])["t"].peak.rate_per_s


def verbs() -> list[str]:
    entries = AuditEntry.objects.filter(subject_type="profilerecord").order_by("pk")
    return [verb for verb in entries.values_list("verb", flat=True) if verb != "profile.import"]


def test_an_import_is_undone_and_done_again(world: World):
    first, second = imported(world, 10, 20)
    assert use_profile(actor=world.carla, profile_id=first.pk).active and planned_with() == 10
    assert list(selectors.profiles(viewer_of(world.vera))) == [first]
    assert use_profile(actor=world.carla, profile_id=second.pk).active and planned_with() == 20
    assert verbs() == ["profile.supersede", *["profile.supersede", "profile.use"] * 2]


def test_what_is_set_aside_is_in_no_plan_and_can_be_used_again(world: World):
    first, second = imported(world, 10, 20)
    viewer = viewer_of(world.vera)
    assert not selectors.set_aside(viewer)
    assert not set_aside_profile(actor=world.carla, profile_id=second.pk).active
    with pytest.raises(MissingProfile):
        planned_with()  # not the one before it: nobody asked for that
    assert not selectors.profiles(viewer) and list(selectors.set_aside(viewer)) == [second]
    use_profile(actor=world.carla, profile_id=first.pk)
    assert planned_with() == 10 and not selectors.set_aside(viewer)
    set_aside_profile(actor=world.carla, profile_id=first.pk)
    assert list(selectors.set_aside(viewer)) == [first], "what was in use last, not what was imported last"


def test_what_is_so_already_changes_nothing_and_leaves_no_trace(world: World):
    first, second = imported(world, 10, 20)
    changed = ProfileRecord.objects.get(pk=second.pk).changed
    assert use_profile(actor=world.carla, profile_id=second.pk) == second
    assert set_aside_profile(actor=world.carla, profile_id=first.pk) == first
    assert verbs() == ["profile.supersede"] and planned_with() == 20
    assert ProfileRecord.objects.get(pk=second.pk).changed == changed


def test_who_may_choose(world: World):
    [record] = imported(world, 10)
    for choose in (use_profile, set_aside_profile):
        with pytest.raises(PermissionDenied, match="engineer"):
            choose(actor=world.vera, profile_id=record.pk)
        with pytest.raises(NotFound):
            choose(actor=world.carla, profile_id="nothing")
    ProfileRecord.objects.update(team=world.city)
    with pytest.raises(NotFound):  # another team's
        set_aside_profile(actor=world.mo, profile_id=record.pk)
    assert ProfileRecord.objects.get().active and not selectors.set_aside(viewer_of(world.mo))


def test_of_two_that_are_chosen_at_once_one_is_in_use(committed_world: World):
    world = committed_world
    records = imported(world, 10, 20, 30)
    came = at_once(*(
        lambda record=record: use_profile(actor=world.carla, profile_id=record.pk) for record in records[:2]))
    assert not [came_back for came_back in came if isinstance(came_back, Exception)], came
    assert ProfileRecord.objects.get(active=True) in records[:2]


def test_the_page_offers_it_and_says_what_is_in_use(world: World, client):
    first, second = imported(world, 10, 20)
    client.force_login(world.carla)
    page = reverse("profile", args=[first.pk])
    shown = Markup(client.get(page).text)
    assert "superseded" in shown.notes and shown.submits(reverse("profile_act", args=[first.pk, "use"]))
    aside = Markup(client.post(reverse("profile_act", args=[second.pk, "set_aside"]), follow=True).text)
    assert "set-aside" in aside.notes and aside.flashes == ["set_aside"]
    assert str(second.pk) in Markup(client.get(reverse("profiles")).text).values("data-set-aside")
    assert Markup(client.post(reverse("profile_act", args=[first.pk, "use"]), follow=True).text).flashes == ["use"]
    assert planned_with() == 10
    assert client.post(reverse("profile_act", args=[first.pk, "drop"])).status_code == 404
    client.force_login(world.vera)
    assert not Markup(client.get(page).text).submits(reverse("profile_act", args=[first.pk, "set_aside"]))
    refused = client.post(reverse("profile_act", args=[first.pk, "set_aside"]), follow=True)
    assert Markup(refused.text).flashes == ["permission_denied"] and planned_with() == 10


def test_the_api_and_the_command_line_do_the_same(world: World, client):
    first, second = imported(world, 10, 20)
    client.force_login(world.carla)
    used = client.post(f"/api/profiles/{first.pk}/use", content_type="application/json")
    assert (used.status_code, used.json()["active"], planned_with()) == (200, True, 10)
    aside = client.post(f"/api/profiles/{first.pk}/set_aside", content_type="application/json")
    assert aside.json()["active"] is False and client.get("/api/profiles").json()["total"] == 0
    listed = client.get("/api/profiles", {"set_aside": True}).json()["items"]
    assert [listed_profile["id"] for listed_profile in listed] == [str(first.pk)]
    assert client.get(f"/api/profiles/{first.pk}/history").json()["total"] == 2
    assert client.post(f"/api/profiles/{first.pk}/drop", content_type="application/json").status_code == 404
    listing = io.StringIO()
    call_command("profile", "list", "--set-aside", stdout=listing)
    assert str(first.pk) in listing.getvalue()
    call_command("profile", "use", str(second.pk), "--as", "carla")
    assert planned_with() == 20
    call_command("profile", "set-aside", str(second.pk), "--as", "carla")
    assert not ProfileRecord.objects.filter(active=True).exists()
    with pytest.raises(CommandError, match="no such profile"):
        call_command("profile", "use", "7", "--as", "carla")
