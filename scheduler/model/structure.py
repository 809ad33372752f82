"""Checks of a document's structure by the published JSON Schema, with the place and the remedy of each problem."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema
from jsonschema.validators import extend

from .positions import DocumentNode, Problems, shown
from .schema import dataflow_schema

CODES = {  # by the keyword of the schema, or the keyword and the title of what it is about
    "type": "ill_typed", "required": "missing_key", "additionalProperties": "unknown_key", "enum": "not_a_choice",
    "maxLength": "too_long", "minimum": "not_positive", "exclusiveMinimum": "not_positive", "maximum": "out_of_range",
    "pattern name of the alternate": "invalid_id", "minItems alternates": "too_few_alternates",
    "maxItems alternates": "too_many_alternates",
    "minItems tasks of the path": "no_tasks", "minItems tasks of the loop": "no_tasks",
    "maxItems tasks of the path": "too_many_tasks", "maxItems tasks of the loop": "too_many_tasks",
    "maxItems streams of the path": "too_many_streams", "maxItems streams of the loop": "too_many_streams",
    "minimum number of iterations": "out_of_range",
    "pattern name": "empty_name", "pattern task id": "invalid_id", "pattern port": "invalid_id",
    "minItems tasks": "no_tasks",
    "maxItems tasks": "too_many_tasks", "maxItems streams": "too_many_streams",
}
_TYPES = {"string": "text", "number": "a number", "integer": "a whole number", "array": "a list", "object": "a mapping"}
_REMEDIES = {
    "ill_typed string": "Write text, in quotes where it looks like a number.", "ill_typed number": "Write a number.",
    "ill_typed integer": "Write a whole number.",
    "ill_typed array": "Write a list.", "ill_typed object": "Write a mapping of keys to values.",
    "empty_name": "Say in a few words what this is.", "too_long": "Shorten it.",
    "invalid_id": "Use 1 to 64 letters, digits, dots, dashes and underscores, beginning with a letter or digit.",
    "too_few_alternates": "Add another way to do it, or give the task a type and a config.",
    "no_tasks": "Add a source, a sink and a stream.", "no_tasks within": "Add a task, from input to output.",
}


def check_structure(root: DocumentNode, problems: Problems) -> None:
    """Report where a document differs from the schema; raises Unreadable where it has too many tasks or streams."""
    for error in _validator().iter_errors(root.plain()):
        _report(error, root, problems)


def _report(error: jsonschema.ValidationError, root: DocumentNode, problems: Problems) -> None:
    node, task_id = _node_at(root, list(error.absolute_path))
    schema, limit, value = error.schema, error.validator_value, error.instance
    title = schema["title"]
    code = CODES.get(f"{error.validator} {title}") or CODES[error.validator]
    position, remedy = node.position, _REMEDIES.get(code, "")
    if code == "no_tasks" and title != "tasks":
        remedy = _REMEDIES["no_tasks within"]
    match error.validator:
        case "type":
            types = [limit] if isinstance(limit, str) else limit
            message = f"The {title} must be {_TYPES[types[0]]}, not {_described(value)}."
            remedy = f"{_REMEDIES[f'{code} {types[0]}']} {schema.get('description', '')}".rstrip()
        case "required":
            message, remedy = f"The {title} needs {error.message}.", f"Add {error.message}."
        case "additionalProperties":
            key, properties = error.message, schema["properties"]
            position, near = node.keys[key], problems.nearest(key, properties)
            message = f"A {title} has no key {shown(key) or 'without a name'}."
            remedy = f"Did you mean {near}?" if near else f"It has {', '.join(properties)}."
        case "enum":
            message = f"The {title} is {_described(value)}."
            remedy = f"Write {' or '.join(limit)}. {schema['description']}"
        case "maxLength":
            message = f"The {title} has {len(value):,} characters; at most {limit:,} are allowed."
        case "pattern":
            message = f"The {title} {shown(value)} is not allowed." if value.strip() else f"The {title} is empty."
        case "minimum":
            message, remedy = f"The {title} is {shown(value)}.", f"Write {limit} or more."
        case "exclusiveMinimum":
            message, remedy = f"The {title} is {shown(value)}.", f"Write a number greater than {limit}."
        case "maximum":
            message, remedy = f"The {title} is {shown(value)}.", f"Write {limit:,} or less."
        case "minItems":
            message = f"There are no {title}." if not value else f"There is one of the {title} only."
        case "maxItems":
            message = f"There are {len(value):,} {title}; at most {limit:,} are allowed."
            raise problems.stop(code, node.value[limit].position, message, "Split the dataflow.")
    problems.add(code, position, message, remedy, task_id=task_id)


def _node_at(root: DocumentNode, path: list[str | int]) -> tuple[DocumentNode, str | None]:
    """The node that a path leads to, and the id of the task that it is in."""
    node, task_id = root, None
    for depth, step in enumerate(path):
        node = node.value[step]
        if depth == 1 and path[0] == "tasks" and node.is_mapping and "id" in node.value:
            task_id = node.value["id"].value
    return node, task_id if isinstance(task_id, str) else None


def _described(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return {None: "null", True: "true", False: "false"}.get(value) if value is None or isinstance(value, bool) else (
        shown(value) or "empty")


# -- the validator -----------------------------------------------------------------------------------------------------


@cache
def _validator() -> jsonschema.protocols.Validator:
    """Checks the schema but for what takes more than a schema: configs are checked against the declarations of their
    task types, and the ends of streams, the keys of rates and latency limits against the tasks."""
    schema = dataflow_schema()
    structure = _resolved({key: value for key, value in schema.items() if key != "$defs"}, schema["$defs"])
    task = structure["properties"]["tasks"]["items"]["properties"]
    alternate = task["alternates"]["items"]["properties"]
    step = alternate["tasks"]["items"]["properties"]
    loops = [within["loop"]["properties"] for within in (task, step)]
    for way in (task, alternate, step, *(loop["tasks"]["items"]["properties"] for loop in loops)):
        way["config"].pop("additionalProperties")
    for streams in (within["streams"] for within in (structure["properties"], alternate, *loops)):
        for end in ("from", "to"):
            streams["items"]["properties"][end].pop("pattern")
        streams["items"]["properties"]["split"].pop("required")  # the type of its task says what it needs
    structure["properties"]["rates"].pop("propertyNames")
    structure["properties"]["latency"].pop("anyOf")  # `latency_reading` says what is wrong with it
    return extend(
        jsonschema.Draft202012Validator, {"required": _required, "additionalProperties": _additional_properties}
    )(structure)


def _resolved(schema: Any, definitions: dict[str, Any]) -> Any:
    """The schema with each reference replaced by what it refers to: looking them up takes most of the time."""
    if isinstance(schema, list):
        return [_resolved(element, definitions) for element in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        referred = definitions[schema["$ref"].removeprefix("#/$defs/")]
        schema = referred | {key: value for key, value in schema.items() if key != "$ref"}
    resolved = {key: _resolved(value, definitions) for key, value in schema.items()}
    if isinstance(pattern := resolved.get("pattern"), str) and pattern.endswith("$"):
        resolved["pattern"] = pattern[:-1] + r"\Z"  # Python's $ takes a line break behind the end
    return resolved


def _required(_: Any, required: list[str], value: Any, __: Any) -> Iterator[jsonschema.ValidationError]:
    """An error for each key that is missing, with the key as its message."""
    if isinstance(value, dict):
        yield from (jsonschema.ValidationError(key) for key in required if key not in value)


def _additional_properties(
    validator: Any, additional: Any, value: Any, schema: dict[str, Any]
) -> Iterator[jsonschema.ValidationError]:
    """An error for each key that is not known, with the key as its message."""
    if additional is not False:
        yield from jsonschema.Draft202012Validator.VALIDATORS["additionalProperties"](
            validator, additional, value, schema)
    elif isinstance(value, dict):
        yield from (jsonschema.ValidationError(key) for key in value if key not in schema["properties"])
