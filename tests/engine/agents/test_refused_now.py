"""An expression that an earlier version took in and this one refuses: told at once with the remedy, and in nobody's way
once it is removed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from scheduler.contracts.desired import WantedFragment
from scheduler.model.dataflow import Task
from scheduler.model.task_types import TaskType
from workers.engine.agents.reconciling.context import SlotContext
from workers.engine.agents.reconciling.fragment_run import FragmentRun
from workers.engine.agents.reconciling.instructions import Compile
from workers.engine.agents.reconciling.query_actuator import QueryActuator
from workers.engine.agents.reconciling.reconcile import FragmentState
from workers.engine.agents.reconciling.started_fragments import SlotStore
from workers.engine.channels.open_streams import QueryMode
from workers.engine.spark.failure_messages import FragmentFailed, explain_error
from workers.library.config import InvalidConfig
from workers.library.sql_task import sql_check

TYPES = {name: TaskType(name=name, kind="transform", doc="", build="x:y", stateful=name == "window")
         for name in ("any", "sql", "window")}
WHOLE = WantedFragment("f1-0", (Task("t0", "any", {}), Task("t1", "any", {}), Task("t2", "sql", {})), active=2)
STATEFUL = WantedFragment("f1-0", (*WHOLE.tasks, Task("t3", "window", {})), active=2)


class Refusing:
    """An engine that refuses the task ``t2``."""

    def __init__(self) -> None:
        self.compiled: list[int] = []

    def compile(self, whole: WantedFragment, _beginning: object) -> SimpleNamespace:
        self.compiled.append(len(whole.tasks))
        if "t2" in {task.id for task in whole.tasks}:
            raise FragmentFailed("task t2: no", is_final=True, tasks=["t2"])
        return SimpleNamespace(schemas=("{}",) * len(whole.tasks), folds=(), file_sink=None, batch_mode=QueryMode())


@pytest.fixture
def store(tmp_path: Path) -> SlotStore:
    return SlotStore(tmp_path, tmp_path / "slot-0")


def compile_there(store: SlotStore, instruction: Compile) -> tuple[FragmentRun, Refusing]:
    engine, run = Refusing(), FragmentRun("f1-0", now_ms=0)
    around = SlotContext(engine=engine, channels=None, broker=None, store=store, task_types=TYPES, desired=None)
    QueryActuator(around, clock_ms=lambda: 0, on_event=lambda *_, **__: None).do(run, instruction)
    return run, engine


def test_a_refused_task_that_nobody_wants_any_more_is_left_out_for_good(store):
    run, engine = compile_there(store, Compile(WHOLE, unwanted=1))
    assert engine.compiled == [3, 2] and run.fragment.tasks == WHOLE.tasks[:2]
    assert store.known_fragment("f1-0").tasks == WHOLE.tasks[:2]


@pytest.mark.parametrize(("whole", "unwanted"), [(WHOLE, 0), (STATEFUL, 1), (STATEFUL, 2)])
def test_one_that_is_wanted_or_stands_before_state_is_not(store, whole, unwanted):
    with pytest.raises(FragmentFailed):
        compile_there(store, Compile(whole, unwanted=unwanted))


def test_folds_that_a_checkpoint_has_are_state_too(store):
    store.record_folds("f1-0", [("t0", 0), ("t1", 0), ("t2", 1)])
    with pytest.raises(FragmentFailed):
        compile_there(store, Compile(WHOLE, unwanted=1))


def test_it_is_told_at_its_first_start_with_what_helps():
    with pytest.raises(InvalidConfig) as refused:
        sql_check({"query": "SELECT 1 AS x FROM input; SELECT 2 AS y FROM input"})
    failure = explain_error(refused.value, task="t2", is_final=True)
    assert refused.value.message[:40] in str(failure) and refused.value.remedy[:40] in str(failure)
    assert "Submit a new version" in str(failure) and failure.tasks == ("t2",)
    run = FragmentRun("f1-0", now_ms=0)
    run.begin(FragmentState.STARTING, now_ms=0)
    assert run.failed(failure, now_ms=0) is None and run.actual().gave_up
