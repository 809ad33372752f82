"""Random traces of random dataflows: the constraints hold at every step, and nothing is left at the end."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.model.dataflow import Dataflow
from tests.benches.trace_replay import Strategy
from tests.benches.traces import random_walk, sequential
from tests.scheduler.catalogue import TYPES
from tests.scheduler.strategies import dataflows

from .trace_checks import go_through

SHORT = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
POOLS = st.lists(dataflows(), min_size=2, max_size=5)
KINDS = st.sampled_from(["SEQ", "RW"])
SHARING: st.SearchStrategy[Strategy] = st.sampled_from(["reuse", "defragmented"])
SEEDS = st.integers(0, 2**32 - 1)


def live_through(pool: list[Dataflow], kind: str, seed: int, strategy: Strategy) -> None:
    named = [replace(dataflow, name=f"d{number}") for number, dataflow in enumerate(pool)]
    names, rng = [dataflow.name for dataflow in named], Random(seed)
    trace = sequential(names, rng=rng) if kind == "SEQ" else random_walk(names, rng=rng, steps=8)
    *_, last = go_through(trace, named, task_types=TYPES, strategy=strategy)
    assert (last.tasks, last.submitted, last.fragments) == ({}, {}, {})


@SHORT
@given(POOLS, KINDS, SEEDS, SHARING)
def test_every_step_of_random_traces_keeps_the_constraints(pool, kind, seed, strategy):
    live_through(pool, kind, seed, strategy)


@pytest.mark.long
@pytest.mark.timeout(1800)
@settings(SHORT, max_examples=1_250)
@given(POOLS, st.lists(SEEDS, min_size=2, max_size=2, unique=True))
def test_ten_thousand_random_traces_keep_the_constraints(pool, seeds):
    """Eight traces of each pool of dataflows: drawing a pool takes Hypothesis longer than to go through one."""
    for kind, seed, strategy in product(["SEQ", "RW"], seeds, ["reuse", "defragmented"]):
        live_through(pool, kind, seed, strategy)
