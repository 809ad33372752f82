"""Joint moves: bundles that gain by going together, held against every set of bundles of small deployments."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from scheduler.deployment.deployed_bundles import Deployment, PlacedBundle
from scheduler.deployment.joint_moves import MOST
from scheduler.deployment.online import Thresholds, decide
from scheduler.model.fragment import node_of

USUAL = Thresholds(high=0.82, low=0.5, margin=0.0, score_change=5.0)
SLOTS = ("n1/0", "n1/1", "n2/0", "n2/1", "n3/0")


def line(*slots: str, cores: float = 0.05, rate: float = 100.0) -> Deployment:
    """Bundles ``a``, ``b`` and so on, each of which writes to the next."""
    names = [chr(ord("a") + at) for at in range(len(slots))]
    return Deployment(
        {name: PlacedBundle(name, slot, cores) for name, slot in zip(names, slots, strict=True)}, SLOTS,
        dict.fromkeys(pairwise(names), rate))


def test_a_line_in_two_halves_becomes_one() -> None:
    move = decide(line("n1/0", "n1/1", "n2/0", "n2/0"), USUAL).move
    assert move is not None and move.gain == 100.0
    assert (set(move.bundles), node_of(move.target)) in (({"a", "b"}, "n2"), ({"c", "d"}, "n1"))


def test_others_go_along_with_a_bundle_where_that_is_worth_it() -> None:
    move = decide(line("n1/0", "n2/0", "n2/0", "n1/0", "n1/0"), USUAL).move
    assert move is not None and (set(move.bundles), move.gain) == ({"a", "d", "e"}, 200.0)


def test_bundles_come_from_several_nodes_to_where_they_are_needed() -> None:
    running = line("n1/0", "n2/0", "n1/0", "n3/0")
    running = replace(running, bundles={
        name: replace(bundle, movable=name in "bd") for name, bundle in running.bundles.items()})
    move = decide(running, USUAL).move
    assert move is not None and (set(move.bundles), node_of(move.target), move.gain) == ({"b", "d"}, "n1", 300.0)


def test_no_series_is_of_bundles_that_no_dataflow_has_together() -> None:
    halves = line("n1/0", "n1/0", "n2/0", "n2/0")
    groups = {"a": ["x"], "b": ["y"], "c": ["x"], "d": ["y"]}
    assert decide(halves, USUAL, groups=groups).move is None
    move = decide(halves, USUAL, groups={**groups, "b": ["y", "x"]}).move
    assert move is not None and set(move.bundles) == {"a", "b"}


def test_each_of_a_series_brings_what_a_move_has_to() -> None:
    halves = line("n1/0", "n1/0", "n2/0", "n2/0", rate=10.0)
    assert decide(halves, replace(USUAL, score_change=4.9)).move is not None
    assert decide(halves, replace(USUAL, score_change=5.0)).move is None


def test_what_rests_does_not_go_along() -> None:
    assert decide(line("n1/0", "n1/0", "n2/0", "n2/0"), USUAL, resting={"a", "c"}).move is None


def test_a_series_takes_no_more_than_its_target_has_room_for() -> None:
    halves = line("n1/0", "n1/1", "n2/0", "n2/1", cores=0.45)
    assert decide(halves, USUAL).move is None, "no slot has room for two of them"
    full = line(*["n1/0"] * 10, *["n2/0"] * 3, cores=0.06)
    move = decide(full, USUAL).move
    assert move is not None and len(move.bundles) == 3, "the ten do not go to the three: there is room for the others"


def test_a_series_has_an_end() -> None:
    long = line(*["n1/0"] * 20, *["n2/0"] * (MOST + 4), cores=0.001)
    assert decide(long, USUAL).move is None, "more go nowhere at once"
    running = line(*["n1/0"] * 20, *["n2/0"] * (MOST - 1), cores=0.001)
    move = decide(running, USUAL).move
    assert move is not None and len(move.bundles) == MOST - 1


def chances(number: int) -> Deployment:
    """A small deployment of which some bundles stay where they are."""
    chance = random.Random(number)
    names = "abcdefgh"[: chance.randint(4, 8)]
    bundles = {
        name: PlacedBundle(
            name, chance.choice(SLOTS), chance.choice([0.05, 0.1, 0.2]), movable=chance.random() > 0.1,
            node_bound=chance.random() < 0.1)
        for name in names}
    traffic = {
        (chance.choice(names[: at]), name): chance.choice([10.0, 30.0, 100.0])
        for at, name in enumerate(names) if at for _ in range(chance.choice([1, 1, 2]))}
    return Deployment(bundles, SLOTS, traffic)


def best_of_all(running: Deployment, thresholds: Thresholds) -> float:
    """The greatest worth of any set of bundles on any slot that it may go to: what it brings beyond what it has to."""
    low = [slot for slot in SLOTS if running.loads[slot] < thresholds.low]
    coolest = {
        min((running.loads[slot], slot) for slot in low if node_of(slot) == node)[1] for node in map(node_of, low)}
    best = 0.0
    for slot in coolest:
        may_go = [name for name, bundle in running.bundles.items()
                  if bundle.movable and not bundle.node_bound and running.nodes[name] != node_of(slot)]
        for chosen in range(1, 2 ** len(may_go)):
            going = {name for at, name in enumerate(may_go) if chosen >> at & 1}
            cores = running.loads[slot] + sum(running.bundles[name].cores for name in going)
            if cores <= thresholds.high - thresholds.margin:
                node = {name: node_of(slot) if name in going else where for name, where in running.nodes.items()}
                gain = sum(
                    rate * ((node[one_end] == node[other]) - (running.nodes[one_end] == running.nodes[other]))
                    for (one_end, other), rate in running.traffic.items())
                best = max(best, gain - thresholds.score_change * len(going))
    return best


def test_it_comes_near_the_best_of_all_sets_of_bundles() -> None:
    worth, best, missed, exact, cases = 0.0, 0.0, 0, 0, 0
    for number in range(400):
        running = chances(number)
        turn = decide(running, USUAL)
        if turn.case == "balance":
            continue
        most = best_of_all(running, USUAL)
        gain = 0.0 if turn.move is None else turn.move.gain - USUAL.score_change * len(turn.move.bundles)
        assert gain <= most + 1e-9
        cases += most > 0
        exact += most > 0 and gain == pytest.approx(most)
        missed += most > 0 and gain == 0
        worth, best = worth + gain, best + most
    assert cases > 200
    assert missed <= 0.02 * cases, "it says that it is settled, and is not"
    assert exact >= 0.6 * cases
    assert worth >= 0.8 * best


def test_what_is_settled_is_so_for_every_set_of_bundles_too() -> None:
    ends, further = 0, 0
    for number in range(150):
        running = chances(1_000 + number)
        while (turn := decide(running, USUAL)).move is not None:
            running = running.moved(turn.move.bundles, turn.move.target)
        ends += 1
        further += best_of_all(running, USUAL) > 0
    assert further <= 0.1 * ends
