"""The state of a query's folds, read from its checkpoint once it is at rest."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from . import fold_files
from .failure_messages import FragmentFailed

FOLD = "applyInPandasWithState"


def read_states(
    spark: SparkSession, checkpoint: Path, *, folds: int, batch: int, run_id: str | None = None
) -> list[str | None]:
    """The state of each fold after a batch, as JSON, in the order of the stream; None of one that had no event.

    Spark numbers stateful operators from the sink to the source.

    Parameters
    ----------
    run_id : str, optional
        The run of a query that is at rest and not stopped: its stores are open in this driver, which is faster.

    Raises
    ------
    FragmentFailed
        The query has other stateful operators than its folds: their state cannot be handed on.
    """
    if not fold_files.are_of_spark(checkpoint):
        return [fold_files.newest(fold_files.folder_of(checkpoint, fold), upto=batch) for fold in range(folds)]
    fold_files.forget_copies(checkpoint)
    operators = _operators(spark, checkpoint)
    foreign = sorted({name for name in operators.values() if name != FOLD})
    if foreign or len(operators) != folds:
        named = ", ".join(foreign) or f"{len(operators)} stateful operators where its tasks have {folds}"
        raise FragmentFailed(
            f"its state cannot be handed to another query ({named}): its task types must say movable_state: false"
        )
    return [
        _state(spark, checkpoint, operator=operator, batch=batch, run_id=run_id)
        for operator in sorted(operators, reverse=True)]


def _operators(spark: SparkSession, checkpoint: Path) -> dict[int, str]:
    """The stateful operators of a query by id: from the files that Spark keeps of folds, or by Spark."""
    operators: dict[int, str] = {}
    for folder in (checkpoint / "state").iterdir():
        file = folder / "_metadata" / "metadata"
        if not folder.name.isdigit():
            continue
        version, _, text = file.read_text().partition("\n") if file.is_file() else ("", "", "")
        if version != "v1":
            rows = spark.read.format("state-metadata").load(str(checkpoint)).select("operatorId", "operatorName")
            return {row.operatorId: row.operatorName for row in rows.collect()}
        operators[int(folder.name)] = json.loads(text)["operatorInfo"]["operatorName"]
    return operators


def _state(spark: SparkSession, checkpoint: Path, *, operator: int, batch: int, run_id: str | None) -> str | None:
    if run_id is not None:
        file = checkpoint.absolute() / f"{operator}.state"
        size = spark._jvm.weir.FoldStates.write(
            spark._jsparkSession, str(checkpoint.absolute()), run_id, operator, batch + 1, str(file))
        if size >= 0:
            return _take_text(file) if size else None
    rows = (
        spark.read.format("statestore").option("operatorId", operator).option("batchId", batch).load(str(checkpoint))
        .select("value.groupState.states").collect()
    )
    return rows[0].states if rows else None


def _take_text(file: Path) -> str:
    """What is in a file, which is no longer needed."""
    try:
        return file.read_text(encoding="utf-8")
    finally:
        file.unlink()
