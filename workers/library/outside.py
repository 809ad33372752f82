"""The common part of tasks that ask another system about every event: one question at a time in each thread.

A thread waits for its answers, so that more threads on a slot ask more at once, as far as the other side allows.
Connections live in the Python worker, which Spark keeps from batch to batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scheduler.model.task_types import Parameter

from .casting import cast_to
from .config import require_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

ON_ERROR = Parameter(
    "on_error", "string", "What becomes of an event that gets no answer: it goes on without one (null), is left out "
    "(drop), or the query stops, says so and tries the batch again (fail).",
    default="null", choices=("null", "drop", "fail"),
)
PATIENCE = Parameter("patience", "number", "How long to wait for an answer.", default=10, minimum=0.1, maximum=120,
                     unit="s")
Answers = Sequence[tuple]
PIECE_BYTES = 16 << 20  # of text and bytes in answers that a Python worker holds at a time, and one event's beyond them
PIECE_ROWS = 100_000  # likewise


class NotAnswered(Exception):
    """The other side gave no answer for an event."""


def with_answers(
    inputs: DataFrame, *, task_type: str, reads: Sequence[str], adds: str,
    ask: Callable[[Mapping[str, Any]], Answers], nothing: tuple, on_error: str,
) -> DataFrame:
    """Every event with what was answered: as many events as there are answers, in the order of the input.

    Parameters
    ----------
    inputs : DataFrame
        A stream; its columns go on, but for those that are added anew.
    adds : str
        Spark DDL of the columns that are added.
    ask : callable
        The answers for an event, each a tuple of the added columns; raises ``NotAnswered``. Runs in Python workers.
    nothing : tuple
        The values of an event that got no answer, where ``on_error`` is ``null``.
    on_error : str
        ``null``, ``drop`` or ``fail``.
    """
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    require_columns(inputs.columns, list(reads), task_type=task_type,
                    remedy="Name columns that the task before it gives.")
    added = StructType.fromDDL(adds)
    passed_on = inputs.drop(*(name for name in added.names if name not in reads))
    stay = [name for name in passed_on.columns if name not in added.names]
    schema = StructType([*(passed_on.schema[name] for name in stay), *added.fields])
    arrow, reads = to_arrow_schema(added, timezone="UTC"), list(reads)

    def answered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _answered(batch, reads, stay, arrow, ask, nothing, on_error)

    return passed_on.mapInArrow(answered, schema)


def _answered(
    batch: pa.RecordBatch, reads: Sequence[str], stay: Sequence[str], added: pa.Schema,
    ask: Callable[[Mapping[str, Any]], Answers], nothing: tuple, on_error: str,
) -> Iterator[pa.RecordBatch]:
    """The events of a batch with their answers, in pieces: the other side decides how long answers are, and those for a
    whole batch may be more than the machine has memory.
    """
    places: list[int] = []
    answers: list[tuple] = []
    held_bytes = 0
    for index, event in enumerate(_events(batch, reads)):
        try:
            event_answers = ask(event)
        except NotAnswered:
            if on_error == "fail":
                raise
            event_answers = [nothing] if on_error == "null" else []
        places += [index] * len(event_answers)
        answers += event_answers
        held_bytes += sum(
            len(value) for answer in event_answers for value in answer if isinstance(value, str | bytes))
        if held_bytes > PIECE_BYTES or len(answers) > PIECE_ROWS:
            yield _piece(batch, places, answers, stay, added)
            places, answers, held_bytes = [], [], 0
    yield _piece(batch, places, answers, stay, added)


def _piece(
    batch: pa.RecordBatch, places: Sequence[int], answers: Sequence[tuple], stay: Sequence[str], added: pa.Schema
) -> pa.RecordBatch:
    """The events at these places, each with the answer that stands beside its place."""
    import pyarrow as pa

    rows = batch.select(list(stay))
    if places != list(range(batch.num_rows)):
        rows = rows.take(pa.array(places, pa.int64()))
    values = zip(*answers, strict=True) if answers else ((),) * len(added)
    columns = [pa.array(column, field.type) for column, field in zip(values, added, strict=True)]
    return pa.RecordBatch.from_arrays([*rows.columns, *columns], names=[*rows.schema.names, *added.names])


def _events(batch: pa.RecordBatch, reads: Sequence[str]) -> Iterable[Mapping[str, Any]]:
    return batch.select(list(reads)).to_pylist() if reads else ({} for _ in range(batch.num_rows))


def typed(value: Any, kind: str) -> Any:
    """A value as a column of that type takes it (`casting.cast_to`); null where it cannot be one."""
    if value is None:
        return None
    try:
        return cast_to(kind)(value)
    except (ValueError, TypeError, KeyError, ArithmeticError, OSError):
        return None
