"""What bounds a sweep besides what was asked for: its slot's driver, its feeder, the code that it is of; and again."""

from __future__ import annotations

import io

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from dashboard import jobs
from dashboard.operations.models import NodeRow
from dashboard.profiles import selectors
from dashboard.profiles.models import ProfileRecord, SweepRecord
from dashboard.profiles.services.importing import import_profiles
from dashboard.profiles.services.sweeps import USUAL, bounds_for, resume_sweep
from dashboard.profiles.stored_profiles import profile_of
from dashboard.profiles.trial_orders import bounds_of
from scheduler.model.errors import InvalidResources
from scheduler.performance.modelling import Sweep
from tests.dashboard.building import World
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup
from tests.profiles.building import HEADER, started
from tests.profiles.nodes import Node

WIDE = Sweep(largest_threads=256, budget_s=7200.0)
FORM = {"type": "senml_parse", "config": "{}", "feed": "source:urban_sensing", "slot": "n1/1"}


def growing(threads: int) -> float:
    """A peak rate that more threads always raise."""
    return 100.0 * threads


@pytest.fixture
def twelve(world: World) -> int:
    """Twelve threads in each driver, as the node's agent has told."""
    NodeRow.objects.update(threads=12)
    return 12


# -- threads of the slot's driver --------------------------------------------------------------------------------------


def test_more_threads_than_the_driver_has_are_refused_with_both_numbers(world: World, twelve: int):
    with pytest.raises(InvalidResources, match=r"256 threads .* n1/1 has 12") as caught:
        started(world, bounds=WIDE)
    assert caught.value.facts == {"threads": 256, "there": 12} and "WEIR_SLOT_THREADS" in caught.value.remedy
    assert not SweepRecord.objects.exists()
    assert started(world, bounds=Sweep(largest_threads=12)).bounds["largest_threads"] == 12


def test_what_is_not_said_is_no_more_than_the_driver_has(world: World, twelve: int, client_of: ClientOf):
    client = client_of("carla")
    threads = Markup(client.get(f"{reverse('measure')}?type=senml_parse").text).one("id", "largest_threads").attributes
    assert (threads["max"], threads["value"]) == ("12", "12")
    client.post(reverse("measure"), FORM)
    client.post("/api/sweeps", {"type": "senml_parse", "slot": "n1/0"}, "application/json")
    assert [sweep.bounds["largest_threads"] for sweep in SweepRecord.objects.all()] == [12, 12]
    assert bounds_for("n1/1") == bounds_for("n9/9", largest_threads=12)
    assert bounds_for("n9/9") == USUAL


def test_what_is_said_is_refused_wherever_it_is_said(world: World, twelve: int, client_of: ClientOf):
    client = client_of("carla")
    page = client.post(reverse("measure"), FORM | {"largest_threads": "13"})
    assert page.status_code == 422 and page.context["failure"].facts == {"threads": 13, "there": 12}
    assert Markup(page.text).values("data-error") == ["invalid_resources"]
    form = {"type": "senml_parse", "slot": "n1/0", "largest_threads": 13}
    answer = client.post("/api/sweeps", form, "application/json")
    assert (answer.status_code, answer.json()["facts"]) == (422, {"threads": 13, "there": 12})
    with pytest.raises(CommandError, match=r"13 threads.*has 12"):
        call_command("profile", "measure", "senml_parse", "--threads", "13", stdout=io.StringIO())
    assert not SweepRecord.objects.exists()


def test_a_driver_that_nobody_knew_of_ends_the_sweep_with_what_it_has(world: World, node: Node):
    node.peak, node.threads = growing, 12
    sweep = node.finish(started(world, bounds=WIDE))
    assert sweep.status == "done" and [p.threads for p in profile_of(sweep.profile).points][-1] == 12
    assert max(order.threads for order in node.orders) == 12
    assert "256 were asked for" in sweep.reason and "n1/1 has 12 (WEIR_SLOT_THREADS)" in sweep.reason


def test_a_node_that_does_not_tell_its_threads_ends_the_sweep_with_what_is_measured(world: World, node: Node):
    node.peak, node.threads, node.tells = growing, 12, False
    sweep = node.finish(started(world, bounds=WIDE))
    assert sweep.status == "done" and [p.threads for p in profile_of(sweep.profile).points] == [1, 2, 4, 6, 8]
    assert "16 threads were asked for" in sweep.reason and "have 12" in sweep.reason
    assert sweep.trials.exclude(error="").get().threads == 16


def test_a_sweep_that_had_failed_for_that_goes_on_to_its_profile(world: World, node: Node):
    node.peak, node.threads, node.tells = growing, 12, False
    sweep = started(world, bounds=WIDE)
    while not SweepRecord.objects.filter(pk=sweep.pk, trials__threads=16).exists():
        node.run()
    SweepRecord.objects.filter(pk=sweep.pk).update(status="failed")
    sweep.trials.filter(threads=16).delete()
    resume_sweep(actor=world.carla, sweep_id=sweep.pk)
    assert node.finish(sweep).status == "done"


def test_another_refusal_is_not_taken_for_too_few_threads(world: World, node: Node):
    node.peak = growing
    sweep = started(world, bounds=WIDE)
    while not sweep.trials.filter(threads=4, stable=True).exists():
        node.run()
    node.measure = lambda order: jobs.TrialResult(  # its agent came back with slots on a cluster
        order.id, ok=False, code="not_measurable", message="The slots of node n1 run on spark://there, not on a core",
        remedy="Measure on a node whose slots are its own cores.")
    finished = node.finish(sweep)
    assert (finished.status, finished.profile) == ("failed", None) and "run on spark://there" in finished.reason


def test_what_cannot_be_measured_at_all_still_fails(world: World, node: Node):
    node.threads = 0
    sweep = node.finish(started(world, bounds=WIDE))
    assert sweep.status == "failed" and "have 0" in sweep.reason


# -- the feeder --------------------------------------------------------------------------------------------------------


def test_a_feeder_that_is_the_bottleneck_ends_the_sweep_and_the_profile_says_at_least(
    world: World, node: Node, client_of: ClientOf
):
    node.feeds = 50.0
    sweep = node.finish(started(world))
    assert sweep.status == "done" and "No more than 50 events/s could be fed" in sweep.reason
    assert sweep.profile.at_least == [1] and profile_of(sweep.profile).peak.rate_per_s == 50.0
    short = sweep.trials.filter(starved=True)
    assert short.count() == 3 and not short.filter(stable=True).exists()
    client = client_of("vera")
    page = Markup(client.get(reverse("profile", args=[sweep.profile_id])).text)
    assert page.one("data-note", "at-least").attributes["data-threads"] == "1" and page.having("data-starved")
    notes = [Markup(client.get(reverse("trial", args=[trial.pk])).text).one("data-note", "starved") for trial in short]
    assert [notes[0].number(name) for name in ("offered", "asked")] == [50, 64]
    assert [bool(note.every("a")) for note in notes] == [True, True, False], "the last was not tried again"
    figure = client.get(reverse("sweep_plots", args=[sweep.pk])).json()["trials"]["data"]
    assert [trace["name"] for trace in figure] == ["stable", "not stable", "fed less than was asked for"]
    assert figure[1]["y"] == [] and set(figure[2]["y"]) == {50.0}
    assert client.get(f"/api/profiles/{sweep.profile_id}").json()["at_least"] == [1]
    answer = client.get(f"/api/sweeps/{sweep.pk}").json()
    assert answer["progress"]["peaks"]["1"] == {"stable_per_s": 50.0, "unstable_per_s": 0.0, "trials": 6}


def test_a_full_channel_is_the_tasks_doing(world: World, node: Node):
    def held_back(order):
        result = Node.measure(node, order)
        return jobs.TrialResult(**{
            **{name: getattr(result, name) for name in jobs.TrialResult.__slots__}, "held_back": True})

    node.feeds, node.measure = 50.0, held_back
    sweep = node.finish(started(world))
    assert not sweep.trials.filter(starved=True).exists() and sweep.profile.at_least == []


# -- code --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The digest of all code here, which a test may change."""
    versions = {"code": "aa11"}
    monkeypatch.setattr(jobs, "code_of", lambda task_type: versions["code"])
    return versions


def test_a_profile_is_stale_as_soon_as_the_code_of_its_type_is_another(
    world: World, node: Node, here: dict[str, str], client_of: ClientOf
):
    node.code = "aa11"
    sweep = node.finish(started(world))
    record = sweep.profile
    assert (sweep.code, record.code) == ("aa11", "aa11") and selectors.staleness(profile_of(record)) == ""
    here["code"] = "bb22"
    assert "other code of senml_parse" in selectors.staleness(profile_of(record))
    client = client_of("carla")
    page = Markup(client.get(reverse("profile", args=[record.pk])).text)
    assert page.one("data-note", "stale").attributes["data-why"] == selectors.staleness(profile_of(record))
    answer = client.get(f"/api/profiles/{record.pk}").json()
    assert answer["code"] == "aa11" and "other code" in answer["stale"]
    exported = client.get(reverse("profile_export", args=[record.pk])).text
    [again] = import_profiles(actor=world.carla, text=exported)
    assert again.code == "aa11", "a file keeps it"


def test_profiles_of_unknown_code_are_not_stale_by_it(world: World, node: Node, here: dict[str, str]):
    [record] = import_profiles(actor=world.carla, text=f"{HEADER}\nsenml_parse,1,5,10,10\n")
    assert record.code == "" and selectors.staleness(profile_of(record)) == ""
    here["code"] = ""  # it cannot be read here
    record.code = "cc33"
    assert selectors.staleness(profile_of(record)) == ""


def test_a_node_with_other_code_than_the_site_makes_no_profile(world: World, node: Node, here: dict[str, str]):
    node.code = "bb22"
    sweep = node.finish(started(world))
    assert sweep.status == "failed" and "other code of senml_parse (bb22) than was asked for (aa11)" in sweep.reason
    assert "Start the site and the node's agent again" in sweep.reason


def test_where_the_site_cannot_read_the_code_the_nodes_counts(world: World, node: Node, here: dict[str, str]):
    here["code"], node.code = "", "bb22"
    assert node.finish(started(world)).profile.code == "bb22"


# -- machines ----------------------------------------------------------------------------------------------------------


def test_a_profile_of_which_nobody_noted_the_machine_says_so(world: World, node: Node, client_of: ClientOf):
    [record] = import_profiles(actor=world.carla, text=f"{HEADER}\nsenml_parse,1,5,10,10\n")
    assert selectors.staleness(profile_of(record)) == "", "nobody knows what the machines here are, either"
    NodeRow.objects.update(machine="cpu-a")
    why = "nobody noted on which machine it was measured; here is cpu-a"
    assert selectors.staleness(profile_of(record)) == why
    client = client_of("vera")
    assert Markup(client.get(reverse("profiles")).text).values("data-stale") == [why]
    assert Markup(client.get(f"/profiles/{record.pk}/").text).values("data-why") == [why]
    assert client.get("/api/profiles").json()["items"][0]["stale"] == why
    out = io.StringIO()
    call_command("profile", "list", stdout=out)
    assert f"stale: {why}" in out.getvalue()


# -- again -------------------------------------------------------------------------------------------------------------

SHAPED = Sweep(
    smallest_rate_per_s=20.0, largest_rate_per_s=900.0, largest_threads=8, budget_s=1800.0, rate_precision=0.2)


@pytest.fixture
def before(world: World, node: Node) -> ProfileRecord:
    """A profile that was measured in a way of its own."""
    return node.finish(started(world, bounds=SHAPED, any_config=True, warm_up_s=3.0, seconds=6.0)).profile


def manner(sweep: SweepRecord) -> tuple:
    return bounds_of(sweep).largest_threads, sweep.bounds | {"largest_threads": 0}, sweep.any_config, sweep.warm_up_s, \
        sweep.seconds


def test_measuring_again_is_by_the_bounds_of_before(before: ProfileRecord, client_of: ClientOf):
    client, first = client_of("carla"), before.sweep
    page = Markup(client.get(f"{reverse('measure')}?again={before.pk}").text)
    shown = {name: float(page.one("id", name).attributes["value"]) for name in (
        "smallest_rate_per_s", "largest_rate_per_s", "largest_threads", "budget_minutes", "warm_up_s", "seconds")}
    assert list(shown.values()) == [20, 900, 8, 30, 3, 6]
    client.post(reverse("measure"), {"again": str(before.pk), "slot": "n1/0", "any_config": "1"})
    client.post("/api/sweeps", {"profile": str(before.pk), "slot": "n1/1"}, "application/json")
    again = SweepRecord.objects.exclude(pk=first.pk)
    assert again.count() == 2 and {sweep.slot for sweep in again} == {"n1/0", "n1/1"}
    assert [manner(sweep) for sweep in again] == [manner(first)] * 2


def test_what_is_said_comes_before_what_was(before: ProfileRecord, client_of: ClientOf):
    client = client_of("carla")
    client.post(reverse("measure"), {
        "again": str(before.pk), "slot": "n1/0", "largest_rate_per_s": "5000", "seconds": "4"})
    sent = {"profile": str(before.pk), "slot": "n1/1", "largest_threads": 4, "any_config": False}
    client.post("/api/sweeps", sent, "application/json")
    form, api = SweepRecord.objects.get(slot="n1/0"), SweepRecord.objects.get(slot="n1/1", bounds__largest_threads=4)
    assert (form.bounds["largest_rate_per_s"], form.bounds["smallest_rate_per_s"], form.seconds) == (5000.0, 20.0, 4.0)
    assert (form.any_config, form.warm_up_s) == (False, 3.0), "a box that is not ticked"
    assert (api.bounds["largest_rate_per_s"], api.any_config, api.seconds) == (900.0, False, 6.0)


def test_measuring_again_from_the_command_line(before: ProfileRecord, world: World):
    out, first = io.StringIO(), before.sweep
    call_command("profile", "list", stdout=out)
    assert str(before.pk) in out.getvalue()
    call_command("profile", "measure", "--again", str(before.pk), "--slot", "n1/0", stdout=out)
    call_command("profile", "measure", "--again", str(before.pk), "--slot", "n1/1", "--minutes", "5", stdout=out)
    again, shorter = SweepRecord.objects.get(slot="n1/0"), SweepRecord.objects.get(slot="n1/1", status="queued")
    assert manner(again) == manner(first) and (again.feed, again.config) == (first.feed, first.config)
    assert (shorter.bounds["budget_s"], shorter.bounds["largest_rate_per_s"]) == (300.0, 900.0)


def test_the_threads_of_the_driver_of_before_do_not_bound_what_is_measured_again(
    world: World, node: Node, client_of: ClientOf
):
    node.peak, node.threads = growing, 12
    first = node.finish(started(world, bounds=WIDE))
    assert first.slot_threads == 12
    NodeRow.objects.update(threads=64)  # WEIR_SLOT_THREADS was raised
    client = client_of("carla")
    page = Markup(client.get(f"{reverse('measure')}?again={first.profile_id}&slot=n1/0").text)
    assert page.one("id", "largest_threads").attributes["value"] == "64"
    answer = client.post("/api/sweeps", {"profile": str(first.profile_id), "slot": "n1/0"}, "application/json")
    assert (answer.status_code, answer.json()["bounds"]["largest_threads"]) == (201, 64)


def test_bounds_of_before_are_no_more_than_another_slots_driver_has(before: ProfileRecord, client_of: ClientOf):
    NodeRow.objects.update(threads=5)
    client = client_of("carla")
    answer = client.post("/api/sweeps", {"profile": str(before.pk), "slot": "n1/0"}, "application/json")
    assert (answer.status_code, answer.json()["bounds"]["largest_threads"]) == (201, 5)
