"""Pairs of events of two streams, within an interval of the events' time.

The streams that enter a task interleave, so what an event is one of is told by its columns: two conditions, in SQL, say
which events are left ones and which are right ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import ColumnError, Columns
from scheduler.model.task_types import Parameter, TaskType

from .carrying import packed, unpacked
from .columns import STREAM, require_scalar
from .config import InvalidConfig, require_columns, settings
from .operators import AHEAD, IDLE, milliseconds
from .select.compiling import compiled
from .select.form import one_form
from .select.grammar import parse
from .select.parsed_text import read_condition
from .state import fold_stream, key_text
from .watermarks import STREAM_NUMBER, TOLD
from .windows import JoinFold

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_BEGINS = "SELECT * FROM input WHERE "
_COLUMN = re.compile(r"([A-Za-z_]\w*)(?:=([A-Za-z_]\w*))?")


def condition_form(value: Any) -> Any:
    """A condition's one form."""
    if not isinstance(value, str):
        return value
    form = one_form(_BEGINS + value)
    return form.removeprefix(_BEGINS) if form.startswith(_BEGINS) else value


def _side(name: str) -> tuple[Parameter, Parameter]:
    return (
        Parameter(name, "string", f"Which events are {name} ones: a condition in SQL, such as side = '{name}' or "
                  "price IS NOT NULL.", required=True, pattern=r"(?s).*\S.*", column="within", form=condition_form,
                  expression=True),
        Parameter(f"{name}_columns", "list", f"Columns that a pair takes of the {name} event, each “column” or "
                  "“name=column”.", required=True, items="string", column="within"))


JOIN = TaskType(
    name="join", kind="transform", family="operator",
    doc="Pairs the events of two streams that have the same key and whose times are near each other.",
    build="workers.library.joins:join", effects=(),
    parameters=(
        Parameter("on", "list", "Columns that are equal in both; a pair has them. Null equals nothing.", required=True,
                  items="string", column="names"),
        *_side("left"), *_side("right"),
        Parameter("before", "number", "How much earlier than the left event the right one may be.", default=60,
                  minimum=0, maximum=604_800, unit="s"),
        Parameter("after", "number", "How much later than the left event the right one may be.", default=60, minimum=0,
                  maximum=604_800, unit="s"),
        Parameter("lateness", "number", "How much later than the latest time of its partition an event may come; "
                  "later ones are left out.", default=0, minimum=0, maximum=604_800, unit="s"),
        AHEAD, IDLE,
        Parameter("late", "string", "What becomes of an event that comes too late: drop it, or mark: it comes out "
                  "alone, and a column late says 1 of it.", default="drop", choices=("drop", "mark"), added=True),
        Parameter("unmatched", "string", "What becomes of a left event that finds no right one: drop it, or emit it "
                  "alone once its time is over.", default="drop", choices=("drop", "emit")),
    ),
    stateful=True, movable_state=True, key="on", by_key=True, by_marks="ahead", passes_key=True, several_streams=True,
    selectivity=0.5, cost_us=40,
)
TASK_TYPES = (JOIN,)


def join(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """One event a pair: the key, the columns of the left event and those of the right one."""
    from pyspark.sql import functions as F

    values = settings(JOIN, config)
    on, sides = list(values["on"]), {side: taken(values, side) for side in ("left", "right")}
    require_columns(inputs.columns, [*on, *(column for names in sides.values() for column in names.values())],
                    task_type="join", remedy="Name columns of the inputs.")
    columns = Columns(dict(inputs.drop(STREAM_NUMBER, TOLD).dtypes))
    packs = {}
    for side, names in sides.items():
        whole = packed(list(dict.fromkeys([*on, *names.values()])))
        is_of_side = read_condition(inputs, _condition(values, side, columns), columns=columns.types)
        packs[f"_{side}"] = F.when(is_of_side, whole)
    has_key = reduce(and_, (F.col(name).isNotNull() for name in on))
    of = F.concat(F.when(has_key, "=").otherwise("!"), key_text(inputs, on)).alias("_of")
    of_stream, streams = _of_streams(inputs)
    selected = inputs.select(*STREAM, of, *of_stream, *[pack.alias(name) for name, pack in packs.items()])
    fold = JoinFold(
        milliseconds(values["before"]), milliseconds(values["after"]), milliseconds(values["lateness"]),
        values["unmatched"] == "emit", values["late"] == "mark", milliseconds(values["ahead"]),
        None if values["idle"] is None else milliseconds(values["idle"]), streams)
    reads = ["_of", "_time", "_seq", "_born", "_left", "_right", *([STREAM_NUMBER] if streams > 1 else [])]
    pairs = fold_stream(selected, fold, by=[], reads=reads, kept=[],
                        added="_seq bigint, _time bigint, _born bigint, _left string, _right string, late bigint")
    key = [F.coalesce(*either).alias(name) for name, *either in zip(  # of one that was late there may be no left event
        on, unpacked("_left", on, inputs.schema), unpacked("_right", on, inputs.schema), strict=True)]
    events = [F.col(name) for name in STREAM] + key
    for side, names in sides.items():
        for name, column in names.items():
            events += unpacked(f"_{side}", [column], inputs.schema, renamed={column: name})
    return pairs.select(*events, *(["late"] if values["late"] == "mark" else []))


def _of_streams(inputs: DataFrame) -> tuple[list[Column], int]:
    """Columns with the number of an event's stream and with the marks of that stream's partitions, and the number of
    streams; no columns and 1 where streams have no numbers."""
    from pyspark.sql import functions as F

    if STREAM_NUMBER not in inputs.columns:
        return [], 1
    number = F.col(STREAM_NUMBER)
    columns = [number]
    if TOLD in inputs.columns:
        name = F.concat(number.cast("string"), F.lit("."))
        columns.append(F.concat(name, F.replace(F.col(TOLD), F.lit(";"), F.concat(F.lit(";"), name))).alias(TOLD))
    return columns, inputs.schema[STREAM_NUMBER].metadata["streams"]


def join_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the config cannot be built."""
    values = settings(JOIN, config)
    names = [*values["on"], *taken(values, "left"), *taken(values, "right"), *_late(values)]
    if twice := sorted({name for name in names if name in STREAM or names.count(name) > 1}):
        raise InvalidConfig(f"A pair would have two columns {', '.join(twice)}.", parameter="right_columns",
                            remedy="Write name=column to give one of them another name.")
    if not values["on"]:
        raise InvalidConfig("There is nothing that pairs have in common.", remedy="Name columns in “on”.",
                            parameter="on")
    for side in ("left", "right"):
        parse(_BEGINS + values[side])


def join_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The key's, the left event's and the right event's."""
    for name in values["on"]:
        require_scalar(inputs, name, parameter="on")
    types = {name: inputs.type_of(name) for name in values["on"]}
    for side in ("left", "right"):
        _condition(values, side, inputs)
        for name, column in taken(values, side).items():
            types[name] = inputs.require(column, parameter=f"{side}_columns")
    return Columns.stream({**types, **_late(values)})


def _late(values: Mapping[str, Any]) -> dict[str, str]:
    return {"late": "bigint"} if values["late"] == "mark" else {}


def taken(values: Mapping[str, Any], side: str) -> dict[str, str]:
    """The columns that a pair takes of one side: by the name there, the column's name."""
    names: dict[str, str] = {}
    for entry in _entries(values[f"{side}_columns"]):
        match = _COLUMN.fullmatch(entry)
        if match is None or match[1] in names:
            raise InvalidConfig(f"“{entry}” is not a column to take.", remedy="Write “column” or “name=column”, each "
                                "name once.", parameter=f"{side}_columns", value=entry)
        names[match[1]] = match[2] or match[1]
    return names


def _entries(entries: Sequence[Any]) -> list[str]:
    return [str(entry) for entry in entries]


def _condition(values: Mapping[str, Any], side: str, columns: Columns) -> str:
    """A side's condition for Spark; a `ColumnError` of the parameter where it cannot be one."""
    try:
        return compiled(parse(_BEGINS + values[side]), columns).where or "true"
    except (InvalidConfig, ColumnError) as error:
        error.facts["parameter"] = side
        raise
