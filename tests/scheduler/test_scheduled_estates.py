"""Estates in which some dataflows run by schedules and others do not, whatever is submitted, changed and removed."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scheduler.applying import apply_plan
from scheduler.defragmenting import plan_defragmentation
from scheduler.model.encoding import plan_from_json, plan_to_json
from scheduler.model.errors import NothingToGain, WeirError
from scheduler.model.estate import Estate
from scheduler.model.plan import Plan
from scheduler.planning import plan_removal, plan_submission
from scheduler.rearranging import plan_pause, plan_resumption
from tests.scheduler.estate_index import EstateIndex
from tests.scheduler.reversing import reverse_plan

from .catalogue import PRICES, TYPES, flow
from .invariants import check_fragments, check_outlets
from .test_rescheduling import DSM, ESTATE, RSM, SAM, check_divided, live_by_task, rescheduled, submitted

# They share some of their tasks: a source and what scales by 2 with all others, what counts that with one.
FLOWS = {one.name: one for one in (
    flow("a", {"in": "sensors", "by": ("scale", {"by": 2}), "some": "thin", "out": "archive"}, "in > by > some > out",
         rates={"in": 60}),
    flow("b", {"in": "sensors", "by": ("scale", {"by": 2}), "n": "count", "out": ("archive", {"name": "b"})},
         "in > by > n > out", rates={"in": 60}),
    flow("c", {"in": "sensors", "by": ("scale", {"by": 2}), "n": "count", "again": ("scale", {"by": 3}), "thin": "thin",
               "out": ("archive", {"name": "c"})}, "in > by > n > again > out", "by > thin > out", rates={"in": 60}),
    flow("d", {"in": "sensors", "again": ("scale", {"by": 5}), "off": "alarm"}, "in > again > off", rates={"in": 60}),
)}
choices = st.tuples(st.sampled_from([SAM, RSM, DSM]), st.sampled_from([10, 60, 110, 200, 300]))


class ScheduledEstates(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.estate, self.index = ESTATE, EstateIndex(ESTATE)

    def running(self, *, paused: bool | None = None) -> list[str]:
        return sorted(entry.id for entry in self.estate.submitted.values() if paused in (None, entry.paused))

    def take(self, plan: Plan) -> None:
        assert plan_from_json(plan_to_json(plan)) == plan
        after = apply_plan(self.estate, plan)
        back = apply_plan(after, reverse_plan(plan))
        entries = dict(self.estate.submitted)
        if plan.kind == "schedule":  # taken back it is still cut into tasks: it has had a schedule
            entries[plan.dataflow.id] = plan.dataflow
        assert (back.tasks, back.submitted) == (self.estate.tasks, entries)
        if plan.kind == "schedule":
            assert live_by_task(back) == live_by_task(self.estate)
            check_cut(self.estate, plan, after)
        elif plan.kind != "defragment":
            assert back.fragments == self.estate.fragments
        for fragment_id, fragment in after.fragments.items():
            before = self.estate.fragments.get(fragment_id)
            if before is not None and plan.kind != "schedule":
                assert fragment.queries == before.queries, "only a schedule changes bundles"
        self.estate = after
        self.index.apply(plan)

    @rule(name=st.sampled_from(sorted(FLOWS)), choice=st.none() | choices)
    def submit(self, name, choice) -> None:
        if name in self.estate.submitted:
            return
        try:
            plan = submitted(self.estate, FLOWS[name], pair=choice[0], rate_per_s=choice[1]) if choice else (
                plan_submission(self.estate, FLOWS[name], dataflow_id=name, team="water", task_types=TYPES,
                                prices=PRICES))
        except WeirError:
            return  # too few slots, a rate that is not held, or nothing new to schedule
        self.take(plan)

    @precondition(lambda self: self.running(paused=False))
    @rule(data=st.data(), choice=choices)
    def schedule(self, data, choice) -> None:
        name = data.draw(st.sampled_from(self.running(paused=False)))
        leaving = [query.id for fragment in self.estate.fragments.values() for query in fragment.queries
            if query.leaving]
        try:
            plan, _ = rescheduled(self.estate, dataflow=FLOWS[name], pair=choice[0], rate_per_s=choice[1], left=leaving)
        except (WeirError, AssertionError):
            return  # it was submitted without one, nothing changes, or it cannot be done while it runs
        self.take(plan)

    @precondition(lambda self: self.running())
    @rule(data=st.data(), kind=st.sampled_from(["remove", "pause", "resume", "defragment"]))
    def change(self, data, kind) -> None:
        plans = {"remove": (plan_removal, None), "pause": (plan_pause, False), "resume": (plan_resumption, True),
                 "defragment": (plan_defragmentation, False)}
        planned, paused = plans[kind]
        if names := self.running(paused=paused):
            try:
                plan = planned(self.estate, data.draw(st.sampled_from(names)), task_types=TYPES, prices=PRICES)
            except NothingToGain:
                return
            self.take(plan)

    @invariant()
    def holds(self) -> None:
        check_fragments(self.estate)
        check_outlets(self.estate)
        check_divided(self.estate)
        check_channels(self.estate)
        assert self.index.estate() == self.estate
        for apart in (False, True):
            assert self.index.least_loaded(5, query_cores=0.1, apart=apart) == self.estate.least_loaded(
                5, query_cores=0.1, apart=apart)


def check_cut(before: Estate, plan: Plan, after: Estate) -> None:
    """What is cut goes on with the same tasks, on its node where it takes something over; outputs keep their channels,
    and those who read from outside have what they read in one that they read already."""
    gone = {fragment_id: fragment for fragment_id, fragment in before.fragments.items()
        if fragment_id not in after.fragments}
    new = {fragment_id: fragment for fragment_id, fragment in after.fragments.items()
        if fragment_id not in before.fragments}
    goes_on = [task for fragment in new.values() for task in fragment.tasks]  # of several that are cut, in any order
    assert len(goes_on) == sum(len(fragment.active_tasks) for fragment in gone.values())
    for fragment in gone.values():
        assert [task for task in goes_on if task in fragment.active_tasks] == list(fragment.active_tasks)
    for fragment in new.values():
        [old] = {before.places[task][0] for task in fragment.tasks}
        heir = next((query for query in fragment.queries if query.id == fragment.id), None)
        assert fragment.inherits in ((), (old,))
        if fragment.inherits:
            assert heir is not None and heir.slot.rpartition("/")[0] == gone[old].slot.rpartition("/")[0]
        for task in fragment.tasks:
            outside = set(gone[old].outlets.get(task, ()))
            if outside or TYPES[before.tasks[task].type].terminal == "output":
                assert gone[old].channel_of(task) in fragment.channels_of(task) and fragment.inherits
    restarted = {step.fragment for step in plan.steps if step.kind in ("hand_over", "start_fragment")}
    assert restarted == set(new)
    assert len({step.key for step in plan.steps}) == len(plan.steps)


def check_channels(estate: Estate) -> None:
    """Every bundle has channels of its own; what has state, or ends in an output, is one query with one thread."""
    channels = [channel for task_id in estate.tasks for channel in estate.channels_of(task_id)]
    assert len(set(channels)) == len(channels)
    for fragment in estate.fragments.values():
        kinds = [TYPES[estate.tasks[task_id].type] for task_id in fragment.tasks if task_id in estate.tasks]
        if any(kind.stateful or kind.kind == "source" or kind.terminal for kind in kinds):
            assert not fragment.divided
        assert not fragment.divided or len(fragment.tasks) == 1


ScheduledEstates.TestCase.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)
TestScheduledEstates = ScheduledEstates.TestCase
