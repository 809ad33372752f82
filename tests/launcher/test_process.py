"""``spawn`` and ``die_with_parent``: what the kernel does when a parent dies, thread or process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from workers.processes import descendants, die_with_parent, kill_group, spawn, stop

from .waiting import ROOT, is_alive, wait_until

SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")


@pytest.fixture
def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_a_child_has_a_session_of_its_own() -> None:
    process = spawn(SLEEP)
    try:
        assert os.getsid(process.pid) == process.pid == os.getpgid(process.pid)
    finally:
        stop(process, timeout_s=5)


def test_a_child_outlives_the_thread_that_started_it() -> None:
    started: list[subprocess.Popen[bytes]] = []
    thread = threading.Thread(target=lambda: started.append(spawn((sys.executable, "-c", "input()"),
                                                                  stdin=subprocess.PIPE)))  # fmt: skip
    thread.start()
    thread.join()
    process = started[0]
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.communicate(b"\n", timeout=120)
        assert process.returncode == 0
    finally:
        stop(process, timeout_s=5)


def test_an_error_of_the_start_reaches_the_thread_that_asked() -> None:
    raised: list[BaseException] = []

    def ask() -> None:
        try:
            spawn(["/no/such/program"])
        except FileNotFoundError as error:
            raised.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert len(raised) == 1


@pytest.mark.parametrize("from_thread", [False, True])
def test_a_child_dies_with_its_parent(environment: dict[str, str], from_thread: bool) -> None:
    code = f"""
import os, sys, threading
from workers.processes import spawn
def start():
    print(spawn([sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
if {from_thread}:
    thread = threading.Thread(target=start); thread.start(); thread.join()
else:
    start()
sys.stdin.read()
"""
    parent = subprocess.Popen((sys.executable, "-P", "-c", code), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              env=environment)  # fmt: skip
    pid = int(parent.stdout.readline())
    assert is_alive(pid)
    parent.kill()
    parent.communicate()
    wait_until(lambda: not is_alive(pid))


def test_a_parent_that_is_gone_already_counts_as_dead(environment: dict[str, str]) -> None:
    code = "from workers.processes import die_with_parent; die_with_parent(parent_pid=1 << 22); print('alive')"
    done = subprocess.run((sys.executable, "-P", "-c", code), env=environment, capture_output=True, timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == b""


def test_a_parent_that_lives_changes_nothing(environment: dict[str, str]) -> None:
    code = "import os\nfrom workers.processes import die_with_parent\ndie_with_parent(parent_pid=os.getppid())"
    done = subprocess.run((sys.executable, "-P", "-c", code), env=environment, timeout=120)
    assert done.returncode == 0


def test_stop_kills_a_deaf_child_and_its_group(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = f"""
import pathlib, signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"])
new = pathlib.Path({str(pid_file)!r} + ".new"); new.write_text(str(child.pid)); new.rename({str(pid_file)!r})
time.sleep(600)
"""
    process = spawn((sys.executable, "-c", code))
    wait_until(pid_file.exists)
    assert stop(process, timeout_s=0.2) == -signal.SIGKILL
    wait_until(lambda: not is_alive(int(pid_file.read_text())))


def test_stop_returns_the_exit_code_of_a_child_that_ended_by_itself() -> None:
    process = spawn((sys.executable, "-c", "raise SystemExit(3)"))
    process.wait()
    assert stop(process, timeout_s=5) == 3


def test_descendants_are_listed() -> None:
    process = spawn(("sh", "-c", "sleep 600 & wait"))
    try:
        wait_until(lambda: len(descendants(process.pid)) == 1)
        assert process.pid in descendants()
    finally:
        kill_group(process)
        process.wait()


def test_an_impossible_signal_is_an_error() -> None:
    with pytest.raises(OSError, match="PDEATHSIG"):
        die_with_parent(9999)
