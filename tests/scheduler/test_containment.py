"""Containment: a task made from a wider one that runs; outputs, invariants and what stays when dataflows go."""

from __future__ import annotations

import operator
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.applying import apply_plan
from scheduler.model.alternates import alternates_in
from scheduler.model.dataflow import Dataflow, Stream, Task
from scheduler.model.duplicates import deduplicate, equivalent_tasks
from scheduler.model.estate import Estate
from scheduler.model.refinement import Refined
from scheduler.model.task_types import Parameter, TaskType, TaskTypes
from scheduler.performance.rates import input_rates_per_s
from scheduler.planning import plan_removal, plan_submission
from scheduler.rearranging import plan_pause
from scheduler.reuse.containment import Containment, contain
from scheduler.reuse.near_misses import near_misses
from tests.scheduler.sibling_index import SiblingIndex

from .catalogue import EMPTY, PRICES, flow
from .invariants import check_estate
from .reference import Reference

WINDOW = Parameter("window", "integer", "How many.", default=1, minimum=1)
TYPES = TaskTypes([
    TaskType("source", "source", "Numbers.", "none:none", (Parameter("seed", "integer", "", default=1),), cost_us=5),
    TaskType("band", "transform", "Those in a range.", "none:none",
             (Parameter("low", "integer", ""), Parameter("high", "integer", "")), selectivity=0.5, cost_us=5,
             effects=()),
    TaskType("total", "transform", "Sums of blocks.", "none:none", (WINDOW,), stateful=True, selectivity=0.2,
             cost_us=9),
    TaskType("totals", "transform", "Sums of sums.", "none:none", (WINDOW,), stateful=True, cost_us=3),
    TaskType("union", "transform", "Passes on.", "none:none", cost_us=1, effects=()),
    TaskType("end", "sink", "Keeps.", "none:none", (Parameter("name", "string", "", default="a"),), cost_us=1),
])


def rule(task_type, wide, narrow):
    if task_type.name == "band" and wide != narrow:
        return Refined("band", narrow) if wide["low"] <= narrow["low"] and narrow["high"] <= wide["high"] else None
    if task_type.name == "total" and narrow["window"] % wide["window"] == 0 and wide != narrow:
        return Refined("totals", {"window": narrow["window"] // wide["window"]})
    return None


def containment(estate):
    return Containment(SiblingIndex(estate.tasks.values()), rule)


def contained(estate, dataflow, **options):
    return contain(estate.tasks, dataflow, task_types=TYPES, containment=containment(estate), **options)


def submit(estate, dataflow, dataflow_id, *, on=True, team="water", fresh=False):
    plan = plan_submission(
        estate, dataflow, dataflow_id=dataflow_id, team=team, task_types=TYPES, prices=PRICES, fresh=fresh,
        containment=containment(estate) if on else None)
    return apply_plan(estate, plan), plan


def remove(estate, dataflow_id):
    return apply_plan(estate, plan_removal(estate, dataflow_id, task_types=TYPES, prices=PRICES))


def band(name, low, high, **options):
    tasks = {"s": "source", "f": ("band", {"low": low, "high": high}), "o": "end"}
    return flow(name, tasks, "s > f > o", **options)


def in_a_row(*configs):
    """A path of bands, one behind the other, as the keys of an alternate."""
    ids = [f"b{number}" for number in range(len(configs))]
    return {
        "tasks": [{"id": name, "type": "band", "config": config} for name, config in zip(ids, configs, strict=True)],
        "streams": [
            {"from": source, "to": target} for source, target in pairwise(["input", *ids, "output"])]}


def dynamic(name, *ways, **options):
    """A dataflow with a task of these alternates, each the range of a band or the keys of a path."""
    alternates = [
        {"name": f"w{number}", "value": len(ways) - number, **(
            way if isinstance(way, dict) else {"type": "band", "config": dict(zip(("low", "high"), way, strict=True))})}
        for number, way in enumerate(ways)]
    return flow(
        name, {"s": "source", "f": ("dynamic", {"alternates": alternates, **options}), "o": "end"}, "s > f > o")


def simulated(dataflow):
    """What each sink gets: events of sixty numbers, through every task by its definition."""
    parents, tasks = dataflow.parents(), {task.id: task for task in dataflow.tasks}
    streams = {}

    def stream(task_id):
        if task_id not in streams:
            streams[task_id] = list(events(tasks[task_id], sorted(
                (event for parent in parents[task_id] for event in stream(parent)), key=lambda event: event[0])))
        return streams[task_id]

    def events(task, inputs):
        config = task.config
        if alternates := alternates_in(task.type, config):  # switched every seven events
            ways = sorted(alternates, key=lambda way: way.name)
            for seq, value in inputs:
                yield from through(ways[seq // 7 % len(ways)], [(seq, value)])
        elif task.type == "source":
            yield from ((seq, (seq * 37 + config.get("seed", 1)) % 50) for seq in range(60))
        elif task.type == "band":
            yield from ((seq, value) for seq, value in inputs if config["low"] <= value <= config["high"])
        elif task.type in ("total", "totals"):
            size = config.get("window", 1)
            for start in range(0, len(inputs) - size + 1, size):
                block = inputs[start:start + size]
                yield block[-1][0], sum(value for _, value in block)
        else:
            yield from inputs

    def through(way, inputs):
        if way.path is None:
            return list(events(way, inputs))
        return way.path.follow(inputs, work=lambda task, read: list(events(task, read)), join=operator.add)

    return {task.id: stream(task.id) for task in dataflow.tasks if task.type == "end"}


def test_a_range_inside_a_wider_one_becomes_a_refinement_of_it():
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    mine = band("narrow", 10, 30)
    estate, plan = submit(estate, mine, "narrow")
    [refinement] = plan.refined
    wide = estate.submitted["wide"].running["f"]
    assert (refinement.task, refinement.running) == ("f", wide)
    assert estate.tasks[estate.submitted["narrow"].running["f"]].parents == (wide,)
    assert len(plan.started) == 2, "the refinement and what is downstream of it"
    assert plan.price.cores_alone > submit(EMPTY, mine, "narrow")[1].price.cores_alone, "it pays for the wider one, too"


def test_it_is_off_unless_it_is_asked_for_and_an_exact_match_goes_first():
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    direct, plan = submit(estate, band("narrow", 10, 30), "narrow", on=False)
    assert plan.refined == () and len(plan.started) == 2
    _, again = submit(direct, band("narrow", 10, 30), "again")
    assert again.refined == () and again.started == ()


def test_who_submits_the_same_later_finds_the_refinement():
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    estate, first = submit(estate, band("narrow", 10, 30), "first")
    estate, _ = submit(estate, band("wider", 0, 35), "nearer", on=False)
    estate, second = submit(estate, band("narrow", 10, 30), "second")
    assert second.started == () and second.dataflow.running == first.dataflow.running
    assert [refinement.running for refinement in second.refined] == [refinement.running for refinement in first.refined]


def test_of_several_the_tightest_is_refined():
    estate, _ = submit(EMPTY, band("wide", 0, 45), "wide")
    estate, _ = submit(estate, band("tight", 5, 32), "tight", on=False)
    _, plan = submit(estate, band("narrow", 10, 30), "narrow")
    assert plan.refined[0].running == estate.submitted["tight"].running["f"]


def test_a_wider_task_that_the_merge_would_not_join_is_none():
    def totals(name, window):
        return flow(name, {"s": "source", "t": ("total", {"window": window}), "o": "end"}, "s > t > o")

    estate, _ = submit(EMPTY, totals("first", 2), "first")
    plan = plan_submission(
        estate, totals("fresh", 2), dataflow_id="fresh", team="water", task_types=TYPES, prices=PRICES, fresh=True)
    estate = remove(apply_plan(estate, plan), "first")  # what is left was started fresh: nobody joins it
    _, plan = submit(estate, totals("mine", 4), "mine")
    assert plan.refined == () and len(plan.started) == 2

    newer = TaskTypes(
        [replace(task_type, version=2) if task_type.name == "band" else task_type for task_type in TYPES.values()])
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    plan = plan_submission(
        estate, band("narrow", 10, 30), dataflow_id="narrow", team="water", task_types=newer, prices=PRICES,
        containment=containment(estate))
    assert plan.refined == () and len(plan.started) == 2


def test_a_wider_task_that_rests_is_not_woken_for_a_refinement():
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    estate = apply_plan(estate, plan_pause(estate, "wide", task_types=TYPES, prices=PRICES))
    _, plan = submit(estate, band("narrow", 10, 30), "narrow")
    assert plan.refined == ()
    wide = estate.submitted["wide"].running["f"]
    assert wide not in plan.resumed
    both = flow("both", {"s": "source", "w": ("band", {"low": 0, "high": 40}), "o": "end",
                         "f": ("band", {"low": 10, "high": 30}), "p": ("end", {"name": "b"})}, "s > w > o", "s > f > p")
    _, plan = submit(estate, both, "both")
    assert [refinement.running for refinement in plan.refined] == [wide], "it is woken for the dataflow itself"


def test_the_wider_task_stays_while_a_refinement_needs_it():
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    wide = estate.submitted["wide"].running
    estate, _ = submit(estate, band("narrow", 10, 30), "narrow")
    estate = remove(estate, "wide")
    assert wide["f"] in estate.tasks and wide["o"] not in estate.tasks
    estate = remove(estate, "narrow")
    assert not estate.tasks and not estate.fragments


def test_a_dataflow_that_has_the_wider_task_itself_refines_that():
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    both = flow("both", {
        "s": "source", "w": ("band", {"low": 0, "high": 40}), "n": ("band", {"low": 10, "high": 30}),
        "o": "end", "p": ("end", {"name": "b"})}, "s > w > o", "s > n > p")
    contained_flow = contained(estate, both)
    assert {task.id for task in contained_flow.dataflow.tasks} == {"s", "w", "n", "o", "p"}
    assert Stream("w", "n") in contained_flow.dataflow.streams and contained_flow.refinements[0].wider == "w"


def test_two_refinements_of_one_task_read_it_once():
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    two = flow("two", {
        "s": "source", "m": ("band", {"low": 5, "high": 6}), "n": ("band", {"low": 10, "high": 30}),
        "o": "end", "p": ("end", {"name": "b"})}, "s > m > o", "s > n > p")
    contained_flow = contained(estate, two)
    assert len(contained_flow.dataflow.tasks) == 6 and len(
        {refinement.wider for refinement in contained_flow.refinements}) == 1


def test_a_refinement_that_the_dataflow_has_already_is_not_made_twice():
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    narrow = {"low": 10, "high": 30}
    both = flow("both", {
        "s": "source", "w": ("band", {"low": 0, "high": 40}), "n": ("band", narrow), "d": ("band", narrow),
        "o": "end", "p": ("end", {"name": "b"})}, "s > w > n > o", "s > d > p")
    contained_flow = contained(estate, both)
    assert contained_flow.refinements == () and not equivalent_tasks(contained_flow.dataflow, task_types=TYPES)


def test_scopes_keep_apart_and_state_may_be_wanted_fresh():
    estate, _ = submit(EMPTY, band("wide", 0, 40, visibility="private"), "wide", team="roads")
    assert contained(estate, band("narrow", 10, 30)).refinements == ()
    assert contained(estate, band("narrow", 10, 30), scope="roads").refinements
    blocks = {"s": "source", "t": ("total", {"window": 2}), "o": "end"}
    estate, _ = submit(EMPTY, flow("fine", blocks, "s > t > o"), "fine")
    coarse = flow("coarse", blocks | {"t": ("total", {"window": 6})}, "s > t > o")
    assert contained(estate, coarse).refinements
    assert contained(estate, coarse, fresh_for="coarse").refinements == ()


def test_behind_a_task_that_is_started_anew_nothing_is_contained():
    def blocks(name, low, high):
        return flow(name, {"s": "source", "t": ("total", {"window": 4}), "f": ("band", {"low": low, "high": high}),
                           "o": "end"}, "s > t > f > o")

    estate, _ = submit(EMPTY, blocks("wide", 0, 40), "wide")
    _, with_it = submit(estate, blocks("narrow", 10, 30), "narrow", fresh=True)
    _, without = submit(estate, blocks("narrow", 10, 30), "narrow", fresh=True, on=False)

    assert with_it.refined == () and len(with_it.started) == len(without.started) == 3
    assert with_it.price.cores_delta == pytest.approx(without.price.cores_delta)
    _, joining = submit(estate, blocks("narrow", 10, 30), "narrow")
    assert joining.refined and len(joining.started) == 2, "what is joined is refined"
    assert joining.otherwise == with_it.price and with_it.otherwise == joining.price, "each is priced as it would be"


def test_rates_behind_a_refinement_are_what_they_were():
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    mine = band("narrow", 10, 30)
    before = input_rates_per_s(mine, task_types=TYPES)
    after = input_rates_per_s(contained(estate, mine).dataflow, task_types=TYPES)
    assert after["o"] == pytest.approx(before["o"]) and after["f"] < before["f"]


def test_near_misses_tell_savings_against_the_refinement():
    estate, _ = submit(EMPTY, band("wide", 10, 31), "wide")
    mine = band("narrow", 10, 30)
    options = {"siblings": SiblingIndex(estate.tasks.values()), "task_types": TYPES, "prices": PRICES}
    [plain] = near_misses(estate.tasks, mine, **options)
    [against] = near_misses(estate.tasks, mine, containment=containment(estate), **options)
    assert 0 < against.cores_saved < plain.cores_saved


def test_a_static_task_works_once_for_its_readers_and_an_alternate_that_is_equal():
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    mine = dynamic("mine", (0, 40), (10, 30), in_a_row({"low": 0, "high": 40}, {"low": 20, "high": 35}))
    _, alone = submit(estate, mine, "mine", on=False)
    estate, plan = submit(estate, mine, "mine")

    wide = estate.submitted["wide"].running["f"]
    assert [(refinement.task, refinement.running) for refinement in plan.refined] == [("f", wide)]
    element = estate.tasks[plan.dataflow.running["f"]]
    assert element.parents == (wide,)
    assert [(way.name, way.type, way.value) for way in alternates_in(element.type, element.config)] == [
        ("w0", "union", 1.0), ("w1", "band", pytest.approx(2 / 3)), ("w2", "band", pytest.approx(1 / 3))]
    assert plan.price.cores_delta < alone.price.cores_delta, "it does not pay for a second one"
    estate = remove(estate, "wide")
    assert wide in estate.tasks, "it is kept for the element, which pays for it"
    assert not remove(estate, "mine").tasks


@pytest.mark.parametrize(("ways", "options"), [
    (((0, 40), (10, 45)), {}),  # the second gets more than the static task lets through
    (((0, 40), {"type": "total", "config": {"window": 2}}), {"begin": "fresh"}),
    (((0, 40), (10, 30)), {"by": ["value"]}),
    (((0, 40), {"type": "band", "config": {"low": 10, "high": 30}, "guard": "avg(rate, '1 min') > 5"}), {}),
    (((0, 40), {"type": "band", "config": {"low": 10, "high": 30}, "value": "1 / rate"}), {}),
])
def test_a_dynamic_task_reads_a_static_one_only_where_all_that_it_does_follows(ways, options):
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    mine = dynamic("mine", *ways, **options)
    if "begin" in options:
        mine = replace(mine, tasks=tuple(
            replace(task, type="dynamic_fold") if task.id == "f" else task for task in mine.tasks))
    assert contained(estate, mine).refinements == ()


# Random dataflows -----------------------------------------------------------------------------------------------------

NARROW = st.tuples(st.integers(0, 4), st.integers(5, 9)).map(lambda pair: {"low": pair[0] * 5, "high": pair[1] * 5})
STEPS = st.one_of(
    NARROW.map(lambda config: ("band", config)),
    st.tuples(NARROW, NARROW, st.sampled_from([1, 2]), st.booleans()).map(lambda drawn: ("dynamic", {"alternates": [
        {"name": "a", "type": "band", "config": drawn[0], "value": drawn[2]},
        {"name": "b", **(in_a_row(drawn[1], {"low": 10, "high": 30}) if drawn[3] else {
            "type": "band", "config": drawn[1]})}]})),
    st.sampled_from([1, 2, 3, 4, 6]).map(lambda window: ("total", {"window": window})))


RANGES = st.tuples(st.sampled_from([0, 5, 10, 15]), st.sampled_from([30, 35, 40, 45]))
WAYS = st.lists(st.tuples(RANGES, st.none() | RANGES), min_size=1, max_size=3)


@given(st.lists(RANGES, min_size=1, max_size=4, unique=True), WAYS)
def test_a_dynamic_task_reads_a_static_one_just_where_each_alternate_follows_from_it(static, ways):
    estate = EMPTY
    for number, (low, high) in enumerate(static):
        estate, _ = submit(estate, band(f"static{number}", low, high), f"static{number}", on=False)
    mine = dynamic("mine", *(
        first if second is None else in_a_row(*(dict(zip(("low", "high"), each, strict=True)) for each in pair))
        for pair in ways for first, second in [pair]))
    estate, plan = submit(estate, mine, "mine")

    wider = {
        estate.submitted[f"static{number}"].running["f"] for number, (low, high) in enumerate(static)
        if all(low <= least and most <= high for (least, most), _ in ways)}
    assert {refinement.running for refinement in plan.refined} <= wider and bool(plan.refined) == bool(wider)
    got = simulated(as_it_runs(estate, "mine"))
    assert got[estate.submitted["mine"].running["o"]] == simulated(mine)["o"]


@st.composite
def random_dataflows(draw):
    tasks, streams = [Task("s", "source", {})], []
    for position in range(draw(st.integers(1, 4))):
        parent = draw(st.sampled_from([task.id for task in tasks]))
        tasks.append(Task(f"t{position}", *draw(STEPS)))
        streams.append(Stream(parent, f"t{position}"))
    for parent in sorted({task.id for task in tasks} - {stream.source for stream in streams}):
        tasks.append(Task(f"o{parent}", "end", {"name": parent}))
        streams.append(Stream(parent, f"o{parent}"))
    visibility = draw(st.sampled_from(["shared", "shared", "private"]))
    return deduplicate(Dataflow("x", tuple(tasks), tuple(streams), visibility=visibility), task_types=TYPES)


def as_it_runs(estate: Estate, dataflow_id: str) -> Dataflow:
    """A submitted dataflow rebuilt from nothing but running tasks."""
    submitted = estate.submitted[dataflow_id]
    used = set(submitted.running.values())
    tasks = tuple(Task(task_id, estate.tasks[task_id].type, estate.tasks[task_id].config) for task_id in sorted(used))
    streams = tuple(Stream(parent, task_id) for task_id in sorted(used) for parent in estate.tasks[task_id].parents)
    return Dataflow("x", tasks, streams)


def goes_right(history):
    """Dataflows come and go, some with containment: outputs are those of the dataflow alone, the invariants hold."""
    estate, reference, present = EMPTY, Reference(TYPES), {}
    for number, (dataflow, on, team, gone) in enumerate(history):
        if gone and present:
            leaver = sorted(present)[0]
            estate = remove(estate, leaver)
            reference.remove(leaver)
            del present[leaver]
        scope = team if dataflow.visibility == "private" else ""
        rewritten = contained(estate, dataflow, scope=scope) if on else None
        effective = rewritten.dataflow if on else dataflow
        assert not equivalent_tasks(effective, task_types=TYPES)
        before, name = estate, f"d{number}"
        estate, plan = submit(estate, dataflow, name, on=on, team=team)
        assert {task.id for task in plan.started}.isdisjoint(before.tasks)
        assert all(refinement.running in before.tasks for refinement in plan.refined)
        reference.add(name, effective, team)
        present[name] = dataflow
    check_estate(estate, reference)
    for name, dataflow in present.items():
        running = estate.submitted[name].running
        got = simulated(as_it_runs(estate, name))
        assert {sink: got[running[sink]] for sink in estate.submitted[name].sinks} == simulated(dataflow)
    for name in sorted(present):
        estate = remove(estate, name)
    assert not estate.tasks and not estate.fragments


@given(
    st.lists(st.tuples(random_dataflows(), st.booleans()), max_size=4), random_dataflows(), st.booleans())
def test_containment_never_starts_more_tasks_than_there_are_without_it(history, newest, fresh):
    estate = EMPTY
    for number, (dataflow, on) in enumerate(history):
        estate, _ = submit(estate, dataflow, f"d{number}", on=on)
    _, with_it = submit(estate, newest, "newest", fresh=fresh)
    _, without = submit(estate, newest, "newest", fresh=fresh, on=False)

    assert len(with_it.started) <= len(without.started)
    assert all(refinement.running in {*with_it.reused} for refinement in with_it.refined)


HISTORIES = st.lists(
    st.tuples(random_dataflows(), st.booleans(), st.sampled_from(["water", "roads"]), st.booleans()),
    min_size=2, max_size=6)


@settings(max_examples=50)
@given(HISTORIES)
def test_outputs_stay_and_the_invariants_hold(history):
    goes_right(history)


@pytest.mark.long
@settings(max_examples=1_500)
@given(HISTORIES)
def test_outputs_stay_and_the_invariants_hold_in_many_cases(history):
    goes_right(history)


def test_without_a_rule_or_a_wider_task_nothing_changes():
    mine = band("narrow", 10, 30)
    assert contain({}, mine, task_types=TYPES, containment=None).dataflow is mine
    estate, _ = submit(EMPTY, replace(band("other", 50, 60)), "other")
    assert contained(estate, mine).dataflow is mine
