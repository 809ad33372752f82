"""A named savepoint is taken under events: versions of its dataflow, and another dataflow, begin from it on Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.changing import plan_change
from scheduler.exact_savepoints import savepoint_of
from scheduler.model.dataflow import Dataflow
from scheduler.model.prices import Prices
from scheduler.model.saved_states import SavedStates
from scheduler.planning import plan_submission

from .planned import PlannedEstate
from .rig import NODE, Rig

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.usefixtures("afterwards_nothing")]
MONDAY = f"{NODE}-00000001"
SUMS = """
name: sums
tasks:
  - {id: count, type: numbers}
  - {id: sum, type: total, config: {name: sum}}
  - {id: out, type: output, config: {name: sums, keep_events: 100000}}
streams: [{from: count, to: sum}, {from: sum, to: out}]
rates: {count: 100}
"""


def grown(node: PlannedEstate, name: str) -> list[dict]:
    """The output of a dataflow once it has 40 events more."""
    count = len(node.output(name))
    node.rig.wait(lambda: len(node.output(name)) > count + 40, what=f"more of {name}")
    return node.output(name)


def parts(rig: Rig):
    report = rig.reports().node(NODE)
    return None if report is None else report.savepoints


def order(node: PlannedEstate, *, saving: dict, keeps: tuple) -> None:
    """Ask the node for parts of savepoints, and to keep some."""
    node.rig.saving, node.rig.kept_savepoints = saving, keeps
    node.estate = replace(node.estate, revision=node.estate.revision + 1)
    node.rig.want(node.estate)


def held_to_an_undisturbed_run(events: list[dict], *, since: int) -> None:
    """From an event on, each number once and in order, with the sum of all until then."""
    numbers = [event["_seq"] for event in events]
    assert numbers == list(range(since, since + len(numbers)))
    assert [event["sum"] for event in events] == [number * (number + 1) / 2 for number in numbers]


def taken(node: PlannedEstate, dataflow: Dataflow) -> SavedStates:
    """A savepoint of a running dataflow, which works on meanwhile."""
    fragment, tasks = savepoint_of(
        node.estate, dataflow, dataflow_id=dataflow.name, task_types=node.rig.task_types)
    run = node.rig.fragment(fragment)["run_id"]
    order(node, saving={fragment: (MONDAY,)}, keeps=(MONDAY,))
    node.rig.wait(lambda: parts(node.rig), what="a part of the savepoint")
    part = parts(node.rig)[MONDAY]
    held_to_an_undisturbed_run(grown(node, dataflow.name), since=0)
    assert node.rig.fragment(fragment)["run_id"] == run, "it was not restarted for that"
    order(node, saving={}, keeps=(MONDAY,))
    assert part.fragment == fragment and part.next_event > 40
    return SavedStates(MONDAY, "monday", NODE, fragment, part.at_ms, part.next_event, tasks)


def test_what_begins_from_a_savepoint_has_the_rows_of_an_undisturbed_run(rig: Rig):
    rig.saving, rig.kept_savepoints = {}, ()
    node = PlannedEstate(rig)
    here: dict = {"task_types": rig.task_types, "prices": Prices()}
    dataflow = node.read(SUMS)
    node.submit(dataflow, "sums")
    rig.wait_running(*node.estate.fragments)
    grown(node, "sums")
    saved = taken(node, dataflow)
    for _ in range(2):  # the version that runs, then one that began from it itself
        former = [*node.estate.fragments]
        node.carry_out(plan_change(
            node.estate, dataflow, former=dataflow, dataflow_id="sums", team="city", begin_from=saved, **here))
        rig.wait_running(*node.estate.fragments)
        held_to_an_undisturbed_run(grown(node, "sums"), since=saved.next_event)
        rig.wait(lambda former=former: not any(map(rig.fragment, former)), what="the former version ended")
    node.remove("sums")
    rig.wait(lambda: not any(slot["fragments"] for slot in rig.report()["slots"].values()), what="its removal")
    node.carry_out(plan_submission(
        node.estate, replace(dataflow, name="later"), dataflow_id="later", team="city", begin_from=saved, **here))
    rig.wait_running(*node.estate.fragments)
    held_to_an_undisturbed_run(grown(node, "later"), since=saved.next_event)
    order(node, saving={}, keeps=())
    rig.wait(lambda: parts(rig) == {}, what="the part deleted")
    node.remove("later")
