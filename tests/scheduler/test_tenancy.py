"""Teams with slots of their own: no plan of any kind brings a team to a slot that holds another's queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from scheduler.applying import apply_plan
from scheduler.changing import plan_change
from scheduler.controllers.deploying import Asker, Deploying, Deployments
from scheduler.defragmenting import plan_defragmentation
from scheduler.deployment.deployed_bundles import Deployment, PlacedBundle
from scheduler.isolating import plan_isolation
from scheduler.model.encoding import plan_from_json, plan_to_json
from scheduler.model.errors import NoSlots, WeirError
from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from scheduler.model.plan import Plan
from scheduler.moving import plan_move, slots_for
from scheduler.performance.pricing import query_cores
from scheduler.planning import plan_removal, plan_submission
from scheduler.rearranging import plan_pause, plan_resumption
from scheduler.rebasing import rebase
from scheduler.rescheduling import schedulable
from scheduler.reuse.defragment import DefragmentRule
from scheduler.undoing import undo
from tests.scheduler.estate_index import EstateIndex

from .catalogue import PRICES, SLOTS, TYPES, flow
from .test_rescheduling import DSM, SAM, rescheduled, submitted
from .test_scheduled_estates import FLOWS

TEAMS = ("water", "roads", "energy")
APART = Estate(slots=tuple(Slot(node, index) for node in ("n1", "n2") for index in range(3)), teams_apart=True)
SUPPORTED = {"task_types": TYPES, "prices": PRICES}
LINE = flow("line", {"s": "sensors", "a": ("scale", {"by": 2}), "o": "archive"}, "s > a > o")
LONGER = flow("longer", {"s": "sensors", "a": ("scale", {"by": 2}), "b": ("scale", {"by": 3}), "p": "alarm"},
              "s > a > b > p")


def brought(estate: Estate, dataflow, team: str) -> Estate:
    return apply_plan(estate, plan_submission(estate, dataflow, dataflow_id=dataflow.name, team=team, **SUPPORTED))


def shared_slots(estate: Estate) -> dict[str, set[str]]:
    """Slots that hold several teams' queries, told from the fragments one by one."""
    teams: dict[str, set[str]] = {}
    for fragment in estate.fragments.values():
        for query in fragment.queries:
            teams.setdefault(query.slot, set()).add(fragment.team)
    return {slot: names for slot, names in teams.items() if len(names) > 1}


class TeamsApart(RuleBasedStateMachine):
    """An estate through plans of every kind, those that waited and those that take others back among them; the setting
    is turned on and off meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.estate, self.index = APART, EstateIndex(APART)
        self.done: list[Plan] = []
        self.waiting: Plan | None = None

    def take(self, make: Callable[[Estate], Plan | None]) -> None:
        try:
            plan = make(self.estate)
        except (WeirError, AssertionError):
            return  # it is refused, or nothing is to be done
        if plan is None:
            return
        assert plan_from_json(plan_to_json(plan)) == plan
        before, self.estate = self.estate, apply_plan(self.estate, plan)
        self.index.apply(plan)
        self.done.append(plan)
        assert self.index.estate() == self.estate
        if self.estate.teams_apart:
            was = shared_slots(before)
            for slot, teams in shared_slots(self.estate).items():
                assert teams <= was.get(slot, set()), f"{plan.kind} brings a team to {slot}"

    def running(self) -> list[str]:
        return sorted(self.estate.submitted)

    @precondition(lambda self: FLOWS.keys() - self.estate.submitted)
    @rule(data=st.data(), team=st.sampled_from(TEAMS), scheduled=st.booleans(), waits=st.booleans())
    def submit(self, data, team, scheduled, waits) -> None:
        name = data.draw(st.sampled_from(sorted(FLOWS.keys() - self.estate.submitted)))

        def make(estate: Estate) -> Plan:
            if scheduled:
                return submitted(estate, FLOWS[name], pair=DSM, rate_per_s=60, team=team)
            return plan_submission(estate, FLOWS[name], dataflow_id=name, team=team, **SUPPORTED)

        if waits:
            try:
                self.waiting = make(self.estate)
            except WeirError:
                return
        else:
            self.take(make)

    @precondition(lambda self: self.waiting is not None)
    @rule()
    def carry_over(self) -> None:
        plan, self.waiting = self.waiting, None
        stands = not set(plan.dataflow.running.values()) & set(self.estate.tasks) ^ set(plan.reused) and (
            plan.dataflow.id not in self.estate.submitted)
        if stands and not plan.reused:  # nothing that it was made from can have changed but slots
            self.take(lambda estate: rebase(plan, estate, query_cores=query_cores(PRICES)))

    @precondition(lambda self: self.estate.submitted)
    @rule(data=st.data(), kind=st.sampled_from(
        ["remove", "pause", "defragment", "isolate", "move", "change", "schedule"]))
    def change(self, data, kind) -> None:
        name = data.draw(st.sampled_from(self.running()))
        if kind == "move":
            self._move(data, name)
        elif kind == "isolate":
            slow = data.draw(st.sampled_from(sorted(self.estate.submitted[name].running.values())))
            self.take(lambda estate: plan_isolation(estate, name, slow=slow, **SUPPORTED))
        elif kind == "change":
            other = data.draw(st.sampled_from(sorted(FLOWS)))
            self.take(lambda estate: plan_change(
                estate, FLOWS[other], former=FLOWS[name], dataflow_id=name, team=estate.submitted[name].team,
                **SUPPORTED))
        elif kind == "schedule":
            self.take(lambda estate: rescheduled(
                estate, dataflow=FLOWS[name], pair=data.draw(st.sampled_from([SAM, DSM])),
                rate_per_s=data.draw(st.sampled_from([10, 60, 200])))[0])
        elif kind == "defragment":
            self.take(lambda estate: plan_defragmentation(estate, name, rule=DefragmentRule(ratio=0.0), **SUPPORTED))
        else:
            if kind != "remove":
                kind = "resume" if self.estate.submitted[name].paused else "pause"
            make = {"remove": plan_removal, "pause": plan_pause, "resume": plan_resumption}[kind]
            self.take(lambda estate: make(estate, name, **SUPPORTED))

    def _move(self, data, name: str) -> None:
        fragments = {self.estate.places[task][0] for task in self.estate.submitted[name].running.values()}
        query = data.draw(st.sampled_from(sorted(
            query.id for fragment in fragments for query in self.estate.fragments[fragment].queries)))
        slot = data.draw(st.sampled_from([slot.name for slot in self.estate.slots]))
        self.take(lambda estate: plan_move(estate, name, query=query, slot=slot, **SUPPORTED))

    @precondition(lambda self: self.done)
    @rule(data=st.data())
    def take_back(self, data) -> None:
        plan = data.draw(st.sampled_from(self.done))
        self.take(lambda estate: undo(estate, plan))

    @rule()
    def turn(self) -> None:
        self.estate = replace(self.estate, teams_apart=not self.estate.teams_apart)
        self.index.teams_apart = self.estate.teams_apart


class TeamsAlwaysApart(TeamsApart):
    """The same, apart from the first plan on: no slot is ever shared."""

    turn = None

    def take(self, make) -> None:
        super().take(make)
        assert not shared_slots(self.estate)


for machine in (TeamsApart, TeamsAlwaysApart):
    machine.TestCase.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
TestTeamsApart = TeamsApart.TestCase
TestTeamsAlwaysApart = TeamsAlwaysApart.TestCase


# Examples ---------------------------------------------------------------------------------------------------------


def test_a_team_fills_its_own_slot_before_it_begins_another() -> None:
    estate = brought(brought(APART, LINE, "water"), FLOWS["d"], "water")
    assert {fragment.slot for fragment in estate.fragments.values()} == {"n1/0"}
    shared = replace(APART, teams_apart=False)
    shared = brought(brought(shared, LINE, "water"), FLOWS["d"], "water")
    assert {fragment.slot for fragment in shared.fragments.values()} == {"n1/0", "n1/1"}  # as ever


def test_who_joins_a_task_reads_it_from_a_slot_of_its_own() -> None:
    estate = brought(brought(APART, LINE, "water"), LONGER, "roads")
    by_team = {fragment.team: fragment for fragment in estate.fragments.values()}
    joined = estate.submitted["longer"].running["a"]
    assert joined == estate.submitted["line"].running["a"] and estate.places[joined][0] == by_team["water"].id
    assert by_team["water"].outlets[joined] == (by_team["roads"].id,)
    assert by_team["water"].slot != by_team["roads"].slot
    # And what the other team leaves behind stays the other's.
    left = apply_plan(estate, plan_removal(estate, "line", **SUPPORTED))
    assert left.fragments[by_team["water"].id].team == "water"
    assert {fragment.slot for fragment in brought(left, FLOWS["d"], "roads").fragments.values()} == {"n1/0", "n1/1"}


def test_where_no_slot_is_left_it_is_said_what_helps() -> None:
    full = brought(brought(replace(APART, slots=SLOTS[:2]), LINE, "water"), LONGER, "roads")
    with pytest.raises(NoSlots, match="slots of their own here, and none is empty") as raised:
        brought(full, FLOWS["d"], "energy")
    assert "start a node agent with more slots" in raised.value.remedy
    assert "water" not in raised.value.full_message + str(raised.value.facts)
    brought(full, FLOWS["d"], "roads")  # who has one goes on there, however full it is


def test_neither_a_move_nor_a_list_of_slots_leads_to_anothers_slot() -> None:
    estate = brought(brought(APART, LINE, "water"), LONGER, "roads")
    [of_roads] = [fragment for fragment in estate.fragments.values() if fragment.team == "roads"]
    [foreign] = {fragment.slot for fragment in estate.fragments.values()} - {of_roads.slot}
    with pytest.raises(NoSlots, match=f"{foreign} holds queries of another team"):
        plan_move(estate, "longer", query=of_roads.id, slot=foreign, **SUPPORTED)
    offered = slots_for(estate, of_roads, of_roads.queries[0], estate.slots, task_types=TYPES)
    assert foreign not in offered and len(offered) == len(estate.slots) - 2
    shared = replace(estate, teams_apart=False)
    assert foreign in slots_for(shared, of_roads, of_roads.queries[0], estate.slots, task_types=TYPES)


def test_queries_of_two_teams_are_not_made_one_and_a_schedule_leaves_anothers_alone() -> None:
    estate = brought(brought(replace(APART, slots=SLOTS[:2]), LINE, "water"), LONGER, "roads")
    estate = apply_plan(estate, plan_removal(estate, "line", **SUPPORTED))  # two queries that could be one
    fuse = {"rule": DefragmentRule(ratio=0.0), **SUPPORTED}
    plan_defragmentation(replace(estate, teams_apart=False), "longer", path=sorted(estate.fragments), **fuse)
    with pytest.raises(WeirError, match="as few as they can be"):
        plan_defragmentation(estate, "longer", path=sorted(estate.fragments), **fuse)
    running, _ = schedulable(estate, "longer", LONGER, task_types=TYPES)
    assert set(running) == {"b", "p"}


def test_a_plan_that_waited_is_held_to_it_as_it_is_taken_in() -> None:
    shared = replace(APART, slots=SLOTS[:1], teams_apart=False)
    plan = plan_submission(shared, LINE, dataflow_id="line", team="water", **SUPPORTED)
    taken = replace(brought(shared, FLOWS["d"], "roads"), teams_apart=True)
    with pytest.raises(NoSlots):
        rebase(plan, taken, query_cores=query_cores(PRICES))


def test_the_controller_moves_a_team_to_its_own_slots_alone() -> None:
    """The hot slot's query may go to the slot that is its team's; the coolest is another's."""
    bundles = {bundle.id: bundle for bundle in (
        PlacedBundle("f1-0", "n1/0", 0.6, team="water"), PlacedBundle("f2-0", "n1/0", 0.5, team="water"),
        PlacedBundle("f3-0", "n1/1", 0.1, team="roads"), PlacedBundle("f4-0", "n1/2", 0.2, team="water"))}
    slots = ("n1/0", "n1/1", "n1/2")
    askers = {name: (Asker(f"d-{name}", bundle.team, (), (name,)),) for name, bundle in bundles.items()}
    sharing = Deployment(bundles, slots)
    apart = replace(sharing, team_targets={"water": frozenset({"n1/0", "n1/2"}), "roads": frozenset({"n1/1"})})
    for deployment, target in ((sharing, "n1/1"), (apart, "n1/2")):
        [decision] = Deploying().evaluate(Deployments(deployment, askers), {}).decisions
        assert decision.arguments["slot"] == target
