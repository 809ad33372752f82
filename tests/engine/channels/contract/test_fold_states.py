"""The state of folds, out of the stores that a query has open: the same as Spark reads from its checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workers.engine.agents.node_files.checkpoint import read_progress
from workers.engine.spark import queries
from workers.engine.spark.failure_messages import FragmentFailed
from workers.engine.spark.fold_states import read_states
from workers.library.folds import Accumulate, BlockAverage
from workers.library.state import fold_stream

from .rig import Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]


@pytest.mark.long  # tests/engine/spark/test_moves.py moves them, so that they are the right ones
def test_a_query_at_rest_gives_the_states_that_are_in_its_checkpoint(rig: Rig) -> None:
    """Of two folds, one of which gets events only now and then; and it goes on afterwards."""
    ticks = rig.ticks("a", rate_per_s=200)
    columns = ("_seq", "_time", "_born")
    means = fold_stream(ticks, BlockAverage(window=50), by=["_time"], reads=["_seq"], kept=columns,
                        added="m double, n int")
    blocks = fold_stream(means, Accumulate(window=10_000), by=["n"], reads=["_seq", "_time"], kept=columns,
                         added="v array<double>, t array<bigint>")
    rig.spark.conf.set("spark.sql.streaming.unsupportedOperationCheck", "false")  # as in slots
    query = rig.start(rig.publish(blocks, "a"), "a")
    checkpoint = Path(rig.folder / "checkpoint-a")
    wait_until(lambda: read_progress(checkpoint).batch > 4, what="some batches", alive=(query,))

    assert queries.rest(query._query, pause=lambda: rig.channels.pause("a"))
    batch = read_progress(checkpoint).batch
    open_stores = read_states(rig.spark, checkpoint, folds=2, batch=batch, run_id=str(query.runId))
    by_spark = read_states(rig.spark, checkpoint, folds=2, batch=batch)
    assert open_stores == by_spark and json.loads(open_stores[0])
    with pytest.raises(FragmentFailed, match="2 stateful operators where its tasks have 1"):
        read_states(rig.spark, checkpoint, folds=1, batch=batch, run_id=str(query.runId))

    rig.channels.resume("a")
    wait_until(lambda: read_progress(checkpoint).batch > batch, what="it goes on", alive=(query,))
    assert queries.stop(query._query, pause=lambda: rig.channels.pause("a"), drain_s=60)
    batch = read_progress(checkpoint).batch
    assert read_states(rig.spark, checkpoint, folds=2, batch=batch, run_id=str(query.runId)) == read_states(
        rig.spark, checkpoint, folds=2, batch=batch), "stopped, it is read by Spark"
