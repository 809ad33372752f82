"""Every built-in task type with its parameters, from the declarations: `./weir docs` writes docs/made/task_types.md."""

from __future__ import annotations

import json

from scheduler.model.effects import effects_in_words
from scheduler.model.task_types import Parameter, TaskType

from .registry import built_in

FAMILIES = ("source", "parse", "filter", "statistics", "predict", "operator", "math", "io", "sink")


def tables() -> str:
    """A page with them, family by family."""
    types = built_in()
    parts = ["# Task types of the library\n"]
    for family in FAMILIES:
        parts.append(f"## Family: {family}\n")
        parts.extend(_task_type(task_type) for task_type in types if task_type.family == family)
    return "\n".join(parts)


def _task_type(task_type: TaskType) -> str:
    facts = [f"{task_type.selectivity:g} events out for one in", f"about {task_type.cost_us:g} µs for an event in"]
    if task_type.stateful:
        facts.append(f"state for each {task_type.key}")
    if task_type.approved_only:
        facts.append(f"reaches {effects_in_words(task_type)}: runs only as it was approved")
    lines = [f"### `{task_type.name}`\n", f"{task_type.doc} ({'; '.join(facts)})\n"]
    if task_type.parameters:
        lines += ["| parameter | type | default | meaning |", "|---|---|---|---|"]
        lines += [_parameter(parameter) for parameter in task_type.parameters]
        lines.append("")
    return "\n".join(lines)


def _parameter(parameter: Parameter) -> str:
    kind = f"{'set' if parameter.is_set else 'list'} of {parameter.items}s" if parameter.items else parameter.type
    if parameter.unit not in (None, "1"):
        kind += f" in {parameter.unit}"
    if parameter.secret:
        kind = "secret"
    elif parameter.bounds:
        kind = "bounds by name"
    if parameter.choices:
        kind = " or ".join(f"`{choice}`" for choice in parameter.choices)
    elif parameter.minimum is not None or parameter.maximum is not None:
        low = "" if parameter.minimum is None else f"{parameter.minimum:,}"
        high = "" if parameter.maximum is None else f"{parameter.maximum:,}"
        kind += f", {low} to {high}" if low and high else f", at least {low}" if low else f", at most {high}"
    default = "required" if parameter.required else "" if parameter.default is None else (
        f"`{json.dumps(parameter.default)}`")
    return f"| `{parameter.name}` | {kind} | {default} | {parameter.doc.replace('|', '∣')} |"


if __name__ == "__main__":
    print(tables())
