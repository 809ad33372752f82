"""A spare driver, with stand-in slots: it takes the place of one that died, whatever dies meanwhile, and costs nobody
for its wait."""

import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest
import redis

from workers.engine import desired_publishing
from workers.engine.agents import node_agent
from workers.engine.spark import scratch
from workers.engine.worker_settings import Settings

from .forked_agent import agent
from .test_node import fragments_of, gone, slot_of, until, wanted

pytestmark = pytest.mark.broker


def spare_of(broker: redis.Redis) -> dict:
    text = broker.get("weir:observed:n1")
    return json.loads(text).get("spare") or {} if text else {}


def is_spare(process: psutil.Process) -> bool:
    try:
        return "--spare" in process.cmdline()
    except psutil.NoSuchProcess:  # it has died, and its parent may not have noticed
        return False


def spare_pid(agent_pid: int) -> int:
    """The process that waits; those that have taken a slot's place are older."""
    waiting = [process for process in psutil.Process(agent_pid).children() if is_spare(process)]
    return max(waiting, key=lambda process: process.create_time()).pid


def test_a_spare_takes_the_place_of_a_slot_that_died_and_another_takes_its_own(broker, broker_url, tmp_path):
    desired_publishing.publish(broker, wanted(1, "f1-0"))
    with agent(broker_url, tmp_path / "data", slots=2, spares=1) as process:
        for restarts in (1, 2):
            until(lambda: spare_of(broker).get("state") == "ready")
            until(lambda: fragments_of(broker).get("f1-0"))
            spare, old = spare_pid(process.pid), slot_of(broker)["pid"]
            os.kill(old, signal.SIGKILL)
            until(lambda: slot_of(broker).get("pid") == spare and slot_of(broker)["fragments"])  # noqa: B023
            assert slot_of(broker)["restarts"] >= restarts and gone(old)
            assert not slot_of(broker, "1")["restarts"], "the other slot is left alone"
        pids = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    assert all(gone(pid) for pid in pids)


def test_a_spare_that_dies_is_replaced_and_a_slot_without_one_starts_by_itself(broker, broker_url, tmp_path):
    desired_publishing.publish(broker, wanted(1, "f1-0"))
    with agent(broker_url, tmp_path / "data", spares=1) as process:
        until(lambda: spare_of(broker).get("state") == "ready" and fragments_of(broker))
        spare, old = spare_pid(process.pid), slot_of(broker)["pid"]
        os.kill(spare, signal.SIGKILL)
        os.kill(old, signal.SIGKILL)
        # Once more where the agent took the spare before it was quite dead.
        until(lambda: slot_of(broker).get("restarts", 0) >= 1 and slot_of(broker)["fragments"]
              and slot_of(broker)["pid"] not in (spare, old))
        assert gone(spare)
        until(lambda: spare_of(broker).get("state") == "ready")
        os.kill(process.pid, signal.SIGSTOP)  # both are dead before anybody looks
        spare, old = spare_pid(process.pid), slot_of(broker)["pid"]
        os.kill(old, signal.SIGKILL)
        os.kill(spare, signal.SIGKILL)
        os.kill(process.pid, signal.SIGCONT)
        until(lambda: slot_of(broker)["fragments"] and slot_of(broker)["pid"] not in (spare, old))
        until(lambda: spare_of(broker).get("state") == "ready")


def test_a_spare_that_dies_as_it_takes_a_place_is_followed_by_a_driver_of_the_slots_own(broker, broker_url, tmp_path):
    desired_publishing.publish(broker, wanted(1, "f1-0"))
    with agent(broker_url, tmp_path / "data", spares=1) as process:
        until(lambda: spare_of(broker).get("state") == "ready" and fragments_of(broker))
        spare, old = spare_pid(process.pid), slot_of(broker)["pid"]
        os.kill(old, signal.SIGKILL)
        until(lambda: slot_of(broker).get("pid") == spare)
        os.kill(spare, signal.SIGKILL)
        back = until(lambda: slot_of(broker).get("pid") not in (None, spare, old) and slot_of(broker))
        until(lambda: slot_of(broker)["fragments"])
        assert back["restarts"] >= 2 and gone(spare)


def test_what_a_driver_took_while_it_waited_is_not_its_slots(tmp_path):
    waited = subprocess.Popen([sys.executable, "-c", "sum(range(4 * 10**7)); print(flush=True); input()"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        waited.stdout.readline()
        serving = node_agent.NodeAgent(Settings(data_dir=tmp_path))
        as_spare = SimpleNamespace(name="spare", pid=waited.pid, was_spare=False)
        for hours in range(72):
            before = serving._usage_of(as_spare, hours * 3_600_000 + 1)
        assert before.cpu_ms > 100 and before.memory_mb_s > 100_000
        for was_spare in (True, False):
            serving._meters.clear()
            slot = SimpleNamespace(name="0", pid=waited.pid, was_spare=was_spare)
            serving._usage_of(as_spare, 72 * 3_600_000)
            after = serving._usage_of(slot, 72 * 3_600_000)
            assert (after.since_ms, after.memory_mb_s) == (72 * 3_600_000, 0)
            assert (after.cpu_ms < 50) is was_spare, "a slot's own driver pays for its start"
    finally:
        waited.kill()
        waited.wait()


@pytest.mark.parametrize("is_alive", [True, False])
def test_folders_of_spares_that_are_gone_are_removed_with_their_sockets(tmp_path, is_alive):
    ended = subprocess.Popen(["true"])
    ended.wait()
    folder = tmp_path / "spares" / str(os.getpid() if is_alive else ended.pid)
    folder.mkdir(parents=True)
    sockets = scratch.socket_dir(folder)
    scratch.clear_spares(tmp_path)
    assert folder.exists() is sockets.exists() is is_alive
    sockets.rmdir() if is_alive else None


def test_nothing_of_a_spare_stays_when_its_agent_is_killed(broker, broker_url, tmp_path):
    desired_publishing.publish(broker, wanted(1, "f1-0"))
    with agent(broker_url, tmp_path / "data", spares=1) as process:
        until(lambda: spare_of(broker).get("state") == "ready" and fragments_of(broker))
        pids = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        os.kill(process.pid, signal.SIGKILL)
        until(lambda: all(gone(pid) for pid in pids if pid != fragments_of(broker)["f1-0"]["child"]))
