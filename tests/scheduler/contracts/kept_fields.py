"""The fields of every contract as one small text, against which a test holds the code: names, types, what has defaults.

    python -m tests.scheduler.contracts.kept_fields     writes it anew, where a change keeps what was promised
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scheduler.contracts.contract_schemas import CONTRACTS

FILE = Path(__file__).with_name("fields.txt")
Fields = dict[str, str]  # type by "<contract>/<value>.<field>"; a field that may be missing has "?" behind its type


def current() -> Fields:
    """Those that the code has."""
    return {
        f"{title}/{name}": kind for title, (schema, _) in CONTRACTS.items() for name, kind in _fields(schema()).items()}


def _fields(schema: Mapping[str, Any]) -> Fields:
    values = {schema.get("title", "value"): schema, **schema.get("$defs", {})}
    return {
        f"{value}.{field}": _kind(part) + ("" if field in content.get("required", ()) else "?")
        for value, content in values.items() for field, part in content.get("properties", {}).items()}


def _kind(part: Mapping[str, Any]) -> str:
    """A schema's type in a word."""
    if "$ref" in part:
        return part["$ref"].rpartition("/")[2]
    if "anyOf" in part:
        return "|".join(sorted(map(_kind, part["anyOf"])))
    if "enum" in part or "const" in part:
        return "|".join(map(str, part.get("enum") or [part["const"]]))
    if part.get("type") == "array":
        return f"[{'+'.join(map(_kind, part.get('prefixItems') or [part.get('items', {})]))}]"
    if isinstance(part.get("additionalProperties"), Mapping):
        return f"{{{_kind(part['additionalProperties'])}}}"
    return part.get("type", "any")


def broken(promised: Fields, now: Fields) -> list[str]:
    """What documents of before, or programs of before, would trip over."""
    problems = []
    for field, kind in promised.items():
        if field not in now:
            problems.append(f"{field} is gone")
        elif now[field].rstrip("?") != kind.rstrip("?"):
            problems.append(f"{field} was {kind} and is {now[field]}")
        elif kind.endswith("?") and not now[field].endswith("?"):
            problems.append(f"{field} may be missing in what was written before")
    values = {field.rpartition(".")[0] for field in promised}
    problems += [
        f"{field} is missing in what was written before" for field, kind in now.items()
        if field not in promised and field.rpartition(".")[0] in values and not kind.endswith("?")]
    return problems


def read() -> Fields:
    """Those that were promised."""
    fields, title = {}, ""
    for line in FILE.read_text().splitlines():
        if not line.startswith(" "):
            title = line
            continue
        value, _, content = line.strip().partition(": ")
        for field in content.split(", "):
            name, _, kind = field.partition(" ")
            fields[f"{title}/{value}.{name}"] = kind
    return fields


def written(fields: Fields) -> str:
    """The text: a contract, and below it each of its values with its fields."""
    grouped: dict[str, dict[str, list[str]]] = {}
    for key, kind in fields.items():
        title, _, place = key.partition("/")
        value, _, field = place.rpartition(".")
        grouped.setdefault(title, {}).setdefault(value, []).append(f"{field} {kind}")
    lines = []
    for title, values in grouped.items():
        lines += [title, *(f"  {value}: {', '.join(sorted(content))}" for value, content in sorted(values.items()))]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(written(current()))
