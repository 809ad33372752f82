"""Node agents with stand-in slots: what dies is started again, what is away is waited for, what ends leaves nothing."""

import errno
import json
import os
import signal
import subprocess
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import get_args

import psutil
import pytest
import redis

from scheduler.contracts.desired import DESIRED_STATES, DesiredState
from scheduler.contracts.looks import LookOrder
from scheduler.contracts.trials import TrialOrder
from workers.engine import desired_publishing, look_store, trial_store
from workers.engine.agents.node_files.node_store import NodeStore
from workers.engine.agents.supervising import broker_sync
from workers.engine.spark.pinning import Pinning, core_of
from workers.launcher import broker as embedded
from workers.processes import spawn, stop

from .forked_agent import agent

pytestmark = pytest.mark.broker


def wanted(version: int, *fragments: str) -> DesiredState:
    """A desired state of one slot."""
    tasks = [{"id": "t", "type": "any", "config": {}}]
    return DESIRED_STATES.read({
        "version": version, "node": "n1", "generation": version,
        "slots": {"0": {"fragments": [
            {"id": name, "tasks": tasks, "inputs": [], "outlets": {}, "active": 1, "trigger_ms": 200}
            for name in fragments
        ]}},
    })


def until(is_so, *, within_s: float = 120):
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        value = is_so()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("it did not come true")


def slot_of(broker: redis.Redis, slot: str = "0") -> dict:
    text = broker.get("weir:observed:n1")
    return json.loads(text)["slots"].get(slot, {}) if text else {}


def fragments_of(broker: redis.Redis) -> dict:
    return slot_of(broker).get("fragments", {})


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_slot_that_is_killed_comes_back_and_takes_its_children_along(broker, broker_url, tmp_path):
    desired_publishing.publish(broker, wanted(1, "f1-0"))
    with agent(broker_url, tmp_path / "data"):
        child = until(lambda: fragments_of(broker).get("f1-0"))["child"]
        pid = slot_of(broker)["pid"]
        os.kill(pid, signal.SIGKILL)
        back = until(lambda: slot_of(broker).get("restarts") == 1 and slot_of(broker)["fragments"] and slot_of(broker))
        assert back["pid"] != pid and back["state"] == "running"
        assert gone(pid) and gone(child), "what the dead slot had started lives on"
        kinds = [json.loads(entry[b"kind"]) for _, entry in broker.xrange("weir:events")]
        assert "slot_died" in kinds


@pytest.mark.long
@pytest.mark.parametrize("what", ["slot", "agent"])
def test_nothing_stays_of_a_trial_when_its_slot_or_its_agent_is_killed(what, broker, broker_url, tmp_path):
    data_dir = tmp_path / "data"
    left = [data_dir / "checkpoints" / "trial-t", data_dir / "nodes" / "n1" / "trials" / "trial-t"]

    def feeders(of: int) -> list[int]:
        value = []
        for process in psutil.Process(of).children(recursive=True):
            with suppress(psutil.Error):
                value += [process.pid] if "workers.engine.measuring.feeder" in process.cmdline() else []
        return value

    def is_cleared() -> bool:
        keys = [key for key in broker.keys("weir:*:trial-t*") if broker.ttl(key) < 0]
        return not any(path.exists() for path in left) and not keys

    with agent(broker_url, data_dir) as process:
        trial_store.order(broker, TrialOrder(
            "t", "n1", "0", "pi_viete", {}, threads=2, rate_per_s=50.0, seconds=600.0, first_warm_up_s=2.0,
            driver_warm_up_s=0.0,
            feed=({"type": "urban_sensing", "config": {}},)))
        until(lambda: broker.xlen("weir:ch:trial-t.in") > 5)
        feeding = feeders(process.pid)
        assert feeding and all(path.exists() for path in left)
        os.kill(slot_of(broker)["pid"] if what == "slot" else process.pid, signal.SIGKILL)
        until(lambda: all(gone(pid) for pid in feeding))
        if what == "slot":
            result = until(lambda: trial_store.result(broker, "t"))
            assert (result.code, result.passing) == ("slot_died", True)
            until(is_cleared)
    if what == "agent":
        assert not is_cleared() and trial_store.result(broker, "t") is None
        with agent(broker_url, data_dir):
            until(is_cleared)


def test_a_slot_that_keeps_dying_is_tried_less_and_less_often(broker, broker_url, tmp_path):
    with agent(broker_url, tmp_path / "data"):
        for restarts in range(2):
            pid = until(lambda: slot_of(broker).get("restarts") == restarts and slot_of(broker)["pid"])  # noqa: B023
            os.kill(pid, signal.SIGKILL)
        assert until(lambda: slot_of(broker).get("state") == "backoff")
        assert until(lambda: slot_of(broker).get("restarts") == 2 and slot_of(broker)["state"] == "running")


def test_the_report_says_what_is_used_and_which_version_is_known(broker, broker_url, tmp_path):
    desired_publishing.publish(broker, wanted(5, "f1-0"))
    with agent(broker_url, tmp_path / "data", slots=2):
        def newest_report():
            report = json.loads(broker.get("weir:observed:n1") or "{}")
            # A slot may have read of its fragment, and told it, before its agent has.
            return fragments_of(broker) and report.get("version") and report

        report = until(newest_report)
        assert report["version"] == 5 and report["cores"] == os.cpu_count() and set(report["slots"]) == {"0", "1"}
        assert report["pinning"] in get_args(Pinning)
        assert slot_of(broker)["core"] == core_of(slot_of(broker)["pid"])
        assert until(lambda: slot_of(broker)["memory_mb"]) > 0
        assert broker.ttl("weir:observed:n1") > 0


def test_a_broker_that_goes_and_comes_back_changes_nothing_for_the_slots(tmp_path):
    prepared = embedded.prepare(tmp_path)
    broker_process = spawn(prepared.argv, stdout=subprocess.DEVNULL)
    try:
        until(lambda: embedded.answers(prepared.url))
        with redis.Redis.from_url(prepared.url) as broker, agent(prepared.url, tmp_path / "data"):
            desired_publishing.publish(broker, wanted(1, "f1-0"))
            before = until(lambda: fragments_of(broker) and slot_of(broker))
            broker_process.kill()
            broker_process.wait()
            log = tmp_path / "data" / "agent.log"
            until(lambda: "broker is away" in log.read_text())
            broker_process = spawn(prepared.argv, stdout=subprocess.DEVNULL)
            until(lambda: embedded.answers(prepared.url))
            broker.delete("weir:observed:n1")
            desired_publishing.publish(broker, wanted(2, "f1-0", "f2-0"))
            until(lambda: "f2-0" in fragments_of(broker))
            after = slot_of(broker)
            assert (after["pid"], after["restarts"], after["since_ms"]) == (before["pid"], 0, before["since_ms"])
    finally:
        stop(broker_process, timeout_s=5)


@pytest.mark.parametrize("killed", ["agent", "slot"])
def test_what_is_killed_while_site_and_broker_are_away_starts_again_from_the_nodes_store(killed, tmp_path):
    prepared = embedded.prepare(tmp_path)
    broker_process = spawn(prepared.argv, stdout=subprocess.DEVNULL)
    data_dir = tmp_path / "data"

    def slots(process) -> dict[int, list[int]]:
        """The slots' processes, and what each has started."""
        started: dict[int, list[int]] = {}
        for slot in psutil.Process(process.pid).children():
            with suppress(psutil.Error):  # it has just ended
                if "--slot" in slot.cmdline():
                    started[slot.pid] = [child.pid for child in slot.children()]
        return started

    try:
        until(lambda: embedded.answers(prepared.url))
        with redis.Redis.from_url(prepared.url) as broker, ExitStack() as agents:
            desired_publishing.publish(broker, wanted(4, "f1-0"))
            process = agents.enter_context(agent(prepared.url, data_dir))
            until(lambda: fragments_of(broker))
            broker.flushall()
            # It writes later while its file is synced, and answers before that.
            broker.execute_command("WAITAOF", 1, 0, 10_000)
            broker_process.kill()
            broker_process.wait()
            [before] = slots(process)
            if killed == "agent":
                process.kill()
                process.wait()
                process = agents.enter_context(agent(prepared.url, data_dir))
            else:
                os.kill(before, signal.SIGKILL)
            until(lambda: any(pid != before and started for pid, started in slots(process).items()))
            assert not embedded.answers(prepared.url), "nobody was asked"
            broker_process = spawn(prepared.argv, stdout=subprocess.DEVNULL)
            assert set(until(lambda: embedded.answers(prepared.url) and fragments_of(broker))) == {"f1-0"}
            assert broker.get("weir:desired:n1") is None
    finally:
        stop(broker_process, timeout_s=5)


@pytest.mark.parametrize("tells_slots", [True, False])
def test_slots_are_told_of_a_change_unless_they_are_to_find_it_by_their_cycle(
    tells_slots, broker, broker_url, tmp_path
):
    with agent(broker_url, tmp_path / "data", tells_slots=tells_slots):
        for version in (1, 2):
            desired_publishing.publish(broker, wanted(version, f"f{version}-0"))
            until(lambda: f"f{version}-0" in fragments_of(broker))  # noqa: B023
        pokes = fragments_of(broker)["f2-0"]["pokes"]
        assert pokes >= 1 if tells_slots else pokes == 0


@pytest.mark.long  # of an agent that is killed while the broker is away, too, a test above has it
def test_an_agent_starts_what_it_knows_without_a_desired_state_in_the_broker(broker, broker_url, tmp_path):
    desired_publishing.publish(broker, wanted(3, "f1-0"))
    with agent(broker_url, tmp_path / "data"):
        until(lambda: fragments_of(broker))
    broker.flushall()
    with agent(broker_url, tmp_path / "data"):
        assert set(until(lambda: fragments_of(broker))) == {"f1-0"}


def test_the_second_agent_of_a_name_waits_for_the_first(broker, broker_url, tmp_path):
    with agent(broker_url, tmp_path / "one"):
        first = until(lambda: slot_of(broker).get("pid"))
        with agent(broker_url, tmp_path / "two") as second:
            until(lambda: "waiting" in (tmp_path / "two" / "agent.log").read_text())
            assert not psutil.Process(second.pid).children(), "the second agent has started a slot"
            assert slot_of(broker)["pid"] == first
    with agent(broker_url, tmp_path / "two"):
        assert until(lambda: slot_of(broker).get("pid") not in (None, first))


def test_an_agent_whose_name_was_taken_stands_down(broker, broker_url, tmp_path):
    with agent(broker_url, tmp_path / "data") as process:
        until(lambda: slot_of(broker).get("pid"))
        broker.set("weir:lease:n1", "somebody else")
        until(lambda: not psutil.Process(process.pid).children())
        broker.delete("weir:lease:n1")
        until(lambda: psutil.Process(process.pid).children())


@pytest.mark.parametrize("how", [
    signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.long), signal.SIGKILL])  # it hears both alike
def test_nothing_is_left_of_an_agent_that_ends(how, broker, broker_url, tmp_path):
    desired_publishing.publish(broker, wanted(1, "f1-0"))
    with agent(broker_url, tmp_path / "data") as process:
        run = until(lambda: fragments_of(broker).get("f1-0"))
        slot = slot_of(broker)["pid"]
        process.send_signal(how)
        process.wait(15)
        until(lambda: gone(slot))
        if how != signal.SIGKILL:  # a stand-in's child does not watch its parent; Spark's do
            until(lambda: gone(run["child"]))
        else:
            os.kill(run["child"], signal.SIGKILL)


def test_a_push_is_heard_long_before_the_next_look(broker, broker_url, tmp_path):
    pushes = []
    watcher = broker_sync.DesiredStateWatcher(
        redis.Redis.from_url(broker_url), NodeStore(tmp_path, "n1"), on_change=lambda: pushes.append(1), cycle_s=3600.0)
    watcher.start()
    until(lambda: broker.pubsub_numsub("weir:push")[0][1])
    desired_publishing.publish(broker, replace(wanted(1), node="n2"))
    desired_publishing.publish(broker, wanted(1, "f1-0"))
    until(lambda: pushes)
    assert NodeStore(tmp_path, "n1").read_desired().version == 1 and len(pushes) == 1
    watcher.stop()
    broker.publish("weir:push", "n1")


def test_a_change_whose_push_was_lost_is_found_a_supervisor_cycle_later(broker, broker_url, tmp_path):
    pushes = []
    watcher = broker_sync.DesiredStateWatcher(
        redis.Redis.from_url(broker_url), NodeStore(tmp_path, "n1"), on_change=lambda: pushes.append(1), cycle_s=0.05)
    watcher.start()
    broker.set("weir:desired:n1", DESIRED_STATES.dumps(wanted(4)))
    until(lambda: pushes)
    watcher.stop()
    assert NodeStore(tmp_path, "n1").read_desired().version == 4


@pytest.mark.parametrize("what", ["write_desired", "on_change"])
def test_a_node_hears_again_once_its_disk_has_room(what, broker, broker_url, tmp_path, monkeypatch):
    """Nobody else reads desired states: were the thread to end of it, the node would report on and be deaf for good."""
    monkeypatch.setattr(broker_sync, "RETRY_S", 0.05)
    failed, pushes, write = [], [], NodeStore.write_desired

    def full(of: str) -> None:
        if of == what and len(failed) < 3:
            failed.append(of)
            raise OSError(errno.ENOSPC, "No space left on device")

    def write_desired(store, document):
        full("write_desired")
        return write(store, document)

    def on_change() -> None:
        full("on_change")
        pushes.append(1)

    monkeypatch.setattr(NodeStore, "write_desired", write_desired)
    watcher = broker_sync.DesiredStateWatcher(
        redis.Redis.from_url(broker_url), NodeStore(tmp_path, "n1"), on_change=on_change, cycle_s=0.05)
    watcher.start()
    broker.set("weir:desired:n1", DESIRED_STATES.dumps(wanted(4)))
    until(lambda: pushes)
    assert len(failed) == 3 and NodeStore(tmp_path, "n1").read_desired().version == 4
    broker.set("weir:desired:n1", DESIRED_STATES.dumps(wanted(5)))
    until(lambda: len(pushes) == 2)
    watcher.stop()


def test_an_agent_looks_at_a_source_and_ends_with_its_looks(broker, broker_url, tmp_path, monkeypatch):
    inbox = tmp_path / "inbox"
    (inbox / "full").mkdir(parents=True)
    (inbox / "empty").mkdir()
    (inbox / "full" / "1.ndjson").write_text('{"n": 1}\n{"n": 2}\n')
    monkeypatch.setenv("WEIR_INBOX_DIRS", str(inbox))
    for name in ("LIVES_S", "ORDER_LIVES_S", "ASKED_S"):  # here, and so of what is ordered, however slow the machine is
        monkeypatch.setattr(look_store, name, 3_600)

    def has_come_to(name: str, state: str) -> look_store.LookProgress:
        order = LookOrder(name, "n1", "files", {"path": name, "columns": ["n:bigint"]}, waits_s=300.0)
        look_store.order(broker, order, owner=name)
        return until(lambda: (seen := look_store.seen(broker, name, owner=name)).state.state == state and seen)

    desired_publishing.publish(broker, wanted(1))
    with agent(broker_url, tmp_path / "data") as process:
        until(lambda: broker.exists("weir:observed:n1"))
        assert has_come_to("full", "done").events == [{"n": 2}, {"n": 1}]
        has_come_to("empty", "looking")
        children = psutil.Process(process.pid).children(recursive=True)  # the other look's may have just ended
        [looking] = [
            child.pid for child in children
            if not gone(child.pid) and "workers.engine.connectors.look" in child.cmdline()]
    until(lambda: gone(looking))


def test_the_store_keeps_the_newest(tmp_path):
    store = NodeStore(tmp_path, "n1")
    assert store.read_desired().version == 0
    assert store.write_desired(wanted(2, "f1-0"))
    assert not store.write_desired(wanted(1)) and not store.write_desired(wanted(2, "f1-0"))
    assert [fragment.id for fragment in store.read_desired().of_slot("0")] == ["f1-0"]
