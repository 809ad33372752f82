"""A task's config against what its type declares."""

from __future__ import annotations

import re

from .positions import DocumentNode, Problems, shown
from .secrets import SECRET, SECRET_NAME, SUSPICIOUS
from .task_types import Parameter, ParameterType, TaskType
from .units import in_unit, units_like

_NAMES: dict[ParameterType, str] = {
    "string": "text", "integer": "an integer", "number": "a number", "boolean": "true or false",
    "list": "a list", "object": "a mapping",
}
_INTEGERS = range(-(2**63), 2**63)  # what a BIGINT holds


def check_config(task_type: TaskType, config: DocumentNode, problems: Problems, *, task_id: str) -> None:
    """Report every parameter that is unknown, missing, ill-typed, out of range or not among the choices."""
    declared = [parameter.name for parameter in task_type.parameters]
    for name, position in config.keys.items():
        if name in declared:
            continue
        near = problems.nearest(name, declared)
        if near:
            remedy = f"Did you mean {near}?"
        else:
            remedy = f"It has {', '.join(declared)}." if declared else "It has no parameters: remove this one."
        problems.add(
            "unknown_parameter", position, f"Task type {task_type.name} has no parameter {shown(name)}.", remedy,
            task_id=task_id,
        )
    for parameter in task_type.parameters:
        node = config.value.get(parameter.name)
        if node is None:
            if parameter.required:
                problems.add(
                    "missing_parameter", config.position,
                    f"Task {task_id} lacks parameter {parameter.name} of type {task_type.name}.",
                    f"Add {parameter.name}: {_in_words(parameter)}. {parameter.doc}".rstrip(), task_id=task_id,
                )
        elif parameter.secret:
            _check_secret(parameter, node, problems, task_id)
        elif node.value is None and not parameter.required and parameter.default is None:
            continue
        elif not _takes_a_secret(task_type, parameter, node, problems, task_id):
            _check_value(parameter, parameter.type, node, problems, task_id)


def _check_secret(parameter: Parameter, node: DocumentNode, problems: Problems, task_id: str) -> None:
    """A secret is named; one that is written out is refused, and is not repeated in the message."""
    if node.value is None and not parameter.required:
        return
    name = node.value.get(SECRET) if node.is_mapping and set(node.value) == {SECRET} else None
    if name is None:
        problems.add(
            "secret_inlined", node.position, f"Parameter {parameter.name} is a secret; it is named, never written out.",
            f'Let an admin of the team keep it under a name, and write {parameter.name}: {{"secret": "that-name"}}. '
            "What stood here should be replaced where it is used.", task_id=task_id,
        )
    elif not isinstance(name.value, str) or SECRET_NAME.fullmatch(name.value) is None:
        problems.add(
            "no_match", name.position, f"Parameter {parameter.name} does not name a secret.",
            "A secret's name has 1 to 63 small letters, digits, dashes and underscores.", task_id=task_id,
        )


def _takes_a_secret(
    task_type: TaskType, parameter: Parameter, node: DocumentNode, problems: Problems, task_id: str
) -> bool:
    """True if a secret stands where none is declared, which is reported: what other parameters hold may show up in
    columns, names and messages. Reports text that looks like a secret, too."""
    if not node.is_mapping:
        return False
    takers = [declared.name for declared in task_type.parameters if declared.secret]
    remedy = f"Of {task_type.name} {', '.join(takers)} may." if takers else f"{task_type.name} takes no secret."
    if set(node.value) == {SECRET} and isinstance(node.value[SECRET].value, str):
        problems.add(
            "secret_not_taken", node.position, f"Parameter {parameter.name} cannot be a secret.", remedy,
            task_id=task_id,
        )
        return True
    for key, inner in node.value.items():
        if key != SECRET and SUSPICIOUS.search(key) and isinstance(inner.value, str) and inner.value:
            problems.add(
                "secret_inlined", inner.position, f"{shown(key)} looks like a secret that is written out.",
                f"Remove it: a document can be read by others. {remedy}", task_id=task_id,
            )
    return False


def _check_value(
    parameter: Parameter, expected: ParameterType, node: DocumentNode, problems: Problems, task_id: str
) -> None:
    def report(code: str, message: str, remedy: str) -> None:
        problems.add(code, node.position, f"Parameter {parameter.name} {message}.", remedy, task_id=task_id)

    value = node.value
    if expected == parameter.type and parameter.unit is not None and isinstance(value, str):
        value = _of_unit(parameter, value, report)
        if value is None:
            return
    if expected == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    if not _is(expected, value):
        report("ill_typed", f"is {_kind(node)}", f"Write {_in_words(parameter, expected)}.")
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
            report("no_match", f"is {shown(value) or 'empty'}",
                   f"Write {parameter.pattern_words or f'text that matches {parameter.pattern}'}")


def _of_unit(parameter: Parameter, text: str, report) -> float | None:
    """A quantity with a unit as a number; reports what is none."""
    quantity = in_unit(text, parameter.unit)
    if quantity is None:
        like = ", ".join(units_like(parameter.unit))
        report("ill_typed", f"is {shown(text) or 'empty'}", f"Write {_in_words(parameter)}, or a quantity in {like}.")
    elif parameter.type == "integer" and quantity.denominator != 1:
        report("ill_typed", f"is {shown(text)}, no whole number of {parameter.unit}", f"Write {_in_words(parameter)}.")
    elif parameter.type == "integer":
        return int(quantity)
    else:
        return float(quantity)  # of at most 149 digits, so no overflow
    return None


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


def _kind(node: DocumentNode) -> str:
    if node.value is None:
        return "null"
    for expected in ("boolean", "integer", "number", "string"):
        if _is(expected, node.value):
            return f"{_NAMES[expected]}, {shown(node.value) or 'empty'}" if expected != "boolean" else (
                "true" if node.value else "false"
            )
    return "a list" if node.is_list else "a mapping"


def _in_words(parameter: Parameter, expected: ParameterType | None = None) -> str:
    kind = _NAMES[expected or parameter.type]
    bounds = [
        f"{word} {bound:g}" for word, bound in (("from", parameter.minimum), ("to", parameter.maximum))
        if bound is not None and (expected or parameter.type) in ("integer", "number")
    ]
    if parameter.choices and (expected or parameter.type) == "string":
        return f"one of {', '.join(parameter.choices)}"
    if parameter.secret:
        return 'the name of a secret, {"secret": "name"}'
    in_what = [f"in {parameter.unit}"] if parameter.unit not in (None, "1") else []
    return " ".join([kind, *in_what, *bounds])
