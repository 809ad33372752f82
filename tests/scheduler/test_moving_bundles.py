"""Moving what a schedule divides, and what is beside it: parts, channels and weights stay, and it can be taken back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.applying import apply_plan
from scheduler.contracts.reports import Reports
from scheduler.interruptions import interruptions_of
from scheduler.model.encoding import plan_digest, plan_from_json, plan_to_json
from scheduler.model.errors import InvalidTransition, NotFound
from scheduler.model.estate import Estate
from scheduler.model.fragment import node_of
from scheduler.model.plan import Plan
from scheduler.model.renumbering import renumbered
from scheduler.moving import plan_move
from scheduler.step_kinds import EnactmentEvidence, steps_done
from scheduler.undoing import undo
from tests.scheduler.estate_index import EstateIndex
from workers.engine.desired_publishing import desired_of

from .catalogue import PRICES, TYPES
from .test_rescheduling import ESTATE, by_task, check_divided, live_of, rescheduled, submitted

WIDE = apply_plan(ESTATE, submitted(ESTATE, rate_per_s=300))


def moved(estate: Estate, query: str, slot: str, *along: str) -> Plan:
    return plan_move(estate, "air", query=query, slot=slot, along=along, task_types=TYPES, prices=PRICES)


def streams_of(estate: Estate) -> dict[str, set[str]]:
    """The channels of each task, and the parts in which each is read."""
    read = {
        task_id: {channel for fragment in estate.fragments.values() for bundle in fragment.queries
                  if task_id in estate.tasks[fragment.tasks[0]].parents
                  for channel in estate.read_by(fragment, bundle, task_id)}
        for task_id in estate.tasks}
    return {task_id: {*estate.channels_of(task_id), *read[task_id]} for task_id in estate.tasks}


def test_a_bundle_goes_to_another_node_and_nobody_elses_query_changes() -> None:
    by = by_task(WIDE, "by")
    bundle = by.bundles[1]
    slot = next(slot.name for slot in WIDE.slots if slot.node != node_of(bundle.slot))
    plan = moved(WIDE, bundle.id, slot)
    after = apply_plan(WIDE, plan)
    check_divided(after)
    heir = by_task(after, "by").bundles[1]
    assert (heir.slot, heir.part, heir.inherits, heir.origin) == (slot, bundle.id, (bundle.id,), node_of(bundle.slot))
    assert (heir.threads, heir.weight) == (bundle.threads, bundle.weight)
    assert set(plan.fragments_after) == {by.id} and [step.kind for step in plan.steps] == ["hand_over_bundle"]
    assert streams_of(after) == streams_of(WIDE)
    assert [interruption.between_nodes for interruption in interruptions_of(plan)] == [True]
    assert "A schedule says where" in plan.notes[0]
    assert plan_from_json(plan_to_json(plan)) == plan and plan_digest(renumbered(plan, 40)) == plan.digest
    index = EstateIndex(WIDE)
    index.apply(plan)
    assert index.estate() == after
    back = apply_plan(after, undo(after, plan))
    assert live_of(back) == live_of(WIDE) and streams_of(back) == streams_of(WIDE)
    [former] = [part for part in by_task(back, "by").bundles if part.part == bundle.id]
    assert former.inherits == (bundle.id, heir.id) and former.origin == node_of(slot)


def test_whoever_writes_for_a_bundle_that_moved_knows_who_reads() -> None:
    by = by_task(WIDE, "by")
    slot = next(slot.name for slot in WIDE.slots if slot.node != node_of(by.bundles[0].slot))
    after = apply_plan(WIDE, moved(WIDE, by.id, slot))
    heir = by_task(after, "by").bundles[0]
    wanted = {
        name: fragment for node in ("n1", "n2") for name, fragment in desired_of(after, node, TYPES).wanted.items()}
    writer = wanted[by_task(after, "in").id]
    assert set(writer.routes[0][by.id]) == {bundle.part for bundle in by.bundles}
    assert writer.readers_of(by.id) == (heir.id, by.id)
    assert [writer.reader_of(bundle.id) for bundle in by.bundles[1:]] == [bundle.id for bundle in by.bundles[1:]]
    taker = wanted[heir.id]
    assert [item.channel for item in taker.inputs] == [f"{writer.id}.0@{by.id}"] and taker.channel(0) == f"{by.id}.0"
    assert (taker.inherits, taker.origin) == ((by.id,), node_of(by.bundles[0].slot))
    left = desired_of(after, node_of(by.bundles[0].slot), TYPES)
    assert [fragment.id for fragment in left.remote_heirs[node_of(slot)]] == [heir.id]


def test_a_bundle_that_moved_is_there_when_it_runs_and_its_node_has_let_it_go() -> None:
    by = by_task(WIDE, "by")
    bundle = next(bundle for bundle in by.bundles if node_of(bundle.slot) == "n1")
    plan = moved(WIDE, bundle.id, "n2/0")
    [step] = plan.steps
    reports = {
        "n1": {"node": "n1", "version": WIDE.generation + 1, "slots": {"0": {"state": "running"}}},
        "n2": {"node": "n2", "version": WIDE.generation + 1, "slots": {"0": {
            "state": "running", "fragments": {step.bundle: {"state": "running"}}}}}}
    assert steps_done(plan, EnactmentEvidence(Reports.of(reports))) == {step.key}
    reports["n1"]["handing_over"] = [bundle.id]
    assert not steps_done(plan, EnactmentEvidence(Reports.of(reports)))


def test_what_is_beside_a_divided_task_moves_with_its_channels() -> None:
    source, sink = by_task(WIDE, "in"), by_task(WIDE, "out")
    for fragment in (source, sink):
        slot = next(slot.name for slot in WIDE.slots if slot.name != fragment.slot)
        plan = moved(WIDE, fragment.id, slot)
        after = apply_plan(WIDE, plan)
        check_divided(after)
        assert streams_of(after) == streams_of(WIDE)
        assert "A schedule says where" in plan.notes[0], "it is of the schedule, too"
        assert live_of(apply_plan(after, undo(after, plan))) == live_of(WIDE)
    [reader] = by_task(after, "some").outlets.values()
    assert reader == (by_task(after, "out").id,)


def test_what_is_not_there_or_leaves_is_no_query_of_the_dataflow() -> None:
    plan, _ = rescheduled(WIDE, rate_per_s=100)
    fewer = apply_plan(WIDE, plan)
    leaving = next(bundle.id for bundle in by_task(fewer, "by").bundles if bundle.leaving)
    for query in (leaving, "f9-9"):
        with pytest.raises(NotFound, match=f"has no query {query}"):
            moved(fewer, query, "n2/5")


def test_another_schedule_hands_over_what_only_gets_another_slot() -> None:
    narrow = apply_plan(ESTATE, submitted(ESTATE, rate_per_s=40))
    before = by_task(narrow, "some").bundles[0]
    plan, _ = rescheduled(narrow, rate_per_s=100)
    after = apply_plan(narrow, plan)
    [heir] = by_task(after, "some").bundles
    assert (heir.inherits, heir.part, heir.threads) == ((before.id,), before.id, before.threads)
    assert heir.slot != before.slot and streams_of(after) == streams_of(narrow)
    assert ("hand_over_bundle", heir.id) in {(step.kind, step.bundle) for step in plan.steps}
    sink = by_task(after, "out")
    assert sink.inherits == (by_task(narrow, "out").id,), "and so does what is not divided"
    assert {bundle.id for bundle in plan.promise.bundles} >= {heir.id, sink.id}
    back = apply_plan(after, undo(after, plan))
    assert live_of(back) == live_of(narrow) and streams_of(back) == streams_of(narrow)


def test_a_bundle_that_was_scheduled_elsewhere_since_is_not_taken_back() -> None:
    bundle = by_task(WIDE, "by").bundles[0]
    slot = next(slot.name for slot in WIDE.slots if slot.node != node_of(bundle.slot))
    plan = moved(WIDE, bundle.id, slot)
    after = apply_plan(WIDE, plan)
    [heir] = [query for query in by_task(after, "by").bundles if query.part == bundle.id]
    again = apply_plan(after, moved(after, heir.id, bundle.slot))
    with pytest.raises(InvalidTransition, match="changed again"):
        undo(again, plan)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.randoms()), min_size=1, max_size=4))
def test_whatever_moves_together_keeps_streams_and_weights_and_comes_back(rounds) -> None:
    estate = WIDE
    for extra, chance in rounds:
        queries = {bundle.id: bundle for fragment in estate.fragments.values() for bundle in fragment.queries}
        slot = chance.choice(estate.slots).name
        able = sorted(name for name, bundle in queries.items() if bundle.slot != slot)
        going = chance.sample(able, min(len(able), 1 + extra))
        plan = moved(estate, going[0], slot, *going[1:])
        after = apply_plan(estate, plan)
        check_divided(after)
        assert streams_of(after) == streams_of(estate)
        assert len({step.key for step in plan.steps}) == len(going)
        back = apply_plan(after, undo(after, plan))
        assert live_of(back) == live_of(estate) and streams_of(back) == streams_of(estate)
        estate = after
