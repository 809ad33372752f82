"""A query that ends its driver again and again is found by starting suspects alone, and given up; the others run on."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.contracts.desired import WantedFragment
from scheduler.contracts.reports import QUERY_REPORTS
from scheduler.model.dataflow import Task
from workers.engine.agents.blame import DEATHS, TURN_MS, Death, Suspicion
from workers.engine.agents.failing.suspects import Suspects
from workers.engine.agents.node_files.node_store import NodeStore
from workers.engine.agents.reconciling.fragment_run import FragmentRun
from workers.engine.agents.reconciling.reconcile import FragmentState, Start, reconcile
from workers.engine.agents.reconciling.started_fragments import SlotStore
from workers.engine.agents.supervising.supervision import JVM_GONE, SlotProcess
from workers.engine.spark.failure_messages import FragmentFailed

QUERIES = ("a", "b", "c", "d")
WANTED = {name: WantedFragment(name, (Task(f"t-{name}", "any", {}),)) for name in QUERIES}


def plays_until_calm(killers: frozenset[str], batching_by_chance: list[frozenset[str]]) -> tuple[Suspicion, int]:
    """Drivers start and die until one lives: a killer ends its driver in the first batch that it begins there, and who
    else has a batch under way at that moment, chance says. What is suspected then, and how many drivers died."""
    suspicion, chance, now_ms = Suspicion(), itertools.cycle(batching_by_chance or [frozenset()]), itertools.count(1)
    for deaths in range(1000):
        started = [name for name in QUERIES if name not in suspicion.waiting | suspicion.given_up]
        while killers.isdisjoint(started):
            if not suspicion.suspects:
                return suspicion, deaths
            suspicion = suspicion.tried(suspicion.suspects[0], cleared=True)
            started = [name for name in QUERIES if name not in suspicion.waiting | suspicion.given_up]
        killer = next(name for name in started if name in killers)
        death = Death(next(now_ms), tuple(started), why="Its JVM ended.")
        suspicion = suspicion.after(death, batching=next(chance) & set(started) | {killer})
    raise AssertionError("drivers die for ever")


@given(st.frozensets(st.sampled_from(QUERIES)), st.lists(st.frozensets(st.sampled_from(QUERIES)), max_size=8))
def test_who_ends_drivers_is_given_up_and_nobody_else_is(killers, batching_by_chance):
    suspicion, deaths = plays_until_calm(killers, batching_by_chance)
    assert suspicion.given_up == killers
    assert deaths <= len(killers) * (DEATHS + len(QUERIES))


def test_a_driver_that_did_nothing_yet_is_nobody_s():
    suspicion = Suspicion(("a", "b"), {"a": 1})
    assert suspicion.after(Death(7), batching=QUERIES).given_up == frozenset()


def test_a_death_counts_once_however_often_the_slot_starts():
    death = Death(5, ("a",), ("a",))
    once = Suspicion().after(death, batching=())
    assert once.after(death, batching=()) == once and once.deaths == {"a": 1}


def test_who_did_a_batch_in_its_turn_begins_anew():
    suspicion = Suspicion().after(Death(1, ("a",), ("a",)), batching=()).tried("a", cleared=True)
    assert suspicion.after(Death(2, ("a",), ("a",)), batching=()).given_up == frozenset()


def test_it_is_kept_as_json():
    suspicion = Suspicion(("a", "b"), {"a": 1}, frozenset("c"), 7, "Its JVM ended.")
    assert Suspicion.of(json.loads(json.dumps(suspicion.document()))) == suspicion


# -- in a slot --------------------------------------------------------------------------------------------------------


class Drivers:
    """A slot's drivers, one after the other, without Spark: who starts, who is told to have done a batch."""

    def __init__(self, folder: Path) -> None:
        self.node_store = NodeStore(folder, "n1")
        self.store = SlotStore(folder, self.node_store.slot_dir("0"))
        self.now_ms, self.wanted = 0, dict(WANTED)
        self.told: list[tuple[str, str]] = []
        self.begins()

    def begins(self) -> None:
        self.runs = {name: FragmentRun(name, now_ms=self.now_ms) for name in self.wanted}
        self.suspects = Suspects(self.node_store, self.store, "0")

    def dies(self, *beginning: str) -> None:
        working = tuple(name for name, run in self.runs.items() if run.state is FragmentState.RUNNING)
        self.now_ms += 1
        self.node_store.write_death("0", Death(self.now_ms, working, beginning, "Its JVM ended."))
        self.begins()

    def turn(self) -> set[str]:
        """What starts now."""
        self.now_ms += 2_000
        self.suspects.look(self.runs, self.wanted, now_ms=self.now_ms, give_up=self._give_up)
        actual = {run.id: run.actual() for run in self.runs.values()}
        starts = {action.fragment_id for action in reconcile(self.wanted.values(), actual, self.now_ms)
                  if isinstance(action, Start)}
        for name in starts:
            run = self.runs[name]
            run.begin(FragmentState.STARTING, now_ms=self.now_ms)
            run.runs(None, "r", outlets={}, routes={}, active=1, now_ms=self.now_ms)
            run.end()
        return starts

    def does_a_batch(self, name: str) -> None:
        self.runs[name].report({"batch": 1}, throttled_by=None, now_ms=self.now_ms)

    def _give_up(self, run: FragmentRun, failure: FragmentFailed) -> None:
        run.begin(FragmentState.STARTING, now_ms=self.now_ms)
        run.failed(failure, now_ms=self.now_ms)
        run.end()
        self.told.append((run.id, str(failure)))


def test_suspects_start_alone_and_who_ends_it_twice_stays_away_until_somebody_wants_it(tmp_path: Path):
    drivers = Drivers(tmp_path)
    assert drivers.turn() == set(QUERIES)
    drivers.dies("b", "c")
    assert drivers.turn() == {"a", "d", "b"}, "the others at once, suspects one by one"
    assert drivers.turn() == set()
    drivers.does_a_batch("b")
    assert drivers.turn() == {"c"}
    for _ in range(DEATHS):
        drivers.dies("c")
        started = drivers.turn()
    assert started == {"a", "b", "d"} and drivers.turn() == set()
    [(name, words)] = drivers.told
    assert name == "c" and "remove the dataflow" in words and "Its JVM ended." in words
    report = QUERY_REPORTS.read(drivers.runs["c"].report({}, throttled_by=None, now_ms=drivers.now_ms))
    assert report.gave_up and report.failed_tasks == ("t-c",), "others of its chain go on without it (0070)"
    drivers.begins()  # the node is started anew
    assert drivers.turn() == {"a", "b", "d"}, "it is known for good"
    drivers.suspects.pardon("c")
    drivers.runs["c"].try_again()
    assert drivers.turn() == {"c"}
    drivers.dies("c")
    assert "c" not in drivers.turn(), "the next death that is its is the last"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"suspects": 3}', "[" * 100_000])
def test_a_note_that_cannot_be_read_keeps_no_slot_from_its_work(tmp_path: Path, text: str):
    drivers = Drivers(tmp_path)
    drivers.store.folder.mkdir(parents=True, exist_ok=True)
    (drivers.store.folder / "suspects").write_text(text)
    drivers.begins()
    assert drivers.turn() == set(QUERIES)


def test_a_pause_and_its_end_try_it_again_and_a_new_version_knows_nothing_of_it(tmp_path: Path):
    drivers = Drivers(tmp_path)
    drivers.turn()
    for _ in range(DEATHS):
        drivers.dies("a")
        drivers.turn()
    assert drivers.runs["a"].actual().gave_up
    drivers.wanted["a"] = WantedFragment("a", WANTED["a"].tasks, active=0)
    drivers.turn()
    drivers.wanted["a"] = WANTED["a"]
    drivers.runs["a"] = FragmentRun("a", now_ms=drivers.now_ms)
    assert drivers.turn() == {"a"}
    del drivers.wanted["a"]
    drivers.turn()
    assert '"a"' not in (drivers.store.folder / "suspects").read_text()


def test_who_reads_nothing_or_takes_long_keeps_no_other_waiting(tmp_path: Path):
    drivers = Drivers(tmp_path)
    drivers.turn()
    drivers.dies("b", "c", "d")
    assert drivers.turn() == {"a", "b"}
    drivers.now_ms += TURN_MS  # a batch that does not end; it has no query here to ask whether it has one
    assert drivers.turn() == {"c"}
    run = drivers.runs["c"]
    run.begin(FragmentState.DRAINING, now_ms=drivers.now_ms)
    run.stopped(retry_at_ms=None, now_ms=drivers.now_ms)
    run.begin(FragmentState.STARTING, now_ms=drivers.now_ms)
    run.waits(retry_at_ms=10**12, now_ms=drivers.now_ms)
    run.end()
    assert "d" in drivers.turn()


@pytest.mark.parametrize(("code", "is_its_own"), [
    (f"raise SystemExit({JVM_GONE})", True), ("import os; os.kill(os.getpid(), 9)", False), ("", False)])
def test_what_somebody_outside_ends_is_nobody_s_fault(code: str, is_its_own: bool):
    report = {"state": "running", "fragments": {
        "a": {"state": "running", "batches": 3}, "b": {"state": "running", "batches": 0}, "c": {"state": "waiting"}}}
    slot = SlotProcess(
        "0", [sys.executable, "-c", f"print({json.dumps(json.dumps(report))}, flush=True); {code}"], env={},
        on_news=lambda: None, on_event=lambda **_: None)
    slot.check(1_000)
    while not slot.check(2_000):
        pass
    expected = Death(2_000, ("a", "b"), ("b",), "Its JVM ended.") if is_its_own else None
    assert slot.death == expected
    slot.end(deadline=0)


def test_the_agent_tells_a_slot_how_its_driver_died(tmp_path: Path):
    store = NodeStore(tmp_path, "n1")
    assert store.read_death("0") is None
    death = Death(5, ("a", "b"), ("b",), "Its JVM ended.")
    store.write_death("0", death)
    assert store.read_death("0") == death and store.read_death("1") is None
