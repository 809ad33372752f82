"""Documents of dataflows: checked before anything is stored."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from django.conf import settings

from dashboard import jobs
from dashboard.catalog.models import DataflowRecord
from scheduler.model.column_checks import TaskColumns
from scheduler.model.dataflow import Dataflow
from scheduler.model.dataflow_goals import DataflowGoals
from scheduler.model.documents import columns_of_document, dataflow_from_json, read_document, read_limits
from scheduler.model.errors import InvalidDataflow, Problem, WeirError
from scheduler.model.latency_limits import LatencyLimit, Limits
from scheduler.model.task_types import require_types

FORMATS = ("json", "yaml")


class DocumentTooLarge(WeirError):
    """The document is over the limit."""

    code = "document_too_large"


class InvalidGoals(WeirError):
    """The text holds no goals that a dataflow could have."""

    code = "invalid_goals"


class InvalidLatency(WeirError):
    """The text holds no latency limit that the dataflow could have."""

    code = "invalid_latency"


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check: the dataflow, or its problems and, where one can be made, a corrected document; and the
    columns that each task reads and gives, as far as they are known."""

    dataflow: Dataflow | None
    problems: tuple[Problem, ...] = ()
    suggestion: str | None = None
    columns: Mapping[str, TaskColumns] = field(default_factory=dict)


def parse_document(text: str, *, format: str | None = None, columns: bool = True) -> Dataflow:
    """The dataflow that a document describes.

    Parameters
    ----------
    format : str, optional
        ``json`` or ``yaml``; told from the text where it is not given.
    columns : bool, optional
        False for a document that is made to check a config: what its task reads is not looked at.

    Raises
    ------
    InvalidDataflow
        The document has problems; all of them are listed.
    DocumentTooLarge
        It is over 1 MiB.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > settings.DOCUMENT_LIMIT_BYTES:
        raise DocumentTooLarge(
            f"The document has {size:,} bytes; at most {settings.DOCUMENT_LIMIT_BYTES:,} are read.",
            remedy="Split the dataflow, or shorten its configs.",
            size_bytes=size, limit_bytes=settings.DOCUMENT_LIMIT_BYTES,
        )
    if format not in (None, *FORMATS):
        raise InvalidDataflow(problems=(Problem(
            code="unknown_format", message=f"{format!r} is no format of a document.", remedy="Use json or yaml."),))
    return read_document(
        text, format=format, task_types=jobs.task_types(), check_config=jobs.check_config,
        columns_of=jobs.columns_of if columns else None)


def check_document(text: str, *, format: str | None = None) -> Checked:
    """Every problem of a document, or the dataflow; nothing is stored. For the editor and the API's validate."""
    try:
        dataflow, problems, suggestion = parse_document(text, format=format), (), None
    except InvalidDataflow as invalid:
        dataflow, problems, suggestion = None, tuple(invalid.problems), invalid.suggestion
    return Checked(dataflow, problems, suggestion, columns_in(text, format=format))


def format_of(text: str) -> str:
    """The format in which a document seems to be written."""
    return "json" if text.lstrip()[:1] in {"{", "["} else "yaml"


def columns_in(text: str, *, format: str | None = None) -> Mapping[str, TaskColumns]:
    """The columns that each task of a document reads and gives, as far as they are known."""
    return columns_of_document(
        text, format=format if format in FORMATS else None, task_types=jobs.task_types(), columns_of=jobs.columns_of)


def stored_dataflow(document: dict[str, Any], *, installed: bool = True) -> Dataflow:
    """The dataflow of a document from the database, which was checked when it was submitted.

    A task type whose rules are tightened later does not make it unreadable.

    Raises
    ------
    UnknownTaskType
        A task's type is no longer installed. With ``installed=False``, types are not looked up.
    """
    dataflow = dataflow_from_json(document)
    if installed:
        require_types(dataflow, task_types=jobs.task_types())
    return dataflow


def limits_for(record: DataflowRecord, value: Any) -> Limits | None:
    """Latency limits as somebody wrote them for a dataflow: text, or a JSON value; None for what its document says."""
    document = record.versions.values_list("document", flat=True).get(number=record.version)
    text = value if isinstance(value, str) else json.dumps(value)
    return _limits(
        text, tasks=[task["id"] for task in document["tasks"]],
        streams=[(stream["from"], stream["to"]) for stream in document["streams"]])


def goals_of(value: Mapping[str, Any]) -> DataflowGoals:
    """Goals as somebody wrote them, by the keys of a document."""
    stated = {key: number for key, number in value.items() if number is not None}
    keys = [field.name for field in fields(DataflowGoals)]
    for key, number in stated.items():
        if key not in keys:
            raise InvalidGoals(f"Goals have no key {key[:40]!r}.", remedy=f"They have {', '.join(keys)}.")
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise InvalidGoals(f"Of the goals {key} is no number.", remedy="Write a number.")
    if "most_per_hour" not in stated:
        raise InvalidGoals("Goals need most_per_hour.", remedy="Say what may be spent an hour for the greatest value.")
    try:
        return DataflowGoals(**stated)
    except (ValueError, OverflowError) as error:
        raise InvalidGoals(
            f"These goals cannot be: {error}.", remedy="Choose other figures, by docs/adaptation.md.") from error


def freshness_of(text: str) -> float | None:
    """A team's freshness as somebody wrote it, in seconds; None where it is empty or ``none``."""
    limits = _limits(text, tasks=(), streams=())
    if not limits:
        return None
    if limits != (LatencyLimit(limits[0].limit_s),):
        raise InvalidLatency(
            "A team's freshness is one time: it holds for the mean of all events, over a minute.",
            remedy="Write a time (400 ms, 2 s) or none. A dataflow's own latency may say more.")
    return limits[0].limit_s


def _limits(text: str, *, tasks: Collection[str], streams: Collection[tuple[str, str]]) -> Limits | None:
    try:
        return read_limits(text, tasks=tasks, streams=streams)
    except InvalidDataflow as invalid:
        problem = invalid.problems[0]
        raise InvalidLatency(problem.message, remedy=problem.remedy) from invalid
