"""Latency on the node itself: its QoS reporter, its QoS manager, and the intervals that managers chose (paper [5]).

What the site set up is on the node's disk, and so are the intervals: they hold while site, broker or managers are away.
Without a set-up, as where the site plans intervals, a look for one in each supervisor cycle is all that is done.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from typing import Any

import redis

from scheduler.contracts.qos import ARROW, QosReport, QosSetup, QosWishes
from scheduler.latency.latency_reports import Reporter
from scheduler.latency.managing import REPORT_S, ROUND_S, IntervalDecision, QosManager, agreed_ms, grown_ms
from scheduler.latency.standing_in import AWAY_S, Hearing, listened_for, stood_in_for
from scheduler.model.latency_limits import figure_in_words
from workers.engine import qos_store
from workers.engine.slot_values import UNREADABLE

from ..agent_logs import logger
from ..node_files.node_store import NodeStore
from .qos_sampling import Sampler
from .supervision import SlotProcess

TURN_S = 1.0
RETRY_S = 2.0  # after the broker was away

QueryReports = Callable[[], Mapping[str, Mapping[str, Any]]]


class NodeQos:
    """Reporter and manager of one node; every turn is one look.

    Parameters
    ----------
    broker : redis.Redis
        By which set-ups, reports and wishes come and go.
    reports : callable
        Gives the newest reports of the node's slots on their queries, by query.
    chance : random.Random
        Draws when reports are due.
    on_event : callable
        Called with a kind and facts for each interval that the manager chose.
    """

    def __init__(
        self, broker: redis.Redis, store: NodeStore, *, reports: QueryReports, chance: random.Random,
        on_intervals: Callable[[], None], on_event: Callable[..., None],
    ) -> None:
        self._broker, self._store, self._reports, self._chance = broker, store, reports, chance
        self._on_intervals, self._on_event = on_intervals, on_event
        self._setup: QosSetup | None = None  # before the first turn
        self._manager: QosManager | None = None
        self._stand_ins: dict[str, QosManager] = {}  # by the node that is away
        self._hearing = Hearing((), now_s=0.0)
        self._wishes: QosWishes | None = None  # its own manager's of its own queries, since the last round
        self._reporters: dict[str, Reporter] = {}  # by the manager's node
        self._sampler = Sampler()
        self._round_s = self._turned_s = 0.0
        self._log = logger()

    @property
    def version(self) -> int:
        """Of the set-up that it works by; 0 where there is nothing to do."""
        return 0 if self._setup is None or self._setup.empty else self._setup.version

    def turn(self, now_s: float) -> None:
        """Measure, report, decide and bring to disk what managers agree on; ``redis.RedisError`` without a broker."""
        if self._setup is None:
            self._begin(self._store.read_qos(), now_s)
        setup = self._setup
        if setup.empty:  # nobody reports to it, and nobody has wishes
            self._renew(qos_store.set_up_of(self._broker, self._store.node), now_s)
            return
        queries = [query for query in setup.own if any(to.wants(query) for to in self._reporters.values())]
        mail = qos_store.fetch(
            self._broker, self._store.node, queries, managers=list(self._stand_ins),
            listened_for=listened_for(setup.stands_in))
        if self._renew(mail.setup, now_s):
            return
        if now_s - self._turned_s > AWAY_S:  # another one may have stood in for its manager, and wished otherwise
            self._begin(setup, now_s)
        self._turned_s = now_s
        self._stand_in(stood_in_for(setup.stands_in, self._hearing.away(mail.heard, now_s)), now_s)
        running = self._reports()
        for query, counts in mail.meters.items():
            sample = None
            with suppress(*UNREADABLE):  # its slot writes its meters, and may write what is none
                sample = self._sampler.look(
                    query, counts, running.get(query, {}), setup=setup.own[query], channels=mail.channels[query])
            if sample is not None:
                for reporter in self._reporters.values():
                    reporter.take(query, sample)
        due = [(node, report) for node, reporter in self._reporters.items() if (report := reporter.due(now_s))]
        is_round = now_s >= self._round_s
        this_node = self._store.node
        to_itself = [report for node, report in due if node == this_node]
        wishes = self._manage({**mail.reports, this_node: (*mail.reports[this_node], *to_itself)}, now_s, is_round)
        qos_store.send(self._broker, [item for item in due if item[0] != this_node], wishes)
        own_wishes = {} if self._wishes is None else {this_node: self._wishes}
        self._keep({**mail.wishes, **own_wishes}, running, is_round)
        if is_round:
            self._round_s = now_s + ROUND_S

    def _renew(self, text: bytes | None, now_s: float) -> bool:
        """Work by the set-up that stands in the broker, where that is a newer one; whether it is."""
        newer = qos_store.read(text)
        if newer is None or newer.version <= self._setup.version:
            return False
        self._store.write_qos(newer)
        self._begin(newer, now_s)
        return True

    def _begin(self, setup: QosSetup, now_s: float) -> None:
        """Work by another set-up. What was measured for the one before is measured anew."""
        self._setup, self._turned_s = setup, now_s
        self._manager = QosManager(setup, now_s=now_s) if setup.shares else None
        self._stand_ins, self._wishes = {}, None
        self._hearing = Hearing(listened_for(setup.stands_in), now_s=now_s)
        self._reporters = {
            node: Reporter(self._store.node, _queries_of(elements), interval_s=REPORT_S,
                           offset_s=self._chance.uniform(0, REPORT_S) % REPORT_S)
            for node, elements in setup.reports.items()}
        self._sampler.forget_others(setup.own)
        self._round_s = now_s + ROUND_S
        if setup.empty and self._store.write_intervals({}):
            self._on_intervals()

    def _stand_in(self, nodes: Set[str], now_s: float) -> None:
        """Manage for these nodes besides its own, and for no others any more."""
        for node in self._stand_ins.keys() - nodes:
            del self._stand_ins[node]
            self._log.info("a manager is back", manager=node)
        for node in nodes - self._stand_ins.keys():
            self._stand_ins[node] = QosManager(self._setup.in_place_of(node), now_s=now_s)
            self._log.info("stands in for a manager that is away", manager=node)

    def _manage(
        self, reports: Mapping[str, Iterable[QosReport]], now_s: float, is_round: bool
    ) -> list[tuple[str, QosWishes]]:
        """Let managers take what was reported to them, and decide in a round; what they wish of the queries of nodes.

        Its own manager's wishes of its own queries stay here.
        """
        this_node = self._store.node
        managers = {this_node: self._manager, **self._stand_ins} if self._manager is not None else self._stand_ins
        wishes: list[tuple[str, QosWishes]] = []
        for manages, manager in managers.items():
            for report in reports.get(manages, ()):
                manager.take(report, now_s=now_s)
            for decision in manager.decide(now_s) if is_round else ():
                self._tell(decision, now_s)
            for node, wish in manager.wishes().items() if is_round else ():
                if node == manages == this_node:
                    self._wishes = wish
                else:
                    wishes.append((node, wish))
        return wishes

    def _tell(self, decision: IntervalDecision, now_s: float) -> None:
        percentile = "" if decision.percentile is None else f"p{decision.percentile:g}: "
        for query, interval_s in decision.intervals_s.items():
            self._on_event(
                "stepped", at_ms=round(1000 * now_s), fragment=query, trigger_ms=round(1000 * interval_s),
                error=f"{percentile}{figure_in_words(decision.worst_s)} where {figure_in_words(decision.limit_s)} are "
                      f"asked for: batches {figure_in_words(interval_s)} apart.")

    def _keep(self, wishes: Mapping[str, QosWishes], running: Mapping[str, Mapping[str, Any]], is_round: bool) -> None:
        """Store what the managers of each query agree on, where that is another interval."""
        before, intervals = self._store.read_intervals(), {}
        for query, own_query in self._setup.own.items():
            now_ms = before.get(query) or running.get(query, {}).get("trigger_ms")
            if now_ms is None:  # it does not run yet, and begins as the site says
                continue
            wishes_ms = {
                node: wish.intervals_ms[query] for node, wish in wishes.items() if query in wish.intervals_ms}
            agreed = agreed_ms(own_query, now_ms, wishes_ms)
            intervals[query] = grown_ms(own_query, agreed) if is_round else agreed
        if self._store.write_intervals(intervals):
            self._on_intervals()


class QosThread(threading.Thread):
    """Takes a turn each second while the node has a set-up, else one in each supervisor cycle."""

    def __init__(self, node: NodeQos, *, clock_s: Callable[[], float], cycle_s: float) -> None:
        super().__init__(name="qos", daemon=True)
        self._node, self._clock_s, self._cycle_s = node, clock_s, cycle_s
        self._stopped = threading.Event()
        self._log = logger()

    def stop(self) -> None:
        """End the thread at its next turn."""
        self._stopped.set()

    def run(self) -> None:
        failure = ""
        while not self._stopped.is_set():
            try:
                self._node.turn(self._clock_s())
                failure, wait_s = "", TURN_S if self._node.version else max(TURN_S, self._cycle_s)
            except redis.RedisError:  # the watcher tells that the broker is away
                wait_s = RETRY_S
            except Exception as error:  # a full disk, say: intervals stay as they are until a later turn goes well
                if failure != (failure := repr(error)):
                    self._log.error("latency is not watched", exc_info=error)
                wait_s = RETRY_S
            self._stopped.wait(wait_s)


def reports_of(slots: Iterable[SlotProcess]) -> dict[str, Mapping[str, Any]]:
    """The last reports of slots on their queries, by query."""
    return {query: report for slot in slots for query, report in slot.report.get("fragments", {}).items()}


def _queries_of(elements: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The queries of some elements, each with the channels into it."""
    return {query: tuple(_into(query, elements)) for query in _measured(elements)}


def _measured(elements: tuple[str, ...]) -> Iterator[str]:
    for element in elements:
        yield element.rpartition(ARROW)[2]


def _into(query: str, elements: tuple[str, ...]) -> Iterator[str]:
    return (element for element in elements if element.endswith(f"{ARROW}{query}"))
