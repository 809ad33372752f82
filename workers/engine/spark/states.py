"""The state of a query's folds, read from its checkpoint once it is at rest."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from .failures import FragmentFailed

FOLD = "applyInPandasWithState"


def read_states(spark: SparkSession, checkpoint: Path, *, folds: int, batch: int) -> list[str | None]:
    """The state of each fold after a batch, as JSON, in the order of the stream; None of one that had no event.

    Spark numbers stateful operators from the sink to the source.

    Parameters
    ----------
    spark : SparkSession
        The session of the slot's driver.
    checkpoint : Path
        The folder of the checkpoint.
    folds : int
        How many folds the query has.
    batch : int
        After which batch.

    Raises
    ------
    FragmentFailed
        The query has other stateful operators than its folds: their state cannot be handed on.
    """
    if not (checkpoint / "state").is_dir():
        rows = []
    else:
        rows = spark.read.format("state-metadata").load(str(checkpoint)).select("operatorId", "operatorName").collect()
    foreign = sorted({row.operatorName for row in rows if row.operatorName != FOLD})
    if foreign or len(rows) != folds:
        named = ", ".join(foreign) or f"{len(rows)} stateful operators where its tasks have {folds}"
        raise FragmentFailed(
            f"its state cannot be handed to another query ({named}): its task types must say movable_state: false"
        )
    operators = sorted((row.operatorId for row in rows), reverse=True)
    return [_state(spark, checkpoint, operator=operator, batch=batch) for operator in operators]


def _state(spark: SparkSession, checkpoint: Path, *, operator: int, batch: int) -> str | None:
    rows = (
        spark.read.format("statestore").option("operatorId", operator).option("batchId", batch).load(str(checkpoint))
        .select("value.groupState.states").collect()
    )
    return rows[0].states if rows else None
