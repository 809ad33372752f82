"""Chaining decides: the longest series on a way that is late, a pair at a time; nothing is fused and cut in turn."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.controllers.chaining import FUSES_BELOW, UNDO, Chaining, Chains, FusedChain, LateWay
from scheduler.controllers.defragmentation import CORES, LATENCY, Candidate
from scheduler.controllers.values import OFF, Change, Policy
from scheduler.latency.chaining import CAPACITY, ChainingFacts
from scheduler.latency.runtime_graph import Channel, RuntimeGraph, Vertex
from scheduler.reuse.defragment import Fusion, Load

LOAD = Load(50.0, 50.0, 20.0, 1.0)


def step(before: str, after: str, **more: object) -> Candidate:
    fusion = Fusion((before, after), "n/0", 0, (f"t{before}", f"t{after}"))
    return replace(Candidate("flow", "city", (), fusion, LOAD, (f"t{before}", f"t{after}"), (f"t{before}",),
                             cores=0.2, latency_ms=900.0), **more)


def evidence(
    queries: str, *, cores: dict[str, float] | None = None, slots: dict[str, str] | None = None,
    apart: tuple[str, ...] = (), besides: tuple[tuple[str, str], ...] = (), fused: tuple[FusedChain, ...] = (),
    measured: float = 0.2,
) -> Chains:
    """Queries in a line that is late, each able to be fused with the next, and other readers ``besides``.

    ``measured`` is what a pair took together over the last minutes, in cores.
    """
    names = dict.fromkeys([*queries, *(name for pair in besides for name in pair)])
    graph = RuntimeGraph([Vertex(name, name, "n") for name in names],
                         [Channel(*pair) for pair in [*pairwise(queries), *besides]])
    facts = ChainingFacts({name: (slots or {}).get(name, "n/0") for name in names},
                          {name: (cores or {}).get(name, 0.1) for name in names}, apart=apart)
    way = LateWay("flow", "city", "mean of at most 300 ms", 0.3, 0.9, tuple(queries),
                  tuple(step(*pair, cores=measured) for pair in pairwise(queries)), dict.fromkeys(queries, 0.1))
    return Chains((way,), graph, facts, fused)


def decided(chains: Chains, mode: str = "acts") -> list[dict[str, str]]:
    return [dict(decision.arguments) for decision in
            Chaining().evaluate(chains, {"city": Policy(mode)}).decisions]


def test_the_first_pair_of_the_longest_series_is_fused() -> None:
    (arguments,) = decided(evidence("abcd", besides=(("a", "x"),)))

    assert arguments["queries"] == "b c", "another reads what a gives"


@pytest.mark.parametrize("chains", [
    evidence("a"), evidence("ab", cores={"a": 0.5, "b": 0.3}), evidence("ab", slots={"b": "n/1"}),
    evidence("ab", apart=("b",)), evidence("ab", besides=(("a", "x"),)), evidence("ab", besides=(("x", "b"),)),
    evidence("ab", measured=0.8)])
def test_what_may_not_be_one_query_stays_apart_and_why_is_told(chains: Chains) -> None:
    evaluation = Chaining().evaluate(chains, {})

    assert not evaluation.decisions
    assert len(evaluation.reasons) == 1


def test_what_is_promised_is_the_limit_or_half_a_batch_less() -> None:
    (decision,) = Chaining().evaluate(evidence("ab"), {}).decisions

    assert {bound.measure: bound.at_most for bound in decision.promise.bounds} == {LATENCY: 850.0, CORES: CAPACITY}
    assert Chaining().rollback(decision)[0].after == decision.changes[0].before


def test_a_chain_with_a_task_that_somebody_keeps_apart_by_now_is_cut() -> None:
    change = Change("stream", "ta>tb", "in a channel", "within a query")
    chain = FusedChain("round-7", "flow", "city", (), (change,), 0.2, unwanted=True)
    (cut,) = Chaining().evaluate(Chains((), RuntimeGraph((), ()), ChainingFacts({}, {}), (chain,)), {}).decisions

    assert cut.arguments == {UNDO: "round-7"}
    assert "query of its own" in cut.why


def test_a_team_that_turned_it_off_is_left_alone() -> None:
    assert decided(evidence("ab"), OFF) == []


def test_a_chain_that_takes_a_core_is_cut_before_anything_is_fused() -> None:
    change = Change("stream", "ta>tb", "in a channel", "within a query")
    chain = FusedChain("round-7", "flow", "city", (), (change,), 0.95)

    first, second = decided(evidence("cd", fused=(chain,)))
    assert first == {UNDO: "round-7"}
    assert second["queries"] == "c d"
    (cut, _) = Chaining().evaluate(evidence("cd", fused=(chain,)), {}).decisions
    assert cut.worth > 1e3
    assert cut.changes == (change.reverse,)


@given(st.floats(0, 2), st.floats(0, 2))
def test_no_load_makes_it_fuse_what_it_would_cut(first: float, second: float) -> None:
    fuses = bool(decided(evidence("ab", cores={"a": first, "b": second})))
    chain = FusedChain("round-1", "flow", "city", (), (), first + second)
    cuts = {UNDO: "round-1"} in decided(replace(evidence("a"), fused=(chain,)))

    assert not (fuses and cuts)
    assert fuses == (first + second < FUSES_BELOW)
