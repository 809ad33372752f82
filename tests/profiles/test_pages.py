"""Pages of profiles: sound for everybody, telling what is there, and doing what they offer."""

from __future__ import annotations

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from dashboard.operations.models import SlotRow
from dashboard.profiles.models import ProfileRecord, SweepRecord
from dashboard.profiles.services.importing import import_profiles
from dashboard.profiles.services.sweeps import cancel_sweep
from dashboard.teams.models import Membership, Role
from scheduler.model.profile_csv import read_entries, read_profiles
from scheduler.performance.modelling import Sweep
from tests.cases import each
from tests.dashboard.building import World, document, planned, running
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup, assert_sound
from tests.profiles.building import started
from tests.profiles.nodes import Node, saturating
from tests.scheduler.shared_data import shared_data

HEADER = "task,threads,peak_rate_tuples_s,cpu_pct,mem_pct"
CSV = f"{HEADER},version\nsenml_parse,1,50,20,10,99\nown,2,5,10,10,1\nown,9,8,50,20,1\n"


@pytest.fixture
def measured(world: World, node: Node) -> SweepRecord:
    """Imported profiles, a finished sweep of a private dataflow's task, and one that is under way."""
    import_profiles(actor=world.carla, text=CSV)
    sweep = node.finish(started(world))
    started(world)
    node.run(steps=3)
    return sweep


def addresses(sweep: SweepRecord) -> list[str]:
    under_way = SweepRecord.objects.get(status="running")
    imported = ProfileRecord.objects.get(task_type="own")
    return [
        reverse("audit"), reverse("profiles"), f"{reverse('profiles')}?q=own", f"{reverse('profiles')}?q=zz",
        reverse("profiles_import"),
        reverse("measure"), f"{reverse('measure')}?type=block_average",
        f"{reverse('measure')}?again={sweep.profile_id}", reverse("sweep", args=[sweep.pk]),
        reverse("sweep", args=[under_way.pk]),
        reverse("profile", args=[sweep.profile_id]), reverse("profile", args=[imported.pk]),
        reverse("trial", args=[sweep.trials.first().pk]), reverse("trial", args=[under_way.trials.last().pk]),
    ]


@pytest.mark.parametrize("name", ["root", pytest.param("vera", marks=pytest.mark.long)])
def test_every_page_of_profiles_is_sound(name: str, measured: SweepRecord, client_of: ClientOf) -> None:
    client = client_of(name)
    for address in addresses(measured):
        response = client.get(address)
        assert response.status_code == 200, address
        assert_sound(response, address)


def test_nothing_is_shown_without_a_log_in(measured: SweepRecord) -> None:
    for address in addresses(measured):
        assert Client().get(address).status_code == 302


def test_an_empty_list_explains_itself(client_of: ClientOf) -> None:
    page = Markup(client_of("carla").get("/profiles/").text)
    assert "no-profile" in page.notes and page.links(reverse("measure"))
    assert not Markup(client_of("vera").get("/profiles/").text).links(reverse("measure"))


def test_the_list_tells_what_holds_and_what_does_not(measured: SweepRecord, client_of: ClientOf) -> None:
    page = Markup(client_of("vera").get("/profiles/").text)
    assert "cpu-a" in page.values("data-machine")
    stale = " ".join(page.values("data-stale"))
    assert "version 99 of senml_parse" in stale and "not installed" in stale


def test_what_runs_without_a_profile_in_use_is_named(world: World, client_of: ClientOf) -> None:
    running(world.carla, world.city, document("shown"), world.ana)
    running(world.carla, world.city, document("hidden", visibility="private", window=91), world.ana)
    page = Markup(client_of("ben").get("/profiles/").text)
    assert "unmeasured" in page.notes and page.number("unmeasured") == 2


def test_the_published_profiles_import_by_upload(world: World, client_of: ClientOf) -> None:
    data = shared_data("performance_models/performance_model.csv").read_bytes()
    client = client_of("carla")
    response = client.post(reverse("profiles_import"), {"file": SimpleUploadedFile("model.csv", data)}, follow=True)
    assert Markup(response.text).flashes == ["imported"]
    imported = set(ProfileRecord.objects.values_list("task_type", flat=True))
    assert imported == {"batchedWrite", "blob", "floatpi", "table", "xmlparse"}
    exported = client.get(reverse("profiles_export")).content.decode()
    assert set(read_profiles(exported)) == set(read_profiles(data.decode()))
    blob = ProfileRecord.objects.get(task_type="blob")
    csv_text = client.get(reverse("profile_export", args=[blob.pk])).content.decode()
    assert [profile.task_type for profile in read_profiles(csv_text)] == ["blob"]
    ProfileRecord.objects.filter(pk=blob.pk).update(rough=[20], at_least=[50])
    [entry] = read_entries(client.get(reverse("profile_export", args=[blob.pk])).content.decode())
    assert (entry.rough, entry.at_least) == ((20,), (50,))
    figures = client.get(reverse("profile_plots", args=[blob.pk])).json()
    curve, dots = figures["rate"]["data"]
    assert [trace["name"] for trace in figures["cpu"]["data"]] == ["in between", "measured"], "nobody noted it without"
    assert dots["x"] == [1, 2, 20, 30, 50] and set(dots["text"]) == {"measured"}
    texts = dict(zip(curve["x"], curve["text"], strict=True))
    assert (texts[20], texts[25], texts[55]) == ("measured", "between measured points", "beyond what was measured")


@pytest.mark.parametrize(("name", "file"), [
    ('a\r\nb "c"', 'filename="profile-ab_c.csv"'), ("größe", "filename*=utf-8''profile-gr%C3%B6%C3%9Fe.csv"),
])
def test_a_profile_whatever_it_is_called_is_exported(world: World, client_of: ClientOf, name: str, file: str) -> None:
    [record] = import_profiles(actor=world.carla, text=f"{HEADER}\na,1,5,10,10\n")
    ProfileRecord.objects.filter(pk=record.pk).update(task_type=name)  # as it was imported by an earlier version
    response = client_of("carla").get(reverse("profile_export", args=[record.pk]))
    assert response.headers["Content-Disposition"] == f"attachment; {file}"
    assert [profile.task_type for profile in read_profiles(response.text)] == [name]


def test_a_bad_file_shows_every_place_and_keeps_the_text(world: World, client_of: ClientOf) -> None:
    text = f"{HEADER}\na,1,5,10,10\nb,x,5,10,10\nc,1,5,10,<b>\n"
    response = client_of("carla").post(reverse("profiles_import"), {"text": text})
    page = Markup(response.text)
    places = list(zip(page.values("data-line"), page.values("data-column"), strict=True))
    assert response.status_code == 422 and places == [("3", "2"), ("4", "5")]
    assert "c,1,5,10,<b>" in page.one("id", "text").text and not ProfileRecord.objects.exists()
    assert_sound(response, "import")
    latin = client_of("carla").post(reverse("profiles_import"), {"file": SimpleUploadedFile("x.csv", b"\xff\xfe")})
    assert latin.status_code == 400 and Markup(latin.text).values("data-error") == ["bad_input"]
    assert client_of("vera").post(reverse("profiles_import"), {"text": CSV}).status_code == 403


def test_measuring_a_type_through_the_form(world: World, node: Node, client_of: ClientOf) -> None:
    given = {"type": "block_average", "config": '{"window": 20}', "feed": "source:urban_sensing", "slot": "n1/0",
             "budget_minutes": "2", "largest_threads": "4", "any_config": "1"}
    response = client_of("carla").post(reverse("measure"), given)
    sweep = SweepRecord.objects.get()
    assert response.url == reverse("sweep", args=[sweep.pk])
    assert (sweep.bounds["budget_s"], sweep.any_config, sweep.slot) == (120.0, True, "n1/0")
    assert json.loads(sweep.config)["window"] == 20
    node.run(steps=3)
    client = client_of("carla")
    live = client.get(f"/live/snapshot?topic=sweep:{sweep.pk}").json()["state"]
    assert (live["status"], live["under_way"]["number"]) == ("running", 3)
    for way, status in (("pause", "paused"), ("resume", "queued"), ("cancel", "cancelled")):
        client.post(reverse("sweep_act", args=[sweep.pk, way]))
        sweep.refresh_from_db()
        assert sweep.status == status
    assert SlotRow.objects.filter(reserved_for="").count() == 2
    refused = client.post(reverse("sweep_act", args=[sweep.pk, "resume"]), follow=True)
    assert Markup(refused.text).flashes[-1] == "invalid_transition"
    assert client.post(reverse("sweep_act", args=[sweep.pk, "burn"])).status_code == 404


def test_measuring_a_task_of_a_dataflow_through_the_form(world: World, node: Node, client_of: ClientOf) -> None:
    record = planned(world.carla, world.city, document("traffic")).dataflow
    page = Markup(client_of("carla").get(f"{reverse('measure')}?dataflow={record.pk}").text)
    assert "average" in page.one("id", "task").values("value")
    client_of("carla").post(
        reverse("measure"), {"dataflow": str(record.pk), "task": "average", "slot": "n1/1", "budget_minutes": "1"})
    assert [task["type"] for task in SweepRecord.objects.get().feed] == ["urban_sensing", "senml_parse"]


@each("given, reason", [
    ({"config": "{"}, "not valid JSON"), ({"config": "[]"}, "not a JSON object"), ({"config": '{"windw": 1}'}, "windw"),
    ({"slot": "n9/9"}, "n9/9"), ({"budget_minutes": "soon"}, "Give a number"), ({"budget_minutes": "0"}, "budget"),
    ({"budget_minutes": "1e400"}, "number"), ({"largest_threads": "0"}, "at least one thread"),
    ({"type": "x"}, "task type"), ({"smallest_rate_per_s": "-1"}, "rates above 0"), ({"again": "x"}, "no such profile"),
    ({"dataflow": "x"}, "dataflow"),
])
def test_a_form_that_cannot_be_says_why_and_starts_nothing(world: World, client_of: ClientOf, given, reason) -> None:
    right = {"type": "block_average", "config": "{}", "feed": "source:urban_sensing", "slot": "n1/0"}
    response = client_of("carla").post(reverse("measure"), right | given)
    assert 400 <= response.status_code < 500 and reason in response.content.decode()
    assert not SweepRecord.objects.exists()


def test_measuring_again_is_of_the_same_with_the_version_of_now(
    world: World, node: Node, measured: SweepRecord, client_of: ClientOf
) -> None:
    client_of("carla").post(reverse("measure"), {"again": str(measured.profile_id), "slot": "n1/0"})
    again = SweepRecord.objects.first()
    assert (again.config, again.feed, again.version) == (measured.config, measured.feed, 1)
    imported = ProfileRecord.objects.get(task_type="own")
    refused = client_of("carla").post(reverse("measure"), {"again": str(imported.pk), "slot": "n1/0"})
    assert refused.status_code == 404


def test_a_rate_that_is_the_highest_asked_for_is_told_to_be_a_least(
    world: World, node: Node, client_of: ClientOf
) -> None:
    bounded = node.finish(started(world, bounds=Sweep(largest_rate_per_s=50.0, largest_threads=1)))
    at_least = node.finish(started(world, bounds=Sweep(largest_rate_per_s=5000.0, largest_threads=1)))
    for sweep, is_least in ((bounded, True), (at_least, False)):
        page = Markup(client_of("vera").get(reverse("profile", args=[sweep.profile_id])).text)
        assert bool({"bounded", "at-least"} & page.notes) is is_least


def test_a_busy_machine_is_told_of_where_it_was_measured_on(
    measured: SweepRecord, client_of: ClientOf
) -> None:
    pages = [reverse("sweep", args=[measured.pk]), reverse("profile", args=[measured.profile_id])]
    for load, is_told in ((2.6, False), (7.5, True)):
        for trial in measured.trials.all():
            trial.machine |= {"load": load, "cores": 2}
            trial.save()
        for page in pages:
            shown = Markup(client_of("root").get(page).text)
            assert ("disturbed" in shown.notes) is is_told
            if is_told:
                assert shown.number("load") == 7.5
                assert shown.one("data-note", "disturbed").attributes["data-cores"] == "2"


def test_a_core_whose_speed_changed_is_told_of(measured: SweepRecord, client_of: ClientOf) -> None:
    address = reverse("sweep", args=[measured.pk])
    assert "speeds" not in Markup(client_of("vera").get(address).text).notes, "nobody looked"
    stable = list(measured.trials.filter(stable=True))
    assert len(stable) > 1
    for number, trial in enumerate(stable):
        trial.machine |= {"speed": 30.0 if number == 0 else 10.0}
        trial.save()
    mean = (30 + 10 * (len(stable) - 1)) / len(stable)
    page = Markup(client_of("vera").get(address).text)
    speeds = [page.number(name) for name in ("speed.least", "speed.most")]
    assert speeds == pytest.approx([10 / mean, 30 / mean], abs=0.005)


def test_a_trial_shows_its_series(measured: SweepRecord, client_of: ClientOf) -> None:
    trial = measured.trials.first()
    trial.series = [[0.5, 0.1, 10.0, 0.2, 0.1], [1.0, None, 11.0, 0.3, 0.1]]
    trial.save()
    figures = client_of("vera").get(reverse("trial_plots", args=[trial.pk])).json()
    assert figures["latency"]["data"][0]["y"] == [0.1, None] and figures["load"]["data"][0]["y"] == [20.0, 30.0]
    stable, unstable = client_of("vera").get(reverse("sweep_plots", args=[measured.pk])).json()["trials"]["data"]
    assert len(stable["x"]) + len(unstable["x"]) == measured.trials.count()


def test_what_was_set_aside_keeps_its_figures_and_series(world: World, node: Node, client_of: ClientOf) -> None:
    node.peak = lambda threads: 0.1
    sweep = node.finish(started(world))
    client = client_of("carla")
    client.post(reverse("sweep_act", args=[sweep.pk, "resume"]))
    trial = sweep.trials.first()
    trial.series = [[0.5, 0.1, 10.0, 0.2, 0.1]]
    trial.save()
    page = Markup(client.get(reverse("trial", args=[trial.pk])).text)
    assert "set-aside" in page.notes and page.number("achieved") >= 0
    assert page.having("data-plots", reverse("trial_plots", args=[trial.pk]))
    assert_sound(client.get(reverse("trial", args=[trial.pk])), "trial")
    assert client.get(reverse("trial_plots", args=[trial.pk])).json()["latency"]["data"][0]["y"] == [0.1]
    assert Markup(client.get(reverse("sweep", args=[sweep.pk])).text).having("data-set-aside")
    named = {trace["name"]: trace["x"] for trace in client.get(
        reverse("sweep_plots", args=[sweep.pk])).json()["trials"]["data"]}
    assert named["not stable, set aside"] == [1] * 4 and not named["not stable"]
    live = client.get(f"/live/snapshot?topic=sweep:{sweep.pk}").json()["state"]
    assert (live["trials"], live["spent_s"], live["peaks"]) == (0, 0, {}), "nothing follows from them"
    assert client.get(f"/api/sweeps/{sweep.pk}/trials/1").json()["set_aside"] is True


def test_pages_of_a_private_dataflows_profile_are_hidden_from_others(
    world: World, node: Node, client_of: ClientOf
) -> None:
    record = planned(world.carla, world.city, document("own", visibility="private", window=77177)).dataflow
    client_of("carla").post(reverse("measure"), {"dataflow": str(record.pk), "task": "average", "slot": "n1/1"})
    sweep = node.finish(SweepRecord.objects.get())
    hidden = [
        reverse("sweep", args=[sweep.pk]), reverse("sweep_plots", args=[sweep.pk]),
        reverse("profile", args=[sweep.profile_id]), reverse("profile_plots", args=[sweep.profile_id]),
        reverse("profile_export", args=[sweep.profile_id]), reverse("trial", args=[sweep.trials.first().pk]),
        reverse("trial_plots", args=[sweep.trials.first().pk]), f"/live/snapshot?topic=sweep:{sweep.pk}",
        f"{reverse('measure')}?again={sweep.profile_id}", f"{reverse('measure')}?dataflow={record.pk}",
    ]
    for address in hidden:
        assert client_of("carla").get(address).status_code == 200, address
        assert client_of("mo").get(address).status_code == 404, address
    assert client_of("mo").post(reverse("sweep_act", args=[sweep.pk, "cancel"])).status_code == 404
    for address in ("/profiles/", "/profiles/export.csv"):
        assert "77177" not in client_of("mo").get(address).content.decode()
        assert "77177" in client_of("carla").get(address).content.decode()


def test_a_longer_list_asks_the_database_no_more_often(world: World, node: Node, client_of: ClientOf) -> None:
    counts, client = [], client_of("vera")
    for names in ("ab", "abcdefgh"):
        import_profiles(actor=world.carla, text=f"{HEADER}\n" + "".join(f"{name},1,1,1,1\n" for name in names))
        with CaptureQueriesContext(connection) as queries:
            assert client.get("/profiles/").status_code == 200
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_a_profile_has_the_same_figures_on_each_page(world: World, client_of: ClientOf) -> None:
    [record] = import_profiles(actor=world.carla, text=f"{HEADER}\nslow,1,9.5,5,5\nslow,16,17.6,12,10\n")
    ProfileRecord.objects.filter(pk=record.pk).update(at_least=[16], rough=[16])
    listed, page = (
        Markup(client_of("vera").get(address).text) for address in ("/profiles/", f"/profiles/{record.pk}/"))
    assert listed.values("data-peak") == ["17.6"]
    peak = page.one("data-field", "peak").attributes
    assert (peak["data-value"], peak["data-threads"]) == ("17.6", "16")
    assert page.one("data-point", "16").attributes["data-rate"] == "17.6"
    for note in ("at-least", "rough"):
        assert page.one("data-note", note).attributes["data-threads"] == "16"


def test_what_was_left_unchecked_stays_so_where_the_form_is_refused(
    world: World, node: Node, client_of: ClientOf
) -> None:
    """The profile stood for every config; it is measured again for its own."""
    sweep = node.finish(started(world, any_config=True))
    client, checked = client_of("carla"), 'name="any_config" value="1" checked'
    assert checked in client.get(f"{reverse('measure')}?again={sweep.profile_id}").text
    again = {"again": str(sweep.profile_id), "slot": "n1/0", "budget_minutes": "many"}
    for given, is_checked in ((again, False), (again | {"any_config": "1"}, True)):
        assert (checked in client.post(reverse("measure"), given).text) is is_checked


def test_what_is_another_teams_alone_is_offered_to_its_engineers(
    world: World, node: Node, client_of: ClientOf
) -> None:
    """Whoever may only look there is an engineer elsewhere, and would be refused."""
    Membership.objects.create(user=world.mo, team=world.city, role=Role.VIEWER)
    record = planned(world.carla, world.city, document("own", visibility="private")).dataflow
    client_of("carla").post(reverse("measure"), {"dataflow": str(record.pk), "task": "average", "slot": "n1/1"})
    sweep = node.finish(SweepRecord.objects.get())
    for query in (f"dataflow={record.pk}", f"again={sweep.profile_id}"):
        address = f"{reverse('measure')}?{query}"
        page = client_of("mo").get(address)
        assert_sound(page, address)
        markup = Markup(page.text)
        assert markup.one("data-note", "owners-alone").attributes["data-team"] == "city"
        assert not markup.having("id", "budget_minutes")
        assert Markup(client_of("carla").get(address).text).having("id", "budget_minutes")


def test_what_was_measured_last_is_told_whenever_it_was_asked_for(
    world: World, node: Node, client_of: ClientOf
) -> None:
    first = started(world)
    SweepRecord.objects.filter(pk=first.pk).update(status="paused")
    others = [started(world, slot="n1/0", bounds=Sweep(largest_threads=threads)) for threads in range(1, 7)]
    for sweep in others:
        cancel_sweep(actor=world.carla, sweep_id=sweep.pk)
    cancel_sweep(actor=world.carla, sweep_id=first.pk)
    past = Markup(client_of("vera").get("/profiles/").text).values("data-past")
    assert [str(sweep.pk) in past for sweep in (first, *others)] == [True, False, False, *[True] * 4]


def test_a_sweep_that_a_schedule_waits_for_leads_back_to_it(world: World, node: Node, client_of: ClientOf) -> None:
    record = planned(world.carla, world.city, document("traffic")).dataflow
    client = client_of("carla")
    answer = client.post(
        reverse("measure"), {"dataflow": str(record.pk), "task": "average", "slot": "n1/1"}, follow=True)
    act = reverse("sweep_act", args=[SweepRecord.objects.get().pk, "pause"]) + f"?for={record.pk}"
    assert Markup(answer.text).submits(act)
    assert Markup(client.post(act, follow=True).text).links(reverse("schedule", args=[record.pk]))


def test_what_comes_of_trying_again_is_said(world: World, node: Node, client_of: ClientOf) -> None:
    node.peak = lambda threads: 0.1
    failed = node.finish(started(world))
    resume = reverse("sweep_act", args=[failed.pk, "resume"])
    assert "starts again" in resumed(client_of("carla").post(resume, follow=True).text)
    node.peak = saturating
    node.run(steps=4)
    for way in ("pause", "resume"):
        page = client_of("carla").post(reverse("sweep_act", args=[failed.pk, way]), follow=True).text
    assert "continues from its trials" in resumed(page)


def resumed(page: str) -> str:
    """What a page says of a sweep that was resumed."""
    return Markup(page).one("data-flash", "resume").text
