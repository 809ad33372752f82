"""What there is to measure, and what is known of a profile besides, over the API."""

from __future__ import annotations

from django.utils import timezone

from dashboard.profiles.models import ObservationRow, ProfileRecord
from dashboard.profiles.services.importing import import_profiles
from tests.dashboard.building import World, document, running
from tests.profiles.building import HEADER


def test_ways_to_feed_a_type_and_types_that_nobody_measured(world: World, client):
    client.force_login(world.vera)
    ways = client.get("/api/feeds", {"type": "senml_parse"}).json()
    assert "source:urban_sensing" in {way["key"] for way in ways} and all(way["title"] for way in ways)
    assert ways[-1]["chain"][0]["type"] in {"urban_sensing", *(way["chain"][-1]["type"] for way in ways)}
    refused = client.get("/api/feeds", {"type": "nothing"})
    assert (refused.status_code, refused.json()["code"]) == (409, "unknown_task_type")
    assert client.get("/api/profiles/unmeasured").json() == []
    running(world.carla, world.city, document("traffic"), world.ana)
    assert "senml_parse" in client.get("/api/profiles/unmeasured").json()
    import_profiles(actor=world.carla, text=f"{HEADER}\nsenml_parse,1,10,10,10")
    assert "senml_parse" not in client.get("/api/profiles/unmeasured").json()


def test_what_was_seen_of_a_profile_and_what_it_superseded(world: World, client):
    for peak in (10, 20):
        import_profiles(actor=world.carla, text=f"{HEADER}\nsenml_parse,1,{peak},10,10")
    newest = ProfileRecord.objects.get(active=True)
    for rate in (3.0, 4.0):
        ObservationRow.objects.create(
            profile=newest, at=timezone.now(), bundle="f1-0", threads=1, rate_per_s=rate, cpu=0.1, memory=None,
            shared=True)
    client.force_login(world.vera)
    path = f"/api/profiles/{newest.pk}"
    answer = client.get(f"{path}/seen").json()
    assert answer["total"] == 2 and answer["items"][0]["rate_per_s"] == 4.0
    assert set(answer["items"][0]) == {"at", "threads", "rate_per_s", "cpu", "memory", "stable", "shared"}
    history = client.get(f"{path}/history").json()["items"]
    assert [(profile["active"], profile["points"][0]["rate_per_s"]) for profile in history] == [(True, 20), (False, 10)]
    assert client.get(path).json()["busy"] is None


def test_a_profile_of_another_team_has_neither(world: World, client):
    import_profiles(actor=world.carla, text=f"{HEADER}\nsenml_parse,1,10,10,10")
    ProfileRecord.objects.update(team=world.city)
    record = ProfileRecord.objects.get()
    client.force_login(world.mo)
    for what in ("seen", "history"):
        assert client.get(f"/api/profiles/{record.pk}/{what}").status_code == 404
