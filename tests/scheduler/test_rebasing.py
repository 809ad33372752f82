"""Plans that wait while others are taken in: carried over where what they read stands, and stale where it does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.applying import apply_plan
from scheduler.changing import plan_change
from scheduler.defragmenting import plan_defragmentation
from scheduler.model.dataflow import Dataflow
from scheduler.model.encoding import plan_digest, plan_from_json, plan_to_json
from scheduler.model.errors import StalePlan, WeirError
from scheduler.model.estate import Estate
from scheduler.model.plan import Plan
from scheduler.model.ports import EstateView
from scheduler.performance.pricing import query_cores
from scheduler.planning import plan_removal, plan_submission
from scheduler.read_set import Answers, ChangedRead, Reads, ReadTrackingView
from scheduler.rearranging import plan_pause, plan_resumption
from scheduler.rebasing import rebase
from scheduler.replanning import may_be_made_anew, standing_for
from scheduler.reuse.containment import Containment
from tests.scheduler.sibling_index import SiblingIndex

from .catalogue import PRICES, TYPES, flow
from .containing import TYPES as RANGED
from .containing import band
from .containing import rule as contains
from .invariants import check_fragments, check_outlets
from .test_rescheduling import ESTATE, SAM, check_divided, rescheduled, submitted
from .test_scheduled_estates import FLOWS as SHARING
from .test_scheduled_estates import check_channels

# Beside dataflows that share a source some that share nothing with any.
APART = {name: flow(name, {"in": ("sensors", {"city": name}), "by": ("scale", {"by": 2}), "some": "thin",
                           "out": ("archive", {"name": name})}, "in > by > some > out", rates={"in": 60})
         for name in ("e", "f", "g")}
FLOWS = SHARING | APART
TEAMS = {"a": "water", "b": "air", "c": "water", "d": "roads"}  # the others are of water
Planner = Callable[[EstateView], Plan]


@dataclass(frozen=True)
class Waiting:
    """A plan before its reviewers, what it was made from, and how it is made; what they saw first, and where."""

    plan: Plan
    reads: Reads
    planner: Planner
    seen: Plan
    seen_at: Estate
    document: Dataflow | None = None  # that its dataflow runs by from then on

    @classmethod
    def for_review(cls, estate: Estate, planner: Planner, document: Dataflow | None = None) -> Waiting:
        reading = ReadTrackingView(estate)
        plan = planner(reading)
        return cls(plan, Reads.from_json(reading.reads(plan).to_json()), planner, plan, estate, document)


def siblings(estate: Estate) -> SiblingIndex:
    return SiblingIndex(estate.tasks.values())


def changes(reads: Reads, estate: Estate) -> tuple[ChangedRead, ...]:
    return Answers(estate, siblings(estate), [reads]).changes(reads)


def carried_over(waiting: Waiting, estate: Estate) -> Plan | None:
    """The plan for the estate as it is now; None where it is stale."""
    if changes(waiting.reads, estate):
        return None
    return rebase(waiting.plan, estate, query_cores=query_cores(PRICES))


def made_anew(waiting: Waiting, estate: Estate) -> Waiting | None:
    """What stands for a plan of which something has changed that it was made from; None where nothing does."""
    if not may_be_made_anew(waiting.plan):
        return None
    try:
        anew = Waiting.for_review(estate, waiting.planner)
    except WeirError:
        return None
    plan = standing_for(
        waiting.plan, anew.plan, paying_before=waiting.reads.paying, paying_now=anew.reads.paying)
    return None if plan is None else replace(waiting, plan=plan, reads=anew.reads)


def submission(name: str) -> Planner:
    return lambda estate: plan_submission(
        estate, FLOWS[name], dataflow_id=name, team=TEAMS.get(name, "water"), task_types=TYPES, prices=PRICES)


def change_of(planner: Callable[..., Plan], name: str) -> Planner:
    return lambda estate: planner(estate, name, task_types=TYPES, prices=PRICES)


def took(estate: Estate, *names: str) -> Estate:
    for name in names:
        estate = apply_plan(estate, submission(name)(estate))
    return estate


def test_a_plan_that_shares_nothing_with_the_one_taken_in_is_the_same_plan():
    waiting = Waiting.for_review(ESTATE, submission("e"))
    estate = took(ESTATE, "f")
    rebased = carried_over(waiting, estate)
    assert rebased == submission("e")(estate), "as it would be made now, slots included"
    assert rebased.digest == waiting.plan.digest and rebased.generation == waiting.plan.generation + 1
    with pytest.raises(StalePlan):
        apply_plan(estate, waiting.plan)
    assert set(apply_plan(estate, rebased).submitted) == {"e", "f"}


def test_what_it_touches_makes_it_stale_and_says_what_changed():
    shared = took(ESTATE, "a")
    waiting = Waiting.for_review(shared, submission("b"))
    after = took(shared, "c")
    changed = changes(waiting.reads, after)
    source = shared.submitted["a"].running["in"]
    assert ChangedRead("users", source) in changed and ChangedRead("fragments", shared.places[source][0]) in changed
    new = after.submitted["c"].running["n"]
    assert ChangedRead("tasks", new, new=True) in changed, "a task that it would start runs by now"
    removal = Waiting.for_review(shared, change_of(plan_removal, "a"))
    gone = apply_plan(shared, change_of(plan_removal, "a")(shared))
    assert ChangedRead("submitted", "a", gone=True) in changes(removal.reads, gone)


def test_who_shares_a_running_task_does_not_cost_others_that_wait_to_share_it_their_plans():
    shared = took(ESTATE, "a")
    waiting = Waiting.for_review(shared, submission("b"))
    after = took(shared, "d")
    assert carried_over(waiting, after) is None, "the source has another reader"
    anew = made_anew(waiting, after)
    now = submission("b")(after)
    assert anew.plan == replace(now, digest=anew.plan.digest) and anew.plan.price == waiting.plan.price
    assert (waiting.plan.touched_teams, anew.plan.touched_teams) == (("water",), ("roads", "water"))
    assert set(apply_plan(after, anew.plan).submitted) == {"a", "b", "d"}
    assert made_anew(replace(waiting, reads=Reads({"users": {}})), after) is None, "it is not known who paid"


def test_where_it_does_something_else_or_is_dearer_no_plan_stands_for_one_that_waits():
    both = took(ESTATE, "a", "d")
    waiting = Waiting.for_review(both, submission("b"))
    assert made_anew(waiting, apply_plan(both, change_of(plan_removal, "d")(both))) is None, "its share has grown"
    alone = took(ESTATE, "d")
    removal, starting = Waiting.for_review(alone, change_of(plan_removal, "d")), Waiting.for_review(
        alone, submission("b"))
    after = took(alone, "a")
    assert made_anew(removal, after) is None, "the source would go on for another"
    assert made_anew(starting, after) is None, "what scales by 2 would be shared, and not be started"


def changes_of(estate: Estate) -> dict[str, Planner]:
    """What may be asked for of each dataflow that shares: to submit it, or to remove, pause or resume it."""
    planners: dict[str, Planner] = {}
    for name in SHARING:
        if name not in estate.submitted:
            planners[f"submit {name}"] = submission(name)
            continue
        planners[f"remove {name}"] = change_of(plan_removal, name)
        turn = plan_resumption if estate.submitted[name].paused else plan_pause
        planners[f"turn {name}"] = change_of(turn, name)
    return planners


def test_what_stands_does_what_was_reviewed_whatever_is_taken_in_of_whatever_runs():
    stands = Counter()
    for count in range(len(SHARING) + 1):
        for running in combinations(sorted(SHARING), count):
            estate = took(ESTATE, *running)
            if running:
                estate = apply_plan(estate, change_of(plan_pause, running[-1])(estate))
            waiting = {what: Waiting.for_review(estate, planner) for what, planner in changes_of(estate).items()}
            for taken in waiting:
                after = apply_plan(estate, waiting[taken].plan)
                for what, other in waiting.items():
                    if what != taken and carried_over(other, after) is None and (anew := made_anew(other, after)):
                        check_stands_for(anew.plan, after, other)
                        apply_plan(after, anew.plan)
                        stands[f"{what.split()[0]} after {taken.split()[0]}"] += 1
    assert min(stands["submit after submit"], stands["remove after submit"], stands["turn after submit"]) > 5, stands


def test_a_wider_task_that_comes_makes_a_plan_with_containment_stale():
    def planner(estate: EstateView) -> Plan:
        looked_up = estate.siblings_in(siblings(running)) if isinstance(estate, ReadTrackingView) else siblings(running)
        return plan_submission(
            estate, band("narrow", 10, 30), dataflow_id="narrow", team="water", task_types=RANGED, prices=PRICES,
            containment=Containment(looked_up, contains))

    def with_band(estate: Estate, name: str, low: int, high: int) -> Estate:
        return apply_plan(estate, plan_submission(
            estate, band(name, low, high), dataflow_id=name, team="water", task_types=RANGED, prices=PRICES))

    running = with_band(ESTATE, "far", 50, 60)
    waiting = Waiting.for_review(running, planner)
    after = with_band(running, "wide", 0, 40)
    assert "siblings" in {change.part for change in changes(waiting.reads, after)}


def test_a_schedule_is_stale_where_one_of_its_slots_has_something_else_to_do():
    def planner(estate: EstateView) -> Plan:
        return submitted(estate, FLOWS["e"], pair=SAM, rate_per_s=60, whole=ESTATE)

    waiting = Waiting.for_review(ESTATE, planner)
    used = {bundle.slot for fragment in waiting.plan.fragments_after.values() for bundle in fragment.queries}
    estate = took(ESTATE, "f")
    placed = {fragment.slot for fragment in estate.fragments.values()}
    changed = changes(waiting.reads, estate)
    assert {change.key for change in changed if change.part == "slots"} == used & placed
    fewer = replace(ESTATE, slots=tuple(slot for slot in ESTATE.slots if slot.name not in used))
    assert {change.key for change in changes(waiting.reads, fewer) if change.gone} == used


def test_what_begins_where_no_slot_is_any_more_is_stale():
    shared = took(ESTATE, "e")
    paused = apply_plan(shared, change_of(plan_pause, "e")(shared))
    waiting = Waiting.for_review(paused, change_of(plan_resumption, "e"))
    gone = replace(paused, slots=ESTATE.slots[-1:])
    assert not {fragment.slot for fragment in paused.fragments.values()} & {slot.name for slot in gone.slots}
    with pytest.raises(StalePlan, match="is gone or reserved"):
        carried_over(waiting, gone)


def test_what_is_left_standing_is_known_without_its_plan():
    waiting, schedule = Waiting.for_review(ESTATE, submission("e")), Waiting.for_review(
        ESTATE, lambda view: submitted(view, FLOWS["e"], pair=SAM, rate_per_s=60, whole=ESTATE))
    [slot] = {fragment.slot for fragment in waiting.plan.fragments_after.values()}
    cases = {
        "another that shares nothing": (took(ESTATE, "f"), True),
        "another that starts the same": (took(ESTATE, "e"), False),
        "a slot less, where it begins": (
            replace(ESTATE, slots=tuple(other for other in ESTATE.slots if other.name != slot)), False),
    }
    for case, (estate, stands) in cases.items():
        answers = Answers(estate, siblings(estate), [waiting.reads, schedule.reads])
        assert answers.leave_standing(waiting.reads) is stands, case
        assert not answers.leave_standing(schedule.reads) or not answers.changes(schedule.reads), case
    before = Reads({part: keys for part, keys in waiting.reads.answers.items() if part != "begun"})
    assert not Answers(ESTATE, siblings(ESTATE), [before]).leave_standing(before), "it is not known where it begins"


def test_a_plan_with_a_digest_of_an_earlier_version_is_not_carried_over():
    old = replace(submission("e")(ESTATE), digest="0" * 64)
    with pytest.raises(StalePlan, match="earlier version"):
        rebase(old, took(ESTATE, "f"), query_cores=0.1)


class WaitingPlans(RuleBasedStateMachine):
    """Plans wait while others are taken in, in any order; each is carried over or stale, and says the truth."""

    def __init__(self) -> None:
        super().__init__()
        self.estate: Estate = ESTATE
        self.waiting: list[Waiting] = []
        self.documents: dict[str, Dataflow] = {}

    @initialize(names=st.lists(st.sampled_from(sorted(SHARING)), unique=True))
    def begin(self, names: list[str]) -> None:
        self.estate = took(self.estate, *names)
        self.documents = {name: FLOWS[name] for name in names}

    @rule(name=st.sampled_from(sorted(FLOWS)), scheduled=st.booleans())
    def submit(self, name: str, scheduled: bool) -> None:
        estate = self.estate
        self.propose((lambda view: submitted(
            view, FLOWS[name], pair=SAM, rate_per_s=60, whole=estate)) if scheduled else submission(name), FLOWS[name])

    @rule(name=st.sampled_from(sorted(FLOWS)), other=st.sampled_from(sorted(FLOWS)), fresh=st.booleans())
    def version(self, name: str, other: str, fresh: bool) -> None:
        former = self.documents.get(name)
        if name in self.estate.submitted and FLOWS[other] is not former:
            self.propose(lambda view: plan_change(
                view, FLOWS[other], former=former, dataflow_id=name, team="water", task_types=TYPES, prices=PRICES,
                fresh=fresh), FLOWS[other])

    @rule(name=st.sampled_from(sorted(FLOWS)),
          planner=st.sampled_from([plan_removal, plan_pause, plan_resumption, plan_defragmentation]))
    def change(self, name: str, planner: Callable[..., Plan]) -> None:
        submitted_now = self.estate.submitted.get(name)
        if submitted_now and (planner is plan_removal or submitted_now.paused is (planner is plan_resumption)):
            self.propose(change_of(planner, name))

    @rule(name=st.sampled_from(sorted(FLOWS)), rate_per_s=st.sampled_from([10, 110]))
    def schedule(self, name: str, rate_per_s: int) -> None:
        estate = self.estate
        if name in estate.submitted and not estate.submitted[name].paused:
            self.propose(lambda view: rescheduled(
                view, dataflow=replace(self.documents[name], name=name), pair=SAM, rate_per_s=rate_per_s,
                whole=estate)[0])

    def propose(self, planner: Planner, document: Dataflow | None = None) -> None:
        try:
            self.waiting.append(Waiting.for_review(self.estate, planner, document))
        except (WeirError, AssertionError):
            return  # there is no such plan

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def approve(self, data: st.DataObject) -> None:
        chosen = data.draw(st.integers(0, len(self.waiting) - 1))
        taken = self.waiting.pop(chosen)
        plan = taken.plan if taken.plan.generation == self.estate.generation else carried_over(taken, self.estate)
        if taken.document is not None:
            self.documents[plan.dataflow.id] = taken.document
        self.estate = apply_plan(self.estate, plan)
        self.waiting = [still for waiting in self.waiting if (still := self.stands(waiting, plan)) is not None]

    def stands(self, waiting: Waiting, taken: Plan) -> Waiting | None:
        untouched = Answers(self.estate, siblings(self.estate), [waiting.reads]).leave_standing(waiting.reads)
        try:
            rebased = carried_over(waiting, self.estate)
        except StalePlan:
            assert not untouched, "it could be taken in as it is"
            return None
        if rebased is None:
            anew = made_anew(waiting, self.estate)
            if anew is not None:
                check_stands_for(anew.plan, self.estate, waiting)
            return anew
        assert not changed_by(waiting.plan) & changed_by(taken), "what it changes has changed, and it stands"
        assert rebased.digest == waiting.plan.digest == plan_digest(rebased)
        assert plan_from_json(plan_to_json(rebased)) == rebased
        assert [step.kind for step in rebased.steps] == [step.kind for step in waiting.plan.steps]
        if waiting.plan.promise is None and waiting.plan.kind != "defragment":
            # What weighs slots against each other may choose others now; what it chose is there as it was.
            assert rebased == waiting.planner(self.estate), "it is what would be planned now"
        # What nothing touches is left as it is, for however many generations, until it is taken in.
        return waiting if untouched else replace(waiting, plan=rebased)

    @invariant()
    def holds(self) -> None:
        check_fragments(self.estate)
        check_outlets(self.estate)
        check_divided(self.estate)
        check_channels(self.estate)


def check_stands_for(plan: Plan, estate: Estate, waiting: Waiting) -> None:
    """It does what was reviewed first, however often it was made anew since, and whoever shares its tasks pays no more
    for each of them than they were to pay then: told by the estates before and after it."""
    seen = waiting.seen
    assert plan_from_json(plan_to_json(plan)) == plan and plan.digest == plan_digest(plan)
    for tasks in ("started", "stopped"):
        assert {task.id for task in getattr(plan, tasks)} == {task.id for task in getattr(seen, tasks)}
    assert (plan.reused, plan.resumed, plan.rested) == (seen.reused, seen.resumed, seen.rested)
    assert (plan.dataflow, plan.price) == (seen.dataflow, seen.price)
    assert [(step.kind, step.task, step.active) for step in plan.steps] == [
        (step.kind, step.task, step.active) for step in seen.steps]
    payers, payers_then = (
        Counter(task_id for submitted in apply_plan(at, made).submitted.values() if not submitted.paused
                for task_id in set(submitted.running.values()))
        for at, made in ((estate, plan), (waiting.seen_at, seen)))
    assert all(payers[task_id] >= payers_then[task_id] for task_id in plan.dataflow.running.values())


def changed_by(plan: Plan) -> set[str]:
    """Tasks that a plan starts or stops, fragments that it changes, and its dataflow."""
    tasks = {task.id for task in (*plan.started, *plan.stopped)}
    return {plan.dataflow.id, *tasks, *plan.fragments_before}


WaitingPlans.TestCase.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)
TestWaitingPlans = WaitingPlans.TestCase


@pytest.mark.long
class TestManyWaitingPlans(WaitingPlans.TestCase):
    settings = settings(max_examples=1_000, stateful_step_count=25, deadline=None)
