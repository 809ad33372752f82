"""Pausing, resuming, starting fresh, defragmenting and switching, over random lives of an estate."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from scheduler.applying import apply_plan
from scheduler.changing import plan_change
from scheduler.defragmenting import plan_cutting_back, plan_defragmentation
from scheduler.model.alternates import alternates_in, first_on, on_in
from scheduler.model.encoding import plan_from_json, plan_to_json
from scheduler.model.errors import NothingToGain
from scheduler.model.estate import Estate
from scheduler.model.plan import Plan
from scheduler.model.settings_of_fragments import USUAL
from scheduler.model.task_types import DYNAMIC
from scheduler.performance.pricing import query_cores
from scheduler.planning import plan_removal, plan_submission
from scheduler.rearranging import plan_pause, plan_resumption
from scheduler.reuse.defragment import DefragmentRule, fusions, series_along
from scheduler.reuse.fragments import cut_into_chains
from scheduler.setting import plan_switch
from tests.scheduler.estate_index import EstateIndex

from .catalogue import EMPTY, PRICES, SLOTS, TYPES, pause, resume, submit
from .invariants import check_estate, check_plan
from .reference import Reference
from .strategies import changed, dataflows

SHORT = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LONG = settings(SHORT, max_examples=5_000)
ANYTHING = DefragmentRule(ratio=0.0)  # whatever can be fused is
ONE_NODE = Estate(slots=SLOTS[:2])
EVENTS = ["submit", "submit", "remove", "turn", "turn", "defragment", "change", "change", "switch", "switch"]


@st.composite
def lives(draw: st.DrawFn, *, longest: int = 10) -> list[tuple]:
    """Submissions (joining or fresh), versions, removals, pauses, resumptions and switches, in an order that can be."""
    pool = draw(st.lists(dataflows(), min_size=1, max_size=3))
    life: list[tuple] = []
    present: dict[str, bool] = {}  # dataflow id -> whether it is paused
    versions: dict[str, tuple] = {}  # dataflow id -> its document and team
    for number in range(draw(st.integers(1, longest))):
        what = draw(st.sampled_from(EVENTS if present else ["submit"]))
        if what == "submit":
            dataflow_id = f"d{number}"
            present[dataflow_id] = False
            versions[dataflow_id] = draw(st.sampled_from(pool)), draw(st.sampled_from(["water", "roads"]))
            life.append((what, dataflow_id, *versions[dataflow_id], draw(st.booleans())))
            continue
        dataflow_id = draw(st.sampled_from(sorted(present)))
        if what == "change":
            if not present[dataflow_id]:
                former, team = versions[dataflow_id]
                versions[dataflow_id] = draw(st.one_of(st.sampled_from(pool), changed(former))), team
                life.append((what, dataflow_id, *versions[dataflow_id], draw(st.booleans()), former))
            continue
        if what == "remove":
            del present[dataflow_id]
        elif what == "turn":
            what = "resume" if present[dataflow_id] else "pause"
            present[dataflow_id] = not present[dataflow_id]
        life.append((what, dataflow_id))
    return life


def planned(estate, what: str, dataflow_id: str, *more) -> Plan | None:
    """The plan of one event of a life; None where there is nothing to defragment, or to switch."""
    if what == "switch":
        submitted = estate.submitted[dataflow_id]
        on = {task: alternate_on(estate, running) for task, running in sorted(submitted.running.items())
              if estate.tasks[running].type == DYNAMIC}
        if not on:
            return None
        task = next(iter(on))
        other = next(
            way.name for way in alternates_in(DYNAMIC, estate.tasks[submitted.running[task]].config)
            if way.name != on[task])
        return plan_switch(estate, dataflow_id, task=task, alternate=other, task_types=TYPES, prices=PRICES)
    if what == "submit":
        dataflow, team, fresh = more
        return plan_submission(
            estate, dataflow, dataflow_id=dataflow_id, team=team, task_types=TYPES, prices=PRICES, fresh=fresh)
    if what == "change":
        dataflow, team, fresh, former = more
        return plan_change(
            estate, dataflow, former=former, dataflow_id=dataflow_id, team=team, task_types=TYPES, prices=PRICES,
            fresh=fresh)
    if what == "defragment":
        try:
            return plan_defragmentation(estate, dataflow_id, task_types=TYPES, prices=PRICES, rule=ANYTHING)
        except NothingToGain:
            return None
    plans = {"remove": plan_removal, "pause": plan_pause, "resume": plan_resumption}
    return plans[what](estate, dataflow_id, task_types=TYPES, prices=PRICES)


def live(life, start: Estate = EMPTY) -> tuple[Estate, Reference]:
    """Go through a life, checking every plan, by value and by index, and every estate on the way."""
    estate, reference, index = start, Reference(TYPES), EstateIndex(start)
    on: dict[str, str] = {}  # by running dynamic task
    for what, dataflow_id, *more in life:
        plan = planned(estate, what, dataflow_id, *more)
        assert planned(index, what, dataflow_id, *more) == plan
        if plan is None:
            continue
        assert plan_from_json(plan_to_json(plan)) == plan
        check_plan(estate, plan)
        if what == "submit":
            reference.add(dataflow_id, more[0], more[1], fresh=more[2])
        elif what == "change":
            dataflow, team, fresh, former = more
            reference.change(dataflow_id, dataflow, former, team, fresh=fresh)
            check_kept(estate, apply_plan(estate, plan), plan)
        elif what == "remove":
            reference.remove(dataflow_id)
        estate = apply_plan(estate, plan)
        index.apply(plan)
        assert index.estate() == estate
        check_estate(estate, reference)
        dynamic = [task for task in estate.tasks if estate.tasks[task].type == DYNAMIC]
        on = {task: on.get(task) or first_on(alternates_in(DYNAMIC, estate.tasks[task].config)).name
              for task in dynamic}
        on |= {step.task: plan.settings_after[step.fragment].alternates[step.task] for step in plan.steps
               if what == "switch"}
        assert on == {task: alternate_on(estate, task) for task in dynamic}, "switches alone change what is on"
    return estate, reference


def alternate_on(estate: Estate, task: str) -> str:
    """Which alternate of a running dynamic task is on."""
    settings_here = estate.settings.get(estate.places[task][0], USUAL)
    return on_in(DYNAMIC, estate.tasks[task].config, settings_here.alternates.get(task))


def check_kept(before: Estate, after: Estate, plan: Plan) -> None:
    """What both versions have, and what others have, is in the same query on the same channel, and goes on."""
    gone = {task.id for task in plan.stopped} | set(plan.rested)
    for task_id in set(before.tasks) - gone:
        assert after.places[task_id] == before.places[task_id]
        assert after.channels_of(task_id) == before.channels_of(task_id)
    assert not set(plan.dataflow.running.values()) & gone


def defragmented(estate: Estate, reference: Reference | None = None) -> tuple[Estate, int]:
    """The estate when no dataflow has a step left, and how many steps that took; every one checked."""
    steps, most = 0, sum(len(fragment.tasks) + 1 for fragment in estate.fragments.values())
    progress = True
    while progress:
        progress = False
        for dataflow_id in sorted(estate.submitted):
            while plan := planned(estate, "defragment", dataflow_id):
                check_plan(estate, plan)
                estate, steps, progress = apply_plan(estate, plan), steps + 1, True
                assert steps <= most, "it does not come to an end"
                if reference is not None:
                    check_estate(estate, reference)
    return estate, steps


def fewest_by_trying(estate: Estate) -> int:
    """The fewest queries that the working tasks can be cut into: every choice of streams to fuse, tried."""
    tasks = estate.tasks
    def chains(task_id: str) -> bool:
        return TYPES[tasks[task_id].type].chain == "always" and task_id not in estate.unchained

    can = [
        (task.parents[0], task.id) for task in tasks.values()
        if len(task.parents) == 1 and chains(task.id) and chains(task.parents[0])
    ]
    for size in range(min(len(can), len(tasks)), -1, -1):
        for chosen in combinations(can, size):
            if len({parent for parent, _ in chosen}) == size:  # a chain goes on along one child
                return len(tasks) - size
    return len(tasks)


# Over random lives ----------------------------------------------------------------------------------------------------


@SHORT
@given(lives())
def test_a_series_becomes_one_query_in_one_step_as_it_does_pair_by_pair_and_is_cut_where_it_was(life):
    """Of every estate, every series of three queries and more: on one slot, where no room stands in the way."""
    estate, reference = live([event for event in life if event[0] != "defragment"], Estate(slots=SLOTS[:1]))
    limits = {"task_types": TYPES, "query_cores": query_cores(PRICES)}
    pairs = {step.path for step in fusions(estate, estate.fragments, **limits) if len(step.path) == 2}
    for dataflow_id in sorted(estate.submitted):
        for path in paths_of(estate, dataflow_id, pairs):
            steps = series_along(estate, path, **limits)
            assert {step.path for step in steps} == {path[start:end] for start, end in combinations(
                range(len(path) + 1), 2) if end - start > 1}
            check_series(estate, reference, dataflow_id, path)


def paths_of(estate: Estate, dataflow_id: str, pairs: set[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Every longest row of a dataflow's fragments of which each two neighbours are a pair."""
    homes = {estate.places[task][0] for task in estate.submitted[dataflow_id].running.values()}
    after = {name: [lower for upper, lower in sorted(pairs) if upper == name and lower in homes] for name in homes}
    rows, paths = [(name,) for name in sorted(homes) if not any(name in lower for lower in after.values())], []
    while rows:
        row = rows.pop()
        rows += [(*row, name) for name in after[row[-1]]]
        if not after[row[-1]] and len(row) > 2:
            paths.append(row)
    return paths


def check_series(estate: Estate, reference: Reference, dataflow_id: str, path: tuple[str, ...]) -> None:
    def fused(start: Estate, *names: str) -> tuple[Estate, Plan]:
        plan = plan_defragmentation(
            start, dataflow_id, task_types=TYPES, prices=PRICES, rule=ANYTHING, path=names)
        check_plan(start, plan)
        done = apply_plan(start, plan)
        check_estate(done, reference)
        return done, plan

    done, plan = fused(estate, *path)
    made = done.fragments[next(step.fragment for step in plan.steps)]
    assert (len(plan.steps), made.inherits) == (1, path)
    one_by_one, query = estate, path[0]
    for name in path[1:]:
        one_by_one, step = fused(one_by_one, query, name)
        (query,) = [begun.fragment for begun in step.steps]
    other = one_by_one.fragments[query]
    assert (made.tasks, made.slot, made.channels, made.outlets) == (
        other.tasks, other.slot, other.channels, other.outlets)

    back = plan_cutting_back(done, plan)
    cut = apply_plan(done, back)
    check_plan(done, back)
    check_estate(cut, reference)
    before = [estate.fragments[name] for name in path]
    after = [cut.fragments[step.fragment] for step in back.steps]
    assert [(part.tasks, part.slot) for part in after] == [(part.active_tasks, part.slot) for part in before]
    outside = [task for task in estate.tasks if task in cut.tasks and any(
        reader not in path for reader in estate.fragments[estate.places[task][0]].outlets.get(task, ()))]
    assert all(cut.channel_of(task) == estate.channel_of(task) for task in outside)


@SHORT
@given(lives())
def test_pausing_resuming_fresh_starts_and_defragmentation_keep_the_invariants(life):
    live(life)


@settings(SHORT, max_examples=60)
@given(lives())
def test_repeated_defragmentation_ends_with_no_more_queries_than_a_cut_from_scratch(life):
    """On one node, with everything at work and room for it: tasks that rest, nodes apart and full slots may stand in
    the way."""
    estate, reference = live([event for event in life if event[0] in {"submit", "remove"}], ONE_NODE)
    assume(sum(cores for _, cores in estate.least_loaded(len(estate.slots), query_cores=query_cores(PRICES))) <= 1.0)
    done, _ = defragmented(estate, reference)
    scratch = cut_into_chains(tuple(done.tasks.values()), task_types=TYPES, unchained=done.unchained)
    assert len(done.fragments) <= len(scratch)
    assert len(done.fragments) == len(scratch) or done.unchained, "what was chained before stays so"
    assert all(fragment.kept_tasks == fragment.tasks for fragment in done.fragments.values()), "dead tasks are left"


@settings(SHORT, max_examples=40)
@given(st.lists(dataflows(largest=6), min_size=1, max_size=2))
def test_no_cut_has_fewer_queries(submissions):
    estate = ONE_NODE
    for number, dataflow in enumerate(submissions):
        estate = submit(estate, dataflow, f"d{number}")
    if len(estate.tasks) <= 9:
        fragments = len(defragmented(estate)[0].fragments)
        assert fragments <= fewest_by_trying(estate)
        assert fragments == fewest_by_trying(estate) or estate.unchained


@settings(SHORT, max_examples=60)
@given(lives())
def test_what_is_paused_and_resumed_is_as_it_was(life):
    estate, _ = live([event for event in life if event[0] != "defragment"])
    for dataflow_id in sorted(estate.submitted):
        if estate.submitted[dataflow_id].paused:
            continue
        back = resume(pause(estate, dataflow_id), dataflow_id)
        assert (back.tasks, back.submitted) == (estate.tasks, estate.submitted)
        assert {fragment_id: (part.active, part.resting) for fragment_id, part in back.fragments.items()} == {
            fragment_id: (part.active, part.resting) for fragment_id, part in estate.fragments.items()}


@pytest.mark.long
@pytest.mark.timeout(3600)
@LONG
@given(lives(longest=14))
def test_five_thousand_lives_keep_the_invariants(life):
    estate, reference = live(life)
    defragmented(estate, reference)
