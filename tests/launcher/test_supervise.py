"""A supervisor's children: stopped in order, restarted when they die, gone when it is gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from workers.launcher.supervise import FIRST_DELAY_S, LONGEST_DELAY_S, delay_s

from .waiting import ROOT, is_alive, wait_until

WRITE_PID = """
import os, pathlib, signal, subprocess, sys, time
folder = pathlib.Path(os.environ["FOLDER"])
def started(name, pid=None):
    new = folder / (name + ".new")
    new.write_text(str(pid or os.getpid()))
    new.rename(folder / (name + ".pid"))
"""


def sleeper(name: str) -> dict[str, str]:
    """Ends at SIGTERM, after noting so."""
    return {"name": name, "code": WRITE_PID + f"""
def end(*_):
    with open(folder / "order", "a") as file:
        file.write("{name}\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
started("{name}")
while True:
    time.sleep(60)
"""}


STUBBORN = {"name": "stubborn", "code": WRITE_PID + """
signal.signal(signal.SIGTERM, lambda *_: started("told"))
started("stubborn")
while True:
    time.sleep(60)
"""}
# A grandchild in a session of its own, deaf to SIGTERM: a slot that its agent failed to stop.
PARENT = {"name": "parent", "code": WRITE_PID + """
from workers.processes import spawn
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
child = spawn([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE)
child.stdout.readline()
started("grandchild", child.pid)
started("parent")
time.sleep(600)
"""}
# A grandchild that nothing binds to its parent.
CARELESS = {"name": "careless", "code": WRITE_PID + """
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
started("orphan", child.pid)
started("careless")
time.sleep(600)
"""}


@dataclass
class StandIn:
    """A running ``standin.py``."""

    process: subprocess.Popen[str]
    folder: Path

    def pid(self, name: str) -> int:
        return int((self.folder / f"{name}.pid").read_text())

    def until_ready(self) -> None:
        for line in self.process.stdout:
            if line.strip() == "ready":
                return
        pytest.fail("it ended before it was ready")


@pytest.fixture
def start(tmp_path: Path) -> Iterator:
    running = []

    def start(
        *services: dict[str, str], stages: list[tuple[list[str], float]] | None = None,
        errands: Sequence[dict[str, object]] = (), **popen
    ) -> StandIn:
        names = [service["name"] for service in services]
        plan = {"services": services, "errands": errands, "stages": [
            {"names": named, "limit_s": limit_s} for named, limit_s in stages or [(names, 1.0)]
        ]}
        process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("standin.py")), str(tmp_path), json.dumps(plan)],
            env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True, **popen,
        )
        running.append(process)
        return StandIn(process, tmp_path)

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("sent", [
    signal.SIGINT, signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.long)])  # it hears all alike
def test_a_signal_stops_everything(start, sent: signal.Signals) -> None:
    system = start(sleeper("a"), STUBBORN, PARENT, CARELESS)
    system.until_ready()
    pids = [system.pid(name) for name in ("a", "stubborn", "parent", "grandchild", "careless", "orphan")]
    assert all(is_alive(pid) for pid in pids)
    system.process.send_signal(sent)
    output, _ = system.process.communicate(timeout=120)
    assert system.process.returncode == 0
    assert [pid for pid in pids if is_alive(pid)] == []
    assert "stubborn did not stop in time" in output


def test_sigkill_of_the_supervisor_leaves_nothing(start) -> None:
    system = start(sleeper("a"), STUBBORN, PARENT)
    system.until_ready()
    pids = [system.pid(name) for name in ("a", "stubborn", "parent", "grandchild")]
    system.process.kill()
    wait_until(lambda: not any(is_alive(pid) for pid in pids), limit_s=60)


def test_stages_are_stopped_one_after_the_other(start) -> None:
    system = start(sleeper("broker"), sleeper("web"), sleeper("agent"),
                   stages=[(["agent"], 5.0), (["web"], 5.0), (["broker"], 5.0)])  # fmt: skip
    system.until_ready()
    system.process.terminate()
    system.process.communicate(timeout=120)
    assert (system.folder / "order").read_text().split() == ["agent", "web", "broker"]


def test_a_child_that_is_killed_starts_again_and_is_reported(start) -> None:
    system = start(sleeper("a"), sleeper("b"))
    system.until_ready()
    first, other = system.pid("a"), system.pid("b")
    os.kill(first, signal.SIGKILL)
    assert "a was killed by SIGKILL; starting again in 0.5 s" in system.process.stdout.readline()
    wait_until(lambda: system.pid("a") != first)
    assert is_alive(system.pid("a"))
    assert is_alive(other) and system.pid("b") == other


def test_what_a_dead_child_left_in_its_session_goes_before_it_starts_again(start) -> None:
    code = WRITE_PID + """
child = subprocess.Popen(["sleep", "600"])
started("left", child.pid)
started("a")
time.sleep(600)
"""
    system = start({"name": "a", "code": code})
    system.until_ready()
    left, first = system.pid("left"), system.pid("a")
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not is_alive(left))


def test_what_a_dead_child_left_in_other_sessions_goes_too(start) -> None:
    system = start(CARELESS)
    system.until_ready()
    orphan = system.pid("orphan")
    os.kill(system.pid("careless"), signal.SIGKILL)
    wait_until(lambda: not is_alive(orphan))


def test_a_child_that_never_starts_ends_the_start_with_its_last_words(start) -> None:
    system = start(sleeper("a"), {"name": "broken", "code": "raise SystemExit('no such table: fish')"})
    output, _ = system.process.communicate(timeout=120)
    assert system.process.returncode == 1
    assert "broken does not start" in output
    assert "no such table: fish" in output
    assert not is_alive(system.pid("a"))


def test_a_second_ctrl_c_does_not_wait(start) -> None:
    system = start(STUBBORN, stages=[(["stubborn"], 600.0)])
    system.until_ready()
    system.process.send_signal(signal.SIGINT)
    wait_until((system.folder / "told.pid").exists)  # two signals at once may arrive as one
    system.process.send_signal(signal.SIGINT)
    system.process.communicate(timeout=120)
    assert not is_alive(system.pid("stubborn"))


def test_nohup_is_respected(start) -> None:
    system = start(sleeper("a"), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    system.until_ready()
    system.process.send_signal(signal.SIGHUP)
    system.process.terminate()
    output, _ = system.process.communicate(timeout=120)
    assert "stopped" in output
    assert system.process.returncode == 0


def errand(name: str, code: str, *then: str) -> dict[str, object]:
    """Notes that it has begun, then does this."""
    return {"name": name, "code": f"{WRITE_PID}started({name!r})\n{code}", "then": then}


UNTIL_B = "while not (folder / 'b.pid').exists():\n    time.sleep(0.02)\n"


def test_errands_run_side_by_side_and_what_waits_for_one_does_not_wait_for_the_other(start) -> None:
    # The first ends only when what waits for the second is there.
    system = start(sleeper("a"), sleeper("b"), errands=[errand("first", UNTIL_B, "a"), errand("second", "", "b")])
    system.until_ready()
    assert is_alive(system.pid("a")) and is_alive(system.pid("b"))
    system.process.terminate()
    system.process.communicate(timeout=120)
    assert system.process.returncode == 0


def test_an_errand_that_fails_ends_the_start_with_its_last_words_and_the_others(start) -> None:
    waits_for_other = "while not (folder / 'second.pid').exists():\n    time.sleep(0.02)\n"
    system = start(sleeper("a"), sleeper("b"), errands=[
        errand("first", f"{waits_for_other}sys.exit('no compiler')", "a"), errand("second", "time.sleep(600)", "b")])
    output, _ = system.process.communicate(timeout=120)
    assert system.process.returncode == 1
    assert "first failed" in output and "no compiler" in output
    assert not is_alive(system.pid("second"))
    assert not (system.folder / "a.pid").exists() and not (system.folder / "b.pid").exists()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_errands_end_with_their_supervisor(start, sent: signal.Signals) -> None:
    system = start(sleeper("a"), errands=[errand("first", "time.sleep(600)", "a")])
    wait_until((system.folder / "first.pid").exists)
    system.process.send_signal(sent)
    system.process.communicate(timeout=120)
    wait_until(lambda: not is_alive(system.pid("first")))
    assert not (system.folder / "a.pid").exists()


def test_delays_grow_to_a_limit() -> None:
    delays = [delay_s(failures) for failures in range(1, 12)]
    assert delays[0] == FIRST_DELAY_S
    assert delays == sorted(delays)
    assert delays[-1] == LONGEST_DELAY_S


# In a process of its own: a supervisor ends every child of its process that it did not start.
ON_A_FULL_DISK = """
import errno, os, pathlib, sys, time
from workers.launcher.process_logs import Logs
from workers.launcher.supervise import Service, Supervisor
folder, lines = pathlib.Path(sys.argv[1]), []
logs = Logs(folder / "logs")
supervisor = Supervisor(logs=logs, environment=dict(os.environ), folder=folder, stages=(), say=lines.append)
def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")
try:
    supervisor.start(Service("web", ("sleep", "600")))
    supervisor.start(Service("beat", ("true",)))
    logs.open = full
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and not any("cannot be started" in line for line in lines):
        supervisor.tick()
        time.sleep(0.05)
    print(supervisor._children["web"].process.poll(), lines[-1])
finally:
    supervisor.stop()
"""


def test_a_child_that_a_full_disk_keeps_from_starting_ends_nothing_else(tmp_path: Path) -> None:
    ended = subprocess.run(
        (sys.executable, "-P", "-c", ON_A_FULL_DISK, str(tmp_path)), capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert ended.stdout == "None beat cannot be started (No space left on device); trying again\n", ended.stderr
