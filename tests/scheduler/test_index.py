"""The estate as an index: whatever plans it takes in, it holds and answers what the whole value does."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.applying import apply_plan
from scheduler.model.errors import StalePlan
from scheduler.planning import plan_removal, plan_submission
from tests.scheduler.estate_index import EstateIndex
from tests.scheduler.reversing import reverse_plan

from .catalogue import EMPTY, PRICES, TYPES, flow, submit
from .strategies import dataflows

TEAMS = ("water", "roads")


class IndexAgrees(RuleBasedStateMachine):
    """Submissions, removals and plans taken back, on the value and on the index."""

    @initialize(pool=st.lists(dataflows(), min_size=1, max_size=3))
    def begin(self, pool) -> None:
        self.pool, self.number = pool, 0
        self.estate, self.index, self.last = EMPTY, EstateIndex(EMPTY), None

    @rule(data=st.data(), team=st.sampled_from(TEAMS))
    def submit(self, data, team) -> None:
        self.number += 1
        self.take(plan_submission, data.draw(st.sampled_from(self.pool)), dataflow_id=f"d{self.number}", team=team)

    @precondition(lambda self: self.estate.submitted)
    @rule(data=st.data())
    def remove(self, data) -> None:
        self.take(plan_removal, data.draw(st.sampled_from(sorted(self.estate.submitted))))

    @precondition(lambda self: self.last is not None)
    @rule()
    def take_back(self) -> None:
        back = reverse_plan(self.last)
        self.estate, self.last = apply_plan(self.estate, back), None
        self.index.apply(back)

    def take(self, planned, *arguments, **options) -> None:
        plan = planned(self.index, *arguments, task_types=TYPES, prices=PRICES, **options)
        assert plan == planned(self.estate, *arguments, task_types=TYPES, prices=PRICES, **options)
        self.estate, self.last = apply_plan(self.estate, plan), plan
        self.index.apply(plan)

    @invariant()
    def holds_the_same(self) -> None:
        assert self.index.estate() == self.estate
        assert self.index.places == self.estate.places
        for index in (self.index, EstateIndex(self.estate)):
            for task_id in (*self.estate.tasks, "not there"):
                assert index.users_of(task_id) == self.estate.users_of(task_id)
            for query_cores in (0.1, 0.0):
                for count in (0, 1, 2, 9):
                    assert index.least_loaded(count, query_cores=query_cores) == self.estate.least_loaded(
                        count, query_cores=query_cores)


IndexAgrees.TestCase.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)
TestIndexAgrees = IndexAgrees.TestCase


@pytest.mark.long
@pytest.mark.timeout(3600)
class TestIndexAgreesForLong(IndexAgrees.TestCase):
    settings = settings(max_examples=3_000, stateful_step_count=25, deadline=None)


ETL = flow("etl", {"s": "sensors", "f": "thin", "o": "archive"}, "s > f > o")


def test_a_stale_plan_changes_nothing():
    index = EstateIndex(submit(EMPTY, ETL))
    before = index.estate()
    with pytest.raises(StalePlan):
        index.apply(plan_submission(EMPTY, ETL, dataflow_id="late", team="water", task_types=TYPES, prices=PRICES))
    assert index.estate() == before


@pytest.mark.parametrize("users", [19, 20, 21, 60])
def test_a_plan_names_few_of_those_it_touches_and_counts_all(users: int):
    index = EstateIndex(EMPTY)
    for number in range(users):
        index.apply(plan_submission(
            index, ETL, dataflow_id=f"d{number:03}", team=f"team{number % 3}", task_types=TYPES, prices=PRICES))
    late = plan_submission(index, ETL, dataflow_id="late", team="other", task_types=TYPES, prices=PRICES)
    assert late.touched == tuple(f"d{number:03}" for number in range(min(users, 20)))
    assert (late.touched_teams, late.touched_count) == (("team0", "team1", "team2"), users)
    index.apply(late)
    gone = plan_removal(index, "d000", task_types=TYPES, prices=PRICES)
    assert (gone.touched, gone.touched_count) == ((), 0), "nothing stops, so nobody is touched"


def test_a_plan_looks_at_what_it_names_however_much_runs():
    """Planning and taking a plan in walk nothing, and look up as much in a large estate as in a small one."""
    counts = {size: _look_ups(size) for size in (4, 40)}
    assert counts[4] == counts[40] > 0


def _look_ups(size: int) -> int:
    index = EstateIndex(EMPTY)
    for number in range(size):
        tasks = {"s": "sensors", "a": ("scale", {"by": number}), "o": "archive"}
        dataflow = flow(f"d{number:02}", tasks, "s > a > o")
        plan = plan_submission(
            index, dataflow, dataflow_id=dataflow.name, team="water", task_types=TYPES, prices=PRICES)
        index.apply(plan)
    read: list[str] = []

    class Watched(dict):
        def __getitem__(self, key):
            read.append(key)
            return super().__getitem__(key)

        def get(self, key, default=None):
            read.append(key)
            return super().get(key, default)

        def values(self):
            raise AssertionError("planning walks the estate")

        items = keys = copy = __iter__ = values

    for name in ("tasks", "submitted", "fragments", "places", "_users", "_by_team"):
        setattr(index, name, Watched(getattr(index, name)))
    mine = flow("mine", {"s": "sensors", "a": ("scale", {"by": 3}), "x": "alarm"}, "s > a > x")
    index.apply(plan_submission(index, mine, dataflow_id="mine", team="water", task_types=TYPES, prices=PRICES))
    index.apply(plan_removal(index, "mine", task_types=TYPES, prices=PRICES))
    index.apply(plan_removal(index, "d02", task_types=TYPES, prices=PRICES))
    return len(read)
