"""Functions of installed packages as tasks: over Arrow tables, each for itself or with a state for each key.

``function(table, arguments)`` gives a table; of ``python_by_key`` ``function(table, state, arguments)`` gives a table
and the key's next state (what JSON can say; None at first). A table holds some of the events in their order, of one key
where there are keys, and it must not matter how events are cut into tables. What comes out has `_seq`, `_time` and
`_born` of events that came in, and exactly the columns that the config declares: anything else, and
what it raises, stops the query and says so, or is marked on the events that it is of (`python_calls`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from scheduler.model.canonical import plain
from scheduler.model.columns import NUMBERS, Columns, WrongColumnType
from scheduler.model.task_types import Parameter, TaskType

from .arrow_types import arrow_type
from .columns import COLUMN_TYPES, STREAM, decimal_of, key_columns, typed_columns
from .config import InvalidConfig, require_columns, settings
from .json_values import json_ready
from .packages import FUNCTION, require_function
from .python_calls import MARK, ON_ERROR, PROBLEM, STOP, call, results_of, wrong
from .python_results import checked, complete
from .spark_text import columns_ddl
from .state import fold_batches
from .task_prints import TaskPrints

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

_VERSION = Parameter(
    "version", "string", "The version of the installed package: another version makes another task.", required=True,
    pattern=r"[A-Za-z0-9][A-Za-z0-9.!+_-]{0,63}")
_COLUMNS = Parameter(
    "columns", "list", "The columns of what comes out, besides Weir's own, each “name” or “name:type” ("
    + ", ".join(COLUMN_TYPES) + ").", required=True, items="string")
_ARGUMENTS = Parameter("arguments", "object", "Further arguments of the function.", default={})


def _function(takes: str) -> Parameter:
    return Parameter("function", "string", f"package.module:function; it takes {takes}.", required=True,
                     pattern=FUNCTION)


def _reads(more: str) -> Parameter:
    return Parameter("reads", "list", f"The columns that it gets, with {more}; without it all.", items="string",
                     column="names")


PYTHON = TaskType(
    name="python", kind="transform", family="operator",
    doc="Sends events through a function of an installed package that the operator allows (WEIR_PYTHON_PACKAGES), over "
        "Arrow tables.",
    build="workers.library.python_task:python", effects=("code",), chain="never",
    parameters=(_function("a table and the arguments"), _VERSION, _COLUMNS, _reads("Weir's own"), _ARGUMENTS,
                ON_ERROR),
    cost_us=20,
)
PYTHON_BY_KEY = TaskType(
    name="python_by_key", kind="transform", family="operator",
    doc="Sends the events of each key through a function of an installed package that the operator allows "
        "(WEIR_PYTHON_PACKAGES), with a state of the key's own.",
    build="workers.library.python_task:python_by_key", effects=("code",), chain="never",
    parameters=(
        _function("a table, the key's state and the arguments"), _VERSION, _COLUMNS,
        Parameter("by", "list", "Columns whose values each have a state of their own.", required=True, items="string",
                  column="names"),
        _reads("Weir's own and those of “by”"), _ARGUMENTS, ON_ERROR,
    ),
    stateful=True, movable_state=True, by_key=True, key="by", cost_us=30,
)
TASK_TYPES = (PYTHON, PYTHON_BY_KEY)
MOST_STATE = 1_048_576  # characters, of one key
_TEXT = {"string", "double", "boolean"}  # what travels through a fold as it is
_WHOLE = {"tinyint", "smallint", "int", "bigint"}


def python(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The events that the function makes of its input."""
    values = settings(PYTHON, config)
    require_function(values["function"], values["version"])
    reads = _read(inputs.columns, values["reads"], ())
    return _stateless(
        inputs, values["function"], plain(values["arguments"]), typed_columns(values["columns"]), reads,
        values["on_error"])


def python_by_key(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The events that the function makes of each key's events."""
    values = settings(PYTHON_BY_KEY, config)
    require_function(values["function"], values["version"])
    columns, by = typed_columns(values["columns"]), key_columns(values["by"], added=[])
    reads = _read(inputs.columns, values["reads"], by)
    return _keyed(inputs, values["function"], plain(values["arguments"]), columns, by, reads, values["on_error"])


def _read(columns: Sequence[str], reads: Sequence[str] | None, by: Sequence[str]) -> list[str]:
    """The columns that a function gets, without Weir's own."""
    names = [name for name in dict.fromkeys([*(reads or columns), *by]) if name not in STREAM]
    require_columns(list(columns), names, task_type="python", remedy="Name columns of the input.")
    return names


def python_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the config cannot be built."""
    values = settings(PYTHON, config)
    require_function(values["function"], values["version"])
    if PROBLEM in typed_columns(values["columns"]) and values["on_error"] == MARK:
        raise InvalidConfig(f"The column {PROBLEM} is Weir's own where errors are marked.",
                            parameter="columns", remedy="Give that column another name.")


def python_by_key_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the config cannot be built."""
    python_check(config)
    key_columns(config.get("by") or (), added=[])


def python_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The columns that the config declares."""
    return Columns.stream(_output_columns(typed_columns(values["columns"]), values["on_error"]))


def python_by_key_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The columns that the config declares; the function gets single values."""
    reads, by = values["reads"] or [name for name in inputs if name not in STREAM], values["by"]
    for name in dict.fromkeys([*reads, *by]):
        kind = inputs.require(name, parameter="reads" if name in reads else "by")
        if kind is not None and kind not in _TEXT and kind not in NUMBERS and not kind.startswith(
                ("timestamp", "date", "decimal")):
            raise WrongColumnType(
                f"The column {name} is {kind}; a function with keys takes single values.",
                remedy="Leave it out of “reads”, or take values out of it in a sql task before.",
                parameter="reads" if values["reads"] else "", value=name, column=name, type=kind)
    return Columns.stream(_output_columns(typed_columns(values["columns"]), values["on_error"]))


def _output_columns(columns: Mapping[str, str], on_error: str) -> dict[str, str]:
    """The output columns besides Weir's own: the declared ones, and the reason for a missing result if errors are
    marked."""
    return {**columns, **({PROBLEM: "string"} if on_error == MARK else {})}


# Each table for itself ------------------------------------------------------------------------------------------------


def _stateless(
    inputs: DataFrame, function: str, arguments: dict[str, Any], columns: dict[str, str], reads: Sequence[str],
    on_error: str,
) -> DataFrame:
    from pyspark.sql.types import StructType

    output_columns = _output_columns(columns, on_error)

    produced = StructType.fromDDL(columns_ddl({**dict.fromkeys(STREAM, "bigint"), **output_columns}))
    prints = TaskPrints.of_what_is_built()

    def work(table: pa.Table) -> pa.Table:
        with prints.attributed():
            return checked(call(function, table, dict(arguments)), columns, function)

    def through(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            if batch.num_rows:
                for result in results_of(
                        pa.Table.from_batches([batch]), work, function=function, on_error=on_error):
                    yield from complete(result, output_columns).to_batches()

    return inputs.select(*STREAM, *reads).mapInArrow(through, produced)


# With a state for each key --------------------------------------------------------------------------------------------


def _keyed(
    inputs: DataFrame, function: str, arguments: dict[str, Any], columns: dict[str, str], by: Sequence[str],
    reads: Sequence[str], on_error: str,
) -> DataFrame:
    from pyspark.sql import functions as F

    kinds = {name: inputs.schema[name].dataType.simpleString() for name in reads}
    selected = [*(F.col(name) for name in STREAM), *(_as_text(name, kind) for name, kind in kinds.items())]
    text_kinds = {name: "bigint" if name in STREAM else kind if kind in _TEXT else "string"
            for name, kind in {**dict.fromkeys(STREAM, "bigint"), **_output_columns(columns, on_error)}.items()}

    prints = TaskPrints.of_what_is_built()

    def work(states: dict[str, Any], frame: pd.DataFrame) -> Sequence[Sequence]:
        with prints.attributed():
            return called_by_key(states, frame, function=function, arguments=arguments, columns=columns, kinds=kinds,
                                 on_error=on_error)

    folded = fold_batches(inputs, work, by=by, columns=selected,
                          gives=columns_ddl(text_kinds))
    return folded.select(*[_from_text(name, columns.get(name, "")) for name in text_kinds])


def _as_text(name: str, kind: str) -> Column:
    """A column as it goes into a fold: whole numbers and times as text, since pandas knows no null among them."""
    from pyspark.sql import functions as F

    column = F.col(name)
    if kind == "timestamp":
        column = F.unix_micros(column)
    elif kind == "date":
        column = F.unix_date(column)
    elif kind == "float":
        return column.cast("double").alias(name)
    elif kind in _TEXT:
        return column.alias(name)
    return column.cast("string").alias(name)


def _from_text(name: str, kind: str) -> Column:
    from pyspark.sql import functions as F

    if kind == "timestamp":
        return F.timestamp_micros(F.col(name).cast("bigint")).alias(name)
    if kind == "binary":
        return F.unbase64(F.col(name)).alias(name)
    return F.col(name).cast(kind).alias(name) if kind == "bigint" or decimal_of(kind) else F.col(name)


def called_by_key(
    states: dict[str, Any], frame: pd.DataFrame, *, function: str, arguments: Mapping[str, Any],
    columns: Mapping[str, str], kinds: Mapping[str, str], on_error: str = STOP,
) -> list[list]:
    """Call a function with the events of each key; the columns of what comes out, in the order of the events.

    Parameters
    ----------
    states : dict
        By the value of the column ``_key``; changed in place.
    columns, kinds : mapping of str to str
        The types of what comes out, and of what goes in.
    """
    import pyarrow as pa

    rows: list[tuple[int, tuple]] = []
    for key, events in frame.groupby("_key", sort=False):
        places = {seq: index for index, seq in zip(events.index, events["_seq"], strict=True)}
        table = pa.table({
            **{name: pa.array(events[name], pa.int64()) for name in STREAM},
            **{name: _array(events[name], kind) for name, kind in kinds.items()}})

        def work(part: pa.Table, key: str = key) -> pa.Table:
            state = deepcopy(states.get(key)) if on_error == MARK else states.get(key)  # one that fails leaves it
            answer = call(function, part, state, dict(arguments))
            if not isinstance(answer, tuple) or len(answer) != 2:
                raise wrong(function, "gave no table with a state", "It returns (table, state).")
            result = _of_events(checked(answer[0], columns, function), part, function)
            states[key] = _state(answer[1], function)
            return result

        result = pa.concat_tables([
            complete(part, _output_columns(columns, on_error))
            for part in results_of(table, work, function=function, on_error=on_error)])
        values = [result.column(name) for name in result.column_names]
        lists = [(column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
                 for column in values]
        for row in zip(*lists, strict=True):
            rows.append((places[row[0]], row))
    rows.sort(key=lambda row: row[0])  # stable: results of one event stay in their order
    return _fold_columns([row for _, row in rows], list(_output_columns(columns, on_error).values()))


def _of_events(result: pa.Table, events: pa.Table, function: str) -> pa.Table:
    """A result, each row of an event that the function got."""
    seqs = set(events.column("_seq").to_pylist())
    for seq in result.column("_seq").to_pylist():
        if seq not in seqs:
            raise wrong(function, f"gave a result with _seq {seq}, which no event of this table has",
                        "A result has _seq, _time and _born of the last event that is in it.")
    return result


def _array(values: pd.Series, kind: str) -> pa.Array:
    import pyarrow as pa

    if kind in ("double", "float"):
        return pa.array(values, pa.float64(), from_pandas=True)
    if kind == "boolean":
        return pa.array(values, pa.bool_(), from_pandas=True)
    if decimal_of(kind):
        return pa.array([Decimal(text) if isinstance(text, str) else None for text in values], arrow_type(kind))
    texts = pa.array(values, pa.string(), from_pandas=True)
    if kind in _WHOLE or kind == "timestamp":
        numbers = texts.cast(pa.int64())
        return numbers.cast(pa.timestamp("us", tz="UTC")) if kind == "timestamp" else numbers
    return texts.cast(pa.int32()).cast(pa.date32()) if kind == "date" else texts


def _state(state: Any, function: str) -> Any:
    try:
        text = json.dumps(state)
    except (TypeError, ValueError) as error:
        raise wrong(function, f"gave a state that JSON cannot say ({error})",
                     "Let it be made of lists, mappings with texts as keys, texts, numbers, true, false and None."
                     ) from None
    if len(text) > MOST_STATE:
        raise wrong(function, f"gave a state of {len(text):,} characters for one key",
                     f"Let it be of {MOST_STATE:,} at most.")
    return json.loads(text)  # what a restart would make of it


def _fold_columns(rows: Sequence[tuple], kinds: Sequence[str]) -> list[list]:
    """The columns of rows as a fold gives them: whole numbers, decimals, times and bytes as text."""
    def as_text(value: Any) -> str:
        return str(json_ready(value))

    texts = [False] * len(STREAM) + [kind not in _TEXT for kind in kinds]
    if not rows:
        return [[] for _ in texts]
    return [
        [None if value is None else as_text(value) for value in values] if is_text else list(values)
        for values, is_text in zip(zip(*rows, strict=True), texts, strict=True)]
