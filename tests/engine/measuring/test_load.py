"""What a process tree takes, and holding it to a core."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from workers.engine.measuring import machine_class as machine
from workers.engine.measuring.load import TreeLoad, held_to
from workers.engine.measuring.machine_class import Stolen, machine_class, slot_memory_mb

# A process that starts a child when it is told to; both have two threads and burn CPU until they are told to end.
TREE = """
import subprocess, sys, threading
def burn():
    while True:
        sum(range(1000))
threading.Thread(target=burn, daemon=True).start()
print("up", flush=True)
for line in sys.stdin:
    child = subprocess.Popen([sys.executable, "-c", "import time, threading; threading.Thread(target=time.sleep, "
                              "args=(60,), daemon=True).start(); kept = b'x' * (60 << 20); "
                              "print(len(kept), flush=True); time.sleep(60)"], stdout=subprocess.PIPE)
    child.stdout.readline()
    print(child.pid, flush=True)
"""


@pytest.fixture
def tree() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", TREE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    process.stdout.readline()
    yield process
    os.killpg(process.pid, 9)
    process.wait()
    process.stdin.close()
    process.stdout.close()


def with_child(tree: subprocess.Popen[str]) -> int:
    tree.stdin.write("\n")
    tree.stdin.flush()
    return int(tree.stdout.readline())


def affinities(*pids: int) -> list[set[int]]:
    return [os.sched_getaffinity(int(thread.name)) for pid in pids for thread in Path(f"/proc/{pid}/task").iterdir()]


def test_cpu_counts_from_the_first_look_and_of_what_comes_later_from_its_start(tree):
    load = TreeLoad(tree.pid)
    assert load.cpu_s() == 0.0
    before_mb = load.python_mb()
    child = with_child(tree)
    deadline = time.monotonic() + 120
    while (used := load.cpu_s()) < 0.2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert used >= 0.2
    assert load.python_mb() >= before_mb + 55, "the child's memory, too"
    os.kill(child, 9)
    while load.cpu_s() < used + 0.1 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert load.cpu_s() >= used, "what one used that ended is not lost"


# A process that is called as a JVM is, one of its threads as a JVM's compiler; the thread burns CPU, and then the rest.
# Both threads may speak at once: a line goes out in one write, which a pipe does not mix with another.
COMPILING = """
import os, sys, threading, time
from pathlib import Path
def burn(seconds):
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        sum(range(1000))
def compiler():
    Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text("C2 CompilerThread0")
    named.set()
    sys.stdin.readline()
    burn(0.5)
    os.write(1, b"compiled\\n")
    time.sleep(60)
named = threading.Event()
Path("/proc/self/comm").write_text("java")
threading.Thread(target=compiler, daemon=True).start()
named.wait()
print("up", flush=True)
time.sleep(0.1)
while threading.active_count() > 1 and not Path(sys.argv[1]).exists():
    time.sleep(0.01)
burn(0.4)
os.write(1, b"done\\n")
time.sleep(60)
"""


def test_what_compilers_take_is_not_counted(tmp_path):
    argv = [sys.executable, "-c", COMPILING, str(tmp_path / "go")]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        process.stdout.readline()
        load = TreeLoad(process.pid)
        load.cpu_s()
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "compiled\n"
        assert load.cpu_s() < 0.4, "half a second went to the compiler"
        (tmp_path / "go").touch()
        assert process.stdout.readline() == "done\n"
        assert load.cpu_s() >= 0.35
        process.kill()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="holding a tree to one core needs a second one")
def test_a_tree_is_held_to_a_core_with_all_its_threads_and_let_go(tree):
    child, cores = with_child(tree), os.sched_getaffinity(0)
    core = max(cores)
    with held_to(core, tree.pid):
        assert all(held == {core} for held in affinities(tree.pid, child))
        later = with_child(tree)
        assert all(held == {core} for held in affinities(later))
    assert all(held == cores for held in affinities(tree.pid, child, later))


def test_a_machine_is_of_a_class_by_what_its_slots_are():
    assert machine_class(2) == machine_class(2) != machine_class(1)
    assert len(machine_class(16)) <= 120, "it has to fit where sweeps keep it"
    assert abs(slot_memory_mb(1) - 4 * slot_memory_mb(4)) <= 4


def test_what_a_host_gives_to_others_is_a_part_of_what_was_asked_for(monkeypatch: pytest.MonkeyPatch):
    times = iter([{"user": 10.0, "system": 2.0, "idle": 50.0, "steal": 1.0},
                  {"user": 12.0, "system": 3.0, "idle": 90.0, "steal": 2.0}, {"user": 12.0, "system": 3.0},
                  {"user": 13.0, "system": 3.0}])
    monkeypatch.setattr(machine.psutil, "cpu_times", lambda: SimpleNamespace(_asdict=lambda: next(times)))
    stolen = Stolen()
    assert stolen.share() == 0.25
    assert stolen.share() == 0.0, "nothing was asked for, and where it is not told nothing is known"
    assert stolen.share() == 0.0
