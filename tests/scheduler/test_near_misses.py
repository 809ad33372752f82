"""Near misses: what would be reused if little were different, held against trying everything."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.applying import apply_plan
from scheduler.model.canonical import canonical_config, identity_config
from scheduler.model.dataflow import Dataflow, Stream, Task
from scheduler.model.duplicates import deduplicate
from scheduler.model.task_types import Parameter, TaskType, TaskTypes
from scheduler.planning import plan_submission
from scheduler.rearranging import plan_pause
from scheduler.reuse import near_misses as module
from scheduler.reuse.activity import waking
from scheduler.reuse.fingerprint import fingerprints
from scheduler.reuse.near_misses import adopted, near_misses
from scheduler.reuse.nearness import FAR, differences, distance
from scheduler.reuse.siblings import kin_of
from tests.scheduler.sibling_index import SiblingIndex

from .catalogue import EMPTY, PRICES, TYPES, flow, submit


def suggestions(estate, dataflow, *, task_types=TYPES, most=50, scope="", **options):
    return near_misses(
        estate.tasks, dataflow, siblings=SiblingIndex(estate.tasks.values()), task_types=task_types, prices=PRICES,
        scope=scope, most=most, **options)


def chain(name, by, level=3, **options):
    tasks = {"s": "sensors", "a": ("scale", {"by": by}), "b": "thin", "x": ("alarm", {"level": level})}
    return flow(name, tasks, "s > a > b > x", **options)


def test_a_window_that_is_nearly_the_same_is_offered_with_what_it_saves():
    estate = submit(EMPTY, chain("old", 60))
    mine = chain("new", 61)
    [miss] = suggestions(estate, mine)
    assert miss.reused == ("a", "b", "x")
    assert "by 60 instead of 61 in a would reuse 3 more tasks and save" in miss.text
    plans = [
        plan_submission(estate, dataflow, dataflow_id="new", team="water", task_types=TYPES, prices=PRICES)
        for dataflow in (mine, adopted(mine, miss.differences))
    ]
    before, after = (plan.price for plan in plans)
    assert miss.cores_saved == pytest.approx(before.cores_delta - after.cores_delta, abs=2e-6)
    saved = before.money_per_hour_delta - after.money_per_hour_delta
    assert miss.money_per_hour_saved == pytest.approx(saved, abs=2e-6)
    assert before.tasks_started - after.tasks_started == 3


def test_what_would_have_to_be_woken_is_no_saving():
    """A near miss saves the difference of two plans' prices, tasks and queries that go on again included."""
    estate = submit(EMPTY, chain("old", 60))
    paused = apply_plan(estate, plan_pause(estate, "old", task_types=TYPES, prices=PRICES))
    mine = chain("new", 61)
    assert suggestions(estate, mine, waking=partial(waking, estate)) == suggestions(estate, mine)
    for seen in (estate, paused):
        for miss_of_resting in suggestions(estate, mine):
            before, after = (
                plan_submission(seen, dataflow, dataflow_id="new", team="water", task_types=TYPES, prices=PRICES).price
                for dataflow in (mine, adopted(mine, miss_of_resting.differences)))
            saved = before.cores_delta - after.cores_delta
            savings = [miss.cores_saved for miss in suggestions(seen, mine, waking=partial(waking, seen))
                    if miss.differences == miss_of_resting.differences]
            assert savings == ([pytest.approx(saved, abs=2e-6)] if saved > 1e-9 else [])


def test_differences_that_only_together_open_more_are_combined():
    estate = submit(EMPTY, chain("old", 60, level=10))
    misses = suggestions(estate, chain("new", 61, level=11))
    assert [sorted((difference.task, difference.running) for difference in miss.differences) for miss in misses] == [
        [("a", 60.0), ("x", 10)], [("a", 60.0)]]
    assert misses[0].reused == ("a", "b", "x") and misses[1].reused == ("a", "b")


def test_independent_differences_are_not_combined():
    tasks = {
        "s": "sensors", "a": ("scale", {"by": 60}), "b": "alone", "x": "archive", "y": ("alarm", {"level": 10})}
    estate = submit(EMPTY, flow("old", tasks, "s > a > x", "s > b > y"))
    other = tasks | {"a": ("scale", {"by": 61}), "y": ("alarm", {"level": 11})}
    misses = suggestions(estate, flow("new", other, "s > a > x", "s > b > y"))
    assert sorted(tuple(one.task for one in miss.differences) for miss in misses) == [("a",), ("y",)]


def test_a_sources_rate_may_be_near_and_what_follows_is_reused():
    estate = submit(EMPTY, chain("old", 2, rates={"s": 50}))
    [miss] = suggestions(estate, chain("new", 2, rates={"s": 55}))
    assert miss.reused == ("s", "a", "b", "x")
    assert miss.text.startswith("rate_per_s 50 instead of 55 in s")
    assert adopted(chain("new", 2, rates={"s": 55}), miss.differences).rates_per_s == {"s": 50.0}


def dynamic_chain(name, *ways, **options):
    tasks = {
        "s": "sensors", "a": ("dynamic", {"alternates": list(ways)}), "b": "thin", "x": ("alarm", {"level": 3})}
    return flow(name, tasks, "s > a > b > x", **options)


def way(name, by, **more):
    return {"name": name, "type": "scale", "config": {"by": by}, **more}


def path_way(name, by, **more):
    return {"name": name, "tasks": [{"id": "p", "type": "scale", "config": {"by": by}}, {"id": "q", "type": "thin"}],
            "streams": [{"from": "input", "to": "p"}, {"from": "p", "to": "q"}, {"from": "q", "to": "output"}], **more}


def saved_by_plans(estate, mine, miss):
    """What adopting a near miss saves, by the plans of both."""
    plans = [
        plan_submission(estate, dataflow, dataflow_id="new", team="water", task_types=TYPES, prices=PRICES)
        for dataflow in (mine, adopted(mine, miss.differences))]
    assert plans[0].price.tasks_started - plans[1].price.tasks_started == len(miss.reused)
    return plans[0].price.cores_delta - plans[1].price.cores_delta


@pytest.mark.parametrize(("theirs", "mine", "words"), [
    (dynamic_chain("old", way("all", 2, value=2), way("few", 60)), chain("new", 60),
     "alternates all, few (few is this task) instead of one way in a"),
    (chain("old", 60), dynamic_chain("new", way("all", 2), way("few", 60)),
     "alternate few alone instead of 2 alternates in a"),
    (dynamic_chain("old", way("all", 2, guard="rate > 5"), way("few", 60)),
     dynamic_chain("new", way("all", 2), way("few", 60)), "guard rate > 5 instead of none of alternate all in a"),
    (dynamic_chain("old", way("all", 2), way("little", 60, value=0.5)),
     dynamic_chain("new", way("all", 2), way("few", 60)),
     "name little instead of few of alternate few, value 0.5 instead of 1 of alternate few in a"),
    (dynamic_chain("old", way("all", 2), path_way("few", 60, guard="rate > 5")),
     dynamic_chain("new", way("all", 2), path_way("few", 60)), "guard rate > 5 instead of none of alternate few in a"),
])
def test_alternates_of_what_runs_are_offered_both_ways(theirs, mine, words):
    estate = submit(EMPTY, theirs)
    [miss] = suggestions(estate, mine)
    assert miss.text.startswith(f"{words} would reuse 3 more tasks and save ")
    assert miss.reused == ("a", "b", "x")
    assert miss.cores_saved == pytest.approx(saved_by_plans(estate, mine, miss), abs=2e-6)
    beside = {task.type for task in (theirs.task("a"), mine.task("a"))} == {"dynamic", "scale"}
    assert ("beside" in miss.why_beside) == beside
    taken = adopted(mine, miss.differences)
    assert fingerprints(taken, task_types=TYPES)["x"] in estate.tasks


def test_alternates_that_do_something_else_are_no_near_miss():
    estate = submit(EMPTY, dynamic_chain("old", way("all", 2), way("few", 60)))
    for other in (
        chain("new", 61), dynamic_chain("new", way("all", 2), way("few", 61)),
        dynamic_chain("new", way("all", 2), way("few", 60), way("none", 0)),
        dynamic_chain("new", way("all", 2), way("few", 60), visibility="private"),
        dynamic_chain("new", way("all", 2), path_way("few", 60)),
        flow("new", {"s": "sensors", "f": "thin", "a": ("scale", {"by": 60}), "x": "archive"}, "s > f > a > x"),
    ):
        assert suggestions(estate, other) == ()


def test_what_is_far_or_not_declared_near_is_not_offered():
    estate = submit(EMPTY, chain("old", 60))
    assert suggestions(estate, chain("new", 90)) == ()
    tasks = {"s": ("sensors", {"city": "turin"}), "a": ("scale", {"by": 60}), "x": "archive"}
    assert suggestions(estate, flow("new", tasks, "s > a > x")) == (), "another city is no near miss"
    exact = flow("new", {"s": "sensors", "a": ("scale", {"by": 60, "exact": True}), "x": "archive"}, "s > a > x")
    assert suggestions(estate, exact) == ()


def test_nothing_of_another_teams_private_dataflows_shows():
    estate = submit(EMPTY, chain("old", 60, visibility="private"), team="roads")
    estate = submit(estate, chain("shared", 5))
    assert suggestions(estate, chain("new", 61)) == ()
    assert suggestions(estate, chain("new", 61, visibility="private"), scope="water") == ()
    assert len(suggestions(estate, chain("new", 61, visibility="private"), scope="roads")) == 1


def test_a_suggestion_never_makes_two_tasks_the_same():
    estate = submit(EMPTY, chain("old", 60))
    both = {"s": "sensors", "a": ("scale", {"by": 60}), "c": ("scale", {"by": 61}), "x": "archive"}
    assert suggestions(estate, flow("new", both, "s > a > x", "s > c > x")) == ()


def test_the_best_come_first_and_no_more_than_asked_for():
    estate = EMPTY
    for by in (57, 58, 59, 60):
        estate = submit(estate, chain(f"old{by}", by, level=3 if by == 58 else 90))
    misses = suggestions(estate, chain("new", 61), most=2)
    assert [miss.differences[0].running for miss in misses] == [58.0, 60.0], "most saved, then least asked for"
    assert len({miss.key for miss in misses}) == 2


def test_the_search_looks_up_and_never_walks_the_estate():
    class Locked(dict):
        def __iter__(self):
            raise AssertionError("near misses walk all running tasks")

        values = items = keys = __iter__

    estate = submit(EMPTY, chain("old", 60))
    siblings = SiblingIndex(estate.tasks.values())
    misses = near_misses(
        Locked(estate.tasks), chain("new", 61), siblings=siblings, task_types=TYPES, prices=PRICES)
    assert len(misses) == 1


def test_an_index_forgets_what_stops():
    estate = submit(EMPTY, chain("old", 60))
    index = SiblingIndex(estate.tasks.values())
    for task in estate.tasks.values():
        assert task in index.siblings(kin_of(task))
        index.remove(task)
        assert index.siblings(kin_of(task)) == []


RATIO = Parameter("x", "number", "")


@pytest.mark.parametrize(
    ("parameter", "one", "other", "apart"),
    [
        (RATIO, 10, 8, 0.2), (RATIO, 10, 7.9, FAR), (RATIO, -1, 1, FAR), (RATIO, 0, 0.0, 0.0), (RATIO, None, 1, FAR),
        (replace(RATIO, near_ratio=0.5), 10, 5, 0.5), (replace(RATIO, near="never"), 10, 9, FAR),
        (Parameter("x", "integer", ""), 61, 60, 1 / 61),
        (Parameter("x", "string", "", choices=("a", "b")), "a", "b", FAR),
        (Parameter("x", "string", "", choices=("a", "b"), near="any"), "a", "b", 1.0),
        (Parameter("x", "list", "", is_set=True, near="ratio"), list("abcdefghij"), list("abcdefghi"), 0.1),
        (Parameter("x", "list", "", items="string", near="ratio"), ["a"], ["b"], FAR),
        (Parameter("x", "list", "", items="number", near="ratio"), [1, 10], [1, 9], 0.1),
        (Parameter("x", "object", "", bounds=True, near="ratio"), {"t": [0, 40]}, {"t": [0, 44]}, 4 / 44),
        (Parameter("x", "object", "", bounds=True, near="ratio"), {"t": [0, 40]}, {"t": [1000, 1040]}, FAR),
        (Parameter("x", "object", "", bounds=True, near="ratio"), {"t": [0, 40]}, {"u": [0, 40]}, FAR),
        (Parameter("x", "string", "", secret=True, near="any"), {"secret": "a"}, {"secret": "b"}, FAR),
    ],
)
def test_how_far_two_values_are(parameter, one, other, apart):
    assert distance(parameter, one, other) == pytest.approx(apart)
    assert distance(parameter, other, one) == pytest.approx(apart)


def test_what_nobody_declared_must_be_equal():
    assert differences(TYPES["scale"], {"by": 1.0, "odd": 1}, {"by": 1.0, "odd": 1.01}) is None


# Against trying everything ----------------------------------------------------------------------------------------

NUMBER = Parameter("n", "integer", "", default=10, near_ratio=0.3)
FLAG = Parameter("far", "boolean", "", default=False)
NEAR_TYPES = TaskTypes([
    TaskType("source", "source", "", "none:none", (NUMBER,), cost_us=5),
    TaskType("step", "transform", "", "none:none", (NUMBER, FLAG), cost_us=9, effects=()),
    TaskType("end", "sink", "", "none:none", (NUMBER,), cost_us=2),
])


@st.composite
def small_dataflows(draw):
    """Up to five tasks whose configs are often near each other's."""
    numbers = st.sampled_from([10, 11, 12, 20])
    tasks = [Task("s0", "source", {"n": draw(st.sampled_from([10, 10, 10, 11]))})]
    streams = []
    for position in range(draw(st.integers(0, 2))):
        parents = draw(st.lists(st.sampled_from([task.id for task in tasks]), min_size=1, max_size=2, unique=True))
        flag = draw(st.sampled_from([False, False, True]))
        if draw(st.booleans()):
            tasks.append(Task(f"t{position}", "step", {"n": draw(numbers), "far": flag}))
        else:
            tasks.append(Task(f"t{position}", "dynamic", {"alternates": [
                {"name": name, "type": "step", "config": {"n": number}, "value": value,
                 "guard": draw(st.sampled_from(["", "x"]))}
                for name, number, value in (("a", 10, 1), ("b", draw(st.sampled_from([12, 12, 20])), draw(
                    st.sampled_from([1, 2]))))]}))
        streams += [Stream(parent, f"t{position}") for parent in parents]
    unread = {task.id for task in tasks} - {stream.source for stream in streams}
    tasks.append(Task("o", "end", {"n": draw(numbers)}))
    streams += [Stream(parent, "o") for parent in sorted(unread)]
    rates = {"s0": draw(st.sampled_from([10.0, 10.0, 10.0, 12.0, 30.0]))}
    return deduplicate(Dataflow("small", tuple(tasks), tuple(streams), rates_per_s=rates), task_types=NEAR_TYPES)


def does(alternate):
    return alternate["type"], {"n": 10, "far": False} | dict(alternate.get("config", {}))


def is_near(dataflow, task, other):
    """Whether a running task's type and config may be taken over."""
    if task.type == other.type == "dynamic":
        mine, theirs = (list(stated["alternates"]) for stated in (task.config, other.config))
        free = [does(alternate) for alternate in theirs]
        for alternate in mine:
            if does(alternate) not in free:
                return False
            free.remove(does(alternate))
        return not free and canonical_config(NEAR_TYPES["dynamic"], task.config) != canonical_config(
            NEAR_TYPES["dynamic"], other.config)
    if task.type == other.type:
        return bool(differences(
            NEAR_TYPES[task.type], identity_config(dataflow, task, NEAR_TYPES[task.type]), other.config))
    pair = {task.type: task.config, other.type: other.config}
    if pair.keys() != {"dynamic", "step"}:
        return False
    alone = does({"type": "step", "config": pair["step"]})
    return alone in map(does, pair["dynamic"]["alternates"])


def tried(running, dataflow):
    """By substitution (task, running id): what is reused, for every set of changes up to three tasks: brute force."""
    tasks = {task.id: task for task in dataflow.tasks}
    options = {
        task.id: [
            other.id for other in running.values() if is_near(dataflow, task, other)]
        for task in dataflow.tasks
    }
    outcomes = {}
    for size in range(4):
        for changed in combinations(sorted(tasks), size):
            for others in product(*(options[task_id] for task_id in changed)):
                taken = frozenset(zip(changed, others, strict=True))
                configs = {task_id: dict(running[other].config) for task_id, other in taken}
                kinds = {task_id: running[other].type for task_id, other in taken}
                rates = dict(dataflow.rates_per_s) | {
                    task_id: config["rate_per_s"] for task_id, config in configs.items() if "rate_per_s" in config}
                altered = replace(dataflow, rates_per_s=rates, tasks=tuple(
                    replace(task, type=kinds.get(task.id, task.type), config=configs.get(task.id, task.config))
                    for task in dataflow.tasks))
                ids = fingerprints(altered, task_types=NEAR_TYPES)
                reused = {task_id for task_id, running_id in ids.items() if running_id in running}
                outcomes[taken] = (ids, reused, altered)
    return outcomes


def expected(running, dataflow, cost):
    """The sets of changes to offer, by their definition: each change takes hold and is needed, together they reuse
    more than what smaller ones reuse, and it costs less."""
    outcomes = tried(running, dataflow)

    def takes_hold(taken):
        return all(outcomes[taken][0][task_id] == running_id for task_id, running_id in taken) and all(
            task_id not in outcomes[taken - {(task_id, running_id)}][1] for task_id, running_id in taken)

    sound = {
        taken: reused for taken, (ids, reused, _) in outcomes.items()
        if takes_hold(taken) and len(set(ids.values())) == len(ids)
    }
    return {
        taken: reused for taken, reused in sound.items()
        if taken and not reused <= set().union(*(sound[part] for part in sound if part < taken))
        and cost(outcomes[taken][2]) < cost(dataflow)
    }


def held_against_trying_everything(others, mine):
    estate = EMPTY
    for number, other in enumerate(others):
        plan = plan_submission(
            estate, other, dataflow_id=str(number), team="water", task_types=NEAR_TYPES, prices=PRICES)
        estate = replace(estate, generation=estate.generation + 1,
                         tasks={**estate.tasks, **{task.id: task for task in plan.started}},
                         fragments={**estate.fragments, **plan.fragments_after})
    misses = suggestions(estate, mine, task_types=NEAR_TYPES, most=10_000)
    base = {task_id for task_id, one in fingerprints(mine, task_types=NEAR_TYPES).items() if one in estate.tasks}
    wanted = expected(estate.tasks, mine, lambda dataflow: plan_submission(
        estate, dataflow, dataflow_id="mine", team="water", task_types=NEAR_TYPES, prices=PRICES).price.cores_delta)
    assert len(misses) == len(wanted)
    shown = sorted(
        (sorted({one.task for one in miss.differences}), sorted({*base, *miss.reused})) for miss in misses)
    assert shown == sorted((sorted(dict(taken)), sorted(reused)) for taken, reused in wanted.items())
    for miss in misses:
        altered = adopted(mine, miss.differences)
        ids = fingerprints(altered, task_types=NEAR_TYPES)
        assert {*base, *miss.reused} == {task_id for task_id, one in ids.items() if one in estate.tasks}


@pytest.fixture(autouse=True)
def _no_bounds(monkeypatch):
    monkeypatch.setattr(module, "MOST_NEIGHBOURS", 1_000)
    monkeypatch.setattr(module, "MOST_TRIALS", 100_000)
    monkeypatch.setattr(module, "MOST_LOOKED_AT", 10**9)


@settings(max_examples=60)
@given(st.lists(small_dataflows(), min_size=1, max_size=3), small_dataflows())
def test_they_are_those_that_trying_everything_finds(others, mine):
    held_against_trying_everything(others, mine)


@pytest.mark.long
@settings(max_examples=3_000)
@given(st.lists(small_dataflows(), min_size=1, max_size=4), small_dataflows())
def test_they_are_those_that_trying_everything_finds_in_many_cases(others, mine):
    held_against_trying_everything(others, mine)
