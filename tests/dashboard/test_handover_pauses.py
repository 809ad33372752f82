"""What handovers took here is what rules of approval expect of the next."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from dashboard.approvals.services import cancel_proposal, move_query, prepare_proposal, set_rules
from dashboard.operations.estate import load_estate
from dashboard.operations.handover_pauses import KEPT, LEAST, USUAL_MS, expected_pause_ms, note_pauses, usual_pause_ms
from dashboard.operations.models import HandoverPause
from scheduler.approving import Automatic, Rules
from scheduler.model.fragment import Slot
from tests.dashboard.building import World, document, running

UNKNOWN_MS = 3_000.0


def told(gaps_ms: list[int]) -> list[dict]:
    return [{"kind": "handed_over", "fragment": f"f{number}-0", "at_ms": 1_000 * number, "gap_ms": gap_ms}
            for number, gap_ms in enumerate(gaps_ms)]


class PauseTests(TestCase):
    @given(st.lists(st.integers(0, 10_000), max_size=KEPT + 20), st.integers(0, 200))
    def test_all_but_one_in_twenty_of_the_newest_took_no_longer(self, gaps_ms: list[int], cut: int) -> None:
        events = told(gaps_ms)
        note_pauses(events[:cut])
        note_pauses([{"kind": "fragment_failed", "fragment": "f0-0", "at_ms": 5}, *events])  # some told again
        newest, expected = gaps_ms[-KEPT:], expected_pause_ms()
        assert HandoverPause.objects.count() == len(newest)
        if len(newest) < LEAST:
            assert (expected, usual_pause_ms()) == (UNKNOWN_MS, USUAL_MS)
        else:
            longer = sum(gap_ms > expected for gap_ms in newest)
            assert expected in newest and longer <= len(newest) / 20
            assert usual_pause_ms() == statistics.median_low(newest)
            shorter = [gap_ms for gap_ms in newest if gap_ms < expected]
            assert len(shorter) < math.ceil(0.95 * len(newest)), "the least figure of which that is so"


@pytest.mark.django_db
def test_a_move_is_approved_by_itself_once_handovers_have_been_short(world: World) -> None:
    set_rules(actor=world.ana, team=world.city, rules=Rules(
        automatic=Automatic(kinds=("move",), most_money_per_hour=1.0, most_pause_ms=250.0)))
    record = running(world.carla, world.city, document("air"), world.ana)
    [query] = [fragment for fragment in load_estate().fragments.values() if fragment.slot == "n1/0"][:1]

    def moved():
        return prepare_proposal(proposal_id=move_query(
            actor=world.carla, dataflow_id=record.pk, query=query.id, slot=Slot("n1", 1).name).pk)

    proposal = moved()
    assert proposal.status == "pending", "3 s are expected until handovers were measured"
    cancel_proposal(actor=world.carla, proposal_id=proposal.pk)
    note_pauses(told([90] * LEAST))
    assert moved().status == "executing"
