"""Keeps a set of child processes running: starts them, restarts what dies, and stops all of them in order."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from workers.processes import adopt_orphans, children, descendants, kill_group, reap, spawn

from .process_logs import Logs
from .state_folder import CannotStart

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 15.0
HEALTHY_AFTER_S = 30.0  # a child that lived this long starts again without a memory of earlier failures
FAILURES_BEFORE_READY = 3  # so many ends before it was ever ready, and the start is given up
TELL_S = 60.0  # of waiting, after which whoever watches hears of it again
CHECK_S = 5.0  # how often logs are measured and orphans ended
LEFTOVERS_S = 2.0
ENDS_WITHIN_S = 10.0  # a service that is ended for good; then it is killed


@dataclass(frozen=True, slots=True)
class Service:
    """One child: the command, and how to tell that it serves."""

    name: str
    argv: tuple[str, ...]
    is_ready: Callable[[], bool] = lambda: True
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Errand:
    """A command that runs once, to its end; ``then`` are the services that may start when it has ended well."""

    name: str
    argv: tuple[str, ...]
    then: tuple[Service, ...] = ()


@dataclass(frozen=True, slots=True)
class StopStage:
    """Children that are stopped together; ``limit_s`` is their share of the time after which they are killed.

    ``agent`` in ``names`` stands for ``agent-n2`` as well.
    """

    names: tuple[str, ...]
    limit_s: float


def delay_s(failures: int) -> float:
    """The wait in seconds before the start that follows this many failures in a row."""
    return min(FIRST_DELAY_S * 2 ** max(0, failures - 1), LONGEST_DELAY_S)


class _Child:
    """A service's process, now or soon again."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.process: subprocess.Popen[bytes] | None = None
        self.started_s = 0.0
        self.restart_at_s: float | None = None
        self.failures = 0
        self.killed_at_s: float | None = None  # when it is, where it was asked to end for good


class Supervisor:
    """Runs services as children of this process, which must be its main thread's only business."""

    def __init__(
        self,
        *,
        logs: Logs,
        environment: Mapping[str, str],
        folder: Path,
        stages: Sequence[StopStage],
        say: Callable[[str], None],
    ) -> None:
        self._logs = logs
        self._environment = dict(environment)
        self._folder = folder
        self._stages = tuple(stages)
        self._say = say
        self._children: dict[str, _Child] = {}
        self._errands: dict[Errand, subprocess.Popen[bytes]] = {}  # those that run
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._is_stopping = False
        self._in_a_hurry = False
        self._checked_s = 0.0
        adopt_orphans()

    # Signals ---------------------------------------------------------------------------------------------------------

    def take_signals(self) -> None:
        """Let SIGINT, SIGTERM and SIGHUP ask for the stop; a second Ctrl-C cuts it short."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup's wish is respected
                signal.signal(number, self._on_stop_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler is what makes the signal reach the pipe
        # A pipe and not an Event: a handler that runs while its own thread waits on an Event can block for ever.
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)

    def _on_stop_signal(self, number: int, _frame: object) -> None:
        self._in_a_hurry = self._is_stopping and number == signal.SIGINT
        self._is_stopping = True

    @property
    def is_stopping(self) -> bool:
        """True once a signal asked for the stop."""
        return self._is_stopping

    def _sleep(self, seconds: float) -> None:
        """Wait, but no longer than until the next signal (a child's end is one)."""
        if select.select([self._wake_read], [], [], seconds)[0]:
            os.read(self._wake_read, 4096)

    # Starting --------------------------------------------------------------------------------------------------------

    def start(self, service: Service) -> None:
        """Start a service; it is restarted from now on whenever it ends."""
        self._logs.begin(service.name)
        child = self._children[service.name] = _Child(service)
        self._spawn(child)

    def _spawn(self, child: _Child) -> None:
        service = child.service
        with self._logs.open(service.name) as log:
            environment = {**self._environment, **service.environment}
            child.process = spawn(service.argv, env=environment, cwd=self._folder, stdout=log)
        child.started_s = time.monotonic()
        child.restart_at_s = None

    def wait_until_ready(self, names: Iterable[str], *, limit_s: float) -> None:
        """Return when every named service serves, or a signal asked for the stop.

        Raises
        ------
        CannotStart
            One of them ended again and again, or took longer than ``limit_s``.
        """
        waiting = list(names)
        began_s = told_s = time.monotonic()
        while waiting and not self.is_stopping:
            self.tick()
            for name in tuple(waiting):
                child = self._children[name]
                if child.process is not None and child.service.is_ready():
                    waiting.remove(name)
                    self._say(f"{name} ready ({time.monotonic() - child.started_s:.1f} s)")
                elif child.failures >= FAILURES_BEFORE_READY:
                    raise CannotStart(f"{name} does not start; {self._logs.ending(name)}")
            if waiting and time.monotonic() - began_s > limit_s:
                raise CannotStart(f"{', '.join(waiting)} not ready after {limit_s:.0f} s; see {self._logs.path('*')}")
            if waiting and time.monotonic() - told_s > TELL_S:
                told_s = time.monotonic()
                self._say(f"still waiting for {', '.join(waiting)}: what they say is in {self._logs.path('*')}")
            if waiting:
                self._sleep(0.1)

    def run(self, *errands: Errand) -> None:
        """Run errands side by side to their ends, unless a signal asks for the stop first."""
        began_s = time.monotonic()
        try:
            for errand in errands:
                self._logs.begin(errand.name)
                with self._logs.open(errand.name) as log:
                    self._errands[errand] = spawn(errand.argv, env=self._environment, cwd=self._folder, stdout=log)
            while self._errands and not self.is_stopping:
                self.tick()
                for errand, process in tuple(self._errands.items()):
                    if process.poll() is not None:
                        self._errand_ended(errand, took_s=time.monotonic() - began_s)
                if self._errands:
                    self._sleep(0.2)
        finally:
            for process in self._errands.values():
                kill_group(process)
                process.wait()
            self._errands.clear()

    def _errand_ended(self, errand: Errand, *, took_s: float) -> None:
        process = self._errands.pop(errand)
        kill_group(process)
        if process.returncode != 0:
            raise CannotStart(f"{errand.name} failed; {self._logs.ending(errand.name)}")
        self._say(f"{errand.name} done ({took_s:.1f} s)")
        for service in errand.then:
            self.start(service)

    # Keeping ---------------------------------------------------------------------------------------------------------

    def keep_running(self, *, turn: Callable[[], None] = lambda: None) -> None:
        """Return when a signal asked for the stop; until then restart what ends, and take a ``turn`` each second."""
        while not self.is_stopping:
            self.tick()
            turn()
            self._sleep(min([1.0, *self._delays_s()]))

    def _delays_s(self) -> list[float]:
        now_s = time.monotonic()
        due_s = [child.restart_at_s for child in self._children.values() if child.restart_at_s is not None]
        return [max(0.01, at_s - now_s) for at_s in due_s]

    def end(self, name: str) -> bool:
        """Ask a service to end for good, and see to it when asked again; True once it is gone."""
        child, now_s = self._children[name], time.monotonic()
        if child.process is not None and child.killed_at_s is None:
            child.process.terminate()
        child.restart_at_s, child.killed_at_s = None, child.killed_at_s or now_s + ENDS_WITHIN_S
        if child.process is not None and child.process.poll() is None and now_s < child.killed_at_s:
            return False
        if child.process is not None:
            kill_group(child.process)
            child.process.wait()
        del self._children[name]
        self._end_orphans()
        self._say(f"{name} ended")
        return True

    def tick(self) -> None:
        """Notice what ended, start again what is due, keep the logs within bounds."""
        now_s = time.monotonic()
        for child in self._children.values():
            if child.killed_at_s is not None:
                continue
            if child.process is not None and child.process.poll() is not None:
                self._note_end(child, now_s)
            elif child.restart_at_s is not None and now_s >= child.restart_at_s:
                try:
                    self._spawn(child)
                except OSError as error:  # as on a full disk: what else runs goes on
                    child.restart_at_s = now_s + LONGEST_DELAY_S
                    self._say(f"{child.service.name} cannot be started ({error.strerror}); trying again")
        if now_s - self._checked_s > CHECK_S:
            self._checked_s = now_s
            self._logs.bound()
            self._end_orphans()

    def _note_end(self, child: _Child, now_s: float) -> None:
        assert child.process is not None
        kill_group(child.process)
        child.failures = 1 if now_s - child.started_s > HEALTHY_AFTER_S else child.failures + 1
        pause_s = delay_s(child.failures)
        child.restart_at_s = now_s + pause_s
        self._say(
            f"{child.service.name} {_how_it_ended(child.process.returncode)}; starting again in {pause_s:g} s "
            f"(log: {self._logs.path(child.service.name)})"
        )
        child.process = None
        self._end_orphans()

    def _end_orphans(self) -> None:
        """Kill what a dead child left behind: nobody is in charge of it any more, and its successor starts afresh."""
        # Popen objects collect their own process and must find it.
        processes = [*self._errands.values(), *(child.process for child in self._children.values())]
        ours = {process.pid for process in processes if process is not None}
        for pid in set(children()) - ours:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            reap(pid)

    # Stopping --------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop every child, stage after stage, and leave no descendant behind."""
        deadline_s = time.monotonic()
        for stage in self._stages:
            deadline_s += stage.limit_s  # time that a stage does not need is the next one's
            self._stop_stage(stage, deadline_s=deadline_s)
        for child in self._children.values():  # whatever no stage named
            if child.process is not None:
                kill_group(child.process)
                child.process.wait()
        # What lost its parent became our child; killing one can hand us the next.
        deadline_s = time.monotonic() + LEFTOVERS_S
        while (orphans := [pid for pid in descendants() if not reap(pid)]) and time.monotonic() < deadline_s:
            for pid in orphans:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    def _stop_stage(self, stage: StopStage, *, deadline_s: float) -> None:
        chosen = [
            child for name, child in self._children.items() if {name, name.partition("-")[0]} & {*stage.names}]
        processes = [child.process for child in chosen if child.process is not None]
        for child in chosen:
            child.restart_at_s = None
        for process in processes:
            process.terminate()
        while any(process.poll() is None for process in processes):
            if time.monotonic() > deadline_s or self._in_a_hurry:
                break
            self._sleep(0.05)
        for child in chosen:
            if child.process is not None:
                if child.process.poll() is None:
                    self._say(f"{child.service.name} did not stop in time and was killed")
                kill_group(child.process)
                child.process.wait()
                child.process = None


def _how_it_ended(code: int) -> str:
    if code < 0:
        with suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
