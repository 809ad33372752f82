"""Keys that go to bundles of another node, by a schedule and back."""

from __future__ import annotations

import itertools

from scheduler.applying import apply_plan
from scheduler.interruptions import interruptions_of
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, Slot
from scheduler.rescheduling import plan_schedule_back
from scheduler.reuse.division import WantedBundle, keyed_bundles, keys_divided_anew

from .test_key_division import check_hands, check_ring, keyed, rescheduled, submitted


def test_one_that_keeps_its_part_and_goes_to_another_node_has_its_keys_taken_there():
    ids = (f"f2-{number}" for number in itertools.count())
    apart = Fragment("f1-1", ("t",), "n1/0", 1, bundles=tuple(keyed_bundles(
        [WantedBundle("n1/0", 1, 0.5), WantedBundle("n2/0", 1, 0.5)], ids, inherits=())))
    same = keys_divided_anew(apart, [WantedBundle("n2/0", 1, 0.5), WantedBundle("n1/1", 1, 0.5)], ids=ids)
    assert [step.kind for step in same.steps] == ["hand_over_bundle"], "one goes to another slot of its node, whole"
    other = keys_divided_anew(apart, [WantedBundle("n2/0", 1, 0.5), WantedBundle("n2/1", 1, 0.5)], ids=ids)
    assert [step.kind for step in other.steps] == ["take_keys", "route", "leave_bundle"]
    assert apart.bundles[1] in other.after["f1-1"].bundles, "the other one is not touched"


def test_a_schedule_takes_keys_to_another_node_and_back():
    """Where a node has too few slots; reviewers are told."""
    empty = Estate(slots=tuple(Slot(node, index) for node in ("n1", "n2") for index in range(5)))
    estate = apply_plan(empty, submitted(empty, rate_per_s=90))
    assert not keyed(estate, "sum").divided
    plan = rescheduled(estate, rate_per_s=390)
    after = apply_plan(estate, plan)
    for task in ("sum", "again"):
        check_hands(keyed(estate, task), keyed(after, task))
        check_ring(after, keyed(after, task))
    assert keyed(after, "sum").far_takers or keyed(after, "again").far_takers
    assert any("continue on another node" in note for note in plan.notes)
    assert any(entry.between_nodes for entry in interruptions_of(plan))
    again = apply_plan(after, plan_schedule_back(after, plan))
    check_ring(again, keyed(again, "sum"))
    [home] = [bundle for bundle in keyed(again, "sum").bundles if not bundle.leaving]
    assert home.slot == keyed(estate, "sum").slot
