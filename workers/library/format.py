"""Annotating events with what is known about their sensor, and writing events as SenML."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter, TaskType

from .columns import STREAM, typed_columns
from .config import InvalidConfig, require_columns, settings
from .event_schemas import SCHEMAS
from .files import replay_path
from .spark_readers import from_json

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _format_type(name: str, doc: str, parameters: tuple[Parameter, ...], **facts) -> TaskType:
    return TaskType(name=name, kind="transform", family="parse", doc=doc, build=f"workers.library.format:{name}",
                    parameters=parameters, effects=(), **facts)


ANNOTATE = _format_type(
    "annotate", "Adds what is known about a sensor: columns of a metadata table, looked up by its id.",
    (
        Parameter("field", "string", "Column that holds the id.", default="sensor_id", pattern=r"\w+", column="names"),
        Parameter("table", "string", "A built-in table (places: location and type; taxis: company, driver, city; "
                  "people: age and gender), or file.", default="places", choices=("places", "taxis", "people", "file")),
        Parameter("path", "string", "With table file: lines “id:value,value…”, relative to a replay folder.",
                  is_file=True, pattern=r"[^/\\].*"),
        Parameter("columns", "list", "With table file: names of the values.", items="string"),
    ),
    cost_us=1,
)
CSV_TO_SENML = _format_type(
    "csv_to_senml", "Writes an event's columns as one SenML message.",
    (
        Parameter("id_field", "string", "Column that identifies the sensor.", default="sensor_id", pattern=r"\w+",
                  column="names"),
        Parameter("schema", "string", "Units and the name of the id; none: no units.", default="urban",
                  choices=(*SCHEMAS, "none")),
        Parameter("fields", "list", "Columns to write; without it all of the event's own and its metadata.",
                  items="string", column="names"),
    ),
    cost_us=9, opens=True,
)


TASK_TYPES = (ANNOTATE, CSV_TO_SENML)

BUILT_IN_TABLES: dict[str, dict[str, tuple[str, ...]]] = {
    "places": {
        "location": ("harbour", "station", "market", "park", "campus", "airport", "old-town", "riverside"),
        "type": ("analog", "digital", "solar", "radar", "ultrasound", "optical"),
    },
    "taxis": {
        "taxi_company": ("Yellow Line", "City Wheels", "Harbour Cabs", "Night Owl", "Green Ride"),
        "drivername": ("Ada", "Blaise", "Chandra", "Edsger", "Grace", "Ken", "Leslie", "Radia"),
        "taxi_city": ("Manhattan", "Brooklyn", "Queens", "The Bronx", "Staten Island"),
    },
    "people": {"age": tuple(str(age) for age in range(18, 80)), "gender": ("female", "male")},
}


def annotate(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """A built-in table is made of hashes of the id, so that every id has an entry and no table travels along."""
    from pyspark.sql import functions as F

    values = settings(ANNOTATE, config)
    field = values["field"]
    require_columns(inputs.columns, [field], task_type="annotate", remedy="Set field to the column of the id.")
    if values["table"] == "file":
        return _annotate_from_file(inputs, values)
    return inputs.withColumns({
        name: F.get(F.array(*[F.lit(choice) for choice in choices]),
                    F.pmod(F.xxhash64(F.lit(name), F.col(field)), F.lit(len(choices))).cast("int"))
        for name, choices in BUILT_IN_TABLES[values["table"]].items()
    })


def annotate_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the config cannot be built."""
    values = settings(ANNOTATE, config)
    if values["table"] == "file":
        if not values["path"] or not values["columns"]:
            raise InvalidConfig("A table from a file needs path and columns.", remedy="Give both.", table="file")
        typed_columns(values["columns"])
        replay_path(values["path"])


def annotate_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The input's, and those of the table."""
    if values["table"] == "file":
        return inputs.renewed(dict.fromkeys(values["columns"] or (), "string"))
    return inputs.plus(dict.fromkeys(BUILT_IN_TABLES[values["table"]], "string"))


def _annotate_from_file(inputs: DataFrame, values: Mapping[str, Any]) -> DataFrame:
    from pyspark.sql.types import StringType, StructField, StructType

    annotate_check(values)
    names = tuple(values["columns"])
    fields = [field for field in inputs.schema.fields if field.name not in names]
    schema = StructType([*fields, *[StructField(name, StringType()) for name in names]])
    path, field, field_names = str(replay_path(values["path"])), values["field"], [column.name for column in fields]

    def look_up(batches):
        import pyarrow

        table = metadata_table(path, len(names))
        unknown = (None,) * len(names)
        for batch in batches:
            rows = [table.get(key, unknown) for key in batch.column(field).to_pylist()]
            added = [pyarrow.array([row[i] for row in rows], pyarrow.string()) for i in range(len(names))]
            yield pyarrow.RecordBatch.from_arrays(
                [*[batch.column(name) for name in field_names], *added], names=[*field_names, *names])

    return inputs.mapInArrow(look_up, schema)


@lru_cache(maxsize=4)
def metadata_table(path: str, width: int) -> dict[str, tuple[str | None, ...]]:
    """The lines “id:value,value…” of a metadata file, read once a Python worker; short lines are filled with null."""
    table: dict[str, tuple[str | None, ...]] = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            key, colon, values = line.strip().partition(":")
            if colon:
                table[key] = tuple([*values.split(",", width - 1), *[None] * width][:width])
    return table


def csv_to_senml(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Null columns are left out of the message; text is escaped by Spark's JSON writer."""
    from pyspark.sql import functions as F

    values = settings(CSV_TO_SENML, config)
    schema = SCHEMAS.get(values["schema"])
    units = dict(schema.units) if schema else {}
    id_field = values["id_field"]
    reserved = {*STREAM, "msg_id", "meta", id_field}
    names = values["fields"] or [name for name in inputs.columns if name not in reserved]
    require_columns(inputs.columns, [id_field, *names], task_type="csv_to_senml",
                    remedy="Name columns that the task before it gives.")
    texts = {name for name, kind in inputs.dtypes if kind == "string"}
    entries = [_entry(F.lit(schema.id_field if schema else id_field), F.lit("string"), F.col(id_field), text=True)]
    entries += [_entry(F.lit(name), F.lit(units.get(name, "string" if name in texts else "")), F.col(name),
                       text=name in texts) for name in names]
    array = F.array(*entries)
    if "meta" in inputs.columns and not values["fields"]:
        array = F.concat(array, _meta_entries(inputs, units, schema.strings if schema else frozenset()))
    present = F.filter(array, lambda entry: entry["v"].isNotNull() | entry["sv"].isNotNull())
    body = F.to_json(F.struct(present.alias("e"), F.col("_time").alias("bt")))
    return inputs.select(*STREAM, F.concat(F.col("_time").cast("string"), F.lit(","), body).alias("senml"))


def csv_to_senml_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The SenML message."""
    if "meta" in inputs and not values["fields"]:
        inputs.require_text("meta")
    return Columns.stream({"senml": "string"})


def _entry(name: Column, unit: Column, value: Column, *, text: bool | Column) -> Column:
    from pyspark.sql import functions as F

    is_text = F.lit(text) if isinstance(text, bool) else text
    written = value.cast("string")
    return F.struct(unit.alias("u"), name.alias("n"), F.when(~is_text, written).alias("v"),
                    F.when(is_text, written).alias("sv"))


def _meta_entries(inputs: DataFrame, units: Mapping[str, str], strings: frozenset[str]) -> Column:
    from pyspark.sql import functions as F

    unit_of = F.from_json(F.lit("{}"), "map<string,string>")
    if units:
        unit_of = F.create_map(*[F.lit(part) for pair in units.items() for part in pair])
    names = F.array(*[F.lit(name) for name in sorted(strings)]) if strings else F.lit([]).cast("array<string>")
    pairs = F.map_entries(from_json(inputs, F.col("meta"), "map<string,string>"))
    entries = F.transform(pairs, lambda pair: _entry(
        pair["key"], F.coalesce(F.try_element_at(unit_of, pair["key"]), F.lit("string")), pair["value"],
        text=F.array_contains(names, pair["key"]),
    ))
    return F.coalesce(entries, F.array().cast("array<struct<u:string,n:string,v:string,sv:string>>"))
