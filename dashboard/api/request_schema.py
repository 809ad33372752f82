"""The base of what requests bring."""

from __future__ import annotations

from typing import Any

from ninja import Schema
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema

from scheduler.contracts.early_refusal import refused_early


class RequestSchema(Schema):
    """A body, or a part of one. A list or mapping is refused at its first fault: a body of 1 MiB may have 300,000."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return refused_early(handler(source))
