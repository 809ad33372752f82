"""The page Deployment: what runs where, what passes between slots, and moves that people propose."""

from __future__ import annotations

from datetime import datetime

import pytest
from django.conf import settings
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.lifecycle import STALE, UNPLANNABLE
from dashboard.approvals.models import Proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.estate_store.offered_slots import SILENT_AFTER
from dashboard.operations.live_view.deployment_reader import deployment_of
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.live_view.telemetry import EVERYTHING
from dashboard.operations.models import HandoverPause, NodeRow, SlotRow
from dashboard.plans.selectors import plan_of
from scheduler.deployment.online import Thresholds, decide
from scheduler.history.series import Annotation, Series
from scheduler.model.fragment import node_of
from tests.dashboard.building import World, approved, document, enacted, planned, removal_planned, running
from tests.dashboard.rearranging import prepared
from tests.pages.conftest import ClientOf
from tests.pages.deployment import hears, reading
from tests.pages.markup import Markup, assert_sound

pytestmark = pytest.mark.usefixtures("heard")


def test_without_anything_that_runs_the_page_says_so(world: World, client_of: ClientOf) -> None:
    response = client_of("carla").get("/estate/deployment/")
    assert_sound(response, "/estate/deployment/")
    page = Markup(response.text)
    assert "nothing-runs" in page.notes


def test_queries_are_on_their_slots_with_what_passes_between_them(world: World, client_of: ClientOf) -> None:
    first = running(world.carla, world.city, document("traffic"), world.ana)
    running(world.carla, world.city, document("jams", window=20), world.ana)
    enacted(approved(removal_planned(world.carla, first), world.ana))
    answer = client_of("carla").get("/api/deployment").json()
    queries = [query for slot in answer["slots"] for query in slot["queries"]]
    assert {query["id"] for query in queries} == set(load_estate().fragments)
    assert sum(row["bytes_per_s"] for row in answer["traffic"]) == pytest.approx(500.0), "10 events/s of 50 bytes"
    assert sum(row["events_per_s"] for row in answer["traffic"]) == pytest.approx(10.0)
    [pair] = answer["pairs"]
    assert {pair["source"], pair["target"]} <= set(load_estate().fragments) and pair["events_per_s"] == 10.0
    response = client_of("carla").get("/estate/deployment/")
    assert_sound(response, "/estate/deployment/")
    page = Markup(response.text)
    assert set(page.values("data-query")) == {query["id"] for query in queries}
    assert page.values("data-pairs") and "10.0</td>" in response.text


def test_how_many_events_wait_is_told_of_each_query(
    world: World, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)
    (fragment,) = load_estate().fragments
    monkeypatch.setattr(jobs, "waiting_events", lambda *_: {fragment: 1234})
    answer = client_of("carla").get("/api/deployment").json()
    assert [query["waiting"] for slot in answer["slots"] for query in slot["queries"]] == [1234]
    assert " events wait</span>" in client_of("carla").get("/estate/deployment/").text


def test_a_move_is_proposed_and_done_and_undone(world: World, client_of: ClientOf) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    (fragment,) = load_estate().fragments.values()
    target = next(slot.name for slot in load_estate().slots if slot.name != fragment.slot)
    suggestion = client_of("carla").get("/api/deployment").json()["suggestion"]
    assert suggestion["move"] is None and "none of its bundles" in suggestion["why"], "it fills any slot"

    client_of("carla").post(f"/dataflows/{record.pk}/move", {"query": fragment.id, "slot": target})
    proposal = Proposal.objects.get(plan__kind="move")
    assert plan_of(prepared(proposal).plan).steps
    enacted(approved(proposal, world.ana))
    (moved,) = load_estate().fragments.values()
    assert (moved.slot, moved.inherits) == (target, (fragment.id,))

    now_s = int(timezone.now().timestamp())
    DatabaseHistory().annotate([
        Annotation(now_s, "handed_over", "query", moved.id, "It stood still for a batch and 230 ms.")])
    response = client_of("carla").get("/estate/deployment/")
    assert_sound(response, "/estate/deployment/")
    assert Markup(response.text).values("data-move") == [str(proposal.pk)]
    assert "for a batch and 230 ms" in response.text and f"from {fragment.slot}" in response.text


def test_the_measured_pause_of_a_move_is_a_band_on_the_throughput_of_what_was_moved(
    world: World, client_of: ClientOf
) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    (fragment,) = load_estate().fragments.values()
    target = next(slot.name for slot in load_estate().slots if slot.name != fragment.slot)
    client_of("carla").post(f"/dataflows/{record.pk}/move", {"query": fragment.id, "slot": target})
    enacted(approved(prepared(Proposal.objects.get(plan__kind="move")), world.ana))
    (moved,) = load_estate().fragments.values()
    now_s, history = int(timezone.now().timestamp()), DatabaseHistory()
    subjects = (("estate", ""), ("dataflow", str(record.pk)))
    history.append(now_s - 2, {Series(kind, subject, "events_out_per_s"): 10.0 for kind, subject in subjects})
    history.flush()
    for query in (moved.id, "f99-0"):  # the other one is no move's
        HandoverPause.objects.create(query=query, at_ms=1000 * now_s - 700, gap_ms=310, between_nodes=False)

    def pauses(person: str, kind: str, subject: str = "", name: str = "rate") -> list[dict]:
        [chart] = client_of(person).get(
            "/charts.json", {"kind": kind, "subject": subject, "only": name, "range": "5m"}).json()["charts"]
        assert all(pause["text"] in chart["summary"] for pause in chart["pauses"])
        return chart["pauses"]

    [pause] = pauses("carla", "estate")
    begin, end = (datetime.fromisoformat(pause[side]).timestamp() for side in ("begin", "end"))
    assert (round(end - begin, 3), pause["label"]) == (0.31, "0.31 s")
    assert "average" in pause["text"] and pause["text"].endswith(" moved: still for a batch and 0.31 s")
    assert pauses("carla", "dataflow", str(record.pk)) == [pause]
    assert not pauses("carla", "estate", name="tasks")
    record.visibility = "private"
    record.save()
    assert not pauses("mo", "estate"), "what they may not know of is not told"


def test_a_suggestion_says_what_a_move_would_take(
    world: World, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in (1, 2, 3):
        running(world.carla, world.city, document(f"line-{seed}").replace(
            '"type": "urban_sensing"', f'"type": "urban_sensing", "config": {{"seed": {seed}}}'), world.ana)
    crowded = [fragment.id for fragment in load_estate().fragments.values()]
    by_slot = [[name for name in crowded if load_estate().fragments[name].slot == slot] for slot in ("n1/0", "n1/1")]
    hot, cold = sorted(by_slot, key=len, reverse=True)
    monkeypatch.setattr(jobs, "read_live", lambda *_: reading(cpu={hot[0]: 0.6, hot[1]: 0.3, cold[0]: 0.05}))
    move = client_of("carla").get("/api/deployment").json()["suggestion"]["move"]
    assert move["pause_s"] == pytest.approx(0.6) and not move["between_nodes"], "a batch and a gap on a node"
    assert move["pause_at_most_s"] > move["pause_s"] and move["risks"] == []
    assert [slot["load"] for slot in move["slots"]] == ["low", "normal"] and move["saved_bytes_per_s"] == 0.0
    assert [(team["slug"], team["approvals"]) for team in move["teams"]] == [("city", 1)]
    response = client_of("carla").get("/estate/deployment/")
    assert_sound(response, "/estate/deployment/")
    assert "stands still for about 0.6 s" in response.text and "As much passes between nodes as now" in response.text


def test_where_cpu_lacks_more_slots_and_their_price_are_named(
    world: World, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "CORE_HOUR_PRICE", 0.5)
    monkeypatch.setattr(settings, "CURRENCY", "EUR")
    running(world.carla, world.city, document("a"), world.ana)
    running(world.carla, world.city, document("b").replace(
        '"type": "urban_sensing"', '"type": "urban_sensing", "config": {"seed": 5}'), world.ana)
    suggestion = client_of("carla").get("/api/deployment").json()["suggestion"]
    words = "0.2 cores are lacking: 1 more slot, at 0.50 EUR an hour, would be enough."
    assert suggestion["lacking"] == pytest.approx(0.2) and words in suggestion["why"]
    assert f"{words} Start an agent" in client_of("carla").get("/estate/deployment/").text


def test_a_suggestion_of_several_queries_is_one_proposal(
    world: World, client_of: ClientOf, unchained: DataflowRecord
) -> None:
    suggestion = client_of("carla").get("/api/deployment").json()["suggestion"]["move"]
    assert len(suggestion["along"]) == 1 and suggestion["dataflow"]["id"] == str(unchained.pk)
    assert suggestion["pause_s"] == pytest.approx(4.1), "a batch and a gap between nodes"
    response = client_of("carla").get("/estate/deployment/")
    assert_sound(response, "/estate/deployment/")
    assert f'name="along" value="{suggestion["along"][0]}"' in response.text and "Their outputs stand" in response.text
    assert suggestion["saved_bytes_per_s"] == 1000.0
    assert "1.0 kB a second less pass between nodes then" in response.text

    client_of("carla").post(f"/dataflows/{unchained.pk}/move", {
        "query": suggestion["query"], "slot": suggestion["slot"], "along": suggestion["along"]})
    proposal = Proposal.objects.get(plan__kind="move")
    assert len(plan_of(prepared(proposal).plan).steps) == 2
    enacted(approved(proposal, world.ana))
    (node,) = {node_of(fragment.slot) for fragment in load_estate().fragments.values()}
    assert node == node_of(suggestion["slot"])
    response = client_of("carla").get("/estate/deployment/")
    assert_sound(response, "/estate/deployment/")
    assert Markup(response.text).values("data-move") == [str(proposal.pk)] * 2


def test_what_cannot_be_moved_says_why(world: World, client_of: ClientOf) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    client_of("carla").post(f"/dataflows/{record.pk}/move", {"query": "f9-9", "slot": "n1/1"})
    proposal = prepared(Proposal.objects.get(plan__kind="move"))
    assert "has no query f9-9" in proposal.plan.error["message"]
    assert client_of("mo").post(f"/dataflows/{record.pk}/move", {"query": "f1-0", "slot": "n1/1"}).status_code in (
        302, 403, 404)
    assert Proposal.objects.filter(plan__kind="move").count() == 1


def test_private_queries_of_others_are_not_shown(world: World, client_of: ClientOf) -> None:
    planned(world.carla, world.city, document("open"))
    running(world.carla, world.city, document("hush", visibility="private"), world.ana)
    answer = client_of("mo").get("/api/deployment").json()
    assert not [query for slot in answer["slots"] for query in slot["queries"]] and answer["traffic"] == []


# Where nothing may go -------------------------------------------------------------------------------------------------


def reached(client_of: ClientOf) -> set[str]:
    """The slots that the page, the API and the suggestion have queries go to."""
    answer = client_of("carla").get("/api/deployment").json()
    offered = {target for slot in answer["slots"] for query in slot["queries"] for target in query["targets"]}
    page = client_of("carla").get("/estate/deployment/").text
    assert {name for value in Markup(page).values("data-targets") for name in value.split()} == offered
    assert answer["suggestion"]["move"] is None or answer["suggestion"]["move"]["slot"] in offered
    return offered


def test_nothing_goes_to_a_silent_node(
    world: World, client_of: ClientOf, halves: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reached(client_of) == {"n1/0", "n1/1", "n2/0", "n2/1", "n3/0"}
    hears(monkeypatch, "n1", "n3")
    assert reached(client_of) == {"n1/0", "n1/1", "n3/0"}
    answer = client_of("carla").get("/api/deployment").json()
    assert {slot["slot"] for slot in answer["slots"] if slot["queries"]} == {"n1/0", "n1/1", "n2/0", "n2/1"}
    deployment = deployment_of(view_for(EVERYTHING))
    assert all(not bundle.movable for bundle in deployment.bundles.values() if node_of(bundle.slot) == "n2"), (
        "nor does it leave one")

    NodeRow.objects.update(seen=timezone.now())
    NodeRow.objects.filter(name="n2").update(seen=timezone.now() - 2 * SILENT_AFTER)
    (fragment,) = (part for part in load_estate().fragments.values() if part.slot == "n1/0")
    client_of("carla").post(f"/dataflows/{halves.pk}/move", {"query": fragment.id, "slot": "n2/0"})
    proposal = prepared(Proposal.objects.get(plan__kind="move"))
    assert proposal.status == UNPLANNABLE and proposal.plan.error["code"] == "invalid_transition"
    assert "n2 does not report" in proposal.plan.error["message"] and "n2" in proposal.plan.error["remedy"]


def test_a_move_that_is_approved_once_its_target_is_silent_does_not_begin(
    world: World, client_of: ClientOf, halves: DataflowRecord
) -> None:
    (fragment,) = (part for part in load_estate().fragments.values() if part.slot == "n1/0")
    client_of("carla").post(f"/dataflows/{halves.pk}/move", {"query": fragment.id, "slot": "n3/0"})
    proposal = prepared(Proposal.objects.get(plan__kind="move"))
    NodeRow.objects.update(seen=timezone.now())
    NodeRow.objects.filter(name="n3").update(seen=timezone.now() - 2 * SILENT_AFTER)
    assert approved(proposal, world.ana).status == STALE
    proposal = Proposal.objects.get(pk=proposal.pk)
    assert "n3" in proposal.plan.error["message"] and proposal.plan.error["remedy"]
    assert fragment.id in load_estate().fragments


def test_a_little_traffic_is_not_worth_a_move(client_of: ClientOf, halves: DataflowRecord, settings) -> None:
    def suggested() -> dict | None:
        return client_of("carla").get("/api/deployment").json()["suggestion"]["move"]

    assert suggested()
    settings.DEPLOYMENT_LEAST_KB_S = 10.0
    assert not suggested()


def test_what_nobody_has_measured_yet_is_no_zero(
    client_of: ClientOf, halves: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    hears(monkeypatch, "n1", "n3")
    by_slot = {slot["slot"]: slot["queries"] for slot in client_of("carla").get("/api/deployment").json()["slots"]}
    assert [[query["cores"] for query in by_slot[slot]] for slot in ("n1/0", "n2/0")] == [[0.05], [None]]
    response = client_of("carla").get("/estate/deployment/")
    assert_sound(response, "/estate/deployment/")
    assert response.text.count("not measured yet") == 2 and "0.000 cores" not in response.text


def test_nothing_goes_to_a_drained_node_on_which_a_query_stays(
    client_of: ClientOf, halves: DataflowRecord
) -> None:
    NodeRow.objects.filter(name="n2").update(draining_since=timezone.now())
    assert reached(client_of) == {"n1/0", "n1/1", "n3/0"}
    loads = {slot["slot"]: slot["cores"] for slot in client_of("carla").get("/api/deployment").json()["slots"]}
    assert loads["n2/0"] == loads["n2/1"] == 0.05, "what is there counts"
    deployment = deployment_of(view_for(EVERYTHING))
    assert deployment.traffic and deployment.share_between_nodes > 0
    turn = decide(deployment, Thresholds())
    assert turn.move is None or node_of(turn.move.target) != "n2"


def test_nothing_goes_to_a_reserved_slot(client_of: ClientOf, halves: DataflowRecord) -> None:
    SlotRow.objects.filter(name__in=["n2/0", "n3/0"]).update(reserved_for="a measurement")
    assert reached(client_of) == {"n1/0", "n1/1", "n2/1"}
    turn = decide(deployment_of(view_for(EVERYTHING)), Thresholds())
    assert turn.move is None or turn.move.target not in {"n2/0", "n3/0"}
