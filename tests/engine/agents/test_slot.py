"""What a slot tells of its queries, without a driver."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import redis

from scheduler.contracts.desired import Input, WantedFragment
from scheduler.model.dataflow import Task
from workers.engine.agents.reconciling.fragment_run import FragmentRun
from workers.engine.agents.reconciling.reconcile import FragmentState
from workers.engine.agents.slot import SlotLoop
from workers.engine.agents.supervising.line_writer import LineWriter
from workers.engine.channels import keys
from workers.engine.worker_settings import Settings


@pytest.mark.broker
@pytest.mark.parametrize("inputs,counter", [((), "0:n"), ((Input("f1-0.0", "s"),), "in:n")])
def test_a_query_s_rate_is_of_what_it_reads_and_a_source_s_of_what_it_makes(
    broker: redis.Redis, broker_url: str, tmp_path: Path, inputs: tuple[Input, ...], counter: str
):
    """Also where it comes back within a minute of its removal, which has left a zero in its meters."""
    slot = SlotLoop(Settings(redis_url=broker_url, data_dir=tmp_path), "0", tell=LineWriter(io.StringIO()))
    live = FragmentRun("f1-1", now_ms=0, state=FragmentState.RUNNING)
    live.fragment = WantedFragment("f1-1", (Task("t", "any", {}),), inputs)
    broker.hset(keys.meter("f1-1"), mapping={"in:n": 0, "0:n": 0})
    slot._look_at_meters([live], 0)
    broker.hincrby(keys.meter("f1-1"), counter, 600)
    slot._look_at_meters([live], 3_000)
    assert slot._rates.per_s("f1-1") == 200.0
