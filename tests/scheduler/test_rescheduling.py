"""Schedules carried out: what is planned for a submission and for what runs, by example and for random schedules."""

from __future__ import annotations

from dataclasses import replace
from math import fsum

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scheduler.applying import apply_plan
from scheduler.assignment import SlotAssigner
from scheduler.defragmenting import plan_defragmentation
from scheduler.enactment import parts_of
from scheduler.model.encoding import plan_from_json, plan_to_json
from scheduler.model.errors import InsufficientSlots, NotEnactable, NothingToChange, NothingToGain, StalePlan, WeirError
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningBundle, Slot
from scheduler.model.profile import Point, Profile, Profiles
from scheduler.model.resources import Node, Supply, TakenShare
from scheduler.planning import merged_plainly, plan_removal, plan_submission
from scheduler.rearranging import plan_pause, plan_resumption
from scheduler.rescheduling import bound, plan_schedule, plan_schedule_back, schedulable
from scheduler.reuse.fragmentation import fragmentation
from scheduler.scheduling import SchedulingOptions, prepare, schedule
from tests.scheduler.estate_index import EstateIndex
from tests.scheduler.reversing import reverse_plan

from .catalogue import PRICES, TYPES, flow
from .schedule_steps import check_steps
from .schedules import SIZES

FLOW = flow(
    "air", {"in": "sensors", "by": ("scale", {"by": 2}), "again": ("scale", {"by": 3}), "some": "thin",
            "out": "archive"}, "in > by > again > some > out", rates={"in": 100})
PROFILES = Profiles([
    Profile("scale", (Point(1, 50, 0.6, 0.2), Point(4, 120, 0.9, 0.3))), Profile("thin", (Point(1, 500, 0.9, 0.05),)),
    Profile("count", (Point(1, 400, 0.5, 0.1),)),
])
ESTATE = Estate(slots=tuple(Slot(node, index) for node in ("n1", "n2") for index in range(6)))
SAM, RSM, DSM = ("MBA", "SAM"), ("MBA", "RSM"), ("MBA", "DSM")


def supply_of(estate: Estate, scheduled=(), *, buy: bool = False) -> Supply:
    """The slots that nothing else is on, own ones first, as the site finds them."""
    others = {
        query.slot for fragment in estate.fragments.values() if fragment not in scheduled for query in fragment.queries}
    first = {bundle.slot for fragment in scheduled for bundle in fragment.queries}
    free = sorted((slot for slot in estate.slots if slot.name not in others), key=lambda slot: slot.name not in first)
    nodes = {slot.node: tuple(free_slot for free_slot in free if free_slot.node == slot.node) for slot in free}
    return Supply(tuple(Node(name, slots) for name, slots in nodes.items()), SIZES if buy else None)


def submitted(
    estate: Estate, dataflow=FLOW, *, pair=SAM, rate_per_s=None, routing="slot_aware", buy=False, whole=None,
    team="water",
):
    """The plan of a submission with a schedule; ``whole`` is the estate where a view of it is given."""
    merged = merged_plainly(estate, dataflow, dataflow_id=dataflow.name, team=team, task_types=TYPES)
    job = prepare(dataflow, task_types=TYPES, profiles=PROFILES, rate_per_s=rate_per_s, among=merged.new)
    options, supply = SchedulingOptions(routing=routing), supply_of(whole or estate, buy=buy)
    planned = schedule(job, pair, supply=supply, options=options)
    return plan_submission(
        estate, dataflow, dataflow_id=dataflow.name, team=team, task_types=TYPES, prices=PRICES, schedule=planned)


def rescheduled(estate: Estate, *, pair=SAM, rate_per_s=None, routing="slot_aware", dataflow=FLOW, left=(), whole=None):
    """The plan of another schedule for what runs."""
    running, why_not = schedulable(estate, dataflow.name, dataflow, task_types=TYPES)
    assert not why_not
    job = prepare(dataflow, task_types=TYPES, profiles=PROFILES, rate_per_s=rate_per_s, among=running)
    supply = supply_of(whole or estate, list(running.values()))
    assigner = SlotAssigner(
        {task: fragment.queries for task, fragment in running.items()}, pinned=bound(running, job), supply=supply)
    planned = schedule(job, pair, supply=supply, options=SchedulingOptions(routing=routing), arrange=assigner)
    return plan_schedule(estate, dataflow.name, planned, task_types=TYPES, prices=PRICES, left_bundles=left), planned


def check_divided(estate: Estate) -> None:
    """Weights add up to 1, ids are there once, and an undivided fragment is one query."""
    ids = [bundle.id for fragment in estate.fragments.values() for bundle in fragment.queries]
    assert len(set(ids)) == len(ids)
    for fragment in estate.fragments.values():
        live = [bundle for bundle in fragment.queries if not bundle.leaving]
        assert fsum(bundle.weight for bundle in live) == pytest.approx(1, abs=1e-9)
        assert all(0 < bundle.weight <= 1 and bundle.threads >= 1 for bundle in live)
        assert fragment.slot == fragment.queries[0].slot and not fragment.queries[0].leaving
        assert all(bundle.slot in {slot.name for slot in estate.slots} for bundle in fragment.queries)


def live(fragment: Fragment) -> list[tuple[str, int, float]]:
    return sorted((query.slot, query.threads, query.weight) for query in fragment.queries if not query.leaving)


def live_of(estate: Estate):
    """What runs where: tasks with the slots, threads and weights of their bundles."""
    return {fragment.tasks: live(fragment) for fragment in estate.fragments.values()}


def live_by_task(estate: Estate):
    """What runs where, by task: tasks that are fused are all where their query is."""
    return {task: live(fragment) for fragment in estate.fragments.values() for task in fragment.active_tasks}


def by_task(estate: Estate, task: str, dataflow: str = "air"):
    running = estate.submitted[dataflow].running[task]
    return estate.fragments[estate.places[running][0]]


def test_a_submission_runs_as_its_schedule_has_it():
    plan = submitted(ESTATE)
    estate = apply_plan(ESTATE, plan)
    check_divided(estate)
    assert all(len(fragment.tasks) == 1 for fragment in estate.fragments.values()), "profiles are of tasks"
    again = by_task(estate, "again")
    assert [(bundle.threads, bundle.weight) for bundle in again.bundles] == [(4, 1.0)]
    assert again.bundles[0].id == again.id and again.outlets == {again.tasks[0]: (by_task(estate, "some").id,)}
    assert not by_task(estate, "in").divided and not by_task(estate, "out").divided
    promised = {bundle.id: (bundle.slot, bundle.threads) for bundle in plan.promise.bundles}
    assert promised == {
        query.id: (query.slot, query.threads) for fragment in estate.fragments.values() for query in fragment.queries}
    assert plan.promise.pair == SAM and plan.promise.rate_per_s == 100 <= plan.promise.sustained_per_s
    origins = {profile.task: profile.origin for profile in plan.promise.profiles}
    assert (origins["in"], origins["by"]) == ("declared", "")
    assert plan.price.slots_per_hour_delta == pytest.approx(0.1 * len(plan.promise.slots))
    assert plan.price.slots_kept == len(plan.promise.slots)
    assert plan.price.money_per_hour_delta == pytest.approx(0.1 * plan.price.cores_delta, abs=1e-5), "what is billed"
    assert plan.price.queries_started == 5 and "keeps 3 slots at" in plan.price.basis
    assert plan_from_json(plan_to_json(plan)) == plan


def test_more_than_a_slot_holds_is_divided():
    estate = apply_plan(ESTATE, submitted(ESTATE, rate_per_s=300))
    check_divided(estate)
    by = by_task(estate, "by")
    assert [bundle.threads for bundle in by.bundles] == [4, 4, 4] and len({bundle.slot for bundle in by.bundles}) == 3
    assert by.bundles[0].id == by.id and by.channels_of(by.tasks[0]) == tuple(
        f"{bundle.id}.0" for bundle in by.bundles)


def test_machines_that_are_not_there_are_told_with_the_numbers():
    small = replace(ESTATE, slots=ESTATE.slots[:2])
    with pytest.raises(InsufficientSlots, match=r"2 are free here: [0-9]+ would be on machines to buy") as caught:
        submitted(small, rate_per_s=300, buy=True)
    assert caught.value.facts["needed"] > 2 == caught.value.facts["available"]
    assert sum(caught.value.facts["machines"].values()) >= 2


def test_a_schedule_of_other_tasks_than_are_new_is_stale():
    planned = schedule(
        prepare(FLOW, task_types=TYPES, profiles=PROFILES, among={"in", "by"}), SAM, supply=supply_of(ESTATE))
    with pytest.raises(StalePlan, match="of 2 tasks, and 5 would start"):
        plan_submission(
            ESTATE, FLOW, dataflow_id="air", team="water", task_types=TYPES, prices=PRICES, schedule=planned)


def test_only_new_tasks_are_scheduled_and_a_running_writer_routes_to_them():
    first = flow("first", {"in": "sensors", "out": "archive"}, "in > out", rates={"in": 100})
    estate = apply_plan(ESTATE, plan_submission(
        ESTATE, first, dataflow_id="first", team="water", task_types=TYPES, prices=PRICES))
    plan = submitted(estate)
    after = apply_plan(estate, plan)
    assert {bundle.task for bundle in plan.promise.bundles} == {"by", "again", "some", "out"}
    shared = after.fragments["f1-0"]
    assert not shared.divided and shared.outlets[shared.tasks[0]] == (by_task(after, "by").id,)
    assert {step.kind for step in plan.steps} == {"start_fragment", "open_outlet"}
    assert not {bundle.slot for bundle in plan.promise.bundles} & {"n1/0"}, "that slot is not free"
    back = apply_plan(after, reverse_plan(plan))
    assert back.fragments == estate.fragments


def test_the_same_schedule_again_is_nothing_to_change():
    estate = apply_plan(ESTATE, submitted(ESTATE, rate_per_s=300))
    with pytest.raises(NothingToChange, match="runs as this schedule has it"):
        rescheduled(estate, rate_per_s=300)


def test_more_threads_of_one_slot_are_a_move_and_another_slot_a_new_bundle():
    estate = apply_plan(ESTATE, submitted(ESTATE, rate_per_s=40))
    assert [bundle.threads for bundle in by_task(estate, "by").bundles] == [1]
    plan, _ = rescheduled(estate, rate_per_s=100)
    after = apply_plan(estate, plan)
    assert {step.kind for step in plan.steps if step.task in by_task(after, "by").tasks} == {"move_bundle"}
    assert by_task(after, "by").bundles[0].id == by_task(estate, "by").id
    assert by_task(after, "by").bundles[0].threads == 4
    plan, _ = rescheduled(after, rate_per_s=200)
    more = apply_plan(after, plan)
    by = by_task(more, "by")
    assert [bundle.threads for bundle in by.bundles] == [4, 4] and by.bundles[1].id.startswith(f"f{more.generation}-")
    kinds = [(step.kind, step.bundle) for step in plan.steps if step.fragment == by.id]
    assert ("start_bundle", by.bundles[1].id) in kinds and kinds[-1] == ("route", None)
    assert plan.price.slots_per_hour_delta > 0 and "instead of" in plan.price.basis


def test_fewer_bundles_leave_and_are_dropped_once_they_are_gone():
    estate = apply_plan(ESTATE, submitted(ESTATE, rate_per_s=300))
    plan, _ = rescheduled(estate, rate_per_s=100)
    after = apply_plan(estate, plan)
    check_divided(after)
    by = by_task(after, "by")
    leaving = [bundle.id for bundle in by.bundles if bundle.leaving]
    assert len(leaving) == 2 and ("leave_bundle", leaving[0]) in {(step.kind, step.bundle) for step in plan.steps}
    assert by.channels_of(by.tasks[0]) == tuple(f"{bundle.id}.0" for bundle in by.bundles), "what they wrote is read"
    later, _ = rescheduled(after, rate_per_s=40, left=leaving[:1])
    assert [bundle.id for bundle in by_task(apply_plan(after, later), "by").bundles if bundle.leaving] == leaving[1:]


COUNTED = flow(
    "counted", {"in": "sensors", "by": ("scale", {"by": 2}), "n": "count", "out": "archive"}, "in > by > n > out",
    rates={"in": 100})


def test_what_cannot_leave_its_node_stays_there():
    """State and order do not move between machines: places are chosen so that they need not, or it is told."""
    estate = apply_plan(ESTATE, submitted(ESTATE, COUNTED))
    home = by_task(estate, "n", "counted").slot.rpartition("/")[0]
    plan, planned = rescheduled(estate, dataflow=COUNTED, rate_per_s=20)
    after = apply_plan(estate, plan)
    assert {by_task(after, task, "counted").slot.rpartition("/")[0] for task in COUNTED.parents()} == {home}
    assert not any(one.leaving for one in by_task(after, "by", "counted").queries)
    job, other = planned.job, "n2" if home == "n1" else "n1"
    only_there = Supply(tuple(node for node in supply_of(estate).free if node.name == other))
    elsewhere = schedule(job, SAM, supply=only_there)
    with pytest.raises(NotEnactable, match="cannot leave"):
        plan_schedule(estate, "counted", elsewhere, task_types=TYPES, prices=PRICES)
    with pytest.raises(NotEnactable, match="cannot leave its node"):
        schedule(job, SAM, supply=only_there, arrange=SlotAssigner(
            {"n": by_task(estate, "n", "counted").queries}, pinned={"n": home}, supply=only_there))


def test_a_single_slot_that_none_of_it_may_go_to_is_told():
    """With one slot and one place there is nothing to assign: the solver would read past its end."""
    estate = apply_plan(ESTATE, submitted(ESTATE, COUNTED))
    job = rescheduled(estate, dataflow=COUNTED, rate_per_s=20)[1].job
    supply = Supply((Node("n1", (Slot("n1", 0),)),))
    assert schedule(job, SAM, supply=supply).slots == 1
    with pytest.raises(NotEnactable, match="cannot leave its node"):
        schedule(job, SAM, supply=supply, arrange=SlotAssigner(
            {"n": by_task(estate, "n", "counted").queries}, pinned={"n": "n2"}, supply=supply))


def test_a_place_on_what_others_leave_stays_there():
    """Slots are alike but for what others take of them; those that the schedule does not need keep out of it."""
    slots = [Slot("n1", index) for index in range(6)]
    supply = Supply((Node("n1", tuple(slots)),), taken={slot: TakenShare(0.1 * slot.index, 0.1) for slot in slots[:4]})
    job = prepare(FLOW, task_types=TYPES, profiles=PROFILES, rate_per_s=90)
    planned = schedule(job, SAM, supply=supply)
    assert planned.placement.slots[:2] == (slots[4], slots[5]) and planned.placement.taken
    running = {
        task: [RunningBundle(f"{task}{number}", part.slot, part.threads, part.weight)
               for number, part in enumerate(parts)] for task, parts in parts_of(planned).items()}
    assert SlotAssigner(running, pinned={}, supply=supply)(planned.placement, job.streams) == planned.placement
    swapped = {"n1/4": "n1/5", "n1/5": "n1/4"}
    elsewhere = {task: [replace(bundle, slot=swapped.get(bundle.slot, bundle.slot)) for bundle in bundles]
                 for task, bundles in running.items()}
    moved = schedule(job, SAM, supply=supply, arrange=SlotAssigner(elsewhere, pinned={}, supply=supply))
    assert moved.placement.slots == (slots[5], slots[4], *planned.placement.slots[2:])
    assert moved.placement.taken == planned.placement.taken
    assert moved.acquisition.per_hour == planned.acquisition.per_hour


def test_a_task_with_state_that_reads_a_divided_stream_is_told_of():
    divided = apply_plan(ESTATE, submitted(ESTATE, rate_per_s=300))
    counting = flow(
        "n", {"in": "sensors", "by": ("scale", {"by": 2}), "n": "count", "out": "archive"}, "in > by > n > out",
        rates={"in": 100})
    plan = plan_submission(divided, counting, dataflow_id="n", team="air", task_types=TYPES, prices=PRICES)
    assert len(plan.notes) == 1 and "A task with state (count) reads what a divided task makes" in plan.notes[0]
    whole = apply_plan(ESTATE, submitted(ESTATE))
    plan = plan_submission(whole, counting, dataflow_id="n", team="air", task_types=TYPES, prices=PRICES)
    assert plan.notes == ()
    plan, _ = rescheduled(apply_plan(whole, plan), rate_per_s=300)
    assert any("A task with state (count) reads" in note for note in plan.notes), "divided later, it is told as well"
    assert plan.touched_teams == ("air",)


def test_a_schedule_for_less_than_comes_is_told_of():
    plan = submitted(ESTATE, rate_per_s=20)
    assert plan.notes == (
        "in makes 100 events/s, and the schedule is for 20: events beyond what it sustains are late.",)


def test_tasks_that_work_on_several_slots_for_the_first_time_are_told_of_once():
    """Whatever a schedule may divide has a bundle from the first; it is with the second that order is lost."""
    estate = apply_plan(ESTATE, submitted(ESTATE, rate_per_s=100))
    assert by_task(estate, "by").divided
    plan, _ = rescheduled(estate, rate_per_s=300)
    assert plan.notes[-2].startswith("by, again work on several slots from now on")
    further, _ = rescheduled(apply_plan(estate, plan), rate_per_s=480)
    assert not any("several slots" in note for note in further.notes)


def test_a_divided_dataflow_pauses_goes_on_and_leaves_as_a_whole():
    estate = apply_plan(ESTATE, submitted(ESTATE, rate_per_s=300))
    pause = plan_pause(estate, "air", task_types=TYPES, prices=PRICES)
    queries = sum(len(fragment.queries) for fragment in estate.fragments.values())
    assert pause.price.queries_stopped == queries
    resting = apply_plan(estate, pause)
    assert not any(resting.loads[slot].queries for slot in resting.loads)
    resume = plan_resumption(resting, "air", task_types=TYPES, prices=PRICES)
    assert resume.price.queries_started == queries and apply_plan(resting, resume).fragments == estate.fragments
    removal = plan_removal(estate, "air", task_types=TYPES, prices=PRICES)
    assert removal.price.queries_stopped == queries and not apply_plan(estate, removal).fragments


def test_what_is_not_scheduled_keeps_off_a_schedules_slots_while_there_are_others():
    estate = apply_plan(ESTATE, submitted(ESTATE, rate_per_s=300))
    taken = {one.slot for fragment in estate.fragments.values() for one in fragment.bundles}
    other = flow("other", {"in": ("sensors", {"seed": 7}), **{f"o{n}": ("alarm", {"level": n}) for n in range(9)}},
                 *(f"in > o{n}" for n in range(9)))
    plan = plan_submission(estate, other, dataflow_id="other", team="air", task_types=TYPES, prices=PRICES)
    assert not {fragment.slot for fragment in plan.fragments_after.values()} & taken
    full = replace(estate, slots=tuple(slot for slot in estate.slots if slot.name in taken))
    assert plan_submission(full, other, dataflow_id="other", team="air", task_types=TYPES, prices=PRICES)


def test_what_is_divided_is_as_few_queries_as_it_should_be():
    estate = apply_plan(ESTATE, submitted(ESTATE, rate_per_s=300))
    queries = sum(len(fragment.queries) for fragment in estate.fragments.values())
    fragmented = fragmentation(estate, "air", task_types=TYPES, query_cores=0.1)
    assert (fragmented.queries, fragmented.fewest) == (queries, queries)
    assert fragmented.idle_cores == pytest.approx(0.1 * queries)
    for dataflow in (FLOW, COUNTED):
        estate = apply_plan(ESTATE, submitted(ESTATE, dataflow))
        fragmented = fragmentation(estate, dataflow.name, task_types=TYPES, query_cores=0.1)
        assert fragmented.queries == fragmented.fewest
        with pytest.raises(NothingToGain):
            plan_defragmentation(estate, dataflow.name, task_types=TYPES, prices=PRICES)


def test_rates_with_state_or_without_a_slot_change_nothing():
    with pytest.raises(WeirError):
        submitted(ESTATE, COUNTED, rate_per_s=500)  # one thread of count does 400


rates = st.sampled_from([5, 20, 40, 60, 100, 130, 250, 300, 480])
choices = st.tuples(st.sampled_from([SAM, RSM, DSM]), rates, st.sampled_from(["shuffle", "slot_aware"]))


@settings(max_examples=60, deadline=None)
@given(st.lists(choices, min_size=2, max_size=5), st.data())
def test_schedules_one_after_another(moves, data):
    """What is the same stays untouched; what changes is told by a step; taken back all is divided as before."""
    try:
        estate = apply_plan(ESTATE, submitted(ESTATE, pair=moves[0][0], rate_per_s=moves[0][1], routing=moves[0][2]))
    except WeirError:
        assume(False)
    index = EstateIndex(estate)
    for pair, rate_per_s, routing in moves[1:]:
        leaving = [query.id for fragment in estate.fragments.values() for query in fragment.queries if query.leaving]
        left = data.draw(st.lists(st.sampled_from(leaving), unique=True) if leaving else st.just([]))
        try:
            plan, planned = rescheduled(estate, pair=pair, rate_per_s=rate_per_s, routing=routing, left=left)
        except NothingToChange:
            continue
        except (InsufficientSlots, NotEnactable):
            continue  # a slot is taken by what still leaves, or two that are bound to their nodes meet
        after = apply_plan(estate, plan)
        index.apply(plan)
        assert index.estate() == after
        for apart in (False, True):
            for number in (1, 4, 20):
                expected = after.least_loaded(number, query_cores=0.1, apart=apart)
                assert index.least_loaded(number, query_cores=0.1, apart=apart) == expected
        check_divided(after)
        check_steps(estate, plan, after, left)
        parts = parts_of(planned)
        for task, part in parts.items():
            assert sorted((bundle.slot, bundle.threads, bundle.weight) for bundle in part) == live_of(after)[
                (after.submitted["air"].running[task],)]
        back = apply_plan(after, reverse_plan(plan))
        check_divided(back)
        assert live_of(back) == live_of(estate)
        assert live_of(apply_plan(after, plan_schedule_back(after, plan))) == live_of(estate)
        with pytest.raises(NothingToChange):
            plan_schedule(after, "air", planned, task_types=TYPES, prices=PRICES)
        estate = after
