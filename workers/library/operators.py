"""Operators over streams: union, deduplicate and window; time is the events' (``_time``).

Those with a state are folds (`windows`), so that what comes out depends neither on batches nor on restarts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import STREAM_TYPES, Columns, WrongColumnType
from scheduler.model.task_types import Parameter, TaskType

from .aggregates import INTEGERS, Aggregate, read_aggregates
from .carrying import packed, unpacked
from .columns import STREAM, decimal_of, kept_type, require_scalar
from .config import InvalidConfig, require_columns, settings
from .landmarks import LandmarkWindowed
from .repetitions import Deduplicated
from .spark_text import columns_ddl
from .state import fold_stream, key_text, key_value
from .watermarks import TOLD
from .windows import Windowed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MOST_WINDOWS = 1_000  # that an event may be in
AHEAD = Parameter(
    "ahead", "number", "How far an event's time may be beyond its arrival and still move the watermark; for times "
    "that are meant to be ahead, such as those of a forecast.", default=0, minimum=0, maximum=315_576_000, unit="s",
    added=True)
IDLE = Parameter(
    "idle", "number", "How long a partition may have no events, by arrival, before nothing waits for it any more. "
    "Without it, results stay back while a source is silent.", minimum=1,
    maximum=604_800, unit="s", added=True)


def _operator(name: str, doc: str, parameters: tuple[Parameter, ...], **facts: Any) -> TaskType:
    return TaskType(name=name, kind="transform", family="operator", doc=doc, effects=(), parameters=parameters,
                    build=f"workers.library.operators:{name}", **facts)


UNION = _operator(
    "union", "Passes on the events of all its inputs as they come; a column that only some have is null in others.",
    (Parameter("columns", "list", "Columns to keep; without it all of them.", items="string", column="names"),),
    cost_us=1,
)
DEDUPLICATE = _operator(
    "deduplicate", "Drops repetitions: an event whose key came shortly before, by the events' time.",
    (
        Parameter("by", "list", "Columns that make two events the same.", required=True, items="string",
                  column="names"),
        Parameter("within", "number", "How long an event's repetitions are left out; events may be late by as much.",
                  default=600, minimum=0.001, maximum=604_800, unit="s"),
        AHEAD,
    ),
    stateful=True, movable_state=True, by_key=True, by_marks="ahead", passes_key=True, key="by", selectivity=0.9,
    cost_us=25,
)
WINDOW = _operator(
    "window", "Aggregates over windows of the events' time (one after the other, overlapping, sessions), or up to a "
    "landmark.",
    (
        Parameter("aggregates", "list", "What to compute, each “name=function(column)”: count(*), count, sum, avg, "
                  "min, max, first, last, stddev, variance, median, percentile(column, share), count_distinct, "
                  "collect.",
                  required=True, items="string", column="within"),
        Parameter("kind", "string", "tumbling: one after the other; sliding: one begins every so often; session: as "
                  "long as events follow one another; landmark: up to an event that says so, whatever the time.",
                  default="tumbling", choices=("tumbling", "sliding", "session", "landmark")),
        Parameter("size", "number", "How long a window is; of a session: the silence that ends it.", default=60,
                  minimum=0.001, maximum=2_678_400, unit="s"),
        Parameter("slide", "number", "With kind sliding: how often a window begins.", minimum=0.001,
                  maximum=2_678_400, unit="s"),
        Parameter("by", "list", "Columns whose values each have windows of their own.", items="string",
                  column="names"),
        Parameter("lateness", "number", "How much later than the latest time of its partition an event may come; a "
                  "window closes so much later.", default=0, minimum=0, maximum=604_800, unit="s"),
        Parameter("late", "string", "What becomes of an event whose window has closed: drop it, and count it in the "
                  "key's next result (column late); or mark: a result of its own, whose late is 1.", default="drop",
                  choices=("drop", "mark")),
        AHEAD, IDLE,
        Parameter("landmark", "string", "With kind landmark: the boolean column that is true in the last event of a "
                  "window. That event ends the windows of all keys, in the order in which events come to the task.",
                  column="names", added=True),
    ),
    stateful=True, movable_state=True, by_key=True, by_marks="ahead", across_keys="landmark", key="by",
    selectivity=0.05, cost_us=30,
)
TASK_TYPES = (UNION, DEDUPLICATE, WINDOW)


def milliseconds(seconds: float) -> int:
    """Seconds as whole milliseconds, as Weir counts time."""
    return round(float(seconds) * 1000)


# union ---------------------------------------------------------------------------------------------------------------


def union(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The engine has interleaved the streams already."""
    names = settings(UNION, config)["columns"]
    if not names:
        return inputs
    require_columns(inputs.columns, names, task_type="union", remedy="Name columns of the inputs.")
    return inputs.select(*STREAM, *[name for name in dict.fromkeys(names) if name not in STREAM])


def union_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """All, or those that are named."""
    if not values["columns"]:
        return inputs
    return Columns({**STREAM_TYPES, **{name: inputs.type_of(name) for name in values["columns"]}})


# deduplicate ---------------------------------------------------------------------------------------------------------


def deduplicate(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The first event of each key; the others of its time do not pass."""
    from pyspark.sql import functions as F

    values = settings(DEDUPLICATE, config)
    by, columns = list(values["by"]), [name for name in inputs.columns if name not in (*STREAM, TOLD)]
    require_columns(inputs.columns, by, task_type="deduplicate", remedy="Name columns of the input.")
    whole = inputs.select(*STREAM, *_extras(inputs), key_text(inputs, by).alias("_of"), packed(columns).alias("_whole"))
    fold = Deduplicated(milliseconds(values["within"]), milliseconds(values["ahead"]))
    passed = fold_stream(whole, fold, by=[], reads=["_of", "_time", "_seq", "_born"], kept=[*STREAM, "_whole"],
                         added="")
    return passed.select(*[F.col(name) for name in STREAM], *unpacked("_whole", columns, inputs.schema))


def deduplicate_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where there is no key."""
    if not settings(DEDUPLICATE, config)["by"]:
        raise InvalidConfig("There is nothing to tell repetitions by.", remedy="Name columns in “by”.", parameter="by")


def deduplicate_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The input's."""
    for name in values["by"]:
        require_scalar(inputs, name, parameter="by")
    return passed_columns(inputs)


def passed_columns(inputs: Columns) -> Columns:
    """The columns of a task whose events are those of its input: Weir's own, then the others."""
    columns = {name: kind for name, kind in inputs.types.items() if name not in STREAM_TYPES}
    return Columns({**STREAM_TYPES, **columns}, inputs.complete)


def _extras(inputs: DataFrame) -> list[str]:
    """What a part of a stream has beside the stream's columns."""
    return [TOLD] if TOLD in inputs.columns else []


# window --------------------------------------------------------------------------------------------------------------


def window(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """One event a window that closes: the key, its start and end in ms, the aggregates, and how many came late."""
    from pyspark.sql import functions as F

    values = settings(WINDOW, config)
    kinds = dict(inputs.dtypes)
    aggregates, fold = window_fold(values, kinds)
    by = list(values["by"] or ())
    landmark = [values["landmark"]] if values["landmark"] else []
    require_columns(inputs.columns, [*by, *landmark, *(
        aggregate.column for aggregate in aggregates if aggregate.column)],
        task_type="window", remedy="Name columns of the input.")
    read = {f"_v{index}": _value(aggregate) for index, aggregate in enumerate(aggregates)}
    # Numbers go through as text: pandas has no null among whole ones, and takes NaN for null.
    key_kinds = {name: "boolean" if kinds[name] == "boolean" else "string" for name in by}
    keys = {f"_k{index}": key_value(inputs, name).cast(key_kinds[name]) for index, name in enumerate(by)}
    ends = {f"_ends{index}": F.col(name) for index, name in enumerate(landmark)}
    selected = inputs.select(*STREAM, *_extras(inputs), key_text(inputs, by).alias("_of"), *[
        column.alias(name) for name, column in {**ends, **keys, **read}.items()])
    key_types = columns_ddl(key_kinds)
    results = columns_ddl({aggregate.name: aggregate.type for aggregate in aggregates})
    added = ", ".join(part for part in (
        "_seq bigint, _time bigint, _born bigint", key_types, "window_start bigint, window_end bigint", results,
        "late bigint") if part)
    closed = fold_stream(selected, fold, by=[], reads=["_of", *ends, "_time", "_seq", "_born", *keys, *read], kept=[],
                         added=added)
    return closed.withColumns({name: F.col(name).cast(_key_type(kinds[name])) for name in by})


def window_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the config cannot be built."""
    window_fold(settings(WINDOW, config))


def window_fold(
    values: Mapping[str, Any], kinds: Mapping[str, str | None] = MappingProxyType({})
) -> tuple[tuple[Aggregate, ...], Windowed | LandmarkWindowed]:
    """The aggregates, of columns of these types, and the fold of a config."""
    aggregates = tuple(replace(aggregate, of=_read_type(kinds.get(aggregate.column)) or "") for aggregate in
                       read_aggregates(values["aggregates"]))
    size, by = milliseconds(values["size"]), list(values["by"] or ())
    taken = {*STREAM, "window_start", "window_end", "late"}
    names = [*by, *(aggregate.name for aggregate in aggregates)]
    if twice := sorted({name for name in names if name in taken or names.count(name) > 1}):
        raise InvalidConfig(f"The window would have two columns {', '.join(twice)}.",
                            remedy="Give keys and aggregates names of their own.", parameter="aggregates")
    if (values["landmark"] is not None) != (values["kind"] == "landmark"):
        raise InvalidConfig("A window up to a landmark needs landmark, and no other takes it.", parameter="landmark",
                            remedy="Set kind to landmark and landmark to the column that is true in a window's last "
                            "event.")
    if (values["slide"] is not None) != (values["kind"] == "sliding"):
        raise InvalidConfig("A sliding window needs slide, and no other takes it.",
                            remedy="Set kind to sliding and slide to how often a window begins.", parameter="slide")
    if values["kind"] == "landmark":
        return aggregates, LandmarkWindowed(len(by), aggregates)
    slide = {"tumbling": size, "session": 0}.get(values["kind"]) if values["slide"] is None else milliseconds(
        values["slide"])
    if slide and (slide > size or size / slide > MOST_WINDOWS):
        raise InvalidConfig(f"A window of {size} ms cannot begin every {slide} ms.", parameter="slide",
                            remedy=f"Let slide be at most size, and size at most {MOST_WINDOWS} times slide.")
    return aggregates, Windowed(
        size, slide or 0, milliseconds(values["lateness"]), values["late"] == "mark", len(by), aggregates,
        milliseconds(values["ahead"]), None if values["idle"] is None else milliseconds(values["idle"]))


def window_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The key's, the window's start and end, the aggregates and ``late``."""
    kinds: dict[str, str | None] = dict(inputs.types)
    aggregates, _ = window_fold(values, kinds)
    if values["landmark"]:
        kind = inputs.require(values["landmark"], parameter="landmark")
        if kind not in (None, "boolean"):
            raise WrongColumnType(
                f"The column {values['landmark']} is {kind}; a landmark is true or false.", parameter="landmark",
                remedy="Compute a condition in a sql task before it.", value=values["landmark"],
                column=values["landmark"], type=kind)
    for aggregate in aggregates:
        if aggregate.column:
            if aggregate.kind.numbers:
                inputs.require_number(aggregate.column, parameter="aggregates")
            else:
                require_scalar(inputs, aggregate.column, parameter="aggregates")
    keys = {}
    for name in values["by"] or ():
        require_scalar(inputs, name, parameter="by")
        keys[name] = _key_type(kinds.get(name))
    results = {aggregate.name: aggregate.type if aggregate.of or not aggregate.column else None
               for aggregate in aggregates}
    return Columns.stream({**keys, "window_start": "bigint", "window_end": "bigint", **results, "late": "bigint"})


def _key_type(kind: str | None) -> str | None:
    """The type that a key's column has in a result: numbers keep theirs."""
    return kind if kind in INTEGERS or (kind is not None and decimal_of(kind)) else kept_type("", kind)


def _read_type(kind: str | None) -> str | None:
    """The type that an aggregate sees a column in: whole numbers and decimals are exact, others doubles."""
    if kind in INTEGERS or (kind is not None and decimal_of(kind)):
        return kind
    return "double" if kind == "float" else kept_type("", kind)


def _value(aggregate: Aggregate) -> Column:
    from pyspark.sql import functions as F

    if not aggregate.column:
        return F.lit(None).cast("string")
    return F.col(aggregate.column).cast(str(kept_type("", aggregate.of)))
