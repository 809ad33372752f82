"""Deployment as a controller: who asks for a move, what it promises, and why there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.controllers.controller_port import Effect, MeasureSample
from scheduler.controllers.defragmentation import LATENCY
from scheduler.controllers.deploying import SLOT, TRAFFIC, Asker, Deploying, Deployments
from scheduler.controllers.loop_values import ACTS, OFF, RECOMMENDS, Policy
from scheduler.deployment.deployed_bundles import Deployment, PlacedBundle

ANA, BEN = Asker("d1", "ana", ("ben",), ("a",), ("a",), 200.0, 10.0), Asker("d2", "ben", ("ana",), ("a",), ("a",))
CONTROLLER = Deploying()


def evidence(*, second: float = 0.4, other: float = 0.1, **changes: object) -> Deployments:
    bundles = {
        "f1": PlacedBundle("f1", "n1/0", 0.6, movable=False), "f2": PlacedBundle("f2", "n1/0", second, node_bound=True),
        "f3": PlacedBundle("f3", "n1/1", other, node_bound=True)}
    deployment = Deployment(bundles, ("n1/0", "n1/1", "n2/0"), {("f2", "f3"): 1_000.0})
    return Deployments(deployment, {"f2": (ANA, BEN), "f3": (BEN,)}, **changes)


def policies(**modes: str) -> dict[str, Policy]:
    return {team: Policy(mode=mode) for team, mode in modes.items()}


def test_a_query_leaves_the_hot_slot_for_one_with_room_on_its_node() -> None:
    (decision,) = CONTROLLER.evaluate(evidence(), {}).decisions
    assert decision.arguments["query"] == "f2" and decision.arguments["slot"] == "n1/1", "its state is on n1"
    (change,) = decision.changes
    assert (change.before, change.after) == ("n1/0", "n1/1") and CONTROLLER.rollback(decision) == (change.reverse,)
    bounds = {bound.measure: bound for bound in decision.promise.bounds}
    assert bounds[SLOT].before == pytest.approx(1.0) and bounds[SLOT].at_most == 0.85
    assert decision.promise.load == 10.0 and decision.moves_queries


def test_only_what_is_not_bound_to_its_node_is_proposed_to_another() -> None:
    full = evidence(other=0.7)  # its node has no room
    assert not CONTROLLER.evaluate(full, {}).decisions
    bundles = {**full.deployment.bundles, "f2": replace(full.deployment.bundles["f2"], node_bound=False)}
    (decision,) = CONTROLLER.evaluate(
        replace(full, deployment=replace(full.deployment, bundles=bundles)), {}).decisions
    assert (decision.arguments["query"], decision.arguments["slot"]) == ("f2", "n2/0")


def test_a_team_that_lets_it_act_asks_before_one_that_is_asked_and_one_that_is_off_never() -> None:
    teams = [CONTROLLER.evaluate(evidence(), policies(ana=first, ben=second)).decisions[0].team
             for first, second in ((ACTS, RECOMMENDS), (RECOMMENDS, ACTS), (OFF, RECOMMENDS))]
    assert teams == ["ana", "ben", "ben"]
    nobody = CONTROLLER.evaluate(evidence(), policies(ana=OFF, ben=OFF))
    assert not nobody.decisions and not nobody.reasons


def test_what_moved_lately_stays() -> None:
    evaluation = CONTROLLER.evaluate(evidence(resting=frozenset({"f2"})), {})
    assert not evaluation.decisions
    assert {reason.team for reason in evaluation.reasons} == {"ana", "ben"}
    assert all("n1/0 needs 1.00 cores" in reason.why for reason in evaluation.reasons)


def test_where_cpu_lacks_more_slots_are_priced() -> None:
    full = evidence(other=0.9, slot_price=0.05, currency="EUR")
    full = replace(full, deployment=replace(full.deployment, slots=("n1/0", "n1/1")))
    evaluation = CONTROLLER.evaluate(full, {})
    assert not evaluation.decisions
    assert all("1 more slot, at 0.05 EUR an hour, would be enough" in reason.why for reason in evaluation.reasons)


def test_a_promise_is_of_the_slot_that_was_left_and_of_latency() -> None:
    (decision,) = CONTROLLER.evaluate(evidence(), {}).decisions

    def verdict(cores: float, latency_ms: float) -> str:
        samples = tuple(
            MeasureSample(float(at), {SLOT: cores, "latency, median": latency_ms}, 10.0) for at in range(20))
        return CONTROLLER.check(decision.promise, Effect(0.0, samples))[0]

    assert verdict(0.6, 210.0) == "kept"
    assert verdict(0.95, 210.0) == "broken" and verdict(0.6, 900.0) == "broken"


def halves(**askers: tuple[Asker, ...]) -> Deployments:
    """Four queries in a line, two on each node; ``f3`` and ``f4`` stay where they are."""
    bundles = {name: PlacedBundle(name, slot, 0.1, movable=name in askers) for name, slot in (
        ("f1", "n1/0"), ("f2", "n1/1"), ("f3", "n2/0"), ("f4", "n2/0"))}
    traffic = {("f1", "f2"): 500.0, ("f2", "f3"): 500.0, ("f3", "f4"): 500.0}
    return Deployments(Deployment(bundles, ("n1/0", "n1/1", "n2/0"), traffic), askers)


def test_queries_that_gain_by_going_together_are_one_decision() -> None:
    others = replace(ANA, touched=("cem",), tasks=("b",))
    (decision,) = CONTROLLER.evaluate(halves(f1=(ANA, BEN), f2=(others, BEN)), policies(ben=OFF)).decisions
    assert {decision.arguments["query"], decision.arguments["along"]} == {"f1", "f2"}
    assert decision.arguments["slot"] == "n2/0" and set(decision.arguments["tasks"].split()) == {"a", "b"}
    assert {(change.subject, change.before, change.after) for change in decision.changes} == {
        ("query of a", "n1/0", "n2/0"), ("query of b", "n1/1", "n2/0")}
    assert (decision.target, decision.team, decision.touched) == ("d1", "ana", ("ben", "cem"))
    assert "500 bytes a second less" in decision.promise.text and "2 queries that go there together" in decision.why
    assert CONTROLLER.rollback(decision) == tuple(change.reverse for change in reversed(decision.changes))


def test_a_move_nearer_is_held_to_the_traffic_that_it_saves() -> None:
    (decision,) = CONTROLLER.evaluate(halves(f1=(ANA,), f2=(replace(ANA, tasks=("b",)),)), {}).decisions
    (traffic,) = (bound for bound in decision.promise.bounds if bound.measure == TRAFFIC)
    assert (traffic.before, traffic.at_most) == (500.0, 250.0)

    def verdict(bytes_per_s: float) -> str:
        samples = tuple(MeasureSample(float(at), {TRAFFIC: bytes_per_s, LATENCY: 210.0}, 10.0) for at in range(20))
        return CONTROLLER.check(decision.promise, Effect(0.0, samples))[0]

    assert [verdict(figure) for figure in (0.0, 240.0, 500.0, float("nan"))] == [
        "kept", "kept", "broken", "too early"]


def test_a_dataflow_asks_for_queries_that_it_runs_in_and_one_that_may_act_comes_first() -> None:
    apart = CONTROLLER.evaluate(halves(f1=(ANA,), f2=(replace(BEN, team="ana"),)), {})
    assert not apart.decisions, "no dataflow runs in both"
    both = halves(f1=(ANA, BEN), f2=(ANA, BEN))
    teams = [CONTROLLER.evaluate(both, policies(ana=first, ben=second)).decisions[0].team
             for first, second in ((ACTS, RECOMMENDS), (RECOMMENDS, ACTS), (OFF, RECOMMENDS))]
    assert teams == ["ana", "ben", "ben"]
