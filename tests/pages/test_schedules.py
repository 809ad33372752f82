"""Compare and what-if: all pairs for a rate, what has no schedule and why, and proposing one."""

from __future__ import annotations

import html
import re
from collections import Counter

import pytest
from django.urls import reverse

from dashboard.approvals.bundle_changes import bundles_of
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import prepare_proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.services import register_node
from dashboard.pages.templatetags.schedules import exact_rate, seconds
from dashboard.plans.selectors import plan_of
from dashboard.profiles.models import ProfileRecord
from scheduler.performance.prediction import Prediction
from tests.dashboard.building import World, approved, document, enacted, planned, running
from tests.pages.conftest import ClientOf
from tests.pages.scheduling import linear, measured
from tests.pages.test_every_page import assert_sound

PAIRS = [f"{allocation}-{mapping}" for allocation in ("LSA", "MBA") for mapping in ("DSM", "RSM", "SAM", "exact")]
JSON = {"accept": "application/json"}


@pytest.fixture
def asked(world: World) -> DataflowRecord:
    """A dataflow in review whose tasks have profiles, and a node with slots enough."""
    measured(world, slots=16)
    return planned(world.carla, world.city, linear()).dataflow


def rows(page: str) -> dict[str, str]:
    """The text of each pair's row."""
    found = re.findall(r'<tr data-pair="([^"]+)"(.*?)</tr>', page, re.DOTALL)
    return {name: " ".join(re.sub(r"<[^>]+>", " ", text).split()) for name, text in found}


def headlines(page: str) -> dict[str, str]:
    """The figures of each pair, which stand there for when it is chosen."""
    return dict(re.findall(r'<template data-headline="([^"]+)">(.*?)</template>', page, re.DOTALL))


def cannot(page: str, pair: str) -> str:
    """Why a pair cannot be proposed; empty where it can."""
    return re.search(rf'value="{pair}" form="propose" data-cannot="([^"]*)"', page)[1]


def test_all_pairs_stand_side_by_side(client_of: ClientOf, asked: DataflowRecord) -> None:
    address = f"/dataflows/{asked.pk}/schedule?rate=100"
    response = client_of("carla").get(address)
    assert_sound(response, address)
    found = rows(response.text)
    assert list(found) == PAIRS
    for pair in PAIRS:
        if pair.endswith("exact"):
            assert "Being worked out" in found[pair]
            continue
        assert re.search(r"\d n1 0\.\d{3} \d+\.\d{2} [\d.]+/s", found[pair]), found[pair]
        assert re.search(r"\d starts?$", found[pair]), found[pair]
    exact = client_of("carla").get(f"{address}&complete=1")
    assert_sound(exact, address)
    assert all("least slots, proved" in rows(exact.text)[pair] for pair in ("LSA-exact", "MBA-exact"))
    assert "measured here" in response.text and "declared by its type" in response.text


def test_what_if_answers_with_the_table_at_that_rate(client_of: ClientOf, asked: DataflowRecord) -> None:
    client, address = client_of("carla"), f"/dataflows/{asked.pk}/schedule/pairs.json"
    slots = []
    for rate in (20, 100, 220):
        found = client.get(f"{address}?rate={rate}&pair=MBA-SAM", headers=JSON).json()
        assert (found["rate"], found["chosen"]) == (rate, "MBA-SAM")
        assert re.search(r"<tr data-pair=\"MBA-SAM\" data-chosen>", found["pairs"])
        slots.append(int(re.search(r"</dt><dd>(\d+)</dd>", headlines(found["pairs"])["MBA-SAM"])[1]))
    assert slots == sorted(slots) and slots[0] < slots[-1]
    whole = client.get(f"/dataflows/{asked.pk}/schedule?rate=220&pair=MBA-SAM").text
    assert rows(whole) == rows(found["pairs"])


def test_a_profile_that_is_set_aside_or_used_again_counts_at_once(
    client_of: ClientOf, asked: DataflowRecord
) -> None:
    """Though what a question rests on is kept for seconds."""
    client, address = client_of("carla"), f"/dataflows/{asked.pk}/schedule/pairs.json?rate=100"
    record = ProfileRecord.objects.get(task_type="pi_viete")
    before = client.get(address, headers=JSON).json()["pairs"]
    client.post(reverse("profile_act", args=[record.pk, "set_aside"]))
    assert client.get(address, headers=JSON).json().get("pairs") != before
    client.post(reverse("profile_act", args=[record.pk, "use"]))
    assert rows(client.get(address, headers=JSON).json()["pairs"]) == rows(before)


def test_one_answer_has_what_is_shown_of_whichever_pair_is_chosen(client_of: ClientOf, asked: DataflowRecord) -> None:
    address, client = f"/dataflows/{asked.pk}/schedule", client_of("carla")
    page = client.get(f"{address}?rate=100&pair=LSA-DSM&complete=1").text
    answer = client.get(f"{address}/pairs.json?rate=100&pair=MBA-SAM&complete=1", headers=JSON).json()["pairs"]
    for text in (page, answer):
        assert list(headlines(text)) == PAIRS
        for pair, figures in headlines(text).items():
            slots, _, predicted, _ = re.findall(r"<dd[^>]*>([^<]+)</dd>", figures)
            assert re.search(rf" {slots} .*n1 .* {re.escape(predicted)}", rows(text)[pair]), pair
            assert cannot(text, pair) == ""
    shown = re.search(r'data-part="headline"[^>]*>(.*?)</div>\s*<div class="plot-shell"', page, re.DOTALL)[1]
    assert shown.strip() == headlines(page)["LSA-DSM"].strip()


def test_without_scripts_our_own_mapping_is_worked_out_beside_what_was_chosen(
    client_of: ClientOf, asked: DataflowRecord
) -> None:
    chosen = "rate=100&pair=LSA-RSM&routing=shuffle"
    page = client_of("carla").get(f"/dataflows/{asked.pk}/schedule?{chosen}").text
    [link] = set(re.findall(r'<noscript> <a href="([^"]+)">Work it out', page))
    again = client_of("carla").get(f"/dataflows/{asked.pk}/schedule{html.unescape(link)}").text
    assert "least slots, proved" in rows(again)["MBA-exact"]
    assert '<tr data-pair="LSA-RSM" data-chosen>' in again and '<option value="shuffle" selected>' in again
    assert ">100/s</output>" in again


def test_only_what_keeps_the_rate_is_said_to_keep_it(
    client_of: ClientOf, asked: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = client_of("carla").get(f"/dataflows/{asked.pk}/schedule?rate=100").text
    assert page.count("least that keeps it") == 1
    monkeypatch.setattr(Prediction, "keeps", False)
    page = client_of("carla").get(f"/dataflows/{asked.pk}/schedule?rate=101").text
    assert "does not keep it" in page and "least that keeps it" not in page


def test_routing_changes_what_is_predicted(client_of: ClientOf, asked: DataflowRecord) -> None:
    address = f"/dataflows/{asked.pk}/schedule/pairs.json?rate=190&pair=MBA-SAM&routing="
    aware, even = (client_of("carla").get(address + one, headers=JSON).json() for one in ("slot_aware", "shuffle"))
    assert "does not keep it" not in rows(aware["pairs"])["MBA-SAM"]
    assert "does not keep it" in rows(even["pairs"])["MBA-SAM"]


def test_the_curve_goes_over_rates_and_ends_where_there_is_no_schedule(
    client_of: ClientOf, asked: DataflowRecord, settings
) -> None:
    address = f"/dataflows/{asked.pk}/schedule/curve.json"
    client = client_of("carla")
    figure = client.get(f"{address}?most=400&pair=MBA-SAM", headers=JSON).json()["curve"]
    slots, price = figure["data"]
    assert slots["x"][-1] == 400 and slots["y"] == sorted(slots["y"]) and price["yaxis"] == "y2"
    assert None not in slots["y"] and figure["held"] == len(slots["x"])
    assert [trace["name"] for trace in figure["data"]] == ["slots", "USD an hour"]
    exact = client.get(f"{address}?most=400&pair=MBA-exact", headers=JSON).json()["curve"]
    assert [trace["name"] for trace in exact["data"]] == ["slots, at most: by SAM", "USD an hour, at most: by SAM"]
    assert exact["data"][0]["y"] == figure["data"][0]["y"]
    beyond = client.get(f"{address}?most=10000000&pair=LSA-DSM", headers=JSON).json()["curve"]
    assert beyond["data"][0]["y"][-1] is None  # its source declares what an event costs it
    assert beyond["held"] < len(slots["x"])


@pytest.mark.parametrize("rate", ["0", "-5", "nan", "inf", "many", "1e999", "1e13"])
def test_what_is_no_rate_is_refused(client_of: ClientOf, asked: DataflowRecord, rate: str) -> None:
    page = client_of("carla").get(f"/dataflows/{asked.pk}/schedule", {"rate": rate})
    assert page.status_code == 422
    assert "is no rate" in page.text and "a number from 0.000001 to 1e+12" in page.text
    assert list(rows(page.text)) == PAIRS  # at the sources' own
    assert_sound(page, rate)
    found = client_of("carla").get(f"/dataflows/{asked.pk}/schedule/pairs.json", {"rate": rate}, headers=JSON)
    assert (found.status_code, found.json()["code"]) == (422, "invalid_resources")
    before = Proposal.objects.count()
    client_of("carla").post(reverse("schedule_propose", args=[asked.pk]), {"rate": rate, "pair": "MBA-SAM"})
    assert Proposal.objects.count() == before


def test_slots_that_are_not_there_would_be_bought(world: World, client_of: ClientOf, settings) -> None:
    measured(world, slots=2)
    record = planned(world.carla, world.city, linear()).dataflow
    found = rows(client_of("carla").get(f"/dataflows/{record.pk}/schedule?rate=600").text)
    assert re.search(r"n1 3 × D4 to buy 1 × D3 to buy", found["MBA-SAM"]), found["MBA-SAM"]
    whole = client_of("carla").get(f"/dataflows/{record.pk}/schedule?rate=600").text
    assert "28 of its slots would be on machines to buy" in whole
    assert re.search(r"data-part=\"propose\" disabled", whole)


def test_where_no_slot_is_free_it_is_said_with_what_helps(
    world: World, client_of: ClientOf, asked: DataflowRecord
) -> None:
    address = f"/dataflows/{asked.pk}/schedule?rate=50"
    assert "No slot is free." not in client_of("carla").get(address).text
    register_node(name="n1", slots=0)
    response = client_of("carla").get(address)
    assert_sound(response, address)
    page = response.text
    assert "No slot is free." in page and "on machines to buy, and cannot be proposed" in page
    assert f'href="{reverse("slots")}"' in page and "./weir agent" in page
    assert re.search(r"data-part=\"propose\" disabled", page)


def test_a_stale_profile_is_said(world: World, client_of: ClientOf, asked: DataflowRecord) -> None:
    ProfileRecord.objects.filter(task_type="pi_viete").update(version=0)
    page = client_of("carla").get(f"/dataflows/{asked.pk}/schedule?rate=50").text
    assert "The profile of pi_viete is stale." in page and "Measure it again" in page
    page_of_vera = client_of("vera").get(f"/dataflows/{asked.pk}/schedule?rate=50").text
    assert "The profile of pi_viete is stale." in page_of_vera and "Measure it again" not in page_of_vera
    assert "Measured with version 0 of pi_viete" in page


def test_drift_and_rough_peaks_are_said_with_the_task_and_where_to_measure_again(
    client_of: ClientOf, asked: DataflowRecord
) -> None:
    drift = {"what": "rate", "threads": 1, "expected": 100.0, "observed": 70.0, "beyond": True}
    ProfileRecord.objects.filter(task_type="pi_viete").update(drifts=[drift], rough=[2])
    address = f"/dataflows/{asked.pk}/schedule?rate=50"
    response = client_of("carla").get(address)
    assert_sound(response, address)
    page = response.text
    assert "The profile of pi_viete has drifted." in page and "The profile of pi_viete is rough." in page
    assert page.count("running bundles show a peak of 70 events/s with 1 thread, where it says 100") == 1
    assert "drifted: running bundles show a peak" in page, "below, beside the task"
    assert page.count(f"{reverse('measure')}?dataflow={asked.pk}&amp;task=pi\"") == 2


def test_what_is_chosen_becomes_a_proposal_that_shows_its_bundles(
    world: World, client_of: ClientOf, asked: DataflowRecord
) -> None:
    client = client_of("carla")
    response = client.post(reverse("schedule_propose", args=[asked.pk]), {"pair": "MBA-SAM", "rate": "150"})
    proposal = Proposal.objects.get(dataflow=asked, plan__kind="submit")
    assert response.url == reverse("proposal", args=[proposal.pk])
    proposal = prepare_proposal(proposal_id=proposal.pk)
    promise = plan_of(proposal.plan).promise
    assert promise.pair == ("MBA", "SAM") and promise.rate_per_s == 150
    page = client.get(response.url)
    assert_sound(page, response.url)
    shown = " ".join(re.sub(r"<[^>]+>", " ", page.text).split())
    for bundle in promise.bundles:
        threads = f"{bundle.threads} thread" + ("s" if bundle.threads > 1 else "")
        assert re.search(rf"{bundle.id} {bundle.slot} – {threads}, {round(bundle.share * 100)}%", shown), bundle
    slots = client.get(f"/estate/slots?proposal={proposal.pk}").text
    assert slots.count("starts here") == len(promise.bundles)
    assert f"Slots {len(promise.slots)} Limit" in shown or f"Slots {len(promise.slots)} Latency" in shown
    client.post(reverse("schedule_propose", args=[asked.pk]), {"pair": "MBA-exact", "rate": "150"})
    prepare_proposal(proposal_id=proposal.pk)
    page = client.get(response.url)
    assert_sound(page, response.url)
    assert re.search(r"<dt>Slots</dt><dd>\d+<span class=\"sub\">least slots, proved</span>", page.text)


def test_what_is_proposed_already_is_said_to_be(client_of: ClientOf, asked: DataflowRecord) -> None:
    client, address = client_of("carla"), reverse("schedule_propose", args=[asked.pk])
    proposal = Proposal.objects.get(dataflow=asked)
    for given, already in (
        ({"pair": "MBA-SAM", "rate": "150"}, "This schedule is proposed already; here is its plan."),
        ({"without": "1"}, "It is submitted without a schedule already; here is its plan."),
    ):
        for _ in range(2):  # while its plan is computed, too
            assert "Its plan is being computed. Nothing" in client.post(address, given, follow=True).text
        prepare_proposal(proposal_id=proposal.pk)
        page = client.post(address, given, follow=True).text
        assert already in page and "Its plan is being computed" not in page
    assert Proposal.objects.get(dataflow=asked) == proposal


def test_a_schedule_that_another_choice_would_replace_is_named(
    world: World, client_of: ClientOf, asked: DataflowRecord
) -> None:
    def said(name: str = "carla") -> str:
        response = client_of(name).get(f"/dataflows/{asked.pk}/schedule?rate=50")
        assert_sound(response, name)
        told = re.search(r'<a href="([^"]+)">(The schedule that \w+ proposed)</a>( [^<]*)<', response.text)
        if told is None:
            return ""
        assert told[1] == reverse("proposal", args=[Proposal.objects.open().get(dataflow=asked).pk])
        return told[2] + told[3]

    def propose(name: str, rate: str) -> None:
        client_of(name).post(reverse("schedule_propose", args=[asked.pk]), {"pair": "MBA-SAM", "rate": rate})

    assert said() == "", "it is submitted without one"
    propose("carla", "90")
    assert said() == "The schedule that carla proposed (planning) is replaced by another choice."
    proposal = prepare_proposal(proposal_id=Proposal.objects.get(dataflow=asked).pk)
    assert said("dev") == "The schedule that carla proposed (in review) is replaced by another choice."
    assert said("mo") == "", "whoever may not propose replaces nothing"
    propose("dev", "100")
    assert said().startswith("The schedule that dev proposed")
    enacted(approved(prepare_proposal(proposal_id=proposal.pk), world.ana))
    assert said() == ""
    propose("dev", "190")
    assert said().startswith("The schedule that dev proposed")


def test_another_schedule_of_what_runs_says_what_it_changes(
    world: World, client_of: ClientOf, asked: DataflowRecord
) -> None:
    client = client_of("carla")
    client.post(reverse("schedule_propose", args=[asked.pk]), {"pair": "MBA-SAM", "rate": "90"})
    first = Proposal.objects.get(dataflow=asked)
    enacted(approved(prepare_proposal(proposal_id=first.pk), world.ana))
    found = rows(client.get(f"/dataflows/{asked.pk}/schedule?rate=90").text)
    assert found["MBA-SAM"].endswith("nothing"), found["MBA-SAM"]
    address = f"/dataflows/{asked.pk}/schedule/pairs.json?rate=90&pair="
    answer = client.get(f"{address}MBA-SAM", headers=JSON).json()["pairs"]
    assert cannot(answer, "MBA-SAM").startswith("It runs so already")
    assert cannot(answer, "MBA-exact") == "It is being worked out."
    assert cannot(answer, "LSA-DSM") == ""
    more = rows(client.get(f"/dataflows/{asked.pk}/schedule?rate=190").text)["MBA-SAM"]
    assert re.search(r"\d starts?", more) and re.search(r"\d stays?", more), more
    client.post(reverse("schedule_propose", args=[asked.pk]), {"pair": "MBA-SAM", "rate": "190"})
    second = prepare_proposal(proposal_id=Proposal.objects.get(dataflow=asked, plan__kind="schedule").pk)
    assert second.status == "pending", second.plan.error
    plan = plan_of(second.plan)
    changed = Counter(bundle["change"] for bundle in bundles_of(plan, {}))
    told = {word: int(number) for number, word in re.findall(r"(\d+) (start|move|leave|reweighed)", more)}
    assert told == {word: changed[kind] for word, kind in (
        ("start", "starts"), ("move", "moves"), ("leave", "leaves"), ("reweighed", "weighs")) if changed[kind]}
    page = client.get(reverse("proposal", args=[second.pk]))
    assert_sound(page, "second")
    assert f"{asked.pk}/schedule?pair=MBA-SAM&amp;rate=190.0&amp;routing=slot_aware\"" in page.text, "what is reviewed"
    assert "Schedule linear" in page.text


def test_who_may_not_propose_is_told_and_cannot(world: World, client_of: ClientOf, asked: DataflowRecord) -> None:
    page = client_of("mo").get(f"/dataflows/{asked.pk}/schedule?rate=50").text
    assert "Engineers of City may propose a schedule." in page and "Propose this schedule" not in page
    client_of("mo").post(reverse("schedule_propose", args=[asked.pk]), {"pair": "MBA-SAM", "rate": "90"})
    assert "schedule" not in Proposal.objects.get(dataflow=asked).plan.options


def test_a_dataflow_that_was_submitted_without_a_schedule_is_offered_its_first(
    world: World, client_of: ClientOf
) -> None:
    measured(world)
    record = running(world.carla, world.city, linear(), world.ana)
    client = client_of("carla")
    page = client.get(f"/dataflows/{record.pk}/schedule?rate=50").text
    assert "1 query is cut into tasks then" in page and "Propose this schedule" in page
    told = rows(page)["MBA-SAM"]
    client.post(reverse("schedule_propose", args=[record.pk]), {"pair": "MBA-SAM", "rate": "50"})
    proposal = prepare_proposal(proposal_id=Proposal.objects.get(dataflow=record, plan__kind="schedule").pk)
    assert proposal.status == "pending", proposal.plan.error
    bundles = Counter(bundle["change"] for bundle in bundles_of(plan_of(proposal.plan), {}))
    assert f"{bundles['starts']} start" in told and bundles["stops"] == 1
    page = client.get(reverse("proposal", args=[proposal.pk]))
    assert_sound(page, "first schedule")
    [fused] = plan_of(proposal.plan).fragments_before.keys() - plan_of(proposal.plan).fragments_after.keys()
    assert f"Hand {fused} over to" in page.text and "no event is lost" in page.text


def test_a_dataflow_at_rest_can_be_compared_but_not_scheduled(client_of: ClientOf, asked: DataflowRecord) -> None:
    Proposal.objects.filter(dataflow=asked).update(status="rejected")
    DataflowRecord.objects.filter(pk=asked.pk).update(status="rejected")
    page = client_of("carla").get(f"/dataflows/{asked.pk}/schedule?rate=50").text
    assert "It is rejected: a schedule is chosen for a submission in review" in page
    assert list(rows(page)) == PAIRS and "Propose this schedule" not in page


@pytest.mark.parametrize("way", ["schedule", "schedule_pairs", "schedule_curve", "schedule_outcome"])
def test_a_private_dataflow_of_others_is_not_there(world: World, client_of: ClientOf, way: str) -> None:
    record = planned(world.carla, world.city, document("hush", visibility="private")).dataflow
    address = reverse(way, args=[record.pk])
    hidden = client_of("mo").get(address, headers=JSON)
    missing = client_of("mo").get(reverse(way, args=["00000000-0000-4000-8000-000000000000"]), headers=JSON)
    assert (hidden.status_code, hidden.json()) == (404, missing.json())


@pytest.mark.parametrize(("per_s", "shown"), [
    (None, "–"), (0.25, "0.25/s"), (62.5, "62.5/s"), (190, "190/s"), (1234.5, "1234/s"), (58_000, "58\u202f000/s"),
])
def test_a_rate_is_read_as_it_was_asked(per_s: float | None, shown: str) -> None:
    assert exact_rate(per_s) == shown


@pytest.mark.parametrize(("value", "shown"), [
    (None, "–"), (0.0421, "42 ms"), (1.26, "1.3 s"), (119, "119.0 s"), (180, "3 min"),
])
def test_times_have_the_unit_that_suits_them(value: float | None, shown: str) -> None:
    assert seconds(value) == shown
