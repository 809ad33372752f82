"""Live documents, as they are sent: to pages, to the API and to the terminal.

They are JSON values that change little from one second to the next (objects by id, rounded numbers), because what
travels is their difference. The API's answers follow from these declarations, and so does what pages write in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, TypedDict, get_args, get_type_hints, is_typeddict

from dashboard.operations.live_view.document_fields import DataflowUser, Figure, Moving, MovingCount
from dashboard.operations.live_view.findings import Finding
from dashboard.operations.live_view.survival import CopyCost, DataflowSurvival


class Freshness(TypedDict):
    """The freshness of live data: the broker answers and rates mean something, or not; ``reason`` says why not."""

    available: bool
    measured: Annotated[bool, Moving()]
    reason: str


class EventRates(TypedDict):
    """Events that come in and go out each second; null until measured."""

    events_in_per_s: Figure
    events_out_per_s: Figure


class Totals(EventRates):
    """Rates, latency and state of a dataflow as a whole; null until measured."""

    state: str
    latency_p50_ms: Figure
    latency_p99_ms: Figure


class LiveTask(TypedDict):
    """A task with its query: place, state and figures; ``running`` is the running task's id.

    ``failed``: the error is in this task, as far as that can be told; ``gave_up``: it is not tried again; ``late``: how
    many events came too late for it; ``on``: the alternate of a dynamic task that is on; ``busy``: the part of its
    query's time that the newest batch took, from 0 to 1.
    """

    running: str
    fragment: str
    position: int
    slot: str
    state: str
    error: str | None
    failed: bool
    gave_up: bool
    retry_at_ms: MovingCount
    throttled_by: str | None
    busy: Figure
    rate_per_s: Figure
    events: MovingCount
    latency_p50_ms: Figure
    latency_p99_ms: Figure
    late: MovingCount
    shared_with: list[DataflowUser]
    on: str


class LiveStream(TypedDict):
    """A stream: ``fused`` where no channel carries it."""

    fused: bool
    rate_per_s: Figure
    channel_p50_ms: Figure
    channel_p99_ms: Figure
    wait_p50_ms: Figure
    wait_p99_ms: Figure


class LiveSource(TypedDict):
    """A live source: how it is read, what came and what of it could not be read; ``address`` is where it is posted to,
    ``at_ms`` when its last event came, ``rate_per_s`` what its task emits, as everywhere. Others get no ``error``: it
    may name hosts."""

    type: str
    state: str
    error: str | None
    retry_at_ms: MovingCount
    restarts: int
    events: MovingCount
    dead: MovingCount
    rate_per_s: Figure
    at_ms: MovingCount
    address: str | None


class LiveSink(TypedDict):
    """A sink that writes to another system: its written, refused and waiting events, since when these wait, and what is
    kept for writing again; ``at_ms``: its last write. Other teams get no ``error``: it may name tables and topics."""

    type: str
    state: str
    error: str | None
    retry_at_ms: MovingCount
    restarts: int
    events: Annotated[int, Moving()]
    refused: Annotated[int, Moving()]
    rate_per_s: Figure
    waiting: Annotated[int, Moving()]
    waiting_since_ms: MovingCount
    kept: Annotated[int, Moving()]
    kept_since_ms: MovingCount
    at_ms: MovingCount


class LiveProposal(TypedDict):
    """The newest proposal."""

    id: str
    kind: str
    status: str


class LiveDataflow(TypedDict):
    """A dataflow's live document; tasks by submitted id, streams by ``"<source>><target>"``.

    ``tasks`` is empty unless it is in the estate. ``lost_events`` is how many it has lost by its choice of what becomes
    of it where it reads too slowly.
    """

    live: Freshness
    id: str
    name: str
    status: str
    totals: Totals
    tasks: dict[str, LiveTask]
    streams: dict[str, LiveStream]
    sources: dict[str, LiveSource]
    sinks: dict[str, LiveSink]
    health: dict[str, Finding]
    survival: DataflowSurvival
    when_behind: str
    lost_events: Annotated[int, Moving()]
    proposal: LiveProposal | None


class EstateCounts(EventRates, CopyCost):
    """The numbers of dataflows, tasks and queries of the estate, and of tasks without sharing (``without_reuse``).

    ``copied``: queries that go on elsewhere if their machine is lost, null if no copies are asked for; ``survives``:
    the simultaneous losses that these survive, as "any one machine, or zone b", null without such queries;
    ``survival``: the same as a sentence, also without such queries.
    """

    submitted: int
    running_tasks: int
    without_reuse: int
    queries: int
    copied: int | None
    survives: str | None
    survival: str


class SpareDriver(TypedDict):
    """A driver that is kept ready to take the place of one that dies, and what it takes."""

    state: str
    cpu: Figure
    memory_mb: Figure


class EstateNode(TypedDict):
    """A node, reporting or not, and its size."""

    reporting: bool
    cores: float | None
    memory_mb: Figure
    spare: SpareDriver | None


class EstateSlot(TypedDict):
    """A slot's state (``silent`` where its node does not report) and what it takes; ``reserved`` where something has it
    to itself. Of the bundles that the viewer may see how many there are, and the shares that they take besides the
    driver."""

    state: str
    cpu: Figure
    memory_mb: Figure
    bundles_cpu: Figure
    bundles_memory: Figure
    restarts: int
    fragments: int
    reserved: bool


class EstateDataflow(Totals):
    """A dataflow of the estate with its totals."""

    name: str
    team: str
    status: str


class LiveEstate(TypedDict):
    """The estate's live document; nodes, slots and dataflows by name or id, what is wrong by ``<part>/<name>``, the
    worst first."""

    live: Freshness
    generation: int
    counts: EstateCounts
    nodes: dict[str, EstateNode]
    slots: dict[str, EstateSlot]
    health: dict[str, Finding]
    dataflows: dict[str, EstateDataflow]


def _moving(kind: Any) -> Iterator[str]:
    """The fields of a type that are marked as moving, however deep they are nested."""
    if not is_typeddict(kind) and kind is not Finding:
        for inner in get_args(kind):
            yield from _moving(inner)
        return
    for name, annotation in get_type_hints(kind, include_extras=True).items():
        if any(isinstance(metadata, Moving) for metadata in getattr(annotation, "__metadata__", ())):
            yield name
        yield from _moving(annotation)


MOVING = frozenset((*_moving(LiveEstate), *_moving(LiveDataflow)))
