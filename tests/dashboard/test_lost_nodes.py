"""A node of which nothing is heard: its queries go on where copies of their state are, by plans of Weir's own."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.drains import outgoing_of
from dashboard.approvals.lifecycle import DONE
from dashboard.approvals.services import prepare_proposal
from dashboard.approvals.services.following import follow_plans
from dashboard.operations.estate_store.estate_loader import current_estate, load_part_of
from dashboard.operations.estate_store.offered_slots import SILENT_AFTER
from dashboard.operations.live_reader import live_dataflow
from dashboard.operations.models import NodeRow
from dashboard.teams.permissions import viewer_of
from scheduler.contracts.reports import NodeReport, QueryReport, Reports, SlotReport
from scheduler.model.fragment import node_of
from tests.dashboard.building import World, document, register_node, running
from tests.dashboard.draining import on, turn
from workers.engine import lost_nodes
from workers.engine.desired_publishing import desired_of


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The nodes that are said to be lost."""
    nodes: set[str] = set()
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading())
    monkeypatch.setattr(lost_nodes, "declare_lost", lambda _, lost: nodes.update(lost))
    monkeypatch.setattr(lost_nodes, "lost_nodes", lambda _: frozenset(nodes))
    return nodes


@pytest.fixture
def silent(world: World, sent) -> set[str]:
    """What runs on a node that was last heard of long ago."""
    running(world.carla, world.city, document("line"), world.ana)
    register_node(name="n2", slots=2)
    now = timezone.now()
    NodeRow.objects.filter(name="n2").update(seen=now)
    NodeRow.objects.filter(name="n1").update(seen=now - 2 * SILENT_AFTER)
    return on("n1")


def copied(monkeypatch: pytest.MonkeyPatch, holder: str, *, but: str = "") -> None:
    """The state of all queries, but one, has a copy that counts on a node."""
    monkeypatch.setattr(lost_nodes, "holders_of", lambda _, queries, living: {
        name: holder for name in queries if name != but and holder in living})


def test_queries_of_a_lost_node_go_on_where_their_copies_are(
    silent: set[str], declared: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copied(monkeypatch, "n2")
    proposal = turn()
    assert declared == {"n1"} and "copy of its state on n2" in proposal.plan.options["why"]
    prepare_proposal(proposal_id=proposal.pk)
    [heir] = on("n2")
    wanted = desired_of(load_part_of("n2"), "n2", jobs.task_types()).wanted[heir]
    assert wanted.origin == "n1" and set(wanted.inherits) <= silent
    bundle = current_estate().fragments[heir].queries[0]
    assert node_of(bundle.slot) == "n2"
    seen = Reports({"n2": NodeReport(node="n2", version=10**6, slots={
        bundle.slot.partition("/")[2]: SlotReport(state="running", fragments={heir: QueryReport(state="running")})})})
    follow_plans(seen, at=timezone.now())
    proposal.refresh_from_db()
    assert proposal.status == DONE, "nobody waits for the node that is lost"


def test_a_query_without_a_copy_waits_for_its_node(
    silent: set[str], declared: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_nodes, "holders_of", lambda *_, **__: {})
    assert turn() is None and not declared
    [outgoing] = outgoing_of(current_estate(), "n1", at=timezone.now())
    assert "Nothing is heard of n1" in outgoing.hold.why


def test_a_copy_on_a_node_that_is_silent_too_is_none(
    silent: set[str], declared: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copied(monkeypatch, "n1")
    assert turn() is None and not declared


def test_pages_say_how_many_machines_a_querys_state_survives(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = running(world.carla, world.city, document("line"), world.ana)
    [query] = on("n1")

    def shown(**facts: object) -> tuple[str, ...]:
        [slot] = [bundle.slot for bundle in current_estate().fragments[query].queries]
        reports = Reports.of({"n1": {"at_ms": 10_000, "slots": {slot.rpartition("/")[2]: {
            "state": "running", "fragments": {query: {"state": "running", **facts}}}}}})
        monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading(reports=reports))
        paths = (f"/dataflows/{record.pk}/", f"/estate/queries/{query}", "/estate/nodes/n1", "/")
        return tuple(client.get(path).text for path in paths)

    client.force_login(world.root)
    dataflow, of_query, node, estate = shown(survives=1, copied_at_ms=2_000, state_kb=3_000)
    survival = live_dataflow(viewer_of(world.root), record.pk)["survival"]
    assert (survival["words"], survival["more_per_s"], survival["more_in_broker"]) == (
        "any one machine", 307_200, 3_072_000), "the whole state each ten seconds, at most"
    compare = client.get(f"/dataflows/{record.pk}/schedule").text
    assert all("sends 300 kB a second at most, and takes 2.9 MB" in page for page in (dataflow, compare))
    assert "any one machine" in dataflow and "newest copy" in dataflow and "any one machine" in of_query
    assert "1 of 1 queries go on elsewhere" in node and "1 of 1<span" in estate
    dataflow, of_query, node, estate = shown(survives=0, not_copied="it is paused")
    assert "no machine: it is paused" in dataflow and "no machine: it is paused" in of_query
    assert "0 of 1 queries go on elsewhere" in node and "0 of 1<span" in estate
    call_command("estate")
    assert "If a node is lost, 0 of 1 queries go on elsewhere." in capsys.readouterr().out
    assert "no machine: no copies of state are asked for" in shown()[0]
    assert not any("go on elsewhere" in page for page in shown()[2:])
