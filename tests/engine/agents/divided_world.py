"""A world without Spark and Redis in which schedules change, and where a slot may die between any two steps.

A source feeds a divided task, and both feed another one, whose events an output collects; they run on two nodes of two
slots. The executor of the slots, what they decide and how they follow it are the real ones, and so are the rules by
which a batch sees routes, the registry of channels and its scripts. Queries, checkpoints and the broker are played.
Nodes hear of plans at different times.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType, SimpleNamespace

import pytest
import redis

from scheduler.contracts.desired import DESIRED_STATES, DesiredState, WantedFragment
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningBundle, RunningTask, Slot
from scheduler.model.task_types import TaskType
from scheduler.reuse.division import WantedBundle, divided_anew
from workers.engine import desired_publishing as wishes
from workers.engine.agents.reconciling import executor, query_actuator, record_actuator
from workers.engine.agents.reconciling.context import SlotContext
from workers.engine.agents.reconciling.executor import FragmentExecutor
from workers.engine.agents.reconciling.fragment_run import FragmentRun
from workers.engine.agents.reconciling.given_keys import not_given
from workers.engine.agents.reconciling.handover_stages import HandoverStage
from workers.engine.agents.reconciling.named_savepoints import unsaved
from workers.engine.agents.reconciling.reconcile import FragmentState, reconcile
from workers.engine.agents.reconciling.standby import Patience, stages_of
from workers.engine.agents.transport import copies_ahead, gifts, state_transport
from workers.engine.agents.transport.state_transport import StateTransport
from workers.engine.spark.failure_messages import FragmentFailed, explain_error

from .mortal_broker import MortalBroker
from .played_broker import Broker, Failed, Gap
from .played_engine import PlayedEngine
from .played_queries import Query, Store

TYPES = {
    "src": TaskType("src", "source", "", "a:b"), "mark": TaskType("mark", "transform", "", "a:b"),
    "out": TaskType("out", "sink", "", "a:b", terminal="output"),
    "count": TaskType("count", "transform", "", "a:b", stateful=True, movable_state=True),
    "tally": TaskType(
        "tally", "transform", "", "a:b", stateful=True, movable_state=True, by_key=True, passes_key=True, key="k"),
}
EVERYTHING = 100_000
TASKS = {
    "s": RunningTask("s", "src", {}, ()), "a": RunningTask("a", "mark", {}, ("s",)),
    "b": RunningTask("b", "mark", {}, ("a", "s")), "o": RunningTask("o", "out", {"keep_events": EVERYTHING}, ("b",)),
}
OUT = "f1-3.0"
SLOTS = tuple(Slot(node, index) for node in ("n1", "n2") for index in range(2))
TICK_MS = 130
NUMBERS = 120  # that the source gives at first


class Died(BaseException):
    """The slot was killed here: nothing catches it."""


class World:
    """Two nodes with their slots, and the estate that they are to run; some tasks ``may_rest`` meanwhile, and a batch
    of some ``lasts`` for some turns of its slot."""

    DEADLINESS = 0.004  # of a slot, at every step on the broker
    slots: tuple[Slot, ...] = SLOTS
    may_rest: frozenset[str] = frozenset()
    lasts: Mapping[str, int] = MappingProxyType({})

    def __init__(self, chance: random.Random, patch: pytest.MonkeyPatch) -> None:
        self.chance, self.deadly, self.now_ms, self.limit, self.gaps = chance, True, 0, NUMBERS, 0
        quiet = SimpleNamespace(info=lambda *_, **__: None, warning=self._warned)
        for module in (state_transport, copies_ahead, gifts, executor, query_actuator, record_actuator):
            patch.setattr(module, "logger", lambda: quiet)
        patch.setattr(query_actuator, "causes_of", lambda _query: [])
        self.broker = Broker(self.may_die)
        self.link = self._link()
        self.running: dict[str, Query] = {}
        self.heard: dict[str, DesiredState] = {}
        self.said: dict[str, DesiredState] = {}
        self.latest: dict[str, DesiredState] = {}  # that a node has heard of
        stores: dict[str, Store] = {}
        for slot in self.slots:
            first = stores.get(f"{slot.node}/0")
            stores[slot.name] = first.of_slot(slot.name) if first else Store({}, slot.name)
            stores[slot.name].files.may_die = self.may_die
        self.stores = stores
        self.executors = {slot.name: self._executor(slot.name) for slot in self.slots}
        self.patience = {slot.name: Patience() for slot in self.slots}
        self.transports = {slot.name: self._transport(slot.name) for slot in self.slots}
        self.runs: dict[str, dict[str, FragmentRun]] = {slot.name: {} for slot in self.slots}

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(slot.node for slot in self.slots))

    def _link(self) -> Broker | MortalBroker:
        """By which slots reach the broker."""
        return self.broker

    def _executor(self, slot: str) -> FragmentExecutor:
        store = self.stores[slot]
        around = SlotContext(
            engine=PlayedEngine(self, store), channels=self.link.channels, broker=self.link, store=store,
            task_types=TYPES, desired=lambda: self.desired(slot))
        return FragmentExecutor(
            around, clock_ms=lambda: self.now_ms, on_event=lambda *_, **__: None, on_violation=self._violated)

    def _transport(self, slot: str) -> StateTransport:
        return StateTransport(self.link, self.stores[slot], clock_ms=lambda: self.now_ms)

    @staticmethod
    def _violated(fragment_id: str, violation: str) -> None:
        raise AssertionError(f"{fragment_id}: {violation}")

    @staticmethod
    def _warned(what: str, **facts: object) -> None:
        error = facts.get("exc_info")
        if error is not None and not isinstance(error, Gap | Failed):
            raise error
        assert "another fragment had this id" not in what

    # -- plans ---------------------------------------------------------------------------------------------------

    def want(self, estate: Estate) -> None:
        """A new desired state of every node, which hears of it some time later."""
        for node in self.nodes:
            self.said[node] = wishes.desired_of(estate, node, TYPES)

    def hear(self, node: str) -> None:
        void = self.stores[f"{node}/0"].void
        desired = self.said.pop(node, self.latest.get(node) if void else None)
        if desired is not None:
            self.latest[node], wanted = desired, wishes.without(desired, void)
            text = DESIRED_STATES.dumps(wishes.keep_handing_over(wanted, self.heard.get(node)))
            self.heard[node] = DESIRED_STATES.loads(text)

    def desired(self, slot: str) -> DesiredState:
        return self.heard.get(slot.partition("/")[0], DesiredState())

    def left(self) -> frozenset[str]:
        """The bundles that the nodes report to have left."""
        return frozenset(
            fragment.id for slot in self.slots for fragment in self.desired(slot.name).of_slot(str(slot.index))
            if fragment.leaving and fragment.id in self.stores[slot.name].having("left"))

    def may_die(self) -> None:
        if self.deadly and self.chance.random() < self.DEADLINESS:
            raise Died

    # -- a slot's turn -------------------------------------------------------------------------------------------

    def turn(self, slot: str) -> None:
        self.now_ms += TICK_MS
        try:
            self._decide(slot)
            for run in [running for running in self.runs[slot].values()
                        if running.state is FragmentState.RUNNING]:
                self._run(run)
            for run in [waiting for waiting in self.runs[slot].values() if waiting.standby is not None]:
                self._stand_by(run)
        except Died:
            self._bury(slot)

    def _decide(self, slot: str) -> None:
        index, store = slot.partition("/")[2], self.stores[slot]
        wanted = self.desired(slot)
        left = store.having("left") & {entry.id for entry in wanted.of_slot(index) if entry.leaving}
        runs = self.runs[slot]
        for name in left - runs.keys():
            runs[name] = FragmentRun(name, now_ms=self.now_ms)
        actions = reconcile(
            wanted.of_slot(index), {entry.id: entry.actual() for entry in runs.values()}, self.now_ms,
            elsewhere=wanted.elsewhere(index), outgoing=self._ceding(slot), staying=frozenset(wanted.outgoing),
            resting=store.having("paused"), left_ids=left, saving=(
                *unsaved(store.files, wanted.of_slot(index)), *not_given(wanted, wanted.of_slot(index), store)))
        for name, fragment_actions in itertools.groupby(actions, key=lambda action: action.fragment_id):
            run = runs.setdefault(name, FragmentRun(name, now_ms=self.now_ms))
            run.begin(None, now_ms=self.now_ms)
            if self.executors[slot].perform(run, wanted, list(fragment_actions)):
                runs.pop(name)
            self.may_die()

    def _ceding(self, slot: str) -> list[tuple[WantedFragment, HandoverStage]]:
        wanted, index = self.desired(slot), slot.partition("/")[2]
        elsewhere = self.transports[slot].turn(wanted, index)
        stages = stages_of(
            wanted, self.stores[slot], elsewhere, self.patience[slot], runs=self.runs[slot], now_ms=self.now_ms)
        return [
            (fragment, stages[fragment.id]) for fragment in wanted.handing_over.get(index, ())
            if fragment.id in stages]

    def _run(self, run: FragmentRun) -> None:
        try:
            run.query.batch()
        except (Failed, Gap) as error:
            self.gaps += isinstance(error, Gap)
            run.query.stop()
            run.query = None
            run.failed(FragmentFailed("it failed", may_pass=True), now_ms=self.now_ms)
        except redis.ConnectionError as error:
            if self.chance.random() < 0.5:  # else it waits until the broker is back
                run.query.stop()
                run.query = None
                run.failed(explain_error(error), now_ms=self.now_ms)

    def _stand_by(self, run: FragmentRun) -> None:
        try:
            run.standby.query.batch()
        except redis.ConnectionError:
            if self.chance.random() < 0.5:  # else it waits until the broker is back
                run.standby.query.stop()

    def _bury(self, slot: str) -> None:
        store = self.stores[slot]
        for run in self.runs[slot].values():
            for query in (run.query, run.standby and run.standby.query):
                if query is not None:
                    query.stop()
        for query in list(self.running.values()):
            if query.store is store:  # started, and died before it was known
                query.stop()
        for name in [name for name, holder in store.locks.items() if holder == slot]:
            del store.locks[name]
        self.executors[slot], self.transports[slot] = self._executor(slot), self._transport(slot)
        self.runs[slot] = {name: FragmentRun(name, now_ms=self.now_ms) for name in store.records()}


@dataclass
class Plans:
    """The estate from plan to plan."""

    chance: random.Random
    generation: int = 0
    fragments: dict[str, Fragment] = field(default_factory=dict)

    def first(self) -> Estate:
        """All begins, divided in some way."""
        self.generation = 1
        self.fragments = {
            "f1-0": Fragment("f1-0", ("s",), "n1/0", 1, {"s": ("f1-1", "f1-2")}),
            "f1-1": Fragment("f1-1", ("a",), "", 1, {"a": ("f1-2",)}),
            "f1-2": Fragment("f1-2", ("b",), "", 1, {"b": ("f1-3",)}),
            "f1-3": Fragment("f1-3", ("o",), "n2/1", 1),
        }
        further = itertools.count(4)
        for name in ("f1-1", "f1-2"):
            bundles = tuple(
                RunningBundle(f"f1-{next(further)}" if number else name, part.slot, part.threads, part.weight)
                for number, part in enumerate(self.parts()))
            self.fragments[name] = replace(self.fragments[name], slot=bundles[0].slot, bundles=bundles)
        if self.chance.random() < 0.5:
            self.fragments["f1-0"] = replace(self.fragments["f1-0"], bundles=(RunningBundle("f1-0", "n1/0"),))
        return self.estate()

    def next(self, left: frozenset[str]) -> Estate:
        """Some of it is divided otherwise, and what has left is dropped where it is."""
        self.generation += 1
        ids = (f"f{self.generation}-{number}" for number in itertools.count())
        works = [name for name in ("f1-1", "f1-2") if not self.fragments[name].paused]
        for name in self.chance.sample(works, self.chance.randint(1, len(works))):
            self._divide(name, self.parts(), ids, left)
        return self.estate()

    def pause(self, *, paused: bool) -> Estate:
        """The second divided task and the output rest, or go on; the first one works for others, too."""
        self.generation += 1
        readers = {"f1-0": {"s": ("f1-1",) if paused else ("f1-1", "f1-2")}, "f1-1": {} if paused else {"a": ("f1-2",)}}
        for name, fragment in self.fragments.items():
            active = 0 if paused and name in ("f1-2", "f1-3") else 1
            outlets = readers.get(name, dict(fragment.outlets))
            self.fragments[name] = replace(fragment, active=active, resting=1 - active, outlets=outlets)
        return self.estate()

    def last(self, left: frozenset[str]) -> Estate:
        """Only those remain that do something."""
        self.generation += 1
        for name in ("f1-1", "f1-2"):
            staying = tuple(bundle for bundle in self.fragments[name].bundles if bundle.id not in left)
            self.fragments[name] = replace(self.fragments[name], bundles=staying)
        return self.estate()

    def parts(self) -> list[WantedBundle]:
        """Bundles on some slots, more than one on a slot perhaps."""
        slots = self.chance.choices([slot.name for slot in SLOTS], k=self.chance.randint(1, 3))
        weights = [self.chance.randint(1, 3) for _ in slots]
        return [
            WantedBundle(slot, self.chance.randint(1, 2), weight / sum(weights))
            for slot, weight in zip(slots, weights, strict=True)]

    def _divide(self, name: str, parts: list[WantedBundle], ids: Iterator[str], left: frozenset[str]) -> None:
        before = self.fragments[name]
        change = divided_anew(before.tasks[0], before, parts, ids=ids, left_bundles=left)
        self.fragments[name] = change.after[name]

    def estate(self) -> Estate:
        return Estate(generation=self.generation, tasks=TASKS, fragments=dict(self.fragments), slots=SLOTS)


def delivered(world: World, out: str = OUT) -> Counter:
    """What an output holds, each event with how often it came."""
    return Counter(world.broker.events(out))


def alone(first: int = 0, until: int = NUMBERS) -> Counter:
    """What the dataflow delivers of some numbers where nobody divides it."""
    return Counter(event for number in range(first, until) for event in (("b", number), ("b", ("a", number))))
