"""Chaining decides: the longest series on a way that is late, in one step; nothing is fused and cut in turn."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.controllers.batch_opening import LIMITED
from scheduler.controllers.chaining import FUSES_BELOW, UNDO, Chaining, Chains, FusedChain, LateWay
from scheduler.controllers.changes import Aspect, AspectChange, Carriage
from scheduler.controllers.control_loop import step as engine_step
from scheduler.controllers.controller_port import Effect, MeasureSample, Observations
from scheduler.controllers.defragmentation import CORES, Candidate
from scheduler.controllers.loop_values import OFF, LoopState, Policy
from scheduler.latency.runtime_graph import Channel, RuntimeGraph, Vertex
from scheduler.latency.task_chaining import CAPACITY, ChainingFacts
from scheduler.reuse.defragment import Fusion, StepLoad

LOAD = StepLoad(50.0, ((50.0, 20.0),), 1.0)


def step(series: str, **more: object) -> Candidate:
    tasks = tuple(f"t{query}" for query in series)
    fusion = Fusion(tuple(series), "n/0", 0, tuple(pairwise(tasks)))
    return replace(Candidate("flow", "city", (), fusion, LOAD, tasks, tasks[:1], cores=0.2, latency_ms=900.0), **more)


def evidence(
    queries: str, *, cores: dict[str, float] | None = None, slots: dict[str, str] | None = None,
    apart: tuple[str, ...] = (), besides: tuple[tuple[str, str], ...] = (), fused: tuple[FusedChain, ...] = (),
    measured: float | None = 0.2, once: float = 0.0, touched: dict[str, tuple[str, ...]] | None = None,
) -> Chains:
    """Queries in a line that is late, each able to be fused with the next, and other readers ``besides``.

    ``measured`` is what a series took together over the last minutes, in cores; ``once`` what of it is for the batches
    of each query. ``touched`` says whose tasks a series has in it.
    """
    vertices = dict.fromkeys([*queries, *(name for pair in besides for name in pair)])
    graph = RuntimeGraph([Vertex(name, name, "n") for name in vertices],
                         [Channel(*pair) for pair in [*pairwise(queries), *besides]])
    facts = ChainingFacts({name: (slots or {}).get(name, "n/0") for name in vertices},
                          {name: (cores or {}).get(name, 0.1) for name in vertices}, apart=apart,
                          once=dict.fromkeys(vertices, once))
    series = [queries[start:end] for start, end in combinations(range(len(queries) + 1), 2) if end - start > 1]
    way = LateWay("flow", "city", "mean of at most 300 ms", 0.3, 0.9, tuple(queries),
                  tuple(step(names, cores=measured, touched=(touched or {}).get(names, ())) for names in series),
                  dict.fromkeys(queries, 0.1))
    return Chains((way,), graph, facts, fused)


def decided(chains: Chains, mode: str = "acts") -> list[dict[str, str]]:
    return [dict(decision.arguments) for decision in
            Chaining().evaluate(chains, {"city": Policy(mode)}).decisions]


def test_the_longest_series_is_fused_whole_and_shorter_ones_stand_behind_it() -> None:
    assert [arguments["queries"] for arguments in decided(evidence("abcd", besides=(("a", "x"),)))] == [
        "b c d", "b c", "c d"], "another reads what a gives"


def test_a_chain_takes_once_what_each_query_takes_for_its_batches() -> None:
    queries = {"cores": dict.fromkeys("abcdef", 0.2), "measured": 1.2}

    assert decided(evidence("abcdef", **queries)) == []
    assert decided(evidence("abcdef", **queries, once=0.15))[0]["queries"] == "a b c d e f"
    assert len(decided(evidence("abcdef", cores=queries["cores"], measured=None))[0]["queries"].split()) == 3


def test_where_a_budget_stands_against_the_longest_series_a_shorter_one_is_fused() -> None:
    chains = evidence("abc", touched={"abc": ("roads",), "bc": ("roads",)})
    policies = {"city": Policy("acts"), "roads": Policy("acts", changes_per_hour=0)}

    done = engine_step(Chaining(), LoopState(), Observations(chains, 1_000.0), policies, now_s=1_000.0)
    assert [turn.decision.arguments["queries"] for turn in done.state.rounds] == ["a b"]
    policies["roads"] = Policy("acts")
    done = engine_step(Chaining(), LoopState(), Observations(chains, 1_000.0), policies, now_s=1_000.0)
    assert [turn.decision.arguments["queries"] for turn in done.state.rounds] == ["a b c"]


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

    assert {bound.measure: bound.at_most for bound in decision.promise.bounds} == {LIMITED: 850.0, CORES: CAPACITY}
    assert Chaining().rollback(decision)[0].after == decision.changes[0].before

    whole, *_ = Chaining().evaluate(evidence("abcde", measured=None), {}).decisions
    assert {bound.measure: bound.at_most for bound in whole.promise.bounds} == {LIMITED: 700.0, CORES: CAPACITY}
    assert {bound.measure: bound.before for bound in whole.promise.bounds}[CORES] == pytest.approx(0.5)
    assert "4 less save 4 batches" in whole.why
    assert [change.subject for change in Chaining().rollback(whole)] == ["td>te", "tc>td", "tb>tc", "ta>tb"]


@given(st.floats(0.02, 5.0), st.floats(0.05, 20.0), st.none() | st.floats(1.0, 30_000.0), st.floats(0.0, 2.0))
def test_a_chain_is_held_to_its_limit_however_that_is_counted(
    limit_s: float, latency_s: float, measured_ms: float | None, times: float
) -> None:
    noted = {"metric": "latency_p99_ms", "ends": "tb", "heads": "t0"}
    chains = evidence("ab", measured=None)
    way = replace(
        chains.late[0], limit_s=limit_s, latency_s=latency_s, measured_ms=measured_ms, measured_by=noted)
    (decision,) = Chaining().evaluate(replace(chains, late=(way,)), {}).decisions
    bound = next(bound for bound in decision.promise.bounds if bound.measure == LIMITED)

    assert bound.before == (1000 * latency_s if measured_ms is None else measured_ms)
    assert noted.items() <= decision.arguments.items()
    effect = Effect(0.0, tuple(
        MeasureSample(10.0 * point, {LIMITED: times * bound.at_most, CORES: 0.1}, 50.0) for point in range(12)))
    verdict, _ = Chaining().check(decision.promise, effect)
    assert verdict == ("broken" if times > 1 else "kept")


def test_a_chain_with_a_task_that_somebody_keeps_apart_by_now_is_cut() -> None:
    change = AspectChange(Aspect.STREAM, "ta>tb", Carriage.CHANNEL, Carriage.WITHIN)
    chain = FusedChain("round-7", "flow", "city", (), (change,), 0.2, unwanted=True)
    (cut,) = Chaining().evaluate(Chains((), RuntimeGraph((), ()), ChainingFacts({}, {}), (chain,)), {}).decisions

    assert cut.arguments == {UNDO: "round-7"}
    assert "query of its own" in cut.why


def test_a_team_that_turned_it_off_is_left_alone() -> None:
    assert decided(evidence("ab"), OFF) == []


def test_a_chain_that_takes_a_core_is_cut_before_anything_is_fused() -> None:
    change = AspectChange(Aspect.STREAM, "ta>tb", Carriage.CHANNEL, Carriage.WITHIN)
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
