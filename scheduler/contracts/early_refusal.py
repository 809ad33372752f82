"""Validation that ends at the first fault of each list and mapping.

Pydantic collects every fault of a text and keeps some 800 bytes for each. A text of three bytes for each fault takes
hundreds of times its own memory so, and seconds of CPU for each megabyte.
"""

from __future__ import annotations

from typing import Any

COLLECTIONS = frozenset({"list", "tuple", "set", "frozenset", "dict"})
_NO_SCHEMAS = frozenset({"cls", "config", "default", "function", "metadata", "ref", "serialization"})
_BY_NAME = frozenset({"fields", "choices"})


def refused_early(schema: Any) -> Any:
    """The same schema, of which each list and mapping is refused at its first fault.

    >>> refused_early({"type": "list", "items_schema": {"type": "int"}})
    {'type': 'list', 'items_schema': {'type': 'int'}, 'fail_fast': True}
    """
    if isinstance(schema, dict):
        changed = {
            name: _of_names(value) if name in _BY_NAME else value if name in _NO_SCHEMAS else refused_early(value)
            for name, value in schema.items()}
        return {**changed, "fail_fast": True} if schema.get("type") in COLLECTIONS else changed
    return type(schema)(map(refused_early, schema)) if type(schema) in (list, tuple) else schema


def _of_names(parts: Any) -> Any:
    """Of schemas by names that the schema's author chose: one may be called as a part of a schema is."""
    if isinstance(parts, dict):
        return {name: refused_early(part) for name, part in parts.items()}
    return refused_early(parts)
