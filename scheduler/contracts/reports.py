"""Reports: what a node agent tells of its slots and their queries, once a second and when something changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from scheduler.model.fragment import Slot
from scheduler.model.ring import Ring

from .codec import Codec, InvalidContract
from .moments import MomentMs
from .partitioning import Quota

RUNNING, FAILING, STOPPED, LEFT = "running", "backoff", "stopped", "left"
STARTING, STALLED = "starting", "stalled"
STAYS_OPEN = "its batches stay open"  # why a query that is to be copied is not
COPIES_ASKED_FOR = "copies of its state are asked for, which are made between batches"


@dataclass(frozen=True, slots=True)
class QueryReport:
    """One query. ``outlets`` and ``routes`` (by position in the chain), ``active`` and ``threads`` are in force.

    ``state`` is one of ``starting``, ``waiting``, ``running``, ``draining``, ``backoff``, ``stopped`` and ``left``.
    ``cpu`` and ``memory`` are shares of the slot, above what it takes without queries; None while they are not known.
    ``phases_ms`` says what the newest batch spent its time on: ``asking`` its sources (most of it waiting),
    ``planning``, ``working`` and ``logging`` offsets and commits; of working, ``committing`` its state.
    """

    state: str = "starting"
    batch: int | None = None
    batch_ms: float | None = None
    phases_ms: Mapping[str, float] = field(default_factory=dict)
    # For how long a batch has been under way, where that is unusually long; of one that stays open, has not moved.
    batch_for_ms: int | None = None
    rows_per_s: float = 0.0
    batches: int = 0
    busy_ms: int = 0
    rate_per_s: float | None = None  # events/s that it takes in; with a source, those that it makes
    idle_ms: int | None = None  # for how long it has taken in nothing
    since_ms: MomentMs = 0
    restarts: int = 0
    failures: int = 0
    error: str | None = None
    failed_tasks: tuple[str, ...] = ()  # where the error was, as far as that can be told
    traceback: str = ""
    gave_up: bool = False  # it failed alike too often, and is tried again when somebody says so
    retry_at_ms: MomentMs | None = None
    throttled_by: str | None = None  # the full channel that it waits for
    run_id: str | None = None
    outlets: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    routes: Mapping[int, Mapping[str, Quota | Ring]] = field(default_factory=dict)
    active: int = 1
    threads: int = 1
    cpu: float | None = None
    memory: float | None = None
    committed_at_ms: MomentMs | None = None  # when its newest batch with events was done: the age of its checkpoint
    state_kb: int | None = None  # about what its state takes on its node's disk
    trigger_ms: int | None = None  # how far apart its batches were asked to begin, as it is in force
    # Of its state, where copies are asked for: how many machines it may lose, how many copies it is to have (0: it is
    # not copied), the nodes whose copies count, the newest first, since when the oldest of these lacks a batch that the
    # query has begun (where it lacks none: when it was whole, by its holder's clock), why there are fewer, and in how
    # many ms about all that are on their way are there.
    survives: int | None = None
    copies: int | None = None
    held_by: tuple[str, ...] = ()
    copied_at_ms: MomentMs | None = None
    lacks_none: bool = False
    not_copied: str | None = None
    copy_left_ms: int | None = None
    real_time: bool = False  # its batches stay open
    alternates: Mapping[int, str] = field(default_factory=dict)  # that dynamic tasks were told, by position
    not_real_time: str | None = None  # why its driver keeps no batch of it open, in words; empty where it can

    @property
    def is_to_be_copied(self) -> bool:
        """True where copies of its state are asked for, and nothing but open batches hinders them."""
        return bool(self.copies) or self.not_copied == STAYS_OPEN

    @property
    def why_not_open(self) -> str | None:
        """The reason why its batches cannot stay open, in words; empty where they can, None where unknown.

        Copies take precedence over open batches: no copy is made while a batch is open.
        """
        return COPIES_ASKED_FOR if self.is_to_be_copied and self.not_real_time is not None else self.not_real_time


def checkpoint_age_ms(query: QueryReport, *, at_ms: int) -> int | None:
    """The age of a query's newest finished batch with events, as of its node's report; None where that is not known."""
    return None if query.committed_at_ms is None else max(0, at_ms - query.committed_at_ms)


def copy_age_ms(query: QueryReport, *, at_ms: int) -> int | None:
    """The age of the oldest batch that is missing in the oldest counted copy of a query's state; None without a copy.

    It is as of the node's report, and 0 where no batch is missing. After any loss that the copies survive, the query
    goes on from there or later.
    """
    if query.copied_at_ms is None:
        return None
    return 0 if query.lacks_none else max(0, at_ms - query.copied_at_ms)


@dataclass(frozen=True, slots=True)
class SlotUse:
    """Use of a slot's processes since they began: CPU in ms, memory in MB times seconds."""

    since_ms: int
    cpu_ms: int
    memory_mb_s: int


@dataclass(frozen=True, slots=True)
class SlotReport:
    """One slot: its driver, what its processes take, and its queries by fragment or bundle id.

    ``state`` is one of ``starting``, ``running``, ``stalled`` (its driver does not answer) and ``backoff``.
    """

    state: str = "starting"
    error: str = ""  # why its last process ended
    silent_ms: int = 0  # for how long its driver has not answered
    retry_at_ms: int | None = None  # when it is started again, where it has no process
    pid: int | None = None
    core: int | None = None  # that it is held to
    cpu: float | None = None  # cores
    memory_mb: float | None = None
    memory_trend_mb_per_h: float | None = None
    used: SlotUse | None = None
    restarts: int = 0
    since_ms: int | None = None
    has_spark_page: bool = False  # its agent shows Spark's own pages of its driver
    fragments: Mapping[str, QueryReport] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpareReport:
    """A driver that is kept ready; ``state`` is ``starting``, ``ready``, ``backoff`` or ``stalled``. CPU in cores."""

    state: str = "starting"
    cpu: float | None = None
    memory_mb: float | None = None


@dataclass(frozen=True, slots=True)
class SpillReport:
    """The part of a channel on a node's disk for a reader that is too slow: MB, and since when it is behind.

    ``refused`` says why it takes no more (``full``: as much as may be; ``team_full``: as much as its team may have);
    then the reader holds its writer back. ``when_behind`` is what its team chose for it.
    """

    channel: str
    mb: float = 0.0
    since_ms: int = 0
    refused: str = ""
    when_behind: str = "spill"


@dataclass(frozen=True, slots=True)
class LossReport:
    """The loss that a reader has accepted of a channel so far, by its team's choice."""

    reader: str
    channel: str
    blocks: int = 0
    events: int = 0


@dataclass(frozen=True, slots=True)
class SavedPartReport:
    """A query's part of a named savepoint on its node's disk: its size, when it was saved, and the number of the event
    with which its source goes on; None where it had not begun."""

    fragment: str
    size_bytes: int = 0
    at_ms: int = 0
    next_event: int | None = None


@dataclass(frozen=True, slots=True)
class ConnectorReport:
    """One live source, as the node's connector host runs it.

    ``state`` is one of ``starting``, ``running``, ``throttled`` (its channel is full), ``away`` (the source does not
    answer, and is tried again) and ``retrying`` (something else is wrong). ``dead`` counts what could not be read.
    """

    state: str = "starting"
    since_ms: MomentMs = 0
    error: str | None = None
    retry_at_ms: MomentMs | None = None
    restarts: int = 0
    events: int = 0  # that it has written since it was opened
    dead: int = 0
    at_ms: MomentMs | None = None  # when its last event came


@dataclass(frozen=True, slots=True)
class SinkReport:
    """One sink that writes to another system, as the node's connector host runs it.

    ``state`` is one of ``starting``, ``running``, ``away`` (the other system does not answer, and is tried again) and
    ``retrying`` (something else is wrong). ``refused`` counts what the other system does not take, and is kept here.
    """

    state: str = "starting"
    since_ms: MomentMs = 0
    error: str | None = None
    retry_at_ms: MomentMs | None = None
    restarts: int = 0
    channel: str = ""  # in which its events come
    events: int = 0  # that it has written since it was started
    refused: int = 0
    rate_per_s: float | None = None
    waiting: int = 0  # events in its channel that are not written yet
    waiting_since_ms: MomentMs | None = None  # when the oldest of these came
    kept: int = 0  # events that are written, and kept to be written again
    kept_since_ms: MomentMs | None = None
    at_ms: MomentMs | None = None  # when it wrote last


@dataclass(frozen=True, slots=True)
class HostReport:
    """The process that reads a node's live sources and writes its sinks, and each of them by running task. CPU in
    cores.

    ``state`` is ``starting``, ``running``, ``stalled`` or ``backoff``.
    """

    state: str = "starting"
    error: str = ""  # why its last process ended
    restarts: int = 0
    pid: int | None = None
    cpu: float | None = None
    memory_mb: float | None = None
    sources: Mapping[str, ConnectorReport] = field(default_factory=dict)
    sinks: Mapping[str, SinkReport] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node: the version of the desired state that it follows, its size, and its slots by index."""

    node: str
    version: int = 0
    at_ms: int = 0
    cores: int | None = None
    memory_mb: float | None = None
    machine: str = ""  # the class of machine, as profiles name it
    threads: int | None = None  # of each slot's driver; on a cluster, its executor's cores
    speed: float | None = None  # of its cores, in steps of a small loop in a microsecond; None before it was looked at
    calibrating_s: int | None = None  # for how long it is being looked at still
    speed_now: float | None = None  # the same in the last minute; None before one is over
    pinning: str = ""  # how its slots are held to cores
    link: str = ""  # what delays and limits its traffic with the broker, in words; empty: nothing that Weir does
    unwalled: tuple[str, ...] = ()  # what its processes are not kept from: `files`, `user`, `broker`
    disk_free_mb: float | None = None  # of the file system of its data folder
    disk_total_mb: float | None = None
    spare: SpareReport | None = None
    connectors: HostReport | None = None  # None where neither a live source nor such a sink is wanted
    spills: Mapping[str, SpillReport] = field(default_factory=dict)  # by fragment or bundle
    spilled_kb_s: Mapping[str, int] = field(default_factory=dict)  # KB on disk for each, times seconds
    losses: tuple[LossReport, ...] = ()
    handing_over: tuple[str, ...] = ()  # fragments with a successor on another node, until this node has let them go
    savepoints: Mapping[str, SavedPartReport] | None = None  # parts that it keeps; None before it was told of any
    qos: int = 0  # the version of the set-up by which its manager watches limits; 0: none
    slots: Mapping[str, SlotReport] = field(default_factory=dict)


NODE_REPORTS = Codec(NodeReport)
QUERY_REPORTS = Codec(QueryReport)


class Reports(Mapping[str, NodeReport]):
    """The reports of the nodes that are heard of, by node; look-ups by the names of slots.

    Parameters
    ----------
    ages_ms : mapping of str to int, optional
        The age of each, by the clock of the broker; 0 where it is not told.
    """

    def __init__(
        self, nodes: Mapping[str, NodeReport] | None = None, *, ages_ms: Mapping[str, int] | None = None
    ) -> None:
        self._nodes = dict(nodes or {})
        self._ages_ms = dict(ages_ms or {})

    @classmethod
    def of(cls, documents: Mapping[str, Mapping[str, Any]]) -> Reports:
        """The reports of JSON documents by node."""
        return cls({name: NODE_REPORTS.read({"node": name, **document}) for name, document in documents.items()})

    def __getitem__(self, node: str) -> NodeReport:
        return self._nodes[node]

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def node(self, name: str) -> NodeReport | None:
        """The report of a node, or None."""
        return self._nodes.get(name)

    def age_ms(self, name: str) -> int:
        """The age of a node's report."""
        return self._ages_ms.get(name, 0)

    def slot(self, name: str) -> SlotReport | None:
        """The report of a slot by its name, or None."""
        slot = Slot.of(name)
        node = self._nodes.get(slot.node)
        return None if node is None else node.slots.get(str(slot.index))

    def query(self, slot: str, query_id: str) -> QueryReport | None:
        """The report of a query on a slot, or None."""
        report = self.slot(slot)
        return None if report is None else report.fragments.get(query_id)

    def spill(self, slot: str, query_id: str) -> SpillReport | None:
        """The spill of a slot's node for a query that reads too slowly, or None."""
        node = self._nodes.get(Slot.of(slot).node)
        return None if node is None else node.spills.get(query_id)

    def connector(self, slot: str, task_id: str) -> ConnectorReport | None:
        """The report of the connector host of a slot's node on a live source, or None."""
        node = self._nodes.get(Slot.of(slot).node)
        return None if node is None or node.connectors is None else node.connectors.sources.get(task_id)

    def sink(self, slot: str, task_id: str) -> SinkReport | None:
        """The report of the connector host of a slot's node on a sink that it writes, or None."""
        node = self._nodes.get(Slot.of(slot).node)
        return None if node is None or node.connectors is None else node.connectors.sinks.get(task_id)

    @property
    def left(self) -> frozenset[str]:
        """The bundles that were leaving and have left."""
        return frozenset(name for name, query in self.queries() if query.state == LEFT)

    def queries(self) -> Iterator[tuple[str, QueryReport]]:
        """Every query of every slot with its id; one that moves may come twice."""
        for node in self._nodes.values():
            for slot in node.slots.values():
                yield from slot.fragments.items()


def reports_of(sent: Mapping[str, tuple[str | bytes, int]]) -> Reports:
    """The reports of JSON texts by the node under whose name the broker keeps them, with how long ago each was sent.

    One that cannot be read, or is of another node, counts as not heard of.
    """
    reports: dict[str, NodeReport] = {}
    for node, (text, _) in sent.items():
        with suppress(InvalidContract):
            report = NODE_REPORTS.loads(text)
            if report.node == node:
                reports[node] = report
    return Reports(reports, ages_ms={node: sent[node][1] for node in reports})
