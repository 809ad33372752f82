"""A spare driver takes the place of a slot's that dies or freezes, and every event comes once."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import psutil
import pytest
import redis

from scheduler.model.canonical import canonical_config
from scheduler.model.effects import needs_approval
from tests.conftest import running_broker
from workers.engine.agents.node_files.node_store import NodeStore
from workers.engine.spark.rehearsal import READER, SOURCE

from .conftest import TRIGGER_MS
from .rig import NODE, Rig, catalogue, estate_of, running_agent
from .test_slot import chain, fragment

pytestmark = [pytest.mark.spark, pytest.mark.broker]


@pytest.fixture
def spared(tmp_path_factory, test_types, with_jar) -> Iterator[Rig]:
    """An agent with one slot and a spare."""
    plugin_folder, types = test_types
    data_dir = with_jar(tmp_path_factory.mktemp("data"))
    with running_broker(tmp_path_factory.mktemp("broker")) as url, redis.Redis.from_url(url) as client, running_agent(
        client, url, data_dir, plugin=plugin_folder, task_types=catalogue(*types), WEIR_SPARES="1",
    ) as rig:
        rig.trigger_ms = TRIGGER_MS
        yield rig


def has_spare(rig: Rig) -> bool:
    return (rig.report().get("spare") or {}).get("state") == "ready"


def check_the_rehearsal(rig: Rig) -> None:
    """It has done batches of both queries, and nothing of them is left that does not expire."""
    lines = [json.loads(line) for line in rig.log.read_text().splitlines() if '"spare has rehearsed"' in line]
    assert lines and lines[-1]["batches"] > 5
    left = [key for key in rig.broker.keys("weir:*rehearsal*") if rig.broker.ttl(key) <= 0]
    assert left == [] and not list(rig.data_dir.rglob("rehearsal-*"))


def test_a_rehearsal_is_of_tasks_that_reach_nothing_beyond_weir() -> None:
    types = catalogue()
    for name, config in (*SOURCE, *READER):
        assert not needs_approval(types[name], canonical_config(types[name], config)), name


@pytest.mark.long
@pytest.mark.parametrize("how", [
    pytest.param(signal.SIGKILL, id="killed"), pytest.param(signal.SIGSTOP, id="frozen")])
def test_what_a_driver_ran_goes_on_in_the_spare_and_every_event_comes_once(spared: Rig, how: signal.Signals) -> None:
    # What came while nobody answered is more than an output keeps by itself, and comes in one batch.
    all_of_it = ("kept", {"keep_events": 100_000})
    first = chain("a", ("numbers", {"rate_per_s": 50.0}), ("in_python", {"tag": "a"}), all_of_it)
    second = chain("b", all_of_it, parent="a0")
    fragments = [fragment("s1-0", first, outlets={"a0": ("s1-1",)}), fragment("s1-1", second)]
    with spared.collecting("s1-0.2", "s1-1.0") as collected:
        spared.publish(estate_of(fragments, [*first, *second], slots=1))
        spared.wait_running("s1-0", "s1-1")
        spared.wait(lambda: has_spare(spared) and len(collected["s1-1.0"]) > 50, what="a spare is ready")
        check_the_rehearsal(spared)
        pid = spared.slot_pid()
        [jvm] = [child for child in psutil.Process(pid).children(recursive=True) if child.name() == "java"]
        os.kill(jvm.pid, how)
        if how is signal.SIGSTOP:
            spared.wait(lambda: spared.report()["slots"]["0"]["state"] == "stalled", within_s=10, what="it is stalled")
        spared.wait(lambda: spared.slot_pid() not in (None, pid), what="the spare serves")
        reached = len(collected["s1-1.0"])
        spared.wait(lambda: len(collected["s1-1.0"]) > reached + 50, what="events flow")
    for channel, events in collected.items():
        assert [event["n"] for event in events] == list(range(len(events))), channel
    log = spared.log.read_text()
    assert log.count('"event": "slot started"') == 3, "slot, spare, and the spare as the slot"
    assert '"spare": true' in log
    folders = list(NodeStore(spared.data_dir, NODE).folder.glob("spares/*"))
    assert [folder.name for folder in folders if not psutil.pid_exists(int(folder.name))] == []
