"""A task's config against what its type declares."""

from __future__ import annotations

import re

from .positions import Node, Problems, shown
from .task_types import Parameter, ParameterType, TaskType

_NAMES: dict[ParameterType, str] = {
    "string": "text", "integer": "an integer", "number": "a number", "boolean": "true or false",
    "list": "a list", "object": "a mapping",
}
_INTEGERS = range(-(2**63), 2**63)  # what a BIGINT holds


def check_config(task_type: TaskType, config: Node, problems: Problems, *, task_id: str) -> None:
    """Report every parameter that is unknown, missing, ill-typed, out of range or not among the choices."""
    declared = [parameter.name for parameter in task_type.parameters]
    for name, place in config.keys.items():
        if name in declared:
            continue
        near = problems.nearest(name, declared)
        if near:
            remedy = f"Did you mean {near}?"
        else:
            remedy = f"It has {', '.join(declared)}." if declared else "It has no parameters: remove this one."
        problems.add(
            "unknown_parameter", place, f"Task type {task_type.name} has no parameter {shown(name)}.", remedy,
            task_id=task_id,
        )
    for parameter in task_type.parameters:
        node = config.value.get(parameter.name)
        if node is None:
            if parameter.required:
                problems.add(
                    "missing_parameter", config.place,
                    f"Task {task_id} lacks parameter {parameter.name} of type {task_type.name}.",
                    f"Add {parameter.name}: {_expected(parameter)}. {parameter.doc}".rstrip(), task_id=task_id,
                )
        elif node.value is not None or parameter.required or parameter.default is not None:
            _check_value(parameter, parameter.type, node, problems, task_id)


def _check_value(
    parameter: Parameter, expected: ParameterType, node: Node, problems: Problems, task_id: str
) -> None:
    def report(code: str, message: str, remedy: str) -> None:
        problems.add(code, node.place, f"Parameter {parameter.name} {message}.", remedy, task_id=task_id)

    value = node.value
    if not _is(expected, value):
        report("ill_typed", f"is {_kind(node)}", f"Write {_expected(parameter, expected)}.")
    elif expected == "list":
        for element in value:
            if parameter.items is not None:
                _check_value(parameter, parameter.items, element, problems, task_id)
    elif expected in ("integer", "number"):
        _check_number(parameter, expected, value, report)
    elif expected == "string":
        if parameter.choices and value not in parameter.choices:
            near = problems.nearest(value, parameter.choices)
            report(
                "not_a_choice", f"is {shown(value) or 'empty'}",
                (f"Did you mean {near}? " if near else "") + f"The choices are {', '.join(parameter.choices)}.",
            )
        if parameter.pattern is not None and re.fullmatch(parameter.pattern, value) is None:
            report("no_match", f"is {shown(value) or 'empty'}", f"Write text that matches {parameter.pattern}")


def _check_number(parameter: Parameter, expected: ParameterType, value: float, report) -> None:
    if expected == "integer" and value not in _INTEGERS:
        report("out_of_range", "is larger than 64 bits hold", "Write a smaller number.")
    elif parameter.minimum is not None and value < parameter.minimum:
        report("out_of_range", f"is {value}", f"Write {parameter.minimum:g} or more.")
    elif parameter.maximum is not None and value > parameter.maximum:
        report("out_of_range", f"is {value}", f"Write {parameter.maximum:g} or less.")


def _is(expected: ParameterType, value: object) -> bool:
    if expected in ("integer", "number"):
        kinds = int if expected == "integer" else (int, float)
        return isinstance(value, kinds) and not isinstance(value, bool)
    return isinstance(value, {"string": str, "boolean": bool, "list": list, "object": dict}[expected])


def _kind(node: Node) -> str:
    if node.value is None:
        return "null"
    for expected in ("boolean", "integer", "number", "string"):
        if _is(expected, node.value):
            return f"{_NAMES[expected]}, {shown(node.value) or 'empty'}" if expected != "boolean" else (
                "true" if node.value else "false"
            )
    return "a list" if node.is_list else "a mapping"


def _expected(parameter: Parameter, expected: ParameterType | None = None) -> str:
    kind = _NAMES[expected or parameter.type]
    bounds = [
        f"{word} {bound:g}" for word, bound in (("from", parameter.minimum), ("to", parameter.maximum))
        if bound is not None and (expected or parameter.type) in ("integer", "number")
    ]
    if parameter.choices and (expected or parameter.type) == "string":
        return f"one of {', '.join(parameter.choices)}"
    return " ".join([kind, *bounds])
