"""Cores by the dozen: each task is near its power, and all comes to what a fresh deployment comes to."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.adaptation.adaptation_port import AdaptationStep, Forecast
from scheduler.adaptation.bulk_cores import bring_near
from scheduler.adaptation.local_search import FEW, adapt_by_local_search, deploy_by_local_search
from scheduler.adaptation.placement_draft import PlacementDraft
from scheduler.simulation.cloud import Instant

from .elastic_cases import check_placement, generator, reached
from .test_adaptations import line_problem


@settings(max_examples=30, deadline=None)
@given(st.floats(0.0, 60.0), st.floats(0.0, 60.0), st.floats(0.0, 60.0))
def test_each_task_has_about_the_power_that_it_is_to_have(a: float, b: float, c: float) -> None:
    problem, powers = line_problem(), {"a": a, "b": b, "c": c}
    start = deploy_by_local_search(problem, {"a": 100.0}, rng=generator())
    draft = PlacementDraft(problem.dataflow, start, problem.conditions({"a": 100.0}))
    bring_near(draft, problem, powers, at_s=300.0)
    check_placement(problem, draft.finished())
    quickest = max(kind.speed for kind in problem.classes)
    for task, wanted in powers.items():
        assert wanted - 1e-6 <= draft.power(task) <= max(wanted, 0.0) + quickest + 1e-6


@pytest.mark.parametrize("times", [0.5, 0.75, 1.3, 3.0])
@pytest.mark.parametrize("error", [0.0, 0.2])
def test_hundreds_of_cores_follow_a_rate_as_if_deployed_anew(times: float, error: float) -> None:
    problem, rate = line_problem(), 4000.0
    running = deploy_by_local_search(problem, {"a": rate}, rng=generator())
    assert sum(sum(on.values()) for on in running.cores.values()) >= FEW
    # Nothing waits, as in a fresh deployment.
    step = AdaptationStep(
        11, Instant(3300.0, running, None, {"a": rate}), (), Forecast({"a": (times * rate,)}, error=error))
    adapted = adapt_by_local_search(problem, step, rng=generator())
    check_placement(problem, adapted)
    fresh = deploy_by_local_search(problem, {"a": times * rate}, rng=generator())
    assert reached(problem, adapted, {"a": times * rate}) >= problem.least - (0.05 if error else 1e-6)
    used, needed = (sum(cores * placement.vms[vm].kind.speed for on in placement.cores.values()
                        for vm, cores in on.items()) for placement in (adapted, fresh))
    if adapted.active == fresh.active:
        assert used <= needed * (1.2 if error else 1.03) + 4
