"""Compare and what-if: all pairs for a rate, what has no schedule and why, and proposing one."""

from __future__ import annotations

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
from tests.cases import each
from tests.dashboard.building import World, approved, document, enacted, planned, running
from tests.pages.building import JSON, PAIRS, cannot, chosen, headlines, is_disabled, rows, selected, texts
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup, assert_sound
from tests.pages.scheduling import linear, measured


def test_all_pairs_stand_side_by_side(client_of: ClientOf, waiting: DataflowRecord) -> None:
    address = f"/dataflows/{waiting.pk}/schedule?rate=100"
    response = client_of("carla").get(address)
    assert_sound(response, address)
    page = Markup(response.text)
    pairs = rows(response.text)
    assert list(pairs) == PAIRS
    for pair, row in pairs.items():
        if pair.endswith("exact"):
            assert "data-pending" in row.attributes
            continue
        assert row.values("data-nodes") == ["n1"] and row.number("slots") >= 1
        assert row.number("per-month") > row.number("per-hour") > 0 and row.number("sustained") > 0
        assert row.number("changes.start") >= 1 and row.number("changes.move") == row.number("changes.leave") == 0
    exact = client_of("carla").get(f"{address}&complete=1")
    assert_sound(exact, address)
    for pair in ("LSA-exact", "MBA-exact"):
        assert rows(exact.text)[pair].one("data-bound", "slots").attributes["data-proved"] == "yes"
    assert set(page.values("data-origin")) == {"measured here", "declared by its type, not measured"}


def test_a_rate_that_the_source_never_makes_is_warned_about(client_of: ClientOf, waiting: DataflowRecord) -> None:
    client, address = client_of("carla"), f"/dataflows/{waiting.pk}/schedule"
    assert "more-than-made" not in Markup(client.get(address).text).notes
    assert "more-than-made" not in Markup(client.get(f"{address}?rate=50").text).notes
    assert "more-than-made" in Markup(client.get(f"{address}?rate=51").text).notes
    moved = client.get(f"{address}/pairs.json?rate=220", headers=JSON).json()
    assert "more-than-made" in Markup(moved["pairs"]).notes


def test_what_if_answers_with_the_table_at_that_rate(client_of: ClientOf, waiting: DataflowRecord) -> None:
    client, address = client_of("carla"), f"/dataflows/{waiting.pk}/schedule/pairs.json"
    slots = []
    for rate in (20, 100, 220):
        answer = client.get(f"{address}?rate={rate}&pair=MBA-SAM", headers=JSON).json()
        assert (answer["rate"], answer["chosen"]) == (rate, "MBA-SAM")
        assert chosen(answer["pairs"]) == "MBA-SAM"
        slots.append(headlines(answer["pairs"])["MBA-SAM"].number("slots"))
    assert slots == sorted(slots) and slots[0] < slots[-1]
    whole = client.get(f"/dataflows/{waiting.pk}/schedule?rate=220&pair=MBA-SAM").text
    assert texts(whole) == texts(answer["pairs"])


def test_a_profile_that_is_set_aside_or_used_again_counts_at_once(
    client_of: ClientOf, waiting: DataflowRecord
) -> None:
    """Though what a question rests on is kept for seconds."""
    client, address = client_of("carla"), f"/dataflows/{waiting.pk}/schedule/pairs.json?rate=100"
    record = ProfileRecord.objects.get(task_type="pi_viete")
    before = client.get(address, headers=JSON).json()["pairs"]
    client.post(reverse("profile_act", args=[record.pk, "set_aside"]))
    assert client.get(address, headers=JSON).json().get("pairs") != before
    client.post(reverse("profile_act", args=[record.pk, "use"]))
    assert texts(client.get(address, headers=JSON).json()["pairs"]) == texts(before)


def test_one_answer_has_what_is_shown_of_whichever_pair_is_chosen(client_of: ClientOf, waiting: DataflowRecord) -> None:
    address, client = f"/dataflows/{waiting.pk}/schedule", client_of("carla")
    page = client.get(f"{address}?rate=100&pair=LSA-DSM&complete=1").text
    answer = client.get(f"{address}/pairs.json?rate=100&pair=MBA-SAM&complete=1", headers=JSON).json()["pairs"]
    for text in (page, answer):
        assert list(headlines(text)) == PAIRS
        for pair, figures in headlines(text).items():
            row = rows(text)[pair]
            for name in ("slots", "per-hour", "sustained"):
                assert figures.field(name) == row.field(name), pair
            assert row.values("data-nodes") == ["n1"] and cannot(text, pair) == ""
    assert Markup(page).one("data-part", "headline").text == headlines(page)["LSA-DSM"].text


@pytest.mark.long  # tests/dashboard/test_comparison.py has these machines
def test_the_paper_s_machines_stand_beside_cheaper_ones_with_their_price(
    client_of: ClientOf, waiting: DataflowRecord
) -> None:
    client, shown = client_of("carla"), 0
    for rate in (700, 1100):
        pairs = client.get(f"/api/dataflows/{waiting.pk}/schedules?rate_per_s={rate}", headers=JSON).json()["schedules"]
        page = rows(client.get(f"/dataflows/{waiting.pk}/schedule?rate={rate}&complete=1").text)
        for pair in (pair for pair in pairs if pair.get("published_machines")):
            row = page["-".join(pair["pair"])]
            assert row.number("per-hour.published") == pair["published_machines"]["per_hour"] > pair["per_hour"]
            shown += 1
        if shown:  # another rate is worked out where none costs more at this one
            break
    assert shown


def test_without_scripts_our_own_mapping_is_worked_out_beside_what_was_chosen(
    client_of: ClientOf, waiting: DataflowRecord
) -> None:
    query = "rate=100&pair=LSA-RSM&routing=shuffle"
    page = Markup(client_of("carla").get(f"/dataflows/{waiting.pk}/schedule?{query}").text)
    [link] = {link.attributes["href"] for link in page.every("a") if "noscript" in link.ancestors}
    again = client_of("carla").get(f"/dataflows/{waiting.pk}/schedule{link}").text
    assert rows(again)["MBA-exact"].one("data-bound", "slots").attributes["data-proved"] == "yes"
    assert chosen(again) == "LSA-RSM" and selected(again, "routing") == "shuffle"
    assert Markup(again).number("rate") == 100


def test_only_what_keeps_the_rate_is_said_to_keep_it(
    client_of: ClientOf, waiting: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Markup(client_of("carla").get(f"/dataflows/{waiting.pk}/schedule?rate=100").text)
    assert page.one("data-best").attributes["data-keeps"] == "yes"
    monkeypatch.setattr(Prediction, "keeps", False)
    page = Markup(client_of("carla").get(f"/dataflows/{waiting.pk}/schedule?rate=101").text)
    assert set(page.values("data-keeps")) == {"no"} and not page.having("data-best")


def test_routing_changes_what_is_predicted(client_of: ClientOf, waiting: DataflowRecord) -> None:
    address = f"/dataflows/{waiting.pk}/schedule/pairs.json?rate=190&pair=MBA-SAM&routing="
    aware, even = (client_of("carla").get(address + routing, headers=JSON).json()
        for routing in ("slot_aware", "shuffle"))
    assert rows(aware["pairs"])["MBA-SAM"].attributes["data-keeps"] == "yes"
    assert rows(even["pairs"])["MBA-SAM"].attributes["data-keeps"] == "no"


def test_the_curve_goes_over_rates_and_ends_where_there_is_no_schedule(
    client_of: ClientOf, waiting: DataflowRecord, settings
) -> None:
    address = f"/dataflows/{waiting.pk}/schedule/curve.json"
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


@each("rate", ["0", "-5", "nan", "inf", "many", "1e999", "1e13"])
def test_what_is_no_rate_is_refused(client_of: ClientOf, waiting: DataflowRecord, rate: str) -> None:
    page = client_of("carla").get(f"/dataflows/{waiting.pk}/schedule", {"rate": rate})
    assert page.status_code == 422
    assert Markup(page.text).values("data-error") == ["invalid_resources"]
    assert list(rows(page.text)) == PAIRS  # at the sources' own
    assert_sound(page, rate)
    answer = client_of("carla").get(f"/dataflows/{waiting.pk}/schedule/pairs.json", {"rate": rate}, headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_resources")
    before = Proposal.objects.count()
    client_of("carla").post(reverse("schedule_propose", args=[waiting.pk]), {"rate": rate, "pair": "MBA-SAM"})
    assert Proposal.objects.count() == before


def test_slots_that_are_not_there_would_be_bought(world: World, client_of: ClientOf, settings) -> None:
    measured(world, slots=2)
    record = planned(world.carla, world.city, linear()).dataflow
    page = client_of("carla").get(f"/dataflows/{record.pk}/schedule?rate=600").text
    row = rows(page)["MBA-SAM"]
    bought = {size: int(machines.attributes["data-count"]) for size, machines in row.by("data-buy").items()}
    assert row.values("data-nodes") == ["n1"] and bought == {"D4": 3, "D3": 1}
    assert row.number("slots.to-buy") == 28
    assert cannot(page, chosen(page)) and is_disabled(page, "propose")


def test_where_no_slot_is_free_it_is_said_with_what_helps(
    world: World, client_of: ClientOf, waiting: DataflowRecord
) -> None:
    address = f"/dataflows/{waiting.pk}/schedule?rate=50"
    assert "no-slot-free" not in Markup(client_of("carla").get(address).text).notes
    register_node(name="n1", slots=0)
    response = client_of("carla").get(address)
    assert_sound(response, address)
    note = Markup(response.text).one("data-note", "no-slot-free")
    assert note.attributes["data-buys"] == "yes" and note.links(reverse("slots"))
    assert any(code.text.startswith("./weir agent") for code in note.every("code"))
    assert is_disabled(response.text, "propose")


def test_a_stale_profile_is_said(world: World, client_of: ClientOf, waiting: DataflowRecord) -> None:
    ProfileRecord.objects.filter(task_type="pi_viete").update(version=0)
    measure = f"{reverse('measure')}?dataflow={waiting.pk}&task=pi"
    for name, may_measure in (("carla", True), ("vera", False)):
        note = Markup(client_of(name).get(f"/dataflows/{waiting.pk}/schedule?rate=50").text).one("data-warning")
        assert (note.attributes["data-warning"], note.attributes["data-type"]) == ("stale", "pi_viete")
        assert note.links(measure) is may_measure
        assert "version 0 of pi_viete" in note.text, "which version it was measured with"


def test_drift_and_rough_peaks_are_said_with_the_task_and_where_to_measure_again(
    client_of: ClientOf, waiting: DataflowRecord
) -> None:
    drift = {"what": "rate", "threads": 1, "expected": 100.0, "observed": 70.0, "beyond": True}
    ProfileRecord.objects.filter(task_type="pi_viete").update(drifts=[drift], rough=[2])
    address = f"/dataflows/{waiting.pk}/schedule?rate=50"
    response = client_of("carla").get(address)
    assert_sound(response, address)
    page = Markup(response.text)
    warnings = {note.attributes["data-warning"]: note for note in page.having("data-warning")}
    assert set(warnings) == {"drifted", "rough"}
    for note in warnings.values():
        assert note.attributes["data-type"] == "pi_viete"
        assert note.links(f"{reverse('measure')}?dataflow={waiting.pk}&task=pi")
    assert "70 events/s" in warnings["drifted"].text and "100" in warnings["drifted"].text
    [task] = page.having("data-task", "pi")
    assert set(task.values("data-profile-warning")) == {"drifted", "rough"}, "below, beside the task"


def test_what_is_chosen_becomes_a_proposal_that_shows_its_bundles(
    world: World, client_of: ClientOf, waiting: DataflowRecord
) -> None:
    client = client_of("carla")
    response = client.post(reverse("schedule_propose", args=[waiting.pk]), {"pair": "MBA-SAM", "rate": "150"})
    proposal = Proposal.objects.get(dataflow=waiting, plan__kind="submit")
    assert response.url == reverse("proposal", args=[proposal.pk])
    proposal = prepare_proposal(proposal_id=proposal.pk)
    promise = plan_of(proposal.plan).promise
    assert promise.pair == ("MBA", "SAM") and promise.rate_per_s == 150
    page = client.get(response.url)
    assert_sound(page, response.url)
    shown = Markup(page.text)
    bundles = shown.by("data-bundle")
    for bundle in promise.bundles:
        row = bundles[bundle.id].attributes
        assert (row["data-change"], row["data-on"], int(row["data-threads"])) == ("starts", bundle.slot, bundle.threads)
        assert float(row["data-weight"]) == pytest.approx(bundle.share, abs=1e-5)
    slots = Markup(client.get(f"/estate/slots?proposal={proposal.pk}").text)
    assert {bundle.attributes["data-bundle"] for bundle in slots.having("data-change", "starts")} == {
        bundle.id for bundle in promise.bundles}
    assert shown.number("promise.slots") == len(promise.slots)
    client.post(reverse("schedule_propose", args=[waiting.pk]), {"pair": "MBA-exact", "rate": "150"})
    prepare_proposal(proposal_id=proposal.pk)
    page = client.get(response.url)
    assert_sound(page, response.url)
    assert Markup(page.text).one("data-bound", "slots").attributes["data-proved"] == "yes"


def test_what_is_proposed_already_is_said_to_be(client_of: ClientOf, waiting: DataflowRecord) -> None:
    client, address = client_of("carla"), reverse("schedule_propose", args=[waiting.pk])
    proposal = Proposal.objects.get(dataflow=waiting)
    for given in ({"pair": "MBA-SAM", "rate": "150"}, {"without": "1"}):
        for _ in range(2):  # while its plan is computed, too
            page = Markup(client.post(address, given, follow=True).text)
            assert page.flashes == ["computing"] and "computing" in page.notes
        prepare_proposal(proposal_id=proposal.pk)
        page = Markup(client.post(address, given, follow=True).text)
        assert page.flashes == ["proposed-before"] and "computing" not in page.notes
        assert ("schedule" in Proposal.objects.get(dataflow=waiting).plan.options) is ("pair" in given)
    assert Proposal.objects.get(dataflow=waiting) == proposal


def test_a_schedule_that_another_choice_would_replace_is_named(
    world: World, client_of: ClientOf, waiting: DataflowRecord
) -> None:
    def replaced(name: str = "carla") -> tuple[str | None, ...] | None:
        response = client_of(name).get(f"/dataflows/{waiting.pk}/schedule?rate=50")
        assert_sound(response, name)
        page = Markup(response.text)
        if "replaces" not in page.notes:
            return None
        note = page.one("data-note", "replaces")
        assert note.links(reverse("proposal", args=[Proposal.objects.open().get(dataflow=waiting).pk]))
        return note.attributes["data-by"], note.attributes["data-status"]

    def propose(name: str, rate: str) -> None:
        client_of(name).post(reverse("schedule_propose", args=[waiting.pk]), {"pair": "MBA-SAM", "rate": rate})

    assert replaced() is None, "it is submitted without one"
    propose("carla", "90")
    assert replaced() == ("carla", "computing")
    proposal = prepare_proposal(proposal_id=Proposal.objects.get(dataflow=waiting).pk)
    assert replaced("dev") == ("carla", "pending")
    assert replaced("mo") is None, "whoever may not propose replaces nothing"
    propose("dev", "100")
    assert replaced() == ("dev", "computing")
    enacted(approved(prepare_proposal(proposal_id=proposal.pk), world.ana))
    assert replaced() is None
    propose("dev", "190")
    assert replaced() == ("dev", "computing")


def test_another_schedule_of_what_runs_says_what_it_changes(
    world: World, client_of: ClientOf, waiting: DataflowRecord
) -> None:
    client = client_of("carla")
    client.post(reverse("schedule_propose", args=[waiting.pk]), {"pair": "MBA-SAM", "rate": "90"})
    first = Proposal.objects.get(dataflow=waiting)
    enacted(approved(prepare_proposal(proposal_id=first.pk), world.ana))
    row = rows(client.get(f"/dataflows/{waiting.pk}/schedule?rate=90").text)["MBA-SAM"]
    assert row.number("slots") and not row.having("data-field", "changes.stay"), "it changes nothing"
    address = f"/dataflows/{waiting.pk}/schedule/pairs.json?rate=90&pair="
    answer = client.get(f"{address}MBA-SAM", headers=JSON).json()["pairs"]
    assert cannot(answer, "MBA-SAM"), "it runs like this already"
    assert cannot(answer, "MBA-exact") and "data-pending" in rows(answer)["MBA-exact"].attributes
    assert cannot(answer, "LSA-DSM") == ""
    more = rows(client.get(f"/dataflows/{waiting.pk}/schedule?rate=190").text)["MBA-SAM"]
    assert more.number("changes.start") and more.number("changes.stay")
    client.post(reverse("schedule_propose", args=[waiting.pk]), {"pair": "MBA-SAM", "rate": "190"})
    second = prepare_proposal(proposal_id=Proposal.objects.get(dataflow=waiting, plan__kind="schedule").pk)
    assert second.status == "pending", second.plan.error
    plan = plan_of(second.plan)
    changed = Counter(bundle["change"] for bundle in bundles_of(plan, {}))
    for name, kind in (("start", "starts"), ("move", "moves"), ("leave", "leaves"), ("weigh", "weighs")):
        assert more.number(f"changes.{name}") == changed[kind], kind
    page = client.get(reverse("proposal", args=[second.pk]))
    assert_sound(page, "second")
    shown = Markup(page.text)
    assert shown.links(
        f"/dataflows/{waiting.pk}/schedule?pair=MBA-SAM&rate=190.0&routing=slot_aware"), "what is reviewed"
    assert shown.every("h1")[0].attributes["data-kind"] == "schedule"


def test_who_may_not_propose_is_told_and_cannot(world: World, client_of: ClientOf, waiting: DataflowRecord) -> None:
    page = Markup(client_of("mo").get(f"/dataflows/{waiting.pk}/schedule?rate=50").text)
    assert "City" in page.one("data-note", "not-proposable").text, "whose engineers may"
    assert not page.having("data-part", "propose")
    client_of("mo").post(reverse("schedule_propose", args=[waiting.pk]), {"pair": "MBA-SAM", "rate": "90"})
    assert "schedule" not in Proposal.objects.get(dataflow=waiting).plan.options


def test_a_dataflow_that_was_submitted_without_a_schedule_is_offered_its_first(
    world: World, client_of: ClientOf
) -> None:
    measured(world)
    record = running(world.carla, world.city, linear(), world.ana)
    client = client_of("carla")
    page = client.get(f"/dataflows/{record.pk}/schedule?rate=50").text
    assert Markup(page).number("queries.cut") == 1 and not is_disabled(page, "propose")
    row = rows(page)["MBA-SAM"]
    client.post(reverse("schedule_propose", args=[record.pk]), {"pair": "MBA-SAM", "rate": "50"})
    proposal = prepare_proposal(proposal_id=Proposal.objects.get(dataflow=record, plan__kind="schedule").pk)
    assert proposal.status == "pending", proposal.plan.error
    bundles = Counter(bundle["change"] for bundle in bundles_of(plan_of(proposal.plan), {}))
    assert row.number("changes.start") == bundles["starts"] and bundles["stops"] == 1
    page = client.get(reverse("proposal", args=[proposal.pk]))
    assert_sound(page, "first schedule")
    plan = plan_of(proposal.plan)
    [fused] = plan.fragments_before.keys() - plan.fragments_after.keys()
    handovers = [
        step for step in plan.steps
        if step.kind == "hand_over" and fused in plan.fragments_after[step.fragment].inherits]
    assert handovers and {step.key for step in handovers} <= set(Markup(page.text).values("data-step"))


def test_a_dataflow_at_rest_can_be_compared_but_not_scheduled(client_of: ClientOf, waiting: DataflowRecord) -> None:
    Proposal.objects.filter(dataflow=waiting).update(status="rejected")
    DataflowRecord.objects.filter(pk=waiting.pk).update(status="rejected")
    page = client_of("carla").get(f"/dataflows/{waiting.pk}/schedule?rate=50").text
    assert "rejected" in Markup(page).one("data-note", "not-proposable").text
    assert list(rows(page)) == PAIRS and not Markup(page).having("data-part", "propose")


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
    (3600, "60 min"), (14_400, "4 h"), (129_600, "36 h"), (604_800, "7 days"),
])
def test_times_have_the_unit_that_suits_them(value: float | None, shown: str) -> None:
    assert seconds(value) == shown
