"""What two nodes are told of a task that is divided by key, whose bundles are on both."""

from __future__ import annotations

from scheduler.contracts.desired import DESIRED_STATES
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask, Slot, node_of
from scheduler.model.task_types import TaskTypes
from workers.engine.desired_publishing import desired_of

TWO_NODES = tuple(Slot(node, index) for node in ("n1", "n2") for index in range(3))


def check_told(fragment: Fragment, types: TaskTypes) -> None:
    """The node of a giver is told who on another node takes what of it, and that node whose states come from elsewhere;
    nobody is told anything else, and no query leaves its node."""
    estate = Estate(tasks={"t": RunningTask("t", "sum_by", {}, ())}, fragments={fragment.id: fragment}, slots=TWO_NODES)
    states = {
        node: DESIRED_STATES.loads(DESIRED_STATES.dumps(desired_of(estate, node, types))) for node in ("n1", "n2")}
    places = {bundle.id: node_of(bundle.slot) for bundle in fragment.bundles}
    far = {(places[giver], giver, bundle.id, ranges) for bundle in fragment.bundles
           for giver, ranges in bundle.taken.items() if places.get(giver, places[bundle.id]) != places[bundle.id]}
    assert {(node, giver, taker.id, ranges) for node, state in states.items() for taker in state.takers
            for giver, ranges in taker.taken.items()} == far
    assert {(wanted.id, giver) for state in states.values() for wanted in state.wanted.values()
            for giver in wanted.remote_givers} == {(taker, giver) for _, giver, taker, _ in far}
    assert not any(state.remote_heirs for state in states.values())
