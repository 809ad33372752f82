"""Cores of slots: which one each is held to, and when to none."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from workers.engine.spark import pinning as module
from workers.engine.spark.pinning import core_of, pin_to_core, pinning
from workers.engine.worker_settings import Settings


@pytest.mark.parametrize(("pin", "slots", "cores", "how"), [
    ("auto", 2, 3, "own"), ("auto", 2, 2, "few_cores"), ("auto", 1, 2, "own"), ("auto", 2, 1, "few_cores"),
    ("always", 2, 2, "own"), ("always", 3, 2, "shared"), ("never", 1, 8, "never"),
])
def test_how_slots_are_held_is_told_by_cores_and_setting(pin: str, slots: int, cores: int, how: str):
    assert pinning(Settings(pin=pin, slots=slots), cores=cores) == how
    assert pinning(Settings(pin=pin, slots=slots, spark_master="spark://h:7077"), cores=cores) == "cluster"


@pytest.mark.parametrize(("pin", "slots", "cores", "held"), [
    ("auto", 2, {0, 1, 2, 3}, [3, 2]), ("auto", 2, {4, 6, 9}, [9, 6]), ("auto", 2, {0, 1}, [None, None]),
    ("always", 3, {0, 1}, [1, 0, 1]), ("never", 1, {0, 1}, [None]),
])
def test_slots_take_cores_from_the_last_one_down(
    monkeypatch: pytest.MonkeyPatch, pin: str, slots: int, cores: set[int], held: list[int | None]
):
    pins: list[set[int]] = []
    monkeypatch.setattr(module.os, "sched_getaffinity", lambda pid: set(cores))
    monkeypatch.setattr(module.os, "sched_setaffinity", lambda pid, to: pins.append(set(to)))
    settings = Settings(pin=pin, slots=slots)
    assert [pin_to_core(settings, slot) for slot in range(slots)] == held
    assert pins == [{core} for core in held if core is not None]


def test_the_core_that_a_process_is_held_to_is_read_from_the_system():
    core = max(os.sched_getaffinity(0))
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    os.sched_setaffinity(child.pid, {core})
    assert core_of(child.pid) == core
    os.sched_setaffinity(child.pid, os.sched_getaffinity(0))
    assert core_of(child.pid) == (core if len(os.sched_getaffinity(0)) == 1 else None)
    child.communicate(b"\n")
    assert core_of(child.pid) is None


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="holding a tree to one core needs a second one")
def test_a_driver_that_runs_already_is_held_with_all_its_threads_and_children():
    code = """
import os, subprocess, threading
from workers.engine.worker_settings import Settings
from workers.engine.spark.pinning import core_for, pin_tree_to_core
child, ended = subprocess.Popen(["sleep", "60"]), threading.Event()
threading.Thread(target=ended.wait).start()
core = core_for(0)
pin_tree_to_core(Settings(pin="always", slots=1), 0)
held = [os.sched_getaffinity(int(task)) for pid in (os.getpid(), child.pid) for task in os.listdir(f"/proc/{pid}/task")]
ended.set(); child.kill()
print(len(held) >= 3 and all(cores == {core} for cores in held))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n", done.stderr
