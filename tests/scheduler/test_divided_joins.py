"""Tasks that bring several streams together, divided by key: which may be, and how each of their writers divides."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.applying import apply_plan
from scheduler.contracts.desired import DESIRED_STATES
from scheduler.key_division import divisible_by_key, key_of
from scheduler.model.columns import Columns
from scheduler.model.dataflow import Dataflow
from scheduler.model.errors import WeirError
from scheduler.model.profile import Point, Profile, Profiles
from scheduler.model.task_types import Parameter, TaskType, TaskTypes
from scheduler.planning import merged_plainly, plan_submission
from scheduler.rescheduling import plan_schedule, plan_schedule_back, schedulable
from scheduler.scheduling import prepare, schedule
from workers.engine.desired_publishing import desired_of

from .catalogue import PRICES, flow
from .test_key_division import BY, FACTS, ONE_NODE, SAM, TYPES, check_hands
from .test_rescheduling import supply_of

TYPES = TaskTypes([*TYPES.values(), TaskType(
    "pair_by", "transform", "Pairs.", "none:none", (BY, Parameter("ahead", "number", "How far.", default=2)), key="by",
    by_key=True, by_marks="ahead", passes_key=True, several_streams=True, **FACTS)])
PROFILES = Profiles([
    Profile("pair_by", (Point(1, 100, 0.8, 0.2),)), Profile("scale", (Point(1, 400, 0.3, 0.05),)),
    Profile("archive", (Point(1, 2000, 0.1, 0.1),)), Profile("sensors", (Point(1, 1, 0.1, 0.1),), static=True)])
DECLARED = {"sensors": {"k": "string", "m": "int"}, "scale": {"m": "double"}, "code_by": None}


def columns_of(task_type: TaskType, inputs: Columns, _config: object) -> Columns:
    """A source has a key and a number; what scales makes another number of it, and of code nothing is known."""
    added = DECLARED.get(task_type.name, {})
    return Columns.unknown() if added is None else Columns({**inputs.types, **added})


@st.composite
def graphs(draw: st.DrawFn) -> Dataflow:
    """Dataflows in which each task reads one or two of those before it."""
    kinds = draw(st.lists(st.sampled_from(
        ["scale", "scale", "code_by", "sum_by", ("pair_by", {"by": ["k"]}), ("pair_by", {"by": ["k", "m"]}),
         ("pair_by", {"by": ["z"]})]), min_size=1, max_size=6))
    names = [f"t{number}" for number in range(len(kinds))]
    streams = []
    for number, name in enumerate(names):
        before = ["in", *names[:number]]
        streams += [f"{parent} > {name}" for parent in draw(st.lists(
            st.sampled_from(before), min_size=1, max_size=2, unique=True))]
    return flow("d", {"in": "sensors", **dict(zip(names, kinds, strict=True))}, *streams)


@given(dataflow=graphs())
def test_what_reads_several_streams_is_divided_where_a_key_has_one_type_in_all_of_them(dataflow):
    types = {task.id: TYPES[task.type] for task in dataflow.tasks}
    parents, children = dataflow.parents(), dataflow.children()

    def type_of(task: str, column: str) -> str | None:
        """What a task gives as that column, by the ways along which it comes."""
        declared = DECLARED.get(types[task].name, {})
        if declared is None or column in declared:
            return None if declared is None else declared[column]
        kinds = {type_of(parent, column) for parent in parents[task]} - {None}
        return "double" if len(kinds) > 1 else next(iter(kinds), None)

    def is_plain_below(task: str) -> bool:
        """Whether nothing has state downstream of it: what has reads by marks, or other keys."""
        return all(not types[child].stateful and is_plain_below(child) for child in children[task])

    divided = divisible_by_key(dataflow, types, columns_of)
    for task in dataflow.tasks:
        if task.type == "pair_by":
            of_streams = [[type_of(parent, column) for parent in parents[task.id]]
                          for column in key_of(types[task.id], task.config)]
            is_one = len(parents[task.id]) > 1 and all(len({*types}) == 1 and types[0] for types in of_streams)
            assert task.id not in divided or is_one
            assert task.id in divided or not (is_one and is_plain_below(task.id))
    assert divisible_by_key(dataflow, types) == {task for task in divided if not types[task].several_streams}


PAIRS = flow("air", {"in": "sensors", "a": ("scale", {"by": 1}), "b": ("scale", {"by": 2}), "pair": "pair_by",
                     "out": "archive"}, "in > a > pair", "in > b > pair", "pair > out", rates={"in": 80})


def of_rate(rate_per_s: float, among: object) -> object:
    return prepare(PAIRS, task_types=TYPES, profiles=PROFILES, rate_per_s=rate_per_s, among=among,
                   columns_of=columns_of)


def test_both_writers_divide_by_one_ring_and_so_they_do_when_keys_change_hands_and_back():
    new = merged_plainly(ONE_NODE, PAIRS, dataflow_id="air", team="water", task_types=TYPES).new
    planned = schedule(of_rate(80, new), SAM, supply=supply_of(ONE_NODE))
    estate = apply_plan(ONE_NODE, plan_submission(
        ONE_NODE, PAIRS, dataflow_id="air", team="water", task_types=TYPES, prices=PRICES, schedule=planned))

    def pair(estate):
        return estate.fragments[estate.places[estate.submitted["air"].running["pair"]][0]]

    running, why_not = schedulable(estate, "air", PAIRS, task_types=TYPES)
    assert not why_not
    planned = schedule(of_rate(120, running), SAM, supply=supply_of(estate, list(running.values())))
    plan = plan_schedule(estate, "air", planned, task_types=TYPES, prices=PRICES)
    after = apply_plan(estate, plan)
    back = apply_plan(after, plan_schedule_back(after, plan))
    had = pair(estate)
    for now, count in ((estate, 2), (after, 3), (back, 2)):
        fragment = pair(now)
        live = [bundle for bundle in fragment.bundles if not bundle.leaving]
        assert len(live) == count
        wanted = DESIRED_STATES.loads(DESIRED_STATES.dumps(desired_of(now, "n1", TYPES))).wanted
        rings = [routes[fragment.id] for slot_wanted in wanted.values() for routes in slot_wanted.routes.values()
                 if fragment.id in routes]
        assert rings == [fragment.ring(("k",), ahead_ms=2_000)] * 2, "one for each stream"
        if now is not estate:
            check_hands(had, fragment)
            assert all(bundle.takes_keys for bundle in live), "who is told marks does not work on"
        had = fragment


def test_a_join_is_as_it_was_where_nobody_knows_the_columns():
    job = prepare(PAIRS, task_types=TYPES, profiles=PROFILES, rate_per_s=80)
    assert not job.by_key and "pair" in job.one_thread
    wrong = prepare(PAIRS, task_types=TYPES, profiles=PROFILES, rate_per_s=80, columns_of=_fails)
    assert not wrong.by_key, "a document that was read may be wrong by now"


def _fails(*_: object) -> Columns:
    raise WeirError("no columns")
