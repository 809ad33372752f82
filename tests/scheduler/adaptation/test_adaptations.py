"""Every algorithm of adaptation by one set of invariants: what it deploys, and what it does in a cloud that varies."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.adaptation.adaptation_port import AdaptationProblem
from scheduler.adaptation.adaptation_registry import AdaptationKind
from scheduler.adaptation.adapted_course import OracleForecasts, adapting, outcome_of
from scheduler.adaptation.greedy_deployment import choose_alternates
from scheduler.adaptation.least_powers import least_powers
from scheduler.adaptation.local_search import deploy_by_local_search
from scheduler.simulation.cloud import Cloud, Instant, SimulatedCourse, simulate
from scheduler.simulation.elastic import Alternate, ElasticDataflow, ElasticPlacement, RentedVm, VmClass
from scheduler.simulation.loads import speed_traces, wandering
from scheduler.simulation.problem import HOUR_S, BreakEven, work_out
from tests.benches import genetic
from tests.benches.brute_force import TooManyPlacements, deploy_by_brute_force
from tests.benches.genetic import GeneticEffort
from tests.benches.slow_adaptations import COMPARED

from .elastic_cases import QUICK, SMALL, TWO, check_placement, elastic_problems, generator, reached

NAMES = list(COMPARED)
LINE = ElasticDataflow(
    {"a": {"1": Alternate("1", 1.0, 0.1)},
     "b": {"1": Alternate("1", 1.0, 0.2), "2": Alternate("2", 0.6, 0.1)},
     "c": {"1": Alternate("1", 1.0, 0.05), "2": Alternate("2", 0.8, 0.04, 0.5)}},
    (("a", "b"), ("b", "c")))


@pytest.fixture(autouse=True)
def _little_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GeneticEffort, "__init__", _brief)


def _brief(self: GeneticEffort, population: int = 12, generations: int = 8, patience: int = 8) -> None:
    for name, value in (("population", population), ("generations", generations), ("patience", patience)):
        object.__setattr__(self, name, value)


def line_problem(**options: object) -> AdaptationProblem:
    return replace(AdaptationProblem(LINE, (SMALL, QUICK), BreakEven(30.0, 10.0), hours=4.0, starts_s=120.0), **options)


def played(
    kind: AdaptationKind, problem: AdaptationProblem, seed: int, *, steps: int = 30, seen: list[Instant] | None = None
) -> SimulatedCourse:
    """A few hours of a rate that wanders on machines that vary, with an oracle that errs."""
    rng = generator(seed)
    rates = {source: wandering(20.0, steps, rng) for source in problem.dataflow.sources}
    traces = speed_traces(5, steps, rng)
    adapts = adapting(
        problem, kind.deploy, kind.adapt, expected_per_s=dict.fromkeys(problem.dataflow.sources, 20.0), rng=rng,
        oracle=OracleForecasts(4, 0.1, 0.0, generator(seed + 1)))

    def watched(now: Instant) -> ElasticPlacement:
        placement = adapts(now)
        check_placement(problem, placement)
        if seen is not None:
            seen.append(now)
        return placement

    cloud = Cloud(starts_s=problem.starts_s, traces=traces, billing=problem.billing)
    return simulate(problem.dataflow, watched, rates_per_s=rates, step_s=problem.step_s, cloud=cloud, rng=rng)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(elastic_problems(), st.integers(0, 1000))
def test_what_is_deployed_holds_its_throughput_and_is_the_same_again(
    name: str, case: tuple[AdaptationProblem, dict[str, float]], seed: int
) -> None:
    problem, rates = case
    placement = COMPARED[name].deploy(problem, rates, rng=generator(seed))

    check_placement(problem, placement)
    assert reached(problem, placement, rates) >= problem.least - 1e-6
    assert {vm for on in placement.cores.values() for vm in on} == set(placement.vms), "no machine is idle"
    assert placement == COMPARED[name].deploy(problem, rates, rng=generator(seed))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("billing", ["hours", "seconds"])
def test_a_course_keeps_the_throughput_counts_cost_once_and_is_the_same_again(name: str, billing: str) -> None:
    problem = line_problem(billing=billing)
    course = played(COMPARED[name], problem, 3)
    outcome = outcome_of(problem, course)

    # An optimist goes by the best that may come, and is late as often as that is wrong.
    assert outcome.throughput >= problem.least - problem.tolerance - (0.1 if name == "WPO" else 0.0)
    end_s = 30 * problem.step_s
    paid = 0.0
    for vm in course.vms.values():
        hours = ((end_s if vm.ended_s is None else vm.ended_s) - vm.begun_s) / HOUR_S
        paid += vm.kind.per_hour * (np.ceil(hours) if billing == "hours" else hours)
    assert outcome.cost == pytest.approx(paid)
    assert played(COMPARED[name], problem, 3) == course


@pytest.mark.parametrize("name", NAMES)
def test_no_machine_is_given_back_while_its_hour_is_paid(name: str) -> None:
    course = played(COMPARED[name], line_problem(), 6)
    ended = [vm for vm in course.vms.values() if vm.ended_s is not None]
    assert ended
    for vm in ended:
        left_s = -(vm.ended_s - vm.begun_s) % HOUR_S
        assert left_s < 300.0, "the next decision still was within the hour"


@pytest.mark.parametrize("name", NAMES)
def test_within_the_band_nothing_is_changed(name: str) -> None:
    """At a rate that stays, on machines that do, all comes to rest: no change in the last hours."""
    problem = line_problem(starts_s=0.0)
    placements = []
    kind = COMPARED[name]
    rng = generator(2)
    adapts = adapting(problem, kind.deploy, kind.adapt, expected_per_s={"a": 20.0}, rng=rng,
                      oracle=OracleForecasts(4, 0.0, 0.0, generator(3)))

    def watched(now: Instant) -> ElasticPlacement:
        placements.append(adapts(now))
        return placements[-1]

    course = simulate(LINE, watched, rates_per_s={"a": np.full(60, 20.0)}, step_s=300.0, cloud=Cloud(), rng=rng)

    assert abs(course.reached[-1] - problem.least) <= 0.2
    late = placements[40:]
    assert all((placement.active, placement.cores) == (late[0].active, late[0].cores) for placement in late)


def exhaustively(problem: AdaptationProblem, rates: dict[str, float], most_vms: int) -> float:
    """The greatest profit of all placements on so many machines at most: every one is looked at, none is pruned."""
    tasks, best = list(problem.dataflow.tasks), -np.inf
    conditions = problem.conditions(rates)
    for number in range(1, most_vms + 1):
        for kinds in itertools.combinations_with_replacement(problem.classes, number):
            owners = [(None, *tasks)] * sum(kind.cores for kind in kinds)
            vms = {f"v{at}": RentedVm(kind) for at, kind in enumerate(kinds)}
            sites = [f"v{at}" for at, kind in enumerate(kinds) for _ in range(kind.cores)]
            for given_to in itertools.product(*owners):
                cores: dict[str, dict[str, int]] = {task: {} for task in tasks}
                for owner, vm in zip(given_to, sites, strict=True):
                    if owner is not None:
                        cores[owner][vm] = cores[owner].get(vm, 0) + 1
                if not all(cores.values()):
                    continue
                for names in itertools.product(*(problem.dataflow.tasks[task] for task in tasks)):
                    placement = ElasticPlacement(dict(zip(tasks, names, strict=True)), vms, cores)
                    profit = problem.profit(placement)
                    if profit > best and work_out(problem.dataflow, placement, conditions).reached >= (
                            problem.least - 1e-9):
                        best = profit
    return best


@pytest.mark.parametrize("examples", [25, pytest.param(500, marks=pytest.mark.long)])  # the short run has 25
def test_brute_force_is_what_looking_at_every_placement_finds(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(elastic_problems(most_tasks=3, most_alternates=2, most_per_s=12.0))
    def agrees(case: tuple[AdaptationProblem, dict[str, float]]) -> None:
        problem, rates = case
        best = deploy_by_brute_force(problem, rates, rng=generator())
        check_placement(problem, best)
        assert reached(problem, best, rates) >= problem.least - 1e-6
        most = 3 if QUICK not in problem.classes and TWO not in problem.classes else 2
        if len(best.vms) <= most:  # nearly all are
            assert problem.profit(best) == pytest.approx(exhaustively(problem, rates, most))

    agrees()


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(elastic_problems(most_tasks=3, most_alternates=2, most_per_s=12.0))
def test_none_has_more_profit_than_brute_force(name: str, case: tuple[AdaptationProblem, dict[str, float]]) -> None:
    problem, rates = case
    best = problem.profit(deploy_by_brute_force(problem, rates, rng=generator()))
    assert problem.profit(COMPARED[name].deploy(problem, rates, rng=generator())) <= best + 1e-9


def test_brute_force_fills_machines_of_a_class_alike() -> None:
    """Of 25 events/s of 0.1 s each 20 are to be done: two machines of a core, and both of one task."""
    single = ElasticDataflow({"a": {"1": Alternate("1", 1.0, 0.1), "2": Alternate("2", 0.5, 0.09)}})
    problem = AdaptationProblem(single, (SMALL,), BreakEven(30.0, 10.0), hours=1.0)
    best = deploy_by_brute_force(problem, {"a": 25.0}, rng=generator())
    assert (len(best.vms), best.active["a"]) == (2, "1")


def test_brute_force_says_what_is_too_much_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.benches.brute_force.MOST_LOOKS", 50)
    with pytest.raises(TooManyPlacements, match="Take fewer, or another algorithm"):
        deploy_by_brute_force(line_problem(), {"a": 40.0}, rng=generator())
    free = replace(line_problem(), classes=(VmClass("free", 1, 1.0, 1e6, 0.0),))
    with pytest.raises(ValueError, match="Give each class a price"):
        deploy_by_brute_force(free, {"a": 1.0}, rng=generator())


@settings(max_examples=20)
@given(elastic_problems(least_per_s=50.0, most_per_s=500.0))
def test_local_search_has_nearly_the_profit_of_the_genetic_algorithm(
    case: tuple[AdaptationProblem, dict[str, float]]
) -> None:
    problem, rates = replace(case[0], message_bytes=100.0), case[1]
    constant = 1 + problem.value_of_money * problem.goal.at_most_value  # what Θ has beyond Γ − σμ
    ours = problem.profit(deploy_by_local_search(problem, rates, rng=generator())) - constant
    reference = problem.profit(genetic.deploy_genetically(
        problem, rates, rng=generator(), effort=GeneticEffort(20, 20, 20))) - constant
    assert ours >= reference - 0.05 * max(0.05, abs(reference))


@pytest.mark.parametrize("rate_per_s", [1.0, 31.884423280118558, 7.3e5])
def test_where_all_is_to_be_done_the_linear_program_does_all(rate_per_s: float) -> None:
    """The sum of parts is then bounded by what it is to be at least: rounding must not make that impossible."""
    problem = line_problem(least=1.0)
    powers = least_powers(problem, problem.conditions({"a": rate_per_s}), {"a": "1", "b": "1", "c": "1"})
    assert powers == pytest.approx({"a": 0.1 * rate_per_s, "b": 0.2 * rate_per_s, "c": 0.05 * rate_per_s}, rel=1e-5)


@given(elastic_problems())
def test_no_placement_that_holds_takes_less_than_the_linear_program_says(
    case: tuple[AdaptationProblem, dict[str, float]]
) -> None:
    problem, rates = case
    for name in ("SH", "CE"):
        placement = COMPARED[name].deploy(problem, rates, rng=generator())
        taken = sum(cores * placement.vms[vm].kind.speed for on in placement.cores.values() for vm, cores in on.items())
        assert sum(least_powers(problem, problem.conditions(rates), placement.active).values()) <= taken + 1e-6


def test_the_central_algorithm_counts_what_an_alternate_makes_of_work_downstream() -> None:
    """By hand: b's second alternate is as quick as its first, is worth less, and makes half the work for c."""
    dataflow = ElasticDataflow(
        {"b": {"1": Alternate("1", 1.0, 0.1), "2": Alternate("2", 0.8, 0.1, 0.5)},
         "c": {"1": Alternate("1", 1.0, 1.0)}}, (("b", "c"),))
    problem = AdaptationProblem(dataflow, (SMALL,), BreakEven(2.0, 1.0))

    assert choose_alternates(problem, central=False)["b"] == "1"  # 1/0.1 against 0.8/0.1
    assert choose_alternates(problem, central=True)["b"] == "2"  # 1/(0.1 + 1) against 0.8/(0.1 + 0.5)


def test_each_says_what_it_is() -> None:
    assert all(name == kind.name and kind.about for name, kind in COMPARED.items())
    with pytest.raises(ValueError, match="lacks its name"):
        replace(COMPARED["CE"], about="")
