"""A node of which nothing is heard: its queries go on where copies of their state are, by plans of Weir's own."""

from __future__ import annotations

import pytest
import redis
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from dashboard import jobs, node_calls
from dashboard.approvals.drains import outgoing_of
from dashboard.approvals.lifecycle import DONE, EXECUTING
from dashboard.approvals.services import prepare_proposal
from dashboard.approvals.services.following import follow_plans
from dashboard.catalog.lifecycle import PAUSED
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.diagnosis.health import health
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.operations.estate_store.offered_slots import SILENT_AFTER
from dashboard.operations.live_reader import live_dataflow
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.live_view.findings import NOTE, WARN
from dashboard.operations.live_view.lacking_copies import COPIES
from dashboard.operations.live_view.missed_nodes import MissedNodes
from dashboard.operations.models import NodeRow
from dashboard.operations.services import register_node
from dashboard.teams.permissions import viewer_of
from scheduler.contracts.reports import NodeReport, QueryReport, Reports, SlotReport
from scheduler.elasticity.copied_queries import CHANGING_HANDS, ON_ITS_WAY, TOO_FEW_NODES
from scheduler.elasticity.heartbeats import Heartbeat
from scheduler.model.fragment import node_of
from tests.dashboard.building import World, document, running
from tests.dashboard.draining import on, turn
from tests.dashboard.node_parts import load_part_of
from tests.dashboard.rearranging import paused, status
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
    world: World, silent: set[str], declared: set[str], monkeypatch: pytest.MonkeyPatch
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
        bundle.slot.partition("/")[2]: SlotReport(state="running", fragments={heir: QueryReport(
            state="running", survives=0, copies=1, not_copied=TOO_FEW_NODES)})})})
    follow_plans(seen, at=timezone.now())
    proposal.refresh_from_db()
    assert proposal.status == DONE, "nobody waits for the node that is lost"
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading(reports=seen))
    [row] = [row for row in health(view_for(viewer_of(world.root))) if row.part == COPIES]
    assert (row.name, row.severity) == ("n2", NOTE), "it has another's state, and no copy of its own yet"


def test_what_is_paused_goes_on_from_its_copy_and_rests_there(
    world: World, silent: set[str], declared: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    NodeRow.objects.update(seen=timezone.now())
    paused(world, DataflowRecord.objects.get())
    NodeRow.objects.filter(name="n1").update(seen=timezone.now() - 2 * SILENT_AFTER)
    monkeypatch.setattr(lost_nodes, "holders_of", lambda *_, **__: {})
    assert all("paused" in outgoing.why_not for outgoing in outgoing_of(current_estate(), "n1", at=timezone.now()))
    copied(monkeypatch, "n2")
    proposal = turn()
    prepare_proposal(proposal_id=proposal.pk)
    [heir] = on("n2")
    fragment = current_estate().fragments[heir]
    assert fragment.paused and fragment.resting and set(fragment.inherits) <= silent
    seen = Reports({"n2": NodeReport(node="n2", version=10**6, slots={
        fragment.slot.partition("/")[2]: SlotReport(state="running", fragments={heir: QueryReport(state="stopped")})})})
    follow_plans(seen, at=timezone.now())
    proposal.refresh_from_db()
    assert proposal.status == DONE and status(proposal.dataflow) == PAUSED


def test_a_query_without_a_copy_waits_for_its_node(
    silent: set[str], declared: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_nodes, "holders_of", lambda *_, **__: {})
    assert turn() is None and not declared
    [outgoing] = outgoing_of(current_estate(), "n1", at=timezone.now())
    assert "n1 does not report" in outgoing.hold.why


def test_a_copy_on_a_node_that_is_silent_too_is_none(
    silent: set[str], declared: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copied(monkeypatch, "n1")
    assert turn() is None and not declared


class Hearts:
    """Heartbeats as a test sets them, and the watch that reads them, by a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ages_s: dict[str, float | None] = {"n1": 0.2, "n2": 0.2, "n3": 0.2}
        self.now_s, self.is_away = 0.0, False
        self.watch = MissedNodes(clock_s=lambda: self.now_s)
        monkeypatch.setattr(lost_nodes, "heartbeats", self._read)

    def _read(self, _: object, __: object) -> dict[str, Heartbeat]:
        if self.is_away:
            raise redis.ConnectionError
        return {node: Heartbeat(age_s) for node, age_s in self.ages_s.items()}

    def look(self, *, for_s: float) -> bool:
        """Whether moves are to begin after looks for so long."""
        answers = []
        for _ in range(round(for_s / 0.5)):
            self.now_s += 0.5
            answers.append(self.watch.look())
        return answers[-1]


@pytest.fixture
def hearts(world: World, sent, monkeypatch: pytest.MonkeyPatch) -> Hearts:
    """Two dataflows on a node that was seen just now, as was another one."""
    for number in range(2):
        running(world.carla, world.city, document(f"line-{number}").replace(
            '"type": "urban_sensing"', f'"type": "urban_sensing", "config": {{"seed": {number}}}'), world.ana)
    register_node(name="n2", slots=2)
    NodeRow.objects.update(seen=timezone.now())
    hearts = Hearts(monkeypatch)
    assert not hearts.look(for_s=3)
    return hearts


def test_all_queries_of_a_missed_node_go_on_by_one_plan(
    hearts: Hearts, declared: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copied(monkeypatch, "n2")
    before = on("n1")
    hearts.ages_s["n1"] = None
    assert len(before) > 1 and not hearts.look(for_s=1.5) and turn() is None
    assert hearts.look(for_s=0.5)
    proposal = turn()
    assert declared == {"n1"} and turn() is None, "that plan is under way"
    prepare_proposal(proposal_id=proposal.pk)
    proposal.refresh_from_db()
    assert proposal.status == EXECUTING and not on("n1"), proposal.plan.error
    slots = [current_estate().fragments[heir].slot for heir in on("n2")]
    assert len(slots) == len(before) and set(slots) == {"n2/0", "n2/1"}, "both of its slots take some"
    assert "Its queries continue from copies" in proposal.plan.options["why"]


def test_who_is_heard_again_keeps_its_queries(
    hearts: Hearts, declared: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copied(monkeypatch, "n2")
    hearts.ages_s["n1"] = None
    assert hearts.look(for_s=2)
    hearts.ages_s["n1"] = 0.1
    assert not hearts.look(for_s=0.5) and turn() is None
    hearts.is_away, hearts.ages_s["n1"] = True, None
    assert not hearts.look(for_s=10)
    hearts.is_away = False
    assert not hearts.look(for_s=2) and hearts.look(for_s=0.5), "while the broker was away, nobody was heard"


def test_a_node_is_missed_early_only_where_a_living_one_has_copies(
    hearts: Hearts, declared: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_nodes, "holders_of", lambda *_, **__: {})
    hearts.ages_s |= {"n1": None, "n2": None}
    assert not hearts.look(for_s=10) and turn() is None
    copied(monkeypatch, "n2")
    assert not hearts.look(for_s=10) and turn() is None and not declared
    hearts.ages_s["n2"] = 0.1
    assert hearts.look(for_s=0.5)


def test_a_node_that_is_long_gone_is_not_looked_up_for_ever(
    hearts: Hearts, declared: set[str], django_assert_num_queries
) -> None:
    hearts.ages_s["n3"] = None  # it has left the estate
    hearts.look(for_s=50)
    with django_assert_num_queries(0):
        assert not hearts.look(for_s=5)


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
    dataflow, of_query, node, estate = shown(survives=1, held_by=["n2"], copied_at_ms=2_000, state_kb=3_000)
    survival = live_dataflow(viewer_of(world.root), record.pk)["survival"]
    assert (survival["words"], survival["more_per_s"], survival["more_in_broker"]) == (
        "survives the loss of any one machine", 307_200, 3_072_000), "the whole state each ten seconds, at most"
    compare = client.get(f"/dataflows/{record.pk}/schedule").text
    assert all("sends 300 kB a second at most, and takes 2.9 MB" in page for page in (dataflow, compare, estate))
    assert "any one machine" in dataflow and "The oldest copy is 8 s old." in dataflow
    assert "any one machine" in of_query and "oldest copy 8.0 s old" in of_query
    idle = {"survives": 1, "held_by": ["n2"], "copied_at_ms": 2_000, "lacks_none": True}
    assert "The oldest copy has all that was done." in shown(**idle)[0], "nothing came since, and so it is not old"
    assert "1 of 1 queries go on elsewhere" in node and "1 of 1<span" in estate
    assert "The state of 1 of 1 queries survives the loss of any one machine." in estate
    monkeypatch.setattr(node_calls, "zones", lambda: {"n1": "a", "n2": "b"})
    words = "any one machine, or zone a, or zone b"
    assert all(words in page for page in (*shown(survives=1, held_by=["n2"])[:2], shown(survives=1, held_by=["n2"])[3]))
    assert words in client.get(f"/dataflows/{record.pk}/schedule").text, "one function says it on every page"
    monkeypatch.setattr(node_calls, "zones", dict)
    dataflow, *pages = shown(
        survives=1, copies=2, held_by=["n2"], copied_at_ms=2_000, not_copied=TOO_FEW_NODES)
    assert "survives the loss of any one machine, fewer than asked for: there are too few other nodes." in dataflow
    finding = "1 of 1 queries on n1 have fewer copies of their state than asked for: there are too few other nodes."
    assert all(finding in page for page in (dataflow, *pages[1:]))
    assert "If n1 is lost now, all of them continue elsewhere." in dataflow and "weir agent" in dataflow
    [row] = [row for row in health(view_for(viewer_of(world.root))) if row.part == COPIES]
    assert (row.name, row.severity) == ("n1", WARN)
    shown(survives=0, copies=1, not_copied=ON_ITS_WAY)
    [row] = [row for row in health(view_for(viewer_of(world.root))) if row.part == COPIES]
    assert row.severity == NOTE and "the state of 1 is lost with it" in row.cause and "All are there" not in row.remedy
    assert "All are there in about 40 s." in shown(survives=0, copies=1, not_copied=ON_ITS_WAY, copy_left_ms=41_300)[3]
    held_up = shown(survives=0, copies=1, not_copied=CHANGING_HANDS, copy_left_ms=0)[3]
    assert "Copies count again" in held_up and "All are there" not in held_up, "no byte is waited for"
    shown(survives=0, copies=1, not_copied=TOO_FEW_NODES, since_ms=1_000)
    assert not [row for row in health(view_for(viewer_of(world.root))) if row.part == COPIES], "it has just begun"
    dataflow, of_query, node, estate = shown(survives=0, copies=0, not_copied="its batches stay open")
    assert "does not survive the loss of a machine: its batches stay open" in dataflow
    assert "no machine: its batches stay open" in of_query
    assert not any("fewer copies" in page for page in (dataflow, node, estate)), "nobody lacks what is never copied"
    assert "0 of 1 queries go on elsewhere" in node and "0 of 1<span" in estate
    call_command("estate")
    assert "If a node is lost, 0 of 1 queries go on elsewhere." in capsys.readouterr().out
    assert "queries does not survive the loss of a machine: its batches stay open." in estate
    assert "One more copy" not in estate, "nothing says how large its state is"
    pages = shown(state_kb=3_000)
    none = "does not survive the loss of a machine: no copies of state are asked for"
    more = "One more copy of the state sends 300 kB a second at most, and takes 2.9 MB"
    assert all(none in page and more in page for page in (pages[0], pages[3]))
    alone = "start an agent there first, by <code>./weir agent</code>. Then start each agent"
    how = "with <code>WEIR_COPIES=1</code> to have one copy of each."
    assert alone in pages[3] and how in pages[3], "an operator reads how, and that one machine has nowhere to copy to"
    register_node(name="n2", slots=2)
    estate = shown()[3]
    assert alone not in estate and how in estate
    assert not any("go on elsewhere" in page for page in pages[2:])
    unheard = shown(state="silent")[3]
    assert "is not known to survive" in unheard and "WEIR_COPIES" not in unheard
