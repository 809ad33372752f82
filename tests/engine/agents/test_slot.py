"""What a slot tells of its queries, without a driver."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from scheduler.contracts.desired import Input, WantedFragment
from scheduler.model.dataflow import Task
from workers.engine.agents.reconciling.fragment_run import FragmentRun
from workers.engine.agents.reconciling.reconcile import FragmentState
from workers.engine.agents.slot import SlotLoop
from workers.engine.agents.supervising.driver_end import is_ending, status_after
from workers.engine.agents.supervising.line_writer import LineWriter
from workers.engine.agents.supervising.supervision import JVM_GONE
from workers.engine.channels import keys
from workers.engine.worker_settings import Settings


@pytest.mark.broker
@pytest.mark.parametrize("inputs,counter", [((), "0:n"), ((Input("f1-0.0", "s"),), "in:n")])
def test_a_query_s_rate_is_of_what_it_reads_and_a_source_s_of_what_it_makes(
    broker: redis.Redis, broker_url: str, tmp_path: Path, inputs: tuple[Input, ...], counter: str
):
    """Also where it comes back within a minute of its removal, which has left a zero in its meters."""
    slot = SlotLoop(Settings(redis_url=broker_url, data_dir=tmp_path), "0", tell=LineWriter(io.StringIO()))
    live = FragmentRun("f1-1", now_ms=0, state=FragmentState.RUNNING)
    live.fragment = WantedFragment("f1-1", (Task("t", "any", {}),), inputs)
    broker.hset(keys.meter("f1-1"), mapping={"in:n": 0, "0:n": 0})
    slot._look_at_meters([live], 0)
    broker.hincrby(keys.meter("f1-1"), counter, 600)
    slot._look_at_meters([live], 3_000)
    assert slot._rates.per_s("f1-1") == 200.0


class EndingDriver:
    """A driver whose JVM ends: it answers no more, or its context is stopped, and its process is there for a while."""

    def __init__(self, *, answers: bool, is_stopped: bool = True) -> None:
        self.answers, self.is_stopped = answers, is_stopped
        self.sparkContext = self._jsc = self._gateway = self
        self.proc = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def sc(self) -> EndingDriver:
        if not self.answers:
            raise ConnectionRefusedError("nobody listens")
        return self

    def isStopped(self) -> bool:
        return self.is_stopped


@pytest.fixture
def ending(request: pytest.FixtureRequest) -> Iterator[EndingDriver]:
    driver = EndingDriver(**request.param)
    yield driver
    driver.proc.communicate()


@pytest.mark.parametrize("ending", [{"answers": False}, {"answers": True}], indirect=True)
def test_a_turn_that_fails_because_the_jvm_ends_is_an_end_of_the_jvm(ending: EndingDriver):
    """Were it any end, nobody would be suspected of it."""
    assert is_ending(ending)
    threading.Timer(0.1, ending.proc.stdin.close).start()
    assert status_after(ending) == JVM_GONE and ending.proc.poll() is not None


@pytest.mark.parametrize("ending", [{"answers": True, "is_stopped": False}], indirect=True)
def test_a_turn_that_fails_while_the_jvm_lives_is_none(ending: EndingDriver):
    assert not is_ending(ending) and status_after(ending) is None


@pytest.mark.broker
@pytest.mark.parametrize("ending", [{"answers": True}], indirect=True)
def test_what_ends_with_its_driver_is_not_told_as_failed(
    broker: redis.Redis, broker_url: str, tmp_path: Path, ending: EndingDriver
):
    output = io.StringIO()
    slot = SlotLoop(Settings(redis_url=broker_url, data_dir=tmp_path), "0", tell=LineWriter(output))
    slot._say("starting")
    first = output.getvalue()
    slot._spark = ending
    slot._runs["f1-0"] = FragmentRun("f1-0", now_ms=0, state=FragmentState.BACKOFF)
    slot._say("running")
    assert first and output.getvalue() == first
