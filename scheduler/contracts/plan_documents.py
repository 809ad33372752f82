"""The shape of plans in JSON, as `scheduler.model.encoding` writes them.

A plan is frozen: its digest is over all of it, so that a field that is not known makes it another plan, and is refused.
"""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from scheduler.model.plan import Plan


def plan_schema() -> dict[str, Any]:
    """The JSON Schema of a stored plan."""
    return TypeAdapter(Plan).json_schema()
