"""Folds as Spark state: a stream goes through a fold in its order, whatever the batches.

Spark keeps the state, in its state store and checkpoint. One group holds all keys of the partition: its rows come in
the order of the stream and its output keeps that order, which a group for each key could not (a stream cannot be
sorted); and there is one call a batch instead of one for each key, which is several times faster. The price is that a
batch writes the state of all keys, so this is for up to some ten thousand keys in one partition.

A query may go on with the state of another (``going_on``): its folds begin with what that one left, until Spark has a
state of their own. What was left stays where it is for as long as the query lives, so that its first batch can be
repeated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .columns import kept_type
from .folds import Fold

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame


@dataclass(slots=True)
class Folds:
    """The folds that a task is made of, counted while it is built; and the file with the state that they begin with.

    The file is JSON: under ``states``, by running task, the state of each of its folds in the order of the stream.
    """

    task: str
    inherited: Path | None = None
    count: int = field(default=0, init=False)

    def next(self) -> Inherited | None:
        """Where the next fold finds the state that it begins with."""
        self.count += 1
        return None if self.inherited is None else Inherited(str(self.inherited), self.task, self.count - 1)


@dataclass(frozen=True, slots=True)
class Inherited:
    """The place of one fold's first state; read where and when it is needed, by a Python worker."""

    file: str
    task: str
    index: int

    def read(self) -> dict[str, Any]:
        """The state by key; empty where the fold had none."""
        states = json.loads(Path(self.file).read_text(encoding="utf-8"))["states"].get(self.task, [])
        return json.loads(states[self.index]) if self.index < len(states) and states[self.index] else {}


_BUILDING: ContextVar[Folds | None] = ContextVar("folds of the task that is being built", default=None)


@contextmanager
def going_on(task: str, *, inherited: Path | None = None) -> Iterator[Folds]:
    """Build a task whose folds begin with the state that another query left, where there is any."""
    folds = Folds(task, inherited)
    token = _BUILDING.set(folds)
    try:
        yield folds
    finally:
        _BUILDING.reset(token)


def task_being_built() -> str:
    """The running task that is being built, where one is."""
    folds = _BUILDING.get()
    return "" if folds is None else folds.task


def fold_stream(
    inputs: DataFrame, fold: Fold, *, by: Sequence[str], reads: Sequence[str], kept: Sequence[str], added: str
) -> DataFrame:
    """Send a stream through a fold, with a state for each value of the columns ``by``.

    Parameters
    ----------
    inputs : DataFrame
        A stream of one partition.
    fold : Fold
        The algorithm.
    by : sequence of str
        Key columns.
    reads : sequence of str
        Columns whose values ``fold.step`` takes, in this order.
    kept : sequence of str
        Columns of the event that the output begins with; those that are not Weir's own or numbers come as text.
    added : str
        Spark DDL of the columns behind them, which the fold gives.
    """
    from pyspark.sql import functions as F

    ddl = ", ".join([*(f"`{name}` {_kept_type(inputs, name)}" for name in kept), *([added] if added else [])])
    used = list(dict.fromkeys([*kept, *reads]))
    kept, reads = tuple(kept), tuple(reads)

    def work(states: dict[str, Any], frame: pd.DataFrame) -> Sequence[list]:
        rows = fold_rows(fold, states, {name: _values(frame[name]) for name in frame}, reads=reads, kept=kept)
        return list(map(list, zip(*rows, strict=True)))

    columns = [F.col(name).cast(_kept_type(inputs, name)).alias(name) for name in used]
    return fold_batches(inputs, work, by=by, columns=columns, gives=ddl)


def fold_batches(
    inputs: DataFrame, work: Callable[[dict[str, Any], pd.DataFrame], Sequence[Sequence]], *, by: Sequence[str],
    columns: Sequence[Column], gives: str,
) -> DataFrame:
    """Send a stream through a function that takes some of its events at a time, in their order.

    Parameters
    ----------
    inputs : DataFrame
        A stream of one partition.
    work : callable
        Takes the states by the value of the column ``_key`` (JSON; changed in place) and events, and gives the columns
        of what comes out, none for nothing. It must not matter how the events are cut.
    by : sequence of str
        Key columns.
    columns : sequence of Column
        What an event has for ``work``, besides ``_key``: doubles, booleans, text, and whole numbers without nulls.
    gives : str
        Spark DDL of what comes out.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(gives)
    names, folds = schema.names, _BUILDING.get()
    inherited = folds.next() if folds is not None else None

    def run(_: tuple, frames: Iterable[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        import pandas as pd

        states = json.loads(state.get[0]) if state.exists else inherited.read() if inherited else {}
        for frame in frames:
            given = work(states, frame)
            if given:
                yield pd.DataFrame(dict(zip(names, given, strict=True)))
        state.update((json.dumps(states, separators=(",", ":")),))

    one_group = inputs.select(*columns, key_text(by).alias("_key"), F.lit(0).alias("_group")).coalesce(1)
    return one_group.groupBy("_group").applyInPandasWithState(run, schema, "states string", "append", "NoTimeout")


def fold_rows(
    fold: Fold, states: dict[str, Any], columns: dict[str, list], *, reads: Sequence[str], kept: Sequence[str]
) -> list[tuple]:
    """The output rows of a batch, in order.

    Parameters
    ----------
    fold : Fold
        The algorithm.
    states : dict
        By the value of the column ``_key``; changed in place.
    columns : dict
        The batch's values by column, all of one length.
    reads : sequence of str
        Columns whose values ``fold.step`` takes, in this order.
    kept : sequence of str
        Columns that each output row begins with.
    """
    rows: list[tuple] = []
    readings = zip(*(columns[name] for name in reads), strict=True)
    heads = zip(*(columns[name] for name in kept), strict=True) if kept else (() for _ in columns["_key"])
    for key, reading, head in zip(columns["_key"], readings, heads, strict=True):
        state = states.get(key)
        if state is None:
            state = states[key] = fold.start()
        rows.extend((*head, *out) for out in fold.step(state, *reading))
    return rows


def key_text(by: Sequence[str]) -> Column:
    """The values of key columns as one text; equal texts, equal keys."""
    from pyspark.sql import functions as F

    return F.concat_ws("\x1f", *[F.coalesce(F.col(name).cast("string"), F.lit("\x00")) for name in by])


def _kept_type(inputs: DataFrame, name: str) -> str:
    return str(kept_type(name, inputs.schema[name].dataType.simpleString()))


def _values(column: pd.Series) -> list:
    """A column as a list; pandas says a missing number with NaN, which is None here."""
    values = column.tolist()
    return [None if value != value else value for value in values] if column.dtype.kind == "f" else values
