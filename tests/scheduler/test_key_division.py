"""Tasks divided by key: which may be, how large their ranges are, and how plans give and change their bundles."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.applying import apply_plan
from scheduler.assignment import SlotAssigner
from scheduler.contracts.desired import DESIRED_STATES
from scheduler.contracts.reports import Reports
from scheduler.interruptions import interruptions_of
from scheduler.key_division import divisible_by_key, key_of, ranges_of, whole_groups
from scheduler.model.encoding import plan_from_json, plan_to_json
from scheduler.model.errors import NothingToChange
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningBundle, RunningTask, Slot
from scheduler.model.profile import Point, Profile, Profiles
from scheduler.model.resources import Supply
from scheduler.model.ring import KEY_GROUPS, Ring
from scheduler.model.task_types import Parameter, TaskType, TaskTypes
from scheduler.moving import why_not_moved
from scheduler.pairs import PAIRS
from scheduler.planning import merged_plainly, plan_submission
from scheduler.rescheduling import bound, plan_schedule, plan_schedule_back, schedulable
from scheduler.reuse.division import WantedBundle, is_cut_so, keyed_bundles, keys_divided_anew
from scheduler.reuse.order import reads_divided, stateful_downstream
from scheduler.scheduling import prepare, schedule
from scheduler.step_kinds import EnactmentEvidence, steps_done
from workers.engine.desired_publishing import desired_of

from .catalogue import PRICES, flow
from .catalogue import TYPES as PLAIN_TYPES
from .keys_told import TWO_NODES, check_told
from .schedules import BUY
from .test_rescheduling import supply_of

BY = Parameter("by", "list", "The key.", default=["k"], items="string")
FACTS = {"stateful": True, "movable_state": True, "effects": ()}
TYPES = TaskTypes([
    *PLAIN_TYPES.values(),
    TaskType("sum_by", "transform", "Sums.", "none:none", (BY,), key="by", by_key=True, passes_key=True, **FACTS),
    TaskType("code_by", "transform", "Any code.", "none:none", (BY,), key="by", by_key=True, **FACTS),
    TaskType("late_by", "transform", "By time.", "none:none", (BY,), key="by", **FACTS),
    TaskType("mark_by", "transform", "By marks.", "none:none", (BY,), key="by", by_key=True, by_marks="ahead",
             passes_key=True, **FACTS),
])
PROFILES = Profiles([
    Profile("scale", (Point(1, 400, 0.3, 0.05),)), Profile("thin", (Point(1, 500, 0.9, 0.05),)),
    Profile("archive", (Point(1, 2000, 0.1, 0.1),)), Profile("late_by", (Point(1, 400, 0.5, 0.1),)),
    Profile("sum_by", (Point(1, 100, 0.8, 0.2), Point(4, 900, 0.9, 0.3))),
    Profile("code_by", (Point(1, 100, 0.8, 0.2),)), Profile("sensors", (Point(1, 1, 0.1, 0.1),), static=True),
])
SUMS = flow("air", {"in": "sensors", "sum": "sum_by", "again": "sum_by", "out": "archive"}, "in > sum > again > out",
            rates={"in": 250})
SAM = ("MBA", "SAM")
ONE_NODE = Estate(slots=tuple(Slot("n1", index) for index in range(10)))


# -- which ------------------------------------------------------------------------------------------------------------


KINDS = ["sum_by", "code_by", "late_by", "mark_by", "scale", ("sum_by", {"by": ["k", "m"]}), ("sum_by", {"by": ["m"]}),
         ("sum_by", {"by": ["value"]})]


@st.composite
def chains(draw: st.DrawFn):
    """Dataflows in which each task reads one or two of those before it."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=6))
    names = [f"t{number}" for number in range(len(kinds))]
    streams = []
    for number, name in enumerate(names):
        before = ["in", *names[:number]]
        streams += [f"{parent} > {name}" for parent in draw(st.lists(
            st.sampled_from(before), min_size=1, max_size=2, unique=True))]
    return flow("d", {"in": "sensors", **dict(zip(names, kinds, strict=True))}, *streams)


@given(dataflow=chains())
def test_what_is_divided_gives_every_task_with_state_downstream_the_order_that_it_needs(dataflow):
    """Held against every way from a task to the tasks with state downstream of it."""
    types = {task.id: TYPES[task.type] for task in dataflow.tasks}
    keys = {task.id: set(key_of(types[task.id], task.config)) for task in dataflow.tasks}
    children = dataflow.children()

    def ways(task_id: str, way: tuple[str, ...]):
        yield way
        for child in children[task_id]:
            yield from ways(child, (*way, child))

    def keeps_order(way: tuple[str, ...]) -> bool:
        if not types[way[-1]].stateful:
            return True
        return all(types[one].passes_key and keys[other] and keys[one] <= keys[other] and not types[other].by_marks
                   for one, other in itertools.pairwise(way))

    expected = {
        task.id for task in dataflow.tasks
        if types[task.id].by_key and keys[task.id] and len(dataflow.parents()[task.id]) == 1
        and all(map(keeps_order, ways(task.id, (task.id,))))}
    assert divisible_by_key(dataflow, types) == expected


def test_what_is_upstream_of_keys_keeps_one_slot_but_for_what_has_the_same():
    mixed = flow("m", {"in": "sensors", "by": "scale", "sum": "sum_by", "again": "sum_by", "out": "archive"},
                 "in > by > sum > again > out", rates={"in": 90})
    job = prepare(mixed, task_types=TYPES, profiles=PROFILES)
    assert job.by_key == {"sum", "again"} and job.one_slot == {"in", "by", "out"} and job.one_thread == {"in", "out"}
    behind = flow("b", {"in": "sensors", "sum": "sum_by", "late": "late_by", "out": "archive"}, "in > sum > late > out")
    job = prepare(behind, task_types=TYPES, profiles=PROFILES)
    assert not job.by_key and job.one_thread == {"in", "sum", "late", "out"}, "what goes by time needs all in order"


# -- ranges -----------------------------------------------------------------------------------------------------------


@given(parts=st.lists(st.floats(1e-7, 1), min_size=1, max_size=30))
def test_shares_become_whole_groups_that_make_up_the_ring(parts: list[float]):
    shares = {place: part / sum(parts) for place, part in enumerate(parts)}
    weights = whole_groups(shares)
    assert sum(weights.values()) == 1 and all(weight * KEY_GROUPS >= 1 for weight in weights.values())
    assert all(abs(weights[place] - share) * KEY_GROUPS <= len(parts) for place, share in shares.items())
    ranges = ranges_of(list(weights.values()))
    covered = [group for first, size in ranges for group in range(first, first + size)]
    assert covered == list(range(KEY_GROUPS))
    ring = Fragment("f", ("t",), "n1/0", 1, bundles=tuple(
        RunningBundle(f"f-{number}", "n1/0", 1, weight, key_ranges=(key_range,))
        for number, (weight, key_range) in enumerate(zip(weights.values(), ranges, strict=True)))).ring(("k",))
    assert [(piece.token, piece.size) for piece in ring.ranges] == list(ranges) and not ring.why_not


# -- schedules --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("rate_per_s", [80, 101, 250, 730])
def test_every_pair_divides_keys_over_slots_with_one_thread_each(pair, rate_per_s):
    job = prepare(SUMS, task_types=TYPES, profiles=PROFILES, rate_per_s=rate_per_s)
    planned = schedule(job, pair, supply=BUY)
    for task in ("sum", "again"):
        assert set(planned.placement.counts[task].values()) == {1}, "one query on a slot"
        shares = planned.prediction.routed.shares[task]
        assert sum(shares.values()) == pytest.approx(1)
        assert planned.sustained_per_s <= len(shares) * 100 * (1 + 1e-9), "no bundle does more than one thread does"
    if pair in (SAM, ("MBA", "exact")):
        assert planned.sustained_per_s >= rate_per_s * (1 - 1e-9)
        assert len(planned.placement.counts["sum"]) == -(-rate_per_s // 100)


def submitted(estate: Estate = ONE_NODE, *, rate_per_s: float, pair=SAM):
    merged = merged_plainly(estate, SUMS, dataflow_id="air", team="water", task_types=TYPES)
    job = prepare(SUMS, task_types=TYPES, profiles=PROFILES, rate_per_s=rate_per_s, among=merged.new)
    planned = schedule(job, pair, supply=supply_of(estate))
    return plan_submission(
        estate, SUMS, dataflow_id="air", team="water", task_types=TYPES, prices=PRICES, schedule=planned)


def rescheduled(estate: Estate, *, rate_per_s: float, left=(), supply: Supply | None = None):
    running, why_not = schedulable(estate, "air", SUMS, task_types=TYPES)
    assert not why_not
    job = prepare(SUMS, task_types=TYPES, profiles=PROFILES, rate_per_s=rate_per_s, among=running)
    supply = supply or supply_of(estate, list(running.values()))
    assigner = SlotAssigner(
        {task: fragment.queries for task, fragment in running.items()}, pinned=bound(running, job), supply=supply)
    planned = schedule(job, SAM, supply=supply, arrange=assigner)
    return plan_schedule(estate, "air", planned, task_types=TYPES, prices=PRICES, left_bundles=left)


def keyed(estate: Estate, task: str) -> Fragment:
    return estate.fragments[estate.places[estate.submitted["air"].running[task]][0]]


def routes_to(estate: Estate, fragment: Fragment) -> list[Ring]:
    """How those who write for a fragment divide their streams, by what its nodes are told."""
    nodes = {slot.node for slot in estate.slots}
    states = [DESIRED_STATES.loads(DESIRED_STATES.dumps(desired_of(estate, node, TYPES))) for node in nodes]
    return [
        how for state in states for wanted in state.wanted.values() for readers in wanted.routes.values()
        for reader, how in readers.items() if reader == fragment.id]


def check_ring(estate: Estate, fragment: Fragment) -> None:
    """Each working bundle has its part of the ring, none of it twice; and so those write who write for it."""
    live = [bundle for bundle in fragment.bundles if not bundle.leaving]
    ring = fragment.ring(("k",))
    assert ring.served == tuple(sorted(bundle.part for bundle in live)) and not ring.why_not
    for bundle in live:
        assert sum(size for _, size in bundle.key_ranges) / KEY_GROUPS == bundle.weight and bundle.threads == 1
    assert sum(bundle.weight for bundle in live) == 1
    assert {piece.token: piece.size for piece in ring.ranges} == dict(
        key_range for bundle in live for key_range in bundle.key_ranges)
    assert routes_to(estate, fragment) and all(how == ring for how in routes_to(estate, fragment))


def test_a_submission_begins_with_its_keys_divided():
    plan = submitted(rate_per_s=250)
    assert plan_from_json(plan_to_json(plan)) == plan
    estate = apply_plan(ONE_NODE, plan)
    for task in ("sum", "again"):
        fragment = keyed(estate, task)
        check_ring(estate, fragment)
        assert len(fragment.bundles) == 3 and not any(bundle.takes_keys for bundle in fragment.bundles)
    promised = {bundle.id: bundle.share for bundle in plan.promise.bundles}
    assert all(
        promised[bundle.id] == pytest.approx(bundle.weight, abs=1e-5) for task in ("sum", "again")
        for bundle in keyed(estate, task).bundles)


def test_what_fits_one_thread_runs_undivided_as_before():
    estate = apply_plan(ONE_NODE, submitted(rate_per_s=90))
    assert not keyed(estate, "sum").divided and not routes_to(estate, keyed(estate, "sum"))


@pytest.mark.parametrize(("before", "after"), [(90, 250), (250, 90), (250, 180), (150, 390)])
def test_keys_change_hands_when_the_schedule_does_and_back(before: float, after: float):
    estate = apply_plan(ONE_NODE, submitted(rate_per_s=before))
    was = keyed(estate, "sum")
    plan = rescheduled(estate, rate_per_s=after)
    assert plan_from_json(plan_to_json(plan)) == plan
    now = apply_plan(estate, plan)
    fragment = keyed(now, "sum")
    check_ring(now, fragment)
    live = [bundle for bundle in fragment.bundles if not bundle.leaving]
    new = [bundle for bundle in live if bundle.takes_keys]
    assert len(live) == -(-after // 100)
    check_hands(was, fragment)
    leaving = [bundle.id for bundle in fragment.bundles if bundle.leaving]
    kinds = [step.kind for step in plan.steps if step.fragment == fragment.id]
    assert kinds == ["take_keys"] * len(new) + ["route"] + ["leave_bundle"] * len(leaving)
    if was.divided and after > before:
        assert not leaving, "all work on with fewer keys"
    else:
        assert why_not_moved(now, fragment, task_types=TYPES) == "its keys are changing hands"
    with pytest.raises(NothingToChange):
        rescheduled(now, rate_per_s=after)
    back = plan_schedule_back(now, plan)
    again = keyed(apply_plan(now, back), "sum")
    check_ring(apply_plan(now, back), again)
    assert [(bundle.slot, bundle.weight) for bundle in again.bundles if not bundle.leaving] == [
        (bundle.slot, bundle.weight) for bundle in was.queries]
    check_hands(fragment, again)


def check_hands(was: Fragment, now: Fragment) -> None:
    """Each range that changes hands, and no other, is taken from the bundle that had it."""
    everything = ((0, KEY_GROUPS),)
    had = {bundle.id: bundle.key_ranges or everything for bundle in was.queries if not bundle.leaving}
    live = [bundle for bundle in now.bundles if not bundle.leaving]
    for group in (*range(0, KEY_GROUPS, 997), *(first for ranges in had.values() for first, _ in ranges)):
        def has(ranges, group: int = group) -> bool:
            return any((group - first) % KEY_GROUPS < size for first, size in ranges)

        [before] = [name for name, ranges in had.items() if has(ranges)]
        [after] = [bundle for bundle in live if has(bundle.key_ranges)]
        givers = [name for name, ranges in after.taken.items() if name in had and has(ranges)]
        assert (after.id == before and not givers) or givers == [before]
    works = {bundle.id: bundle for bundle in live if bundle.id in had}
    assert {bundle.id for bundle in now.bundles if bundle.leaving} >= had.keys() - works.keys()
    assert all(bundle.key_groups <= sum(size for _, size in had[name]) for name, bundle in works.items())
    if was.divided_by_key:
        old, new = was.ring(("k",)), now.ring(("k",))
        heirs = {new.owner(group) for group in {*old.tokens, *new.tokens} if old.owner(group) != new.owner(group)}
        new_parts = {bundle.part for bundle in live} - set(had)
        assert heirs <= new_parts, "who works on takes nothing"


@given(data=st.data())
def test_only_ranges_that_change_hands_do(data):
    """From plan to plan on two nodes: with as many slots more, bundles work on; who keeps its part is not touched. What
    goes to the other node is told to both."""
    ids = (f"f2-{number}" for number in itertools.count())
    fragment = Fragment("f1-1", ("t",), "n1/0", 1)
    for _ in range(data.draw(st.integers(1, 4))):
        slots = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=5))
        shares = whole_groups({place: data.draw(st.integers(1, 4)) / 4 / len(slots) for place in range(len(slots))})
        named = ranges_of(data.draw(st.permutations(list(shares.values())))) if data.draw(st.booleans()) else ()
        parts = [WantedBundle(TWO_NODES[slot].name, 1, part, named[place:place + 1])
                 for (place, part), slot in zip(shares.items(), slots, strict=True)]
        left = {bundle.id for bundle in fragment.bundles if bundle.leaving} if data.draw(st.booleans()) else set()
        change = keys_divided_anew(
            fragment, parts, ids=ids, left_bundles=left, works_on=(works_on := data.draw(st.booleans())))
        after = change.after[fragment.id]
        live = [bundle for bundle in after.bundles if not bundle.leaving]
        assert {(part.slot, part.key_groups) for part in live} == {(part.slot, part.key_groups) for part in parts}
        assert is_cut_so(parts, live) and sum(bundle.key_groups for bundle in live) == KEY_GROUPS
        if not any(step.kind == "hand_over_bundle" for step in change.steps):
            check_hands(fragment, after)
        check_told(after, TYPES)
        works = [bundle for bundle in fragment.bundles if not bundle.leaving]
        apart = len({bundle.slot for bundle in works}) == len(works) and len(set(slots)) == len(slots)
        assert works_on or all(it in works for it in live if it.id in {held.id for held in works}), "nobody has fewer"
        if works_on and apart and len(works) == len(fragment.bundles):
            assert all(it in live for part in parts for it in works if it.slot == part.slot and is_cut_so([part], [it]))
        fragment = after


def test_a_chain_with_state_is_cut_into_keys_while_it_runs():
    estate = apply_plan(ONE_NODE, plan_submission(
        ONE_NODE, SUMS, dataflow_id="air", team="water", task_types=TYPES, prices=PRICES))
    [chain] = estate.fragments.values()
    after = apply_plan(estate, rescheduled(estate, rate_per_s=250))
    for task in ("sum", "again"):
        fragment = keyed(after, task)
        check_ring(after, fragment)
        first = next(bundle for bundle in fragment.bundles if bundle.id == fragment.id)
        assert first.leaving and fragment.inherits == (chain.id,), "it takes over from the chain, and leaves the states"
        assert all(bundle.inherits == (fragment.id,) for bundle in fragment.bundles if bundle is not first)


def test_a_bundle_that_works_on_is_not_waited_for():
    estate = apply_plan(ONE_NODE, submitted(rate_per_s=150))
    plan = rescheduled(estate, rate_per_s=250)
    fragment = keyed(apply_plan(estate, plan), "sum")
    slots = {bundle.slot.partition("/")[2]: {"state": "running", "fragments": {bundle.id: {
        "state": "running", "threads": 1}}} for bundle in fragment.bundles}
    reports = Reports.of({"n1": {"node": "n1", "version": plan.generation + 1, "slots": slots}})
    [key] = [step.key for step in plan.steps if step.fragment == fragment.id and step.kind == "take_keys"]
    assert key in steps_done(plan, EnactmentEvidence(reports))
    assert not [entry for entry in interruptions_of(plan) if entry.queries], "nothing stands still"


# -- order ------------------------------------------------------------------------------------------------------------


def running(*kinds: tuple[str, dict]) -> Estate:
    """A line of running tasks, the first of them divided by key."""
    tasks = {f"t{number}": RunningTask(f"t{number}", kind, config, (f"t{number - 1}",) if number else ())
             for number, (kind, config) in enumerate(kinds)}
    ids = itertools.count()
    bundles = keyed_bundles([WantedBundle("n1/0", 1, 0.5), WantedBundle("n1/1", 1, 0.5)],
                            (f"f0-{number}" for number in ids), inherits=())
    fragments = {
        f"f{number}": Fragment(f"f{number}", (name,), "n1/0", 1, {name: (f"f{number + 1}",)} if number + 1 < len(
            tasks) else {}, bundles=tuple(bundles) if not number else ()) for number, name in enumerate(tasks)}
    return Estate(tasks=tasks, fragments=fragments, slots=ONE_NODE.slots)


@pytest.mark.parametrize(("kinds", "lacking"), [
    ([("sum_by", {}), ("sum_by", {})], []),
    ([("sum_by", {}), ("sum_by", {"by": ["m", "k"]})], []),
    ([("sum_by", {}), ("sum_by", {"by": ["m"]})], [1]),
    ([("sum_by", {}), ("late_by", {})], [1]),
    ([("sum_by", {}), ("scale", {"by": 1}), ("sum_by", {})], [2]),
    ([("code_by", {}), ("sum_by", {})], [1]),
    ([("sum_by", {}), ("sum_by", {"by": ["k", "m"]}), ("sum_by", {})], [2]),
    ([("sum_by", {}), ("code_by", {}), ("sum_by", {})], [2]),
])
def test_who_reads_what_is_divided_by_key_is_told_where_it_lacks_order(kinds, lacking):
    estate = running(*kinds)
    lacking_tasks = stateful_downstream(estate.fragments, ["f0"], tasks=estate.tasks, task_types=TYPES)
    assert lacking_tasks == [f"t{number}" for number in lacking]
    last = len(kinds) - 1
    started = {"new": replace(estate.tasks[f"t{last}"], id="new")}
    assert reads_divided(estate, started, task_types=TYPES) == (["new"] if last in lacking else [])


# -- steps ------------------------------------------------------------------------------------------------------------


def test_keys_have_changed_hands_when_those_before_have_left_and_all_write_by_the_new_ring():
    estate = apply_plan(ONE_NODE, submitted(rate_per_s=90))
    plan = rescheduled(estate, rate_per_s=250)
    after = apply_plan(estate, plan)
    fragment = keyed(after, "sum")
    live = [bundle for bundle in fragment.bundles if not bundle.leaving]
    ring = fragment.ring(("k",)).document()

    def done(old: str, how: dict) -> set[str]:
        queries = {bundle.id: {"state": "running", "threads": 1} for bundle in live}
        queries |= {bundle.id: {"state": old} for bundle in fragment.bundles if bundle.leaving}
        queries["writer"] = {"state": "running", "routes": {"0": {fragment.id: how}}}
        slots: dict[str, dict] = {}
        for bundle in fragment.bundles:
            slots.setdefault(bundle.slot.partition("/")[2], {"state": "running", "fragments": {}})["fragments"][
                bundle.id] = queries[bundle.id]
        slots["9"] = {"state": "running", "fragments": {"writer": queries["writer"]}}
        reports = Reports.of({"n1": {"node": "n1", "version": after.generation, "slots": slots}})
        keys = steps_done(plan, EnactmentEvidence(reports))
        return {step.kind for step in plan.steps if step.fragment == fragment.id and step.key in keys}

    assert done("left", ring) == {"take_keys", "route", "leave_bundle"}
    assert done("running", ring) == {"route"}
    assert done("left", {**ring, "tokens": {"0": live[0].id}}) == {"take_keys", "leave_bundle"}
    assert done("left", {live[0].id: 1.0}) == {"take_keys", "leave_bundle"}
