"""What a move would change: the scores of the equations, what slots have to do, and what a round decides by."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.deployment.deployed_bundles import Deployment
from scheduler.deployment.foreseeing import foresee, load_of
from scheduler.deployment.online import decide
from scheduler.model.fragment import node_of
from tests.scheduler.deployment.scores import allocation_score, score_change

from .test_online import SLOTS, USUAL, deployment, deployments


def test_a_move_nearer_to_a_partner_that_fills_a_slot_says_both() -> None:
    running = deployment(
        {"a": ("n1/0", 0.3), "b": ("n1/1", 0.1), "c": ("n2/0", 0.6)}, {"ab": 10, "ac": 40, "bc": 5})
    foreseen = foresee(running, ["a"], "n2/0", USUAL)
    changes = [(slot.slot, round(slot.before, 3), round(slot.after, 3), slot.load) for slot in foreseen.slots]
    assert changes == [("n1/0", 0.3, 0.0, "low"), ("n2/0", 0.6, 0.9, "high")]
    assert foreseen.makes_high
    assert (foreseen.between_before, foreseen.between_after, foreseen.saved) == (40, 10, 30)
    back = foresee(running.moved(["a"], "n2/0"), ["a"], "n1/0", USUAL)
    assert back.saved == -foreseen.saved and not back.makes_high


def test_a_slot_that_nothing_is_on_may_be_one_that_the_deployment_does_not_name() -> None:
    foreseen = foresee(deployment({"a": ("n1/0", 0.3)}), ["a"], "n9/0", USUAL)
    assert [(change.slot, change.before, change.after) for change in foreseen.slots] == [
        ("n1/0", 0.3, 0.0), ("n9/0", 0.0, 0.3)]


@given(deployments(), st.data())
def test_of_one_bundle_it_is_the_change_of_its_allocation_score(running: Deployment, data: st.DataObject) -> None:
    name, slot = data.draw(st.sampled_from(sorted(running.bundles))), data.draw(st.sampled_from(SLOTS))
    foreseen, node = foresee(running, [name], slot, USUAL), node_of(slot)
    assert foreseen.saved == pytest.approx(score_change(running, name, node))
    here = allocation_score(running, name, running.nodes[name])
    assert 2 * foreseen.saved == pytest.approx(allocation_score(running, name, node) - here)


@given(deployments(), st.data())
def test_what_several_change_is_what_the_deployment_is_then(running: Deployment, data: st.DataObject) -> None:
    names = data.draw(st.sets(st.sampled_from(sorted(running.bundles)), min_size=1))
    slot = data.draw(st.sampled_from(SLOTS))
    foreseen, then = foresee(running, names, slot, USUAL), running.moved(names, slot)
    total = sum(running.traffic.values())
    assert foreseen.saved == pytest.approx(total * (running.share_between_nodes - then.share_between_nodes))
    assert foreseen.slots[-1].slot == slot
    for change in foreseen.slots:
        assert (change.before, change.after) == (running.loads[change.slot], then.loads[change.slot])
        assert change.load == load_of(then.loads[change.slot], USUAL)


@given(deployments())
def test_it_says_of_what_a_round_decides_what_that_was_decided_by(running: Deployment) -> None:
    move = decide(running, USUAL).move
    assume(move is not None)
    foreseen = foresee(running, move.bundles, move.target, USUAL)
    assert foreseen.saved == pytest.approx(move.gain) and not foreseen.makes_high
