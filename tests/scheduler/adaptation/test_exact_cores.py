"""Exact deployment: as brute force where the network is enough, and never less than any other algorithm."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from scheduler.adaptation.adaptation_port import AdaptationProblem
from scheduler.adaptation.adaptation_registry import ADAPTATIONS
from scheduler.adaptation.exact_cores import cheapest_cores, is_small, most_profitable
from scheduler.adaptation.local_search import deploy_by_local_search
from tests.benches.brute_force import deploy_by_brute_force

from .elastic_cases import check_placement, elastic_problems, generator, reached


@pytest.mark.parametrize("examples", [20, pytest.param(500, marks=pytest.mark.long)])
def test_what_is_deployed_where_a_case_is_small_is_what_brute_force_finds(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(elastic_problems(most_tasks=3, most_alternates=2, most_per_s=12.0))
    def agrees(case: tuple[AdaptationProblem, dict[str, float]]) -> None:
        problem, rates = replace(case[0], message_bytes=1.0), case[1]
        best = problem.profit(deploy_by_brute_force(problem, rates, rng=generator()))
        ours = deploy_by_local_search(problem, rates, rng=generator())
        check_placement(problem, ours)
        assert reached(problem, ours, rates) >= problem.least - 1e-6
        assert problem.profit(ours) == pytest.approx(best, abs=1e-6)

    agrees()


@settings(max_examples=20, deadline=None)
@given(elastic_problems(most_tasks=5, most_per_s=30.0))
def test_no_greedy_answer_is_cheaper_for_its_alternates(case: tuple[AdaptationProblem, dict[str, float]]) -> None:
    problem, rates = replace(case[0], message_bytes=1.0), case[1]
    for name in ("SH", "CE"):
        placement = ADAPTATIONS[name].deploy(problem, rates, rng=generator())
        exact = cheapest_cores(problem, problem.conditions(rates), placement.active)
        assert exact is not None
        assert problem.profit(exact) >= problem.profit(placement) - 1e-6


def test_what_is_too_much_is_left_to_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """With effort for nothing there is no exact answer, and there is one all the same."""
    problem, rates = _problem()
    assert is_small(problem, problem.conditions(rates))
    monkeypatch.setattr("scheduler.adaptation.exact_cores.EFFORT", 0.0)
    assert most_profitable(problem, problem.conditions(rates)) is None
    check_placement(problem, deploy_by_local_search(problem, rates, rng=generator()))


def test_a_case_with_many_choices_or_much_to_do_is_not_small() -> None:
    problem, _ = _problem()
    assert not is_small(problem, problem.conditions({"a": 1e6}))


def _problem() -> tuple[AdaptationProblem, dict[str, float]]:
    from .test_adaptations import line_problem

    return line_problem(), {"a": 20.0}
