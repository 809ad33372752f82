"""What a move would bring, on the page, over the API and on the command line; and why it is refused."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.models import Proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.estate_store.offered_slots import SILENT_AFTER
from dashboard.operations.models import NodeRow, SlotRow
from dashboard.operations.services import register_node
from scheduler.contracts.reports import Reports
from scheduler.model.fragment import Slot, node_of
from tests.dashboard.building import World, approved, document, planned, running
from tests.pages.conftest import ClientOf
from tests.pages.deployment import hears
from tests.pages.markup import Markup, assert_sound

pytestmark = pytest.mark.usefixtures("heard")


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
    client_of: ClientOf, unchained: DataflowRecord
) -> None:
    suggested = client_of("carla").get("/api/deployment").json()["suggestion"]["move"]
    chosen = preview(client_of, unchained, suggested["query"], suggested["slot"], *suggested["along"])
    assert chosen == suggested and chosen["saved_bytes_per_s"] > 0 and chosen["between_nodes"]
    away = next(slot for slot in ("n1/0", "n2/0") if node_of(slot) != node_of(
        load_estate().fragments[suggested["query"]].slot))
    alone = preview(client_of, unchained, suggested["query"], away)
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
    assert "moves along: 12 kB" in " ".join(preview(client_of, record, fragment.id, "n2/0")["risks"])


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
            "n3/0": "n3 does not report", "n9/0": "no slot n9/0"}.items():
        refused = preview(client_of, halves, query, slot)
        assert words in refused["refused"] and not refused["is_planned"] and refused["slots"] == []
    assert "has no query f9-9" in preview(client_of, halves, "f9-9", "n1/0")["refused"]
    register_node(name="n4", slots=1)
    closed = {slot["slot"]: slot["closed"] for slot in client_of("carla").get("/api/deployment").json()["slots"]}
    assert closed == {
        "n1/0": "", "n1/1": "a measurement has it to itself", "n2/0": "n2 is drained", "n2/1": "n2 is drained",
        "n3/0": "n3 does not report", "n4/0": "n4 does not report"}
    NodeRow.objects.update(seen=timezone.now())
    hears(monkeypatch, "n1", "n2")
    not_now = preview(client_of, halves, query, "n3/0")
    assert "n3 does not report now" in not_now["refused"] and not_now["is_planned"] and not_now["slots"]


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
