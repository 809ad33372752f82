"""Answers of kept history."""

from __future__ import annotations

from ninja import Schema
from pydantic import Field


class AnnotationAnswer(Schema):
    """An event at a moment."""

    at: str = Field(description="ISO 8601")
    what: str = Field(description="A kind of plan that was done, `alarm`, `over`, or the kind of an event of a node")
    text: str


class SubjectHistory(Schema):
    """Series of one subject over a range."""

    kind: str
    subject: str
    grain: str = Field(description="In which points were stored: `1s`, `10s` or `1m`")
    step_s: int = Field(description="Seconds from one point to the next: a multiple of the grain where it was thinned")
    at: list[str] = Field(description="When each point begins, ISO 8601")
    units: dict[str, str] = Field(description="By metric")
    values: dict[str, list[float | None]] = Field(description="By metric, one for each moment; null: not measured")
    annotations: list[AnnotationAnswer]
