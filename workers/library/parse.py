"""Parsing and formatting: text to typed columns, columns to observations, and back to SenML."""

from __future__ import annotations

from scheduler.model.task_types import Parameter, TaskType

from .schemas import SCHEMAS

_COLUMNS = Parameter(
    "columns", "list", "Columns to read, each “name” or “name:type” (string, double, bigint, boolean, timestamp).",
    required=True, items="string",
)


def _text(name: str) -> Parameter:
    return Parameter("field", "string", "Column that holds the text.", default=name, pattern=r"\w+")


def _parse_type(name: str, doc: str, parameters: tuple[Parameter, ...], **facts) -> TaskType:
    return TaskType(name=name, kind="transform", family="parse", doc=doc, build=f"workers.library.parse:{name}",
                    parameters=parameters, **facts)


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
    selectivity=5.0, cost_us=30, key=None,
)
CSV_PARSE = _parse_type(
    "csv_parse", "Parses a line of comma-separated values into typed columns.",
    (_text("csv"), _COLUMNS,
     Parameter("delimiter", "string", "What separates the values.", default=",", pattern=r"[^\w\s\"]|\t| ")),
    cost_us=10,
)
JSON_PARSE = _parse_type(
    "json_parse", "Parses a JSON object into typed columns.", (_text("json"), _COLUMNS), cost_us=10,
)
XML_PARSE = _parse_type(
    "xml_parse", "Parses an XML element into typed columns: its attributes (_name) and children; no external entities.",
    (_text("xml"), _COLUMNS), cost_us=60,
)
OBSERVATIONS = _parse_type(
    "observations", "Turns an event's columns into one event for each observation, as senml_parse gives them.",
    (
        Parameter("id_field", "string", "Column that identifies the sensor.", required=True, pattern=r"\w+"),
        Parameter("fields", "list", "Columns that are observations.", required=True, items="string"),
        Parameter("meta_fields", "list", "Columns that travel along as metadata.", items="string"),
    ),
    selectivity=5.0, cost_us=8,
)
ANNOTATE = _parse_type(
    "annotate", "Adds what is known about a sensor: columns of a metadata table, looked up by its id.",
    (
        Parameter("field", "string", "Column that holds the id.", default="sensor_id", pattern=r"\w+"),
        Parameter("table", "string", "A built-in table (places: location and type; taxis: company, driver, city; "
                  "people: age and gender), or file.", default="places", choices=("places", "taxis", "people", "file")),
        Parameter("path", "string", "With table file: lines “id:value,value…”, relative to a replay folder.",
                  pattern=r"[^/\\].*"),
        Parameter("columns", "list", "With table file: names of the values.", items="string"),
    ),
    cost_us=8,
)
CSV_TO_SENML = _parse_type(
    "csv_to_senml", "Writes an event's columns as one SenML message.",
    (
        Parameter("id_field", "string", "Column that identifies the sensor.", default="sensor_id", pattern=r"\w+"),
        Parameter("schema", "string", "Units and the name of the id; none: no units.", default="urban",
                  choices=(*SCHEMAS, "none")),
        Parameter("fields", "list", "Columns to write; without it all of the event's own and its metadata.",
                  items="string"),
    ),
    cost_us=20,
)

TASK_TYPES = (SENML_PARSE, CSV_PARSE, JSON_PARSE, XML_PARSE, OBSERVATIONS, ANNOTATE, CSV_TO_SENML)
