"""What handovers took here is what rules of approval expect of the next; those between nodes count apart."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from dashboard import jobs
from dashboard.approvals.services import cancel_proposal, move_query, prepare_proposal
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.live_view.handover_pauses import (
    KEPT,
    LEAST,
    LONGEST_BETWEEN_MS,
    USUAL_BETWEEN_MS,
    USUAL_MS,
    batch_ms_of,
    expected_gap_ms,
    note_pauses,
    usual_gap_ms,
)
from dashboard.operations.models import HandoverPause
from dashboard.operations.services import register_node
from scheduler.approving import Automatic, Rules
from scheduler.contracts.reports import QueryReport, Reports
from tests.cases import each
from tests.dashboard.building import World, document, ruled, running

UNKNOWN_MS = 3_000.0
BATCH_MS = 500.0  # as queries are begun
Gaps = list[tuple[int, bool]]


def measured(gaps_ms: Gaps) -> list[dict]:
    return [{"kind": "handed_over", "fragment": f"f{number}-0", "at_ms": 1_000 * number, "gap_ms": gap_ms,
             "between_nodes": between_nodes} for number, (gap_ms, between_nodes) in enumerate(gaps_ms)]


def long_and_short() -> st.SearchStrategy[Gaps]:
    return st.lists(st.tuples(st.integers(0, 10_000), st.booleans()), max_size=2 * KEPT + 40)


class PauseTests(TestCase):
    @given(long_and_short(), st.integers(0, 200))
    def test_all_but_one_in_twenty_of_the_newest_of_a_kind_took_no_longer(self, gaps_ms: Gaps, cut: int) -> None:
        events = measured(gaps_ms)
        note_pauses(events[:cut])
        note_pauses([{"kind": "fragment_failed", "fragment": "f0-0", "at_ms": 5}, *events])  # some come again
        for between, unknown_ms, usual_ms in (
            (False, UNKNOWN_MS, USUAL_MS), (True, LONGEST_BETWEEN_MS, USUAL_BETWEEN_MS)
        ):
            newest = [gap_ms for gap_ms, is_between in gaps_ms if is_between is between][-KEPT:]
            expected = expected_gap_ms(between_nodes=between)
            assert HandoverPause.objects.filter(between_nodes=between).count() == len(newest)
            if len(newest) < LEAST:
                assert (expected, usual_gap_ms(between_nodes=between)) == (unknown_ms, usual_ms)
            else:
                longer = sum(gap_ms > expected for gap_ms in newest)
                assert expected in newest and longer <= len(newest) / 20
                assert usual_gap_ms(between_nodes=between) == statistics.median_low(newest)
                shorter = [gap_ms for gap_ms in newest if gap_ms < expected]
                assert len(shorter) < math.ceil(0.95 * len(newest)), "the least figure of which that is so"


@pytest.mark.django_db
def test_of_what_does_not_say_whether_it_was_between_nodes_nothing_is_kept() -> None:
    [event] = measured([(90, True)])
    del event["between_nodes"]
    note_pauses([event])
    assert not HandoverPause.objects.exists()


@pytest.mark.django_db
def test_who_forges_pauses_has_one_for_a_query_and_none_of_a_time_to_come() -> None:
    [event] = measured([(90, True)])
    for at_ms in (2, 3):
        note_pauses([event | {"fragment": "f1-0", "at_ms": 10**14}, event, event | {"at_ms": at_ms, "gap_ms": 5}])
    assert [(pause.query, pause.gap_ms) for pause in HandoverPause.objects.all()] == [("f0-0", 90)]


@pytest.mark.parametrize(("query", "batch_ms"), [
    (None, BATCH_MS),
    (QueryReport(state="running"), BATCH_MS),
    (QueryReport(state="running", trigger_ms=100, batch_ms=80.0), 100),
    (QueryReport(state="running", trigger_ms=100, batch_ms=900.0), 900.0),
    (QueryReport(state="running", trigger_ms=100, batch_ms=900.0, real_time=True), 100),
])
def test_an_output_waits_for_the_longer_of_interval_and_batch(query: QueryReport | None, batch_ms: float) -> None:
    assert batch_ms_of(query) == batch_ms


@pytest.mark.django_db
@each("between_nodes, batch_ms, most_pause_ms, status", [
    (False, None, BATCH_MS + 90, "executing"),
    (False, None, BATCH_MS + 89, "pending"),
    (False, 2_000.0, BATCH_MS + 90, "pending"),
    (False, 2_000.0, 2_090.0, "executing"),
    (True, None, BATCH_MS + 90, "pending"),
    (True, None, BATCH_MS + LONGEST_BETWEEN_MS - 1, "pending"),
    (True, None, BATCH_MS + LONGEST_BETWEEN_MS, "executing"),
])
def test_a_limit_is_held_to_a_batch_and_the_gap_of_such_a_handover(
    world: World, monkeypatch: pytest.MonkeyPatch, *, between_nodes: bool, batch_ms: float | None,
    most_pause_ms: float, status: str,
) -> None:
    register_node(name="n2", slots=1)
    ruled(world.city, Rules(
        automatic=Automatic(kinds=("move",), most_money_per_hour=1.0, most_pause_ms=most_pause_ms)),
        world.ana, world.abe)
    record = running(world.carla, world.city, document("air"), world.ana)
    query = next(fragment for fragment in load_estate().fragments.values() if fragment.slot == "n1/0")
    reports = Reports.of({"n1": {"node": "n1", "slots": {"0": {"state": "running", "fragments": {
        query.id: {"state": "running", "batch_ms": batch_ms}}}}}})
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading(reports=reports))
    note_pauses(measured([(90, False)] * LEAST))
    proposal = move_query(
        actor=world.carla, dataflow_id=record.pk, query=query.id, slot="n2/0" if between_nodes else "n1/1")
    assert prepare_proposal(proposal_id=proposal.pk).status == status


@pytest.mark.django_db
def test_a_move_is_approved_by_itself_once_handovers_of_its_kind_have_been_short(world: World) -> None:
    register_node(name="n2", slots=1)
    ruled(world.city, Rules(
        automatic=Automatic(kinds=("move",), most_money_per_hour=1.0, most_pause_ms=1_000.0)), world.ana, world.abe)
    record = running(world.carla, world.city, document("air"), world.ana)
    query = next(fragment for fragment in load_estate().fragments.values() if fragment.slot == "n1/0")

    def status(slot: str) -> str:
        proposal = prepare_proposal(proposal_id=move_query(
            actor=world.carla, dataflow_id=record.pk, query=query.id, slot=slot).pk)
        if proposal.status == "pending":
            cancel_proposal(actor=world.carla, proposal_id=proposal.pk)
        return proposal.status

    assert [status("n1/1"), status("n2/0")] == ["pending", "pending"], "nothing was measured"
    note_pauses(measured([(90, False)] * LEAST))
    assert status("n2/0") == "pending", "what was measured was within a node"
    note_pauses([event | {"fragment": f"g{number}"} for number, event in enumerate(measured([(400, True)] * LEAST))])
    assert status("n2/0") == "executing"
