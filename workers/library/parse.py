"""Parsing and formatting: text to typed columns, columns to observations, and back to SenML.

An observation is an event of its own, as in RIoTBench: ``msg_id`` (the message it came in), ``sensor_id``, ``obs``
(which quantity), ``value`` (null where the reading is missing) and ``meta`` (the message's metadata, a JSON object).
Text that cannot be read never fails a query: a message that is no SenML gives no event, a bad value gives null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter, TaskType

from .columns import COLUMN_TYPES, OBSERVATION, OBSERVATION_TYPES, STREAM, require_scalar, typed_columns
from .config import InvalidConfig, require_columns, settings
from .event_schemas import SCHEMAS, EventSchema
from .spark_readers import READING, from_json, typed_values

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_COLUMNS = Parameter(
    "columns", "list", "Columns to read, each “name” or “name:type” ({}).".format(", ".join(COLUMN_TYPES)),
    required=True, items="string",
)


def _text(name: str) -> Parameter:
    return Parameter("field", "string", "Column that holds the text.", default=name, pattern=r"\w+", column="names")


def _parse_type(name: str, doc: str, parameters: tuple[Parameter, ...], **facts) -> TaskType:
    return TaskType(name=name, kind="transform", family="parse", doc=doc, build=f"workers.library.parse:{name}",
                    parameters=parameters, effects=(), opens=True, **facts)


SENML_PARSE = _parse_type(
    "senml_parse", "Parses SenML into one event for each observation (or one for each message, layout wide).",
    (
        _text("senml"),
        Parameter("schema", "string", "Which fields a message has; own: the three parameters below say it.",
                  default="urban", choices=(*SCHEMAS, "own")),
        Parameter("id_field", "string", "With schema own: the field that identifies the sensor.", pattern=r"\w+"),
        Parameter("meta_fields", "list", "With schema own: fields that travel along as metadata.", items="string"),
        Parameter("fields", "list", "The observations to take; without it all of the schema.", items="string"),
        Parameter("layout", "string", "long: an event for each observation (obs, value); wide: a column for each.",
                  default="long", choices=("long", "wide")),
    ),
    selectivity=5.0, cost_us=25,
)
CSV_PARSE = _parse_type(
    "csv_parse", "Parses a line of comma-separated values into typed columns.",
    (_text("csv"), _COLUMNS,
     Parameter("delimiter", "string", "What separates the values.", default=",", pattern=r"[^\w\s\"]|\t| ")),
    cost_us=10,
)
JSON_PARSE = _parse_type(
    "json_parse", "Parses a JSON object into typed columns. A number that becomes a string keeps its text: 1.10.",
    (_text("json"), _COLUMNS), cost_us=10,
)
XML_PARSE = _parse_type(
    "xml_parse", "Parses an XML element into typed columns: its attributes (_name) and children; no external entities.",
    (_text("xml"), _COLUMNS), cost_us=60,
)
OBSERVATIONS = _parse_type(
    "observations", "Turns an event's columns into one event for each observation, as senml_parse gives them.",
    (
        Parameter("id_field", "string", "Column that identifies the sensor.", required=True, pattern=r"\w+",
                  column="names"),
        Parameter("fields", "list", "Columns that are observations.", required=True, items="string", column="names"),
        Parameter("meta_fields", "list", "Columns that travel along as metadata.", items="string", column="names"),
    ),
    selectivity=5.0, cost_us=8,
)
TASK_TYPES = (SENML_PARSE, CSV_PARSE, JSON_PARSE, XML_PARSE, OBSERVATIONS)


def senml_parse(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """One pass of Spark's JSON reader over each message; a time in front of it, as RIoTBench writes, is skipped."""
    from pyspark.sql import functions as F

    values = settings(SENML_PARSE, config)
    schema = event_schema(values)
    text = values["field"]
    require_columns(inputs.columns, [text], task_type="senml_parse", remedy="Set field to the column of the text.")
    body = F.substring(text, F.locate("{", F.col(text)), F.length(text))
    entries = from_json(inputs, body, "e array<struct<n: string, v: string, sv: string>>")["e"]
    # No filter on what was computed here: Spark would push it down and read the JSON once more for it. A message
    # that cannot be read gives an empty array instead, and so no event.
    messages = inputs.select(*STREAM, _message_id(text).alias("msg_id"), entries.alias("_entries"))
    described = messages.withColumns({
        "sensor_id": _entry_value(F.lit(schema.id_field)),
        "meta": F.to_json(F.struct(*[_entry_value(F.lit(name)).alias(name) for name in schema.meta_fields]))
        if schema.meta_fields else F.lit("{}"),
    })
    if values["layout"] == "wide":
        fields = [_entry_value(F.lit(name)).try_cast("double").alias(name) for name in schema.fields]
        readings = F.array(F.struct(*fields))
    else:
        readings = F.transform(
            F.array(*[F.lit(name) for name in schema.fields]),
            lambda name: F.struct(name.alias("obs"), _entry_value(name).try_cast("double").alias("value")),
        )
    events = described.select(*STREAM, "msg_id", "sensor_id", "meta",
                              F.inline(F.when(F.col("sensor_id").isNotNull(), readings)))
    return events if values["layout"] == "wide" else events.select(*OBSERVATION)


def senml_parse_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the config cannot be built."""
    event_schema(settings(SENML_PARSE, config))


def senml_parse_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """An observation's, or a message's with a column for each observation."""
    inputs.require_text(values["field"], parameter="field")
    fields = event_schema(values).fields
    if values["layout"] == "long":
        return replace(Columns.stream(OBSERVATION_TYPES), observations=frozenset(fields))
    message = {"msg_id": "string", "sensor_id": "string", "meta": "string"}
    return Columns.stream(message | dict.fromkeys(fields, "double"))


def event_schema(values: Mapping[str, Any]) -> EventSchema:
    """The schema that ``schema``, ``id_field``, ``meta_fields`` and ``fields`` of a config name together."""
    fields = tuple(values["fields"] or ())
    if values["schema"] == "own":
        if not values["id_field"] or not fields:
            raise InvalidConfig("The schema “own” needs id_field and fields.",
                                remedy="Give both, or name a built-in schema.", schema="own")
        names = (values["id_field"], *(values["meta_fields"] or ()), *fields)
        typed_columns(names)
        return EventSchema("own", names[0], tuple(values["meta_fields"] or ()), fields, {}, frozenset([names[0]]))
    schema = SCHEMAS[values["schema"]]
    unknown = [name for name in fields if name not in schema.fields]
    if unknown:
        raise InvalidConfig(
            f"The schema {schema.name} has no {', '.join(unknown)}.",
            remedy=f"It has {', '.join(schema.fields)}.", unknown=unknown,
        )
    return EventSchema(schema.name, schema.id_field, schema.meta_fields, fields or schema.fields, schema.units,
                       schema.strings)


def _message_id(column: str) -> Column:
    """16 hexadecimal digits that two messages hardly share, be they of one source or of several."""
    from pyspark.sql import functions as F

    return F.lpad(F.hex(F.xxhash64("_seq", column)), 16, "0")


def _entry_value(name: Column) -> Column:
    """The text of the first entry of that name, or null."""
    from pyspark.sql import functions as F

    entry = F.get(F.filter("_entries", lambda entry: entry["n"] == name), F.lit(0))
    return F.coalesce(entry["v"], entry["sv"])


def csv_parse(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Spark's CSV reader on each line; a value that its type cannot take is null."""
    from pyspark.sql import functions as F

    values = settings(CSV_PARSE, config)
    return _parsed(inputs, values, lambda text, ddl: F.from_csv(text, ddl, {"sep": values["delimiter"], **READING}))


def json_parse(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Spark's JSON reader on each object."""
    return _parsed(inputs, settings(JSON_PARSE, config), lambda text, ddl: from_json(inputs, text, ddl))


def xml_parse(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Spark's XML reader on each element, after refusing text that declares a document type.

    External entities and entities that explode need such a declaration, and data has no use for one.
    """
    from pyspark.sql import functions as F

    def read(text: Column, ddl: str) -> Column:
        harmless = F.when(~F.upper(text).contains("<!DOCTYPE"), text)
        return F.from_xml(harmless, ddl, dict(READING))

    return _parsed(inputs, settings(XML_PARSE, config), read)


def _parsed(inputs: DataFrame, values: Mapping[str, Any], read) -> DataFrame:
    from pyspark.sql import functions as F

    columns = typed_columns(values["columns"])
    field = values["field"]
    require_columns(inputs.columns, [field], task_type="The parser", remedy="Set field to the column of the text.")
    return inputs.select(*STREAM, *typed_values(inputs, F.col(field), columns, read))


def _columns_check(config: Mapping[str, Any]) -> None:
    typed_columns(config.get("columns") or ())


csv_parse_check = json_parse_check = xml_parse_check = _columns_check


def _parsed_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    inputs.require_text(values["field"], parameter="field")
    return Columns.stream(typed_columns(values["columns"]))


csv_parse_columns = json_parse_columns = xml_parse_columns = _parsed_columns


def observations(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Wide to long: what a parser of columns gives becomes what the statistics read."""
    from pyspark.sql import functions as F

    values = settings(OBSERVATIONS, config)
    fields, meta = values["fields"], values["meta_fields"] or []
    require_columns(inputs.columns, [values["id_field"], *fields, *meta], task_type="observations",
                    remedy="Name columns that the task before it gives.")
    identity = F.col("msg_id") if "msg_id" in inputs.columns else _message_id(values["id_field"])
    readings = F.array(*[
        F.struct(F.lit(name).alias("obs"), F.col(name).try_cast("double").alias("value")) for name in fields
    ])
    return inputs.select(
        *STREAM, identity.alias("msg_id"), F.col(values["id_field"]).cast("string").alias("sensor_id"),
        json_object(meta).alias("meta"), F.inline(readings),
    ).select(*OBSERVATION)


def observations_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """An observation's."""
    for name in values["fields"]:
        require_scalar(inputs, name, parameter="fields")
    return replace(Columns.stream(OBSERVATION_TYPES), observations=frozenset(values["fields"]))


def json_object(columns: Sequence[str]) -> Column:
    """A JSON object of the columns' values as text."""
    from pyspark.sql import functions as F

    texts = [F.col(name).cast("string").alias(name) for name in columns]
    return F.to_json(F.struct(*texts)) if texts else F.lit("{}")
