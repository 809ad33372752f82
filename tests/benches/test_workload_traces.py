"""The workloads' traces, as `./weir bench reuse-traces` replays them: the constraints hold at every step."""

from __future__ import annotations

from random import Random

import pytest

from tests.benches.traces import draw_traces
from tests.benches.workloads import opmw, riotbench
from tests.scheduler.shared_data import shared_data
from workers.library.registry import task_types

from .trace_checks import go_through


def iot(seed: int):
    return riotbench.dataflows()


def scientific(seed: int):
    return opmw.dataflows(shared_data("opmw"), rng=Random(f"{seed}/OPMW"), task_types=task_types())


@pytest.mark.parametrize("strategy", [  # what is defragmented has been reused before
    pytest.param("reuse", marks=pytest.mark.long), "defragmented"])
@pytest.mark.parametrize("workload", [  # test_random_traces.py goes through traces of dataflows of any shape
    iot, pytest.param(scientific, marks=pytest.mark.long)])
def test_every_step_of_every_trace_keeps_the_constraints(workload, strategy):
    dataflows = {dataflow.name: dataflow for dataflow in workload(2017)}
    for trace in draw_traces(list(dataflows), seed=2017):
        estates = go_through(trace, tuple(dataflows.values()), task_types=task_types(), strategy=strategy)
        assert not estates[-1].tasks and not estates[-1].fragments
        alone = sum(len(dataflows[name].tasks) for name in estates[trace.walk.stop // 2].submitted)
        assert len(estates[trace.walk.stop // 2].tasks) < alone, "these workloads overlap"
