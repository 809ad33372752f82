"""The published JSON Schema (2020-12) of dataflow documents: their structure, for editors and other tools."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def dataflow_schema() -> dict[str, Any]:
    """The schema as a JSON value; treat it as read-only."""
    return json.loads(files("scheduler.model").joinpath("dataflow.schema.json").read_text(encoding="utf-8"))
