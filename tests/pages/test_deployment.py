"""The page Deployment: what runs where, what passes between slots, and moves that people propose."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from io import StringIO

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.lifecycle import STALE, UNPLANNABLE
from dashboard.approvals.models import Proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.history.store import DatabaseHistory
from dashboard.operations.deployment import deployment_of
from dashboard.operations.estate import load_estate
from dashboard.operations.models import FragmentRow, NodeRow, SlotRow
from dashboard.operations.offered_slots import SILENT_AFTER
from dashboard.operations.services import register_node
from dashboard.operations.telemetry import EVERYTHING
from dashboard.operations.view import view_for
from dashboard.plans.selectors import plan_of
from scheduler.contracts.reports import NodeReport, Reports
from scheduler.deployment.online import Thresholds, decide
from scheduler.history.series import Annotation
from scheduler.model.fragment import Slot, node_of
from tests.dashboard.building import World, approved, document, enacted, planned, removal_planned, running
from tests.dashboard.rearranging import prepared
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup, assert_sound
from workers.engine.observed import Flows, TaskFlow


def reading(cpu: Mapping[str, float] | None = None) -> jobs.LiveReading:
    """Every query takes nearly a core, or so much CPU, and every task gives 10 events/s."""
    nodes: dict[str, dict] = {}
    estate = load_estate()
    for fragment in estate.fragments.values():
        node = nodes.setdefault(node_of(fragment.slot), {"node": node_of(fragment.slot), "slots": {}})
        slot = node["slots"].setdefault(str(Slot.of(fragment.slot).index), {"state": "running", "fragments": {}})
        slot["fragments"][fragment.id] = {"state": "running", "cpu": (cpu or {}).get(fragment.id, 0.95)}
    flows = Flows(tasks={task: TaskFlow(10.0, 100, 20.0, 30.0) for task in estate.tasks})
    return jobs.LiveReading(reports=Reports.of(nodes), flows=flows)


@pytest.fixture(autouse=True)
def heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "read_live", lambda *_: reading())
    monkeypatch.setattr(jobs, "event_bytes", lambda channels: dict.fromkeys(channels, 50.0))


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
    response = client_of("carla").get("/estate/deployment/")
    assert_sound(response, "/estate/deployment/")
    page = Markup(response.text)
    assert set(page.values("data-query")) == {query["id"] for query in queries}


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
    words = "They are asked for 0.2 cores more than they should have: 1 more slot, at 0.50 EUR an hour, would do."
    assert suggestion["lacking"] == pytest.approx(0.2) and words in suggestion["why"]
    assert f"{words} Start an agent" in client_of("carla").get("/estate/deployment/").text


def test_a_suggestion_of_several_queries_is_one_proposal(
    world: World, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch, settings
) -> None:
    settings.DEPLOYMENT_LEAST_KB_S = 0.0
    register_node(name="n2", slots=2)
    text = json.loads(document("line"))
    text["tasks"] = [task | {"chain": "never"} for task in text["tasks"]]
    record = running(world.carla, world.city, json.dumps(text), world.ana)
    monkeypatch.setattr(jobs, "read_live", lambda *_: reading(cpu=dict.fromkeys(load_estate().fragments, 0.05)))
    suggestion = client_of("carla").get("/api/deployment").json()["suggestion"]["move"]
    assert len(suggestion["along"]) == 1 and suggestion["dataflow"]["id"] == str(record.pk)
    assert suggestion["pause_s"] == pytest.approx(4.1), "a batch and a gap between nodes"
    response = client_of("carla").get("/estate/deployment/")
    assert_sound(response, "/estate/deployment/")
    assert f'name="along" value="{suggestion["along"][0]}"' in response.text and "Their outputs stand" in response.text
    assert suggestion["saved_bytes_per_s"] == 1000.0
    assert "1.0 kB a second less pass between nodes then" in response.text

    client_of("carla").post(f"/dataflows/{record.pk}/move", {
        "query": suggestion["query"], "slot": suggestion["slot"], "along": suggestion["along"]})
    proposal = Proposal.objects.get(plan__kind="move")
    assert len(plan_of(prepared(proposal).plan).steps) == 2
    enacted(approved(proposal, world.ana))
    (node,) = {node_of(fragment.slot) for fragment in load_estate().fragments.values()}
    assert node == node_of(suggestion["slot"])
    response = client_of("carla").get("/estate/deployment/")
    assert_sound(response, "/estate/deployment/")
    assert Markup(response.text).values("data-move") == [str(proposal.pk)] * 2


# What a move would bring ----------------------------------------------------------------------------------------------


def preview(
    client_of: ClientOf, record: DataflowRecord, query: str, slot: str, *along: str, user: str = "carla"
) -> dict:
    """What the API says of a move; the page shows it, and nothing is proposed."""
    chosen = {"query": query, "slot": slot, "along": list(along)}
    answer = client_of(user).get(f"/api/dataflows/{record.pk}/move", chosen)
    assert answer.status_code == 200, answer.content
    response = client_of(user).get("/estate/deployment/", chosen | {"dataflow": str(record.pk)})
    assert_sound(response, "/estate/deployment/")
    page, answered = Markup(response.text), answer.json()
    assert page.values("data-preview") == [query]
    is_refused = bool(answered["refused"])
    assert ("move-refused" in page.notes or "move-not-now" in page.notes) == is_refused
    assert not is_refused or answered["remedy"]
    assert not Proposal.objects.filter(plan__kind="move").exists()
    return answered


def test_a_move_that_is_chosen_is_looked_at_as_one_that_is_suggested(
    world: World, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch, settings
) -> None:
    settings.DEPLOYMENT_LEAST_KB_S = 0.0
    register_node(name="n2", slots=2)
    text = json.loads(document("line"))
    text["tasks"] = [task | {"chain": "never"} for task in text["tasks"]]
    record = running(world.carla, world.city, json.dumps(text), world.ana)
    monkeypatch.setattr(jobs, "read_live", lambda *_: reading(cpu=dict.fromkeys(load_estate().fragments, 0.05)))
    suggested = client_of("carla").get("/api/deployment").json()["suggestion"]["move"]
    chosen = preview(client_of, record, suggested["query"], suggested["slot"], *suggested["along"])
    assert chosen == suggested and chosen["saved_bytes_per_s"] > 0 and chosen["between_nodes"]
    away = next(slot for slot in ("n1/0", "n2/0") if node_of(slot) != node_of(
        load_estate().fragments[suggested["query"]].slot))
    alone = preview(client_of, record, suggested["query"], away)
    assert alone["saved_bytes_per_s"] <= chosen["saved_bytes_per_s"] and not alone["refused"]


def test_a_preview_says_who_agrees_and_what_may_go_wrong(
    world: World, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    shared = running(world.mo, world.mobility, document("traffic"), world.ben, world.ana)
    register_node(name="n2", slots=1)
    (fragment,) = [part for part in load_estate().fragments.values() if len(part.tasks) > 2][:1]

    def reported(**facts: object) -> jobs.LiveReading:
        query = {"state": "running", "cpu": 0.9, **facts}
        slots = {str(Slot.of(fragment.slot).index): {"state": "running", "fragments": {fragment.id: query}}}
        return jobs.LiveReading(reports=Reports.of(
            {"n1": {"node": "n1", "slots": slots}, "n2": {"node": "n2", "slots": {}}}))

    monkeypatch.setattr(jobs, "read_live", lambda *_: reported(
        batch_ms=2_500.0, trigger_ms=500, failures=2, state_kb=100 * 1024))
    bad = preview(client_of, record, fragment.id, "n2/0")
    words = " ".join(bad["risks"])
    for part in ("n2/0 has too much to do then: 0.90 cores", "take 2.5 s", "failed 2 times", "104.9 MB"):
        assert part in words, part
    assert bad["pause_s"] == pytest.approx(2.5 + 3.6) and bad["pause_at_most_s"] >= 2.5 + 6.3
    assert {team["slug"] for team in bad["teams"]} == {"city", "mobility"} and shared.pk
    monkeypatch.setattr(jobs, "read_live", lambda *_: reported(cpu=None))
    unknown = " ".join(preview(client_of, record, fragment.id, "n2/0")["risks"])
    assert "not measured yet" in unknown and "may be large" in unknown
    monkeypatch.setattr(jobs, "read_live", lambda *_: reported(state_kb=12))
    assert "goes along: 12 kB" in " ".join(preview(client_of, record, fragment.id, "n2/0")["risks"])


def test_a_preview_is_refused_as_the_proposal_would_be(
    world: World, client_of: ClientOf, halves: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    (query,) = (part.id for part in load_estate().fragments.values() if part.slot == "n1/0")
    SlotRow.objects.filter(name="n1/1").update(reserved_for="a measurement")
    NodeRow.objects.filter(name="n2").update(draining_since=timezone.now())
    NodeRow.objects.update(seen=timezone.now())
    NodeRow.objects.filter(name="n3").update(seen=timezone.now() - 2 * SILENT_AFTER)
    for slot, words in {
            "n1/0": "runs in n1/0 already", "n1/1": "a measurement has it to itself", "n2/0": "n2 is drained",
            "n3/0": "nothing is heard of n3", "n9/0": "no slot n9/0"}.items():
        refused = preview(client_of, halves, query, slot)
        assert words in refused["refused"] and not refused["is_planned"] and refused["slots"] == []
    assert "has no query f9-9" in preview(client_of, halves, "f9-9", "n1/0")["refused"]
    closed = {slot["slot"]: slot["closed"] for slot in client_of("carla").get("/api/deployment").json()["slots"]}
    assert closed == {
        "n1/0": "", "n1/1": "a measurement has it to itself", "n2/0": "n2 is drained", "n2/1": "n2 is drained",
        "n3/0": "nothing is heard of n3"}
    NodeRow.objects.update(seen=timezone.now())
    hears(monkeypatch, "n1", "n2")
    not_now = preview(client_of, halves, query, "n3/0")
    assert "Nothing is heard of n3 now" in not_now["refused"] and not_now["is_planned"] and not_now["slots"]


def test_a_move_while_another_plan_is_enacted_is_looked_at_and_not_proposed(
    world: World, client_of: ClientOf, halves: DataflowRecord
) -> None:
    (query,) = (part.id for part in load_estate().fragments.values() if part.slot == "n1/0")
    approved(planned(world.carla, world.city, document("later", window=4)), world.ana)
    not_now = preview(client_of, halves, query, "n3/0")
    assert "Another plan is being enacted" in not_now["refused"] and not_now["is_planned"]


def test_who_may_look_at_a_move(world: World, client_of: ClientOf, halves: DataflowRecord) -> None:
    (query,) = (part.id for part in load_estate().fragments.values() if part.slot == "n1/0")
    assert preview(client_of, halves, query, "n3/0")["may_propose"]
    by_viewer = preview(client_of, halves, query, "n3/0", user="vera")
    assert not by_viewer["may_propose"] and not by_viewer["refused"]
    chosen = {"dataflow": str(halves.pk), "query": query, "slot": "n3/0"}
    page = client_of("vera").get("/estate/deployment/", chosen).text
    assert "Propose this move" not in page.partition('id="suggestion"')[0] and "An engineer of City" in page
    assert client_of("mo").get(f"/api/dataflows/{halves.pk}/move", chosen).status_code == 403
    assert "permission_denied" in Markup(client_of("mo").get("/estate/deployment/", chosen).text).flashes
    strange = client_of("carla").get(f"/api/dataflows/{halves.pk}/move", {"query": "f\0", "slot": "n\0/1"})
    assert strange.status_code == 400


def test_the_command_line_looks_at_a_move_too(world: World, halves: DataflowRecord) -> None:
    (query,) = (part.id for part in load_estate().fragments.values() if part.slot == "n1/0")
    out = StringIO()
    call_command("move", str(halves.pk), query, "n3/0", "--preview", "--as", "carla", stdout=out)
    for words in ("n3/0 has 0.05 cores to do then", "stand still for about", "to another node", "City has to agree",
                  "Nothing is proposed"):
        assert words in out.getvalue(), words
    with pytest.raises(CommandError, match="runs in n1/0 already"):
        call_command("move", str(halves.pk), query, "n1/0", "--preview", "--as", "carla", stdout=out)
    assert not Proposal.objects.filter(plan__kind="move").exists()
    call_command("move", str(halves.pk), query, "n3/0", "--as", "carla", stdout=out)
    assert Proposal.objects.filter(plan__kind="move").count() == 1


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


@pytest.fixture
def halves(world: World, monkeypatch: pytest.MonkeyPatch, settings) -> DataflowRecord:
    """A dataflow of four queries on n1 and n2; what n3 has is idle, and it reports as they do."""
    settings.DEPLOYMENT_LEAST_KB_S = 0.0
    for node, slots in (("n2", 2), ("n3", 1)):
        register_node(name=node, slots=slots)
    text = json.loads(document("line"))
    text["tasks"] = [task | {"chain": "never"} for task in text["tasks"]]
    record = running(world.carla, world.city, json.dumps(text), world.ana)
    for number, fragment in enumerate(FragmentRow.objects.order_by("pk")):
        fragment.slot = ("n1/0", "n1/1", "n2/0", "n2/1")[number]
        fragment.save()
    hears(monkeypatch, "n1", "n2", "n3")
    return record


def hears(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """These nodes alone report."""
    def heard() -> jobs.LiveReading:
        known = reading(cpu=dict.fromkeys(load_estate().fragments, 0.05))
        return replace(known, reports=Reports(
            {name: known.reports.get(name) or NodeReport(node=name) for name in names}))

    monkeypatch.setattr(jobs, "read_live", lambda *_: heard())


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
    assert "nothing is heard of n2" in proposal.plan.error["message"] and "n2" in proposal.plan.error["remedy"]


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
    assert "heard of n3" in proposal.plan.error["message"] and proposal.plan.error["remedy"]
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
