"""Folds as Spark state: a stream goes through a fold in its order, whatever the batches.

Spark keeps the state, in its state store and checkpoint. One group holds all keys of the partition: its rows come in
the order of the stream and its output keeps that order, which a group for each key could not (a stream cannot be
sorted); and there is one call a batch instead of one for each key, which is several times faster.

As long as all states are a short text together, that text is the group's state. Where they are more, they are in a
store by key (``state_store``) and the group's state points to a version of that: a batch then reads and writes what it
touches, and no more.

A query may go on with the state of another (``going_on``): its folds begin with what that one left, until Spark has a
state of their own. What was left stays where it is for as long as the query lives, so that its first batch can be
repeated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler.model.key_texts import ESCAPES, MISSING, PARTED

from .batch_states import Keeping, StatesByKey, keeping, parts_of
from .columns import kept_type
from .folds import Fold
from .spark_text import columns_ddl, identifier
from .state_store import LARGE, Parts, StoreLocation
from .watermarks import NO_EVENT, TOLD, marks_in

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


@dataclass(slots=True)
class Folds:
    """The folds that a task is made of, counted while it is built; the file with the state that they begin with, the
    folder of stores, where there may be any, and what counts late events (``LATE``) and takes their rows away.

    The file is JSON: under ``states``, by running task, the state of each of its folds in the order of the stream.
    """

    task: str
    inherited: Path | None = None
    stores: Path | None = None
    fragment: str = ""
    large: int = LARGE
    count_late: Callable[[DataFrame], DataFrame] | None = None
    instead: Callable[[FoldedStream], DataFrame] | None = None
    hosted: Callable[[FoldedStream, Inherited | None, StoreLocation | None], DataFrame] | None = None
    count: int = field(default=0, init=False)

    def next(self) -> tuple[Inherited | None, StoreLocation | None]:
        """The state that the next fold begins with, and the place of its store."""
        index, self.count = self.count, self.count + 1
        name = f"{self.fragment}.{fold_name(self.task, index)}"
        return (
            None if self.inherited is None else Inherited(str(self.inherited), self.task, index),
            None if self.stores is None else StoreLocation(str(self.stores), name, self.large))


def fold_name(task: str, index: int) -> str:
    """The name of the stores of one of a running task's folds, behind their fragment."""
    return f"{hashlib.blake2b(task.encode(), digest_size=6).hexdigest()}-{index}"


NOTHING = "{}"
LATE = "_late"  # behind a fold, of a row that stands for so many events that came too late
ONE = ""  # the key of a fold that has no key columns


@dataclass(frozen=True, slots=True)
class Inherited:
    """The place of one fold's first state; read where and when it is needed, by a Python worker."""

    file: str
    task: str
    index: int

    def read(self) -> str:
        """The states as a text; of no key where the fold had none."""
        states = json.loads(Path(self.file).read_text(encoding="utf-8"))["states"].get(self.task, [])
        return (states[self.index] if self.index < len(states) else None) or NOTHING


@dataclass(frozen=True, slots=True)
class FoldedStream:
    """A stream and the function that it goes through (`fold_batches`): ``frame`` has the columns for it, and ``_key``;
    ``gives`` are the columns that come out. ``keep`` takes what ``keeping`` does, where that does not keep the states.
    Where the function is `fold_stream`'s, it takes events as lists by column, too: the fold host gives it those.
    """

    frame: DataFrame
    work: Callable[[StatesByKey, pd.DataFrame | None], Sequence[Sequence]]
    gives: StructType
    parts: Parts
    idle_ms: int | None = None
    keep: Callable[[str, StoreLocation | None, Parts], Keeping] | None = None


_BUILDING: ContextVar[Folds | None] = ContextVar("folds of the task that is being built", default=None)


@contextmanager
def going_on(
    task: str, *, inherited: Path | None = None, stores: Path | None = None, fragment: str = "", large: int = LARGE,
    count_late: Callable[[DataFrame], DataFrame] | None = None,
    hosted: Callable[[FoldedStream, Inherited | None, StoreLocation | None], DataFrame] | None = None,
) -> Iterator[Folds]:
    """Build a task whose folds begin with the state that another query left, where there is any.

    Parameters
    ----------
    stores : Path, optional
        The folder of stores; without it all state is Spark's.
    large : int, optional
        The number of characters from which on the states of a fold are in a store.
    count_late : callable, optional
        Takes a stream with the column ``LATE`` and gives it without it, and without the rows that have a number there:
        how many events came too late.
    hosted : callable, optional
        Takes a stream with its function, where its first state is and where its store is, and gives what comes out:
        the slot's fold host keeps the state, and not Spark.
    """
    folds = Folds(task, inherited, stores, fragment, large, count_late, hosted=hosted)
    token = _BUILDING.set(folds)
    try:
        yield folds
    finally:
        _BUILDING.reset(token)


@contextmanager
def folded_by(instead: Callable[[FoldedStream], DataFrame]) -> Iterator[None]:
    """Build what has a fold, and let something else make of the stream what the fold would make."""
    folds = _BUILDING.get() or Folds("")
    token = _BUILDING.set(replace(folds, instead=instead))
    try:
        yield
    finally:
        _BUILDING.reset(token)


def task_being_built() -> str:
    """The running task that is being built; empty without one."""
    folds = _BUILDING.get()
    return "" if folds is None else folds.task


def query_being_built() -> str:
    """The query of the running task that is being built, where one is."""
    folds = _BUILDING.get()
    return "" if folds is None else folds.fragment


def fold_stream(
    inputs: DataFrame, fold: Fold, *, by: Sequence[str], reads: Sequence[str], kept: Sequence[str], added: str
) -> DataFrame:
    """Send a stream through a fold, with a state for each value of the columns ``by``.

    Parameters
    ----------
    reads : sequence of str
        Columns whose values ``fold.step`` takes, in this order.
    kept : sequence of str
        Columns of the event that the output begins with; those that are not Weir's own or numbers come as text.
    added : str
        Spark DDL of the columns behind them, which the fold gives.
    """
    from pyspark.sql import functions as F

    marks = [TOLD] if TOLD in inputs.columns and hasattr(fold, "tell") else []
    types = {name: _kept_type(inputs, name) for name in dict.fromkeys([*kept, *reads, *marks])}
    # pandas takes NaN for null: what the fold does not read goes around that as text.
    doubles = [name for name in kept if types[name] == "double" and name not in reads]
    types |= dict.fromkeys(doubles, "string")
    ddl = ", ".join(part for part in (columns_ddl({name: types[name] for name in kept}), added) if part)
    kept, reads = tuple(kept), tuple(reads)
    tells, idle_ms = hasattr(fold, "late"), getattr(fold, "idle", None)
    nobody = _empty_values(ddl) if tells else ()

    def work(states: StatesByKey, frame: pd.DataFrame | Mapping[str, list] | None) -> Sequence[list]:
        before = _late(fold, states) if tells else 0
        if frame is None:
            rows = list(fold.silence(states.get(ONE))) if states.get(ONE) is not None else []
        else:
            rows = fold_rows(fold, states, {name: _values(frame[name]) for name in frame}, reads=reads, kept=kept)
        if tells:
            late = _late(fold, states) - before
            rows = [*((*row, 0) for row in rows), *([(*nobody, late)] if late else [])]
        return list(map(list, zip(*rows, strict=True)))

    columns = [F.col(name).cast(kind).alias(name) for name, kind in types.items()]
    gives = f"{ddl}, {LATE} bigint" if tells else ddl
    folded = fold_batches(inputs, work, by=by, columns=columns, gives=gives, parts=parts_of(fold), idle_ms=idle_ms)
    folded = _counted(folded) if tells else folded
    return folded.withColumns({name: F.col(name).cast("double") for name in doubles}) if doubles else folded


def _late(fold: Any, states: StatesByKey) -> int:
    state = states.get(ONE)
    return 0 if state is None else fold.late(state)


def _empty_values(ddl: str) -> tuple:
    """The values of a row that is no event; whole numbers must not be missing, for pandas would make doubles of all."""
    from pyspark.sql.types import LongType, StructType

    return tuple(0 if isinstance(column.dataType, LongType) else None for column in StructType.fromDDL(ddl))


def _counted(events: DataFrame) -> DataFrame:
    """A stream without the rows that only say how many events were late; those are counted, where somebody does."""
    folds = _BUILDING.get()
    if folds is not None and folds.count_late is not None:
        return folds.count_late(events)
    return events.filter(f"{LATE} = 0").drop(LATE)


def fold_batches(
    inputs: DataFrame, work: Callable[[StatesByKey, pd.DataFrame | None], Sequence[Sequence]], *, by: Sequence[str],
    columns: Sequence[Column], gives: str, parts: Parts | None = None, idle_ms: int | None = None,
) -> DataFrame:
    """Send a stream through a function that takes some of its events at a time, in their order.

    Parameters
    ----------
    inputs : DataFrame
        A stream of one partition.
    work : callable
        Takes the states by the value of the column ``_key`` (JSON; read, set and changed in place by ``_key`` alone,
        never listed) and events, and gives the columns of what comes out, none for nothing. It must not matter how the
        events are cut.
    columns : sequence of Column
        The columns of an event for ``work``, besides ``_key``: doubles, booleans, text, and whole numbers without
        nulls.
    parts : mapping, optional
        The members of a key's state that are mappings by a key of their own, as a fold has them.
    idle_ms : int, optional
        The ms without an event after which ``work`` is called with None for events, by the clock of Spark's batches,
        which its checkpoint keeps: a batch that is repeated has the same.
    """
    from pyspark.sql.types import StructType

    folded = FoldedStream(
        inputs.select(*columns, key_text(inputs, by).alias("_key")), work, StructType.fromDDL(gives), parts or {},
        idle_ms)
    folds = _BUILDING.get()
    return apply_fold(folded) if folds is None or folds.instead is None else folds.instead(folded)


def apply_fold(folded: FoldedStream) -> DataFrame:
    """The output of a stream and its function, with the state in Spark's store, or at the slot's fold host."""
    from pyspark.sql import functions as F

    work, parts, idle_ms = folded.work, folded.parts, folded.idle_ms
    kinds = {field.name: field.dataType.simpleString() for field in folded.gives}
    folds, keep = _BUILDING.get(), folded.keep or keeping
    inherited, location = folds.next() if folds is not None else (None, None)
    if folds is not None and folds.hosted is not None:
        return folds.hosted(folded, inherited, location)

    def run(_: tuple, frames: Iterable[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        text = state.get[0] if state.exists else inherited.read() if inherited else NOTHING
        kept = keep(text, location, parts)
        try:
            for frame in [None] if state.hasTimedOut else frames:
                results = work(kept.states, frame)
                if results:
                    yield frame_of(kinds, results)
            state.update((kept.save(),))
            if idle_ms is not None and not state.hasTimedOut:
                state.setTimeoutDuration(idle_ms)
        finally:
            kept.close()

    timeout = "NoTimeout" if idle_ms is None else "ProcessingTimeTimeout"
    one_group = folded.frame.withColumn("_group", F.lit(0)).coalesce(1)
    return one_group.groupBy("_group").applyInPandasWithState(run, folded.gives, "states string", "append", timeout)


def frame_of(kinds: Mapping[str, str], results: Sequence[Sequence]) -> pd.DataFrame:
    """The columns that a stream's function gives, by name and Spark's name of their type, as a frame."""
    import pandas as pd

    columns = {name: held_as(kind, values) for (name, kind), values in zip(kinds.items(), results, strict=True)}
    return pd.DataFrame({
        name: pd.Series(values) if kinds[name] in ("double", "bigint") and None not in values
        else pd.Series(values, dtype=object) for name, values in columns.items()})


def fold_rows(
    fold: Fold, states: StatesByKey, columns: dict[str, list], *, reads: Sequence[str], kept: Sequence[str]
) -> list[tuple]:
    """The output rows of a batch, in order. In a batch with the column ``TOLD``, ``fold.tell`` takes its values first.

    Parameters
    ----------
    states : StatesByKey
        By the value of the column ``_key``; changed in place.
    """
    rows: list[tuple] = []
    readings = zip(*(columns[name] for name in reads), strict=True)
    heads = zip(*(columns[name] for name in kept), strict=True) if kept else (() for _ in columns["_key"])
    marks = columns.get(TOLD)
    for index, (key, reading, head) in enumerate(zip(columns["_key"], readings, heads, strict=True)):
        state = states.get(key)
        if state is None:
            state = states[key] = fold.start()
        if marks is not None and marks[index]:
            for mark in marks_in(marks[index]):
                rows.extend(fold.tell(state, *mark))
            if columns["_seq"][index] == NO_EVENT:
                continue
        rows.extend((*head, *out) for out in fold.step(state, *reading))
    return rows


def key_text(inputs: DataFrame, by: Sequence[str]) -> Column:
    """The values of key columns as one text: equal texts where all of them are equal or null alike, and else others.

    U+001F is between two, null is U+0000, and where a text has either of them, or the escape U+001B, it has an escape
    instead. So texts without the three are what they were in states of versions that did not escape.
    """
    from pyspark.sql import functions as F

    return F.concat_ws(PARTED, *[F.coalesce(_plain_text(inputs, name), F.lit(MISSING)) for name in by])


def key_value(inputs: DataFrame, name: str) -> Column:
    """A key column, in which values that are equal are the same: there is one zero."""
    from pyspark.sql import functions as F

    column = F.col(identifier(name))
    return F.when(column == 0, F.lit(0.0)).otherwise(column).alias(name) if inputs.schema[
        name].dataType.typeName() in ("float", "double") else column


def _plain_text(inputs: DataFrame, name: str) -> Column:
    """A value of a key column as text without U+001F and U+0000."""
    from pyspark.sql import functions as F

    kind = inputs.schema[name].dataType.typeName()
    if kind == "binary":
        return F.hex(F.col(identifier(name)))
    text = key_value(inputs, name).cast("string")
    if kind != "string":
        return text
    for character, escape in ESCAPES:
        text = F.replace(text, F.lit(character), F.lit(escape))
    return text


def held_as(kind: str, values: Sequence) -> Sequence:
    """Values of a column as its type has them: a key that a version kept as a number, which is text now, is one."""
    if kind != "string":
        return values
    return [repr(value) if isinstance(value, float) else value for value in values]


def _kept_type(inputs: DataFrame, name: str) -> str:
    return str(kept_type(name, inputs.schema[name].dataType.simpleString()))


def _values(column: pd.Series | list) -> list:
    """A column as a list; pandas says a missing number with NaN, which is None here."""
    if isinstance(column, list):
        return column
    values = column.tolist()
    return [None if value != value else value for value in values] if column.dtype.kind == "f" else values
