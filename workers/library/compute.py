"""Work for the CPU alone, and none but waiting: tasks to measure machines and schedulers with."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter, TaskType

from .columns import same_columns
from .config import settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

PI_VIETE = TaskType(
    name="pi_viete", kind="transform", family="math",
    doc="Computes π by Viète's product for every event: nothing but CPU work, as much as the iterations say.",
    build="workers.library.compute:pi_viete", effects=(),
    parameters=(
        Parameter("iterations", "integer", "Factors of the product.", default=1600, minimum=1, maximum=10_000_000),
        Parameter("stands_for", "string",
                  "The logic that it stands for in a model of another dataflow: part of what the task is, no more."),
    ),
    cost_us=80,
)

WAIT = TaskType(
    name="wait", kind="transform", family="math",
    doc="Waits for every event, one after the other, as for the answer of a slow service: nothing but waiting.",
    build="workers.library.compute:wait", effects=(),
    parameters=(
        Parameter("pause", "number", "How long for each event.", default=50, minimum=0, maximum=60_000, unit="ms"),
    ),
    cost_us=20,
)

TASK_TYPES = (PI_VIETE, WAIT)


def pi_viete(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Every event with ``pi``, computed for it anew in a plain loop: that is the work."""
    from pyspark.sql.types import DoubleType, StructField, StructType

    iterations = settings(PI_VIETE, config)["iterations"]

    def with_pi(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            values = pa.array([viete(iterations) for _ in range(batch.num_rows)], pa.float64())
            columns = {name: column for name, column in zip(batch.schema.names, batch.columns, strict=True)}
            yield pa.RecordBatch.from_pydict({**columns, "pi": values})

    events = inputs.drop("pi")
    schema = StructType([*events.schema.fields, StructField("pi", DoubleType())])
    return events.mapInArrow(with_pi, schema)


def wait(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Every event as it is, once its time has passed."""
    pause_s = settings(WAIT, config)["pause"] / 1000

    def waited(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for _ in range(batch.num_rows):
                time.sleep(pause_s)
            yield batch

    return inputs.mapInArrow(waited, inputs.schema)


def pi_viete_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The input's, and ``pi``."""
    return inputs.renewed({"pi": "double"})


wait_columns = same_columns


def viete(iterations: int) -> float:
    """π by Viète's product: 2/π = √2/2 · √(2+√2)/2 · …

    References
    ----------
    .. [1] Shukla and Simmhan, "Model-driven Scheduling for Distributed Stream Processing Systems", 2017: its CPU-bound
       task.
    """
    root, product = 0.0, 1.0
    for _ in range(iterations):
        root = math.sqrt(2.0 + root)
        product *= root / 2.0
    return 2.0 / product
