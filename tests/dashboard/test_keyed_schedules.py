"""Tasks divided by key on the site: stored, told to nodes, compared, scheduled otherwise, and taken back."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from dashboard.approvals.difference import difference
from dashboard.approvals.services import drop_left_bundles, prepare_proposal, roll_back_proposal, submit_dataflow
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.services import register_node
from dashboard.plans.scheduling_problem import problem_of
from dashboard.plans.selectors import plan_of
from dashboard.profiles.services.importing import import_profiles
from dashboard.schedules.comparison import changes, rows_of
from dashboard.schedules.options import basis_of
from dashboard.teams.permissions import viewer_of
from scheduler.applying import apply_plan
from scheduler.model.fragment import Fragment
from scheduler.model.ring import Ring
from tests.dashboard.building import World, approved, enacted
from tests.dashboard.checks import check_rows
from tests.dashboard.node_parts import load_part_of
from tests.dashboard.schedules import at, rescheduled
from workers.engine.desired_publishing import desired_of
from workers.library import registry

PROFILES = """task,threads,peak_rate_tuples_s,cpu_pct,mem_pct,origin
senml_parse,1,3000,85,35,measured here
block_average,1,100,90,5,measured here
"""
IDS = ["sense", "parse", "mean", "out"]
KINDS = ["urban_sensing", "senml_parse", "block_average", "output"]


def averages() -> str:
    tasks = [{"id": name, "type": kind} for name, kind in zip(IDS, KINDS, strict=True)]
    tasks[-1]["config"] = {"name": "means"}
    return json.dumps({"name": "means", "tasks": tasks, "rates": {"sense": 30},
                       "streams": [{"from": one, "to": other} for one, other in pairwise(IDS)]})


@pytest.fixture
def keyed(world: World) -> World:
    import_profiles(actor=world.carla, text=PROFILES)
    register_node(name="n1", slots=10)
    return world


def mean(record) -> Fragment:
    estate = load_estate()
    return estate.fragments[estate.places[estate.submitted[str(record.pk)].running["mean"]][0]]


def run(world: World, rate_per_s: float):
    proposal = submit_dataflow(actor=world.carla, team=world.city, text=averages(), schedule=at(rate_per_s))
    return enacted(approved(prepare_proposal(proposal_id=proposal.pk), world.ana)).dataflow


def test_keys_are_divided_stored_and_told_to_every_node(keyed: World):
    register_node(name="n1", slots=2)
    register_node(name="n2", slots=8)
    record = run(keyed, 50)
    fragment = mean(record)
    assert len(fragment.bundles) > 2 and len({bundle.slot.partition("/")[0] for bundle in fragment.bundles}) == 2
    check_rows()
    whole, types = load_estate(), registry.task_types()
    rings = []
    for node in ("n1", "n2"):
        part = desired_of(load_part_of(node), node, types)
        assert part == desired_of(whole, node, types), "a node's part has all that its desired state is made of"
        rings += [how for wanted in part.wanted.values() for readers in wanted.routes.values()
                  for how in readers.values() if isinstance(how, Ring)]
    assert rings == [fragment.ring(("sensor_id", "obs"))]


def test_keys_change_hands_by_another_schedule_and_back(keyed: World):
    record = run(keyed, 50)
    was, before = mean(record), load_estate()
    problem = problem_of(record)
    assert {row.id: row.divided for row in basis_of(problem, problem.job(50))} == {
        "sense": "one thread", "parse": "on one slot", "mean": "over slots, by key", "out": "one thread"}
    proposal = rescheduled(keyed, record, at(30))
    plan = plan_of(proposal.plan)
    text = " ".join(step["text"] for step in difference(viewer_of(keyed.ana), proposal)["steps"])
    assert "continue with its keys of mean, and their state" in text and "Divide the events of mean anew" in text
    executing = approved(proposal, keyed.ana)
    assert executing.status == "executing" and load_estate() == apply_plan(before, plan)
    check_rows()
    rolled = enacted(roll_back_proposal(actor=keyed.ana, proposal_id=proposal.pk))
    assert rolled.status == "rolled_back"
    check_rows()
    live = [bundle for bundle in mean(record).bundles if not bundle.leaving]
    assert [(bundle.slot, bundle.weight) for bundle in live] == [(bundle.slot, bundle.weight) for bundle in was.bundles]
    left = {bundle.id for bundle in mean(record).bundles if bundle.leaving}
    assert set(drop_left_bundles(left_bundles=left)) == left and list(mean(record).bundles) == live
    check_rows()


def test_a_comparison_counts_keys_that_change_hands_as_starts_and_ends(keyed: World):
    record = run(keyed, 50)
    problem = problem_of(record)
    today = {"mean": mean(record).queries}
    same = next(row for row in problem.compare(50).schedules if row.pair == ("MBA", "SAM"))
    fewer = next(row for row in problem.compare(30).schedules if row.pair == ("MBA", "SAM"))
    count, bundles = len(mean(record).queries), len(fewer.placement.counts["mean"])
    others = len(fewer.placement.counts) - 1
    assert changes(fewer, today).leave == count > bundles and changes(fewer, today).start == bundles + others
    assert changes(same, today).leave == 0


def test_keys_go_to_another_node_where_theirs_has_too_few_slots_and_all_are_told(keyed: World):
    register_node(name="n1", slots=2)
    record = run(keyed, 8)
    assert not mean(record).divided
    register_node(name="n2", slots=8)
    rows = rows_of(problem_of(record).compare(50), today={"mean": mean(record).queries})
    assert "keys of mean go to another node" in next(row.note for row in rows if row.pair == ("MBA", "SAM"))
    proposal = rescheduled(keyed, record, at(50))
    assert any("Keys of mean continue on another node" in note for note in plan_of(proposal.plan).notes)
    assert approved(proposal, keyed.ana).status == "executing"
    whole, types = load_estate(), registry.task_types()
    states = {node: desired_of(load_part_of(node), node, types) for node in ("n1", "n2")}
    assert states == {node: desired_of(whole, node, types) for node in ("n1", "n2")}
    assert {taker.id for taker in states["n1"].takers} == {
        taker.id for _, taker in mean(record).far_takers} and not states["n2"].takers
