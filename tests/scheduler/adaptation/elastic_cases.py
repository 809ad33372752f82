"""Random elastic dataflows, machines and goals, and what holds of every placement."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from scheduler.adaptation.adaptation_port import AdaptationProblem
from scheduler.simulation.elastic import Alternate, ElasticDataflow, ElasticPlacement, VmClass
from scheduler.simulation.problem import BreakEven, work_out

SMALL, TWO, QUICK = (
    VmClass("small", 1, 1.0, 1e6, 0.06), VmClass("two", 2, 1.0, 1e6, 0.11), VmClass("quick", 2, 2.0, 2e6, 0.24))


@st.composite
def elastic_problems(
    draw: st.DrawFn, most_tasks: int = 6, most_alternates: int = 3, least_per_s: float = 1.0, most_per_s: float = 80.0
) -> tuple[AdaptationProblem, dict[str, float]]:
    """A dataflow with what comes to its sources; sometimes with messages so large that networks are short."""
    names = "abcdef"[: draw(st.integers(1, most_tasks))]
    tasks = {}
    for name in names:
        worths = [1.0, *draw(st.lists(st.sampled_from([0.3, 0.6, 0.9]), max_size=most_alternates - 1, unique=True))]
        tasks[name] = {str(at): Alternate(
            str(at), worth, draw(st.sampled_from([0.01, 0.05, 0.1])), draw(st.sampled_from([0.5, 1.0, 1.5])))
            for at, worth in enumerate(worths)}
    streams = tuple((source, name) for at, name in enumerate(names) if at
                    for source in sorted(draw(st.sets(st.sampled_from(names[:at]), max_size=2))))
    dataflow = ElasticDataflow(tasks, streams)
    classes = draw(st.sampled_from([(SMALL,), (SMALL, TWO), (SMALL, QUICK), (SMALL, TWO, QUICK)]))
    goal = BreakEven(draw(st.sampled_from([5.0, 40.0])) + 4.0, 4.0)
    problem = AdaptationProblem(
        dataflow, classes, goal, hours=draw(st.sampled_from([1.0, 6.0])),
        least=draw(st.sampled_from([0.5, 0.8, 1.0])), message_bytes=draw(st.sampled_from([100.0, 1e5])),
        billing=draw(st.sampled_from(["hours", "seconds"])), starts_s=draw(st.sampled_from([0.0, 120.0])))
    rates = {source: draw(st.floats(least_per_s, most_per_s)) for source in dataflow.sources}
    return problem, rates


def check_placement(problem: AdaptationProblem, placement: ElasticPlacement) -> None:
    """No machine's cores are used twice, each task has a core, and an alternate that it has."""
    taken: dict[str, int] = {}
    for task, alternates in problem.dataflow.tasks.items():
        assert placement.active[task] in alternates
        assert sum(placement.cores[task].values()) >= 1, f"{task} has no core"
        for vm, cores in placement.cores[task].items():
            assert cores >= 1
            taken[vm] = taken.get(vm, 0) + cores
    for vm, cores in taken.items():
        assert cores <= placement.vms[vm].kind.cores
        assert placement.vms[vm].kind in problem.classes


def reached(problem: AdaptationProblem, placement: ElasticPlacement, rates: dict[str, float]) -> float:
    """Ω of a placement, by the simulation's own equations."""
    return work_out(problem.dataflow, placement, problem.conditions(rates)).reached


def generator(seed: int = 1) -> np.random.Generator:
    """What is drawn from."""
    return np.random.default_rng(seed)
