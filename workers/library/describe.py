"""The tables of ``docs/task_types.md``, made from the declarations so that they never drift.

``python -m workers.library.describe`` writes them anew; a test compares them.
"""

from __future__ import annotations

import json
from pathlib import Path

from scheduler.model.effects import effects_in_words
from scheduler.model.task_types import Parameter, TaskType

from .registry import built_in

DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs" / "task_types.md"
BEGIN, END = "<!-- begin: made by workers.library.describe -->", "<!-- end -->"
FAMILIES = ("source", "parse", "filter", "statistics", "predict", "operator", "math", "io", "sink")


def described(text: str) -> str:
    """The document with its tables made anew between the two marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{after}"


def tables() -> str:
    """Every built-in task type, family by family, with its parameters."""
    types = built_in()
    parts = []
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


def main() -> None:
    """Write the tables into the document."""
    DOCUMENT.write_text(described(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
