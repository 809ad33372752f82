"""Answers about dataflows: as they are submitted, and what runs of them."""

from __future__ import annotations

from typing import Annotated, Any

from dashboard.operations.failures import Failure

from .common import Answer, Figure, History, Moving, Problem, User, answer_of
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


class GraphStream(Answer):
    """A stream between two tasks."""

    source: str
    target: str
    selectivity: float | None


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


class Submitted(Answer):
    """A submission: the dataflow, and the proposal whose plan is being computed."""

    dataflow: DataflowRow
    proposal: ProposalRow


class CheckedDataflow(Answer):
    """What a valid document holds."""

    name: str
    visibility: str
    tasks: int
    streams: int


class Column(Answer):
    """A column of a stream; its type as Spark writes it, null where it is not known."""

    name: str
    type: str | None


class Columns(Answer):
    """The columns of a stream; not ``complete`` where there may be further ones."""

    columns: list[Column]
    complete: bool


class TaskColumns(Answer):
    """What a task reads, its inputs interleaved, and what it gives."""

    reads: Columns
    gives: Columns


class Checked(Answer):
    """The outcome of a check; ``suggestion`` is a corrected document where one can be made, ``columns`` those of each
    task as far as they are known."""

    valid: bool
    problems: list[Problem]
    suggestion: str | None
    dataflow: CheckedDataflow | None
    columns: dict[str, TaskColumns]


class StreamEvents(Answer):
    """The newest events of a running task's stream, newest first, and the types of their columns as Spark writes them,
    null for one that is not known."""

    types: dict[str, str | None]
    events: list[dict[str, Any]]


class Stream(Answer):
    """A task's stream, of a document that is not submitted. ``state`` is ``running`` or ``paused`` (``running`` is that
    task), ``recorded`` (``events`` are the first of the recording) or ``not_yet``; ``note`` and ``remedy`` say why
    there are no events and what to do. Where ``look`` is not empty, a node can look at the source before it runs; it
    stays the same while the source does."""

    task: str
    type: str
    state: str
    running: str
    look: str
    columns: Columns
    events: list[dict[str, Any]]
    note: str
    remedy: str


class WhenBehind(Answer):
    """What becomes of a dataflow that reads a stream too slowly that others need: by its own choice, and what holds."""

    id: str
    chosen: str
    when_behind: str


class Fragmentation(Answer):
    """How a dataflow is cut into queries, and what that costs an hour."""

    queries: int
    fewest: int
    steps: int
    longest_hops: int
    total_hops: int
    latency_ms: float | None
    idle_cores: float
    dead_tasks: int
    money_per_hour: float
    spare_queries: int


class MeasuredCost(Answer):
    """What was measured over so many hours, if nobody shared its tasks; ``pays_per_hour`` is for its own team, and
    so is ``latency_per_hour``, what of that is for its latency limits; null where it was not measured."""

    hours: float
    cores: float
    per_hour: float
    pays_per_hour: float | None
    latency_per_hour: float | None


class DataflowCost(Answer):
    """What a dataflow costs an hour: ``cores`` and ``per_hour`` are estimated, ``kept_per_hour`` is the price of the
    slots that its schedule keeps, which is in no bill."""

    currency: str
    cores: float
    cores_error: float | None
    per_hour: float
    measured_queries: int
    not_measured: list[str]
    measured: MeasuredCost | None
    slots_kept: int
    kept_per_hour: float | None


class DataflowFragmentation(Fragmentation):
    """The same, with the dataflow."""

    id: str
    name: str
    team: str
    status: str


class Live(Answer):
    """Whether the broker answers and rates mean something; ``reason`` says why not."""

    available: bool
    measured: Annotated[bool, Moving()]
    reason: str


class Totals(Answer):
    """Rates, latency and state of a dataflow as a whole; null until measured."""

    state: str
    events_in_per_s: Figure
    events_out_per_s: Figure
    latency_p50_ms: Figure
    latency_p99_ms: Figure


class LiveTask(Answer):
    """A task's query: where it runs, how it is, and what it does; ``running`` is the running task's id, ``late`` how
    many events came too late for it."""

    running: str
    fragment: str
    position: int
    slot: str
    state: str
    error: str | None
    failed: bool
    gave_up: bool
    retry_at_ms: Annotated[int | None, Moving()]
    throttled_by: str | None
    rate_per_s: Figure
    events: Annotated[int | None, Moving()]
    latency_p50_ms: Figure
    latency_p99_ms: Figure
    late: Annotated[int | None, Moving()]
    shared_with: list[User]


class LiveStream(Answer):
    """A stream: ``fused`` where no channel carries it."""

    fused: bool
    rate_per_s: Figure
    channel_p50_ms: Figure
    channel_p99_ms: Figure
    wait_p50_ms: Figure
    wait_p99_ms: Figure


class LiveSource(Answer):
    """A live source: how it is read, what came and what of it could not be read; ``address`` is where it is posted to,
    ``at_ms`` when its last event came."""

    type: str
    state: str
    error: str | None
    retry_at_ms: Annotated[int | None, Moving()]
    restarts: int
    events: Annotated[int | None, Moving()]
    dead: Annotated[int | None, Moving()]
    rate_per_s: Figure
    at_ms: Annotated[int | None, Moving()]
    address: str | None


class LiveSink(Answer):
    """A sink that writes to another system: what it wrote, what was refused, what waits and since when, and what is
    kept of what it wrote; ``at_ms`` is when it wrote last."""

    type: str
    state: str
    error: str | None
    retry_at_ms: Annotated[int | None, Moving()]
    restarts: int
    events: Annotated[int, Moving()]
    refused: Annotated[int, Moving()]
    rate_per_s: Figure
    waiting: Annotated[int, Moving()]
    waiting_since_ms: Annotated[int | None, Moving()]
    kept: Annotated[int, Moving()]
    kept_since_ms: Annotated[int | None, Moving()]
    at_ms: Annotated[int | None, Moving()]


class DeadLetter(Answer):
    """A message that a live source could not read, or an event that a sink's other system refused: when it came, why,
    where it was, and how it begins."""

    at: str
    reason: str
    place: str
    sample: str


class Finding(Answer):
    """Something that is wrong, with its cause and remedy; ``severity`` is ``bad``, ``warn`` or ``note``."""

    part: str
    name: str
    state: str
    severity: str
    cause: str
    remedy: str
    slot: str | None
    since_ms: Annotated[int | None, Moving()]
    retry_at_ms: Annotated[int | None, Moving()]
    dataflows: list[User]


class LiveProposal(Answer):
    """The newest proposal."""

    id: str
    kind: str
    status: str


class LiveDataflow(Answer):
    """A dataflow's live document; tasks by submitted id, streams by ``"<source>><target>"``."""

    live: Live
    id: str
    name: str
    status: str
    totals: Totals
    tasks: dict[str, LiveTask]
    streams: dict[str, LiveStream]
    sources: dict[str, LiveSource]
    sinks: dict[str, LiveSink]
    health: dict[str, Finding]
    when_behind: str
    lost_events: Annotated[int, Moving()]
    proposal: LiveProposal | None


class DataflowHistory(History):
    """A dataflow over time."""

    latency_p50_ms: list[float | None]
    latency_p99_ms: list[float | None]


FailingQuery = answer_of(Failure, name="FailingQuery")


class AskedToWrite(Answer):
    """What a sink was asked to write again."""

    asked: str


class TriedAgain(Answer):
    """The queries that are tried again within a second or two."""

    queries: list[str]


class Output(Answer):
    """A named output: the task, its name and its channel."""

    task: str
    name: str
    channel: str
