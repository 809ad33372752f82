"""Answers about dataflows: their documents, and their running tasks."""

from __future__ import annotations

from typing import Any

from dashboard.bills import dataflow_costs
from dashboard.explorer.streams import ShownStream
from dashboard.operations.key_rings import TaskRing
from dashboard.operations.live_view import dynamic_reader, live_documents
from dashboard.operations.live_view.failing_queries import Failure
from dashboard.operations.live_view.live_sources import DeadLetterEntry
from dashboard.operations.policies import guard_dry_runs, policy_reader
from scheduler.model import dataflow
from scheduler.reuse.fragmentation import Fragmentation

from .common import Answer, HistoryAnswer, Problem, answer_of
from .proposals import ProposalRow


class DataflowRow(Answer):
    """A dataflow in a list."""

    id: str
    name: str
    description: str
    team: str
    author: str
    visibility: str
    status: str
    version: int
    tasks: int
    created: str


class GraphTask(Answer):
    """A task with its whole config; ``kind`` is source, transform or sink, ``chain`` is ``allowed`` or ``never``."""

    id: str
    type: str
    config: dict[str, Any]
    kind: str
    family: str
    chain: str


GraphStream = answer_of(dataflow.Stream, name="GraphStream")


class Graph(Answer):
    """Tasks and streams."""

    tasks: list[GraphTask]
    streams: list[GraphStream]


class DataflowDetail(DataflowRow):
    """A dataflow with its document, as text and as JSON, and its graph."""

    document: dict[str, Any]
    text: str
    format: str
    graph: Graph


class VersionRow(Answer):
    """A version of a dataflow's document; ``current`` where it is the one that counts: that runs, or would."""

    number: int
    author: str
    format: str
    created: str
    current: bool


class VersionDetail(VersionRow):
    """A version with its document, as JSON and as text."""

    document: dict[str, Any]
    text: str


class SubmittedAnswer(Answer):
    """A submission: the dataflow, and the proposal whose plan is being computed."""

    dataflow: DataflowRow
    proposal: ProposalRow


class CheckedDataflow(Answer):
    """The contents of a valid document."""

    name: str
    visibility: str
    tasks: int
    streams: int


class Column(Answer):
    """A column of a stream; its type as Spark writes it, null if unknown."""

    name: str
    type: str | None


class ColumnsAnswer(Answer):
    """The columns of a stream; not ``complete`` where there may be further ones."""

    columns: list[Column]
    complete: bool


class TaskColumnsAnswer(Answer):
    """The input columns of a task, interleaved, and its output columns."""

    reads: ColumnsAnswer
    gives: ColumnsAnswer


class CheckedAnswer(Answer):
    """The outcome of a check; ``suggestion`` is a corrected document where one can be made, ``columns`` those of each
    task as far as they are known."""

    valid: bool
    problems: list[Problem]
    suggestion: str | None
    dataflow: CheckedDataflow | None
    columns: dict[str, TaskColumnsAnswer]


class StreamEvents(Answer):
    """The newest events of a running task's stream, newest first, and the types of their columns as Spark writes them,
    null for one that is not known."""

    types: dict[str, str | None]
    events: list[dict[str, Any]]


TaskRingAnswer = answer_of(TaskRing)


StreamAnswer = answer_of(ShownStream, name="StreamAnswer", columns=ColumnsAnswer)


class WhenBehind(Answer):
    """Treatment of a dataflow that reads a stream too slowly that others need: by its own choice, and what holds."""

    id: str
    chosen: str
    when_behind: str


FragmentationAnswer = answer_of(
    Fragmentation, name="FragmentationAnswer", money_per_hour=float, spare_queries=int,
    about="How a dataflow is cut into queries, and what that costs an hour.")
DataflowCost = answer_of(dataflow_costs.DataflowCost)


class DataflowFragmentation(FragmentationAnswer):
    """The same, with the dataflow."""

    id: str
    name: str
    team: str
    status: str


DynamicTaskAnswer = answer_of(dynamic_reader.DynamicTask)
GuardTrialAnswer = answer_of(guard_dry_runs.GuardTrial)
PolicyAnswer = answer_of(policy_reader.ToldPolicy)


DeadLetterAnswer = answer_of(
    DeadLetterEntry, name="DeadLetterAnswer", at=str,
    about="A message that a live source could not read, or an event that a sink's other system refused: when it came, "
    "why, where it was, and how it begins.")
Live = answer_of(live_documents.Freshness, name="Live")
LiveDataflow = answer_of(live_documents.LiveDataflow)


class DataflowHistory(HistoryAnswer):
    """A dataflow over time."""

    latency_p50_ms: list[float | None]
    latency_p99_ms: list[float | None]


FailingQuery = answer_of(Failure, name="FailingQuery")


class AskedToWrite(Answer):
    """The request to a sink to write again."""

    asked: str


class TriedAgain(Answer):
    """The queries that are tried again within a second or two."""

    queries: list[str]


class Output(Answer):
    """A named output: the task, its name and its channel."""

    task: str
    name: str
    channel: str
