"""One slot process under its agent's care: started, listened to, ended with all that it started, started again."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from workers.engine.sealed_secrets import references_in
from workers.processes import descendants, reap, spawn

from .. import backoff
from ..agent_logs import logger
from ..blame import Death
from .slot_lines import UnreadableLine, lines_of, paced, read_line, takes

SILENT_MS = 20_000  # a slot with a driver that says nothing for so long hangs; so does one whose JVM does not answer
STALLED_MS = 2_000  # one that does not answer for so long is reported as stalled
STARTING_MS = 180_000  # so does one whose driver starts; it gets as long again after each failed start
MOST_PATIENT = 5  # times that long
SPARE, READY = "spare", "ready"  # the name of the driver that is kept ready, and its state then
# The statuses with which a slot ends: its JVM has ended, a cluster will not run it, a cluster runs it no more, a query
# that was stopped still works in it.
JVM_GONE, REFUSED, CLUSTER_GONE, LEFT_AT_WORK = 3, 4, 5, 6
LAST_WORDS_S = 1.0


class SlotGone(Exception):
    """The slot died, or was never there, or does not answer."""


class SlotProcess:
    """Supervises one slot. Methods are called from the agent's main thread; the slot's lines arrive on another.

    Parameters
    ----------
    argv : sequence of str
        The command that runs the slot: a process that reads ``poke`` and ``stop`` lines and writes reports, one JSON a
        line.
    on_news : callable
        Called without arguments whenever a report has arrived that says something new.
    on_event : callable
        Called with a kind and facts for every notable event that a report brings.
    spare : Spare, optional
        A driver that is kept ready, and takes the place of one that died.
    enclose : callable, optional
        Gives, by name and command, the command and environment behind a wall, at each start.
    works_for : callable, optional
        Takes a query's id; true where the process may report on it.
    log : callable, optional
        Takes its standard error, and what gives its name by then; without it that is the agent's own.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        on_news: Callable[[], None],
        on_event: Callable[..., None],
        spare: Spare | None = None,
        enclose: Callable[[str, Sequence[str]], tuple[list[str], dict[str, str]]] | None = None,
        answer: Callable[[SlotProcess, Mapping[str, Any]], bytes] | None = None,
        works_for: Callable[[str], bool] = lambda _: True,
        log: Callable[[IO[bytes], Callable[[], str]], None] | None = None,
    ) -> None:
        self.name, self.log = name, log
        self._enclose, self._answer, self._works_for = enclose, answer, works_for
        self.ordered: frozenset[tuple[str, str]] = frozenset()  # secrets in the commands that this process was given
        self._spare = spare
        self.restarts, self.since_ms = 0, None
        self.report: dict[str, Any] = {}
        self._argv = list(argv)
        self._env = dict(env)
        self._on_news = on_news
        self._on_event = on_event
        self._process: subprocess.Popen[bytes] | None = None
        self._driver: _Driver | None = None
        self._failures = 0
        self._retry_at_ms = 0
        self._heard_at_ms = 0
        self.serves_since_ms: int | None = None  # by its reports; None while it does not
        self._pulse: tuple[int, int] | None = None  # when it was heard, and for how long its JVM was silent then
        self.error = ""  # why the last process ended
        self.death: Death | None = None  # of the last driver, where that ended by itself
        self.was_spare = False  # the process took the place of one that died
        self._saying = threading.Lock()  # two threads' lines must not meet
        self._request_number: int | None = None
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._log = logger().bind(slot=name)

    @property
    def pid(self) -> int | None:
        """The slot's process id while it runs."""
        return self._process.pid if self._process else None

    @property
    def state(self) -> str:
        """``running`` (a spare: ``ready``), ``starting`` (no driver yet), ``stalled`` (no answer) or ``backoff``."""
        if self._process is None:
            return "backoff" if self._failures else "starting"
        state = self.report.get("state", "starting")
        return "stalled" if state in ("running", READY) and self.silent_ms(_now_ms()) >= STALLED_MS else state

    @property
    def retry_at_ms(self) -> int | None:
        """The time at which it is started again, in ms since the epoch; None while it runs."""
        return None if self._process is not None else self._retry_at_ms

    def silent_ms(self, now_ms: int) -> int:
        """For how long its driver has not answered; 0 where it does, and before its first pulse."""
        if self._pulse is None:
            return 0
        heard_at_ms, silent_ms = self._pulse
        return max(silent_ms, now_ms - heard_at_ms)

    def check(self, now_ms: int) -> bool:
        """Start the slot when it is time to; notice that it died or hangs. True where it was found dead."""
        if self._process is None:
            if now_ms >= self._retry_at_ms:
                self._start(now_ms)
            return False
        code = self._process.poll()
        silent_ms = max(now_ms - self._heard_at_ms, self.silent_ms(now_ms) if self._has_driver else 0)
        if code is None and silent_ms < self._patience_ms:
            return False
        if code is not None:
            self._driver.hear_out()
        self.error = self.report.get("refused") or _why(code, silent_ms)
        ended_itself = code is None or code == JVM_GONE
        self.death = Death.of(self.report, at_ms=now_ms, reason=self.error) if ended_itself else None
        self._log.warning("slot died" if code is not None else "slot hangs", code=code, pid=self._process.pid)
        self._bury(now_ms, in_order=code == 0)
        return True

    @property
    def _patience_ms(self) -> int:
        """How long it may be silent. A slow machine must get to the end of a start: ended sooner it would never be."""
        return SILENT_MS if self._has_driver else STARTING_MS * min(1 + self._failures, MOST_PATIENT)

    @property
    def _has_driver(self) -> bool:
        return self.was_spare or self.report.get("state", "starting") != "starting"

    def poke(self) -> None:
        """Tell the slot that its desired state changed."""
        self._say(b"poke\n")

    def order(self, do: str, *, pid: int, **arguments: Any) -> None:
        """Let the slot perform a command of which it tells somebody else; not where it is another process by now."""
        self._command({"do": do, "ask": 0, **arguments}, pid=pid)

    def ask(self, do: str, *, pid: int, within_s: float, **arguments: Any) -> dict[str, Any]:
        """Let the slot perform a command of a trial, and wait for its answer; from one thread at a time.

        Raises
        ------
        SlotGone
            The process ``pid`` is not this slot's any more, or does not answer.
        """
        self._request_number = number = time.monotonic_ns()
        self._command({"do": do, "ask": number, **arguments}, pid=pid)
        deadline = time.monotonic() + within_s
        while self.pid == pid and time.monotonic() < deadline:
            with suppress(queue.Empty):
                answer = self._answers.get(timeout=0.1)
                if answer["answer"] == number:
                    return answer
        raise SlotGone(f"slot {self.name} did not answer {do!r} within {within_s:g} s" if self.pid == pid
                       else f"slot {self.name} died")

    def _command(self, command: Mapping[str, Any], *, pid: int) -> None:
        self.ordered |= frozenset(references_in(command))
        self._say(b"trial " + json.dumps(command).encode() + b"\n", pid=pid)

    def ask_to_stop(self) -> None:
        """Tell the slot to drain its queries and end."""
        self._say(b"stop\n")

    def end(self, *, deadline: float) -> None:
        """Wait for the slot to end until ``deadline`` (monotonic seconds), then end it and all that it started."""
        if self._process is None:
            return
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, deadline - time.monotonic()))
        end_session(self._process)
        self._process = None

    def _start(self, now_ms: int) -> None:
        self.report, self._pulse, self.serves_since_ms = {}, None, None
        self.ordered = frozenset()
        self.since_ms = self._heard_at_ms = now_ms
        driver = self._spare.give() if self._spare is not None else None
        self.was_spare = driver is not None
        if driver is None:
            argv, env = self._enclose(self.name, self._argv) if self._enclose else (self._argv, self._env)
            self._driver = _Driver(argv, env, owner=self)
            self._process = self._driver.process
            self._driver.listen()
        else:
            self._driver, self._process = driver, driver.process
            driver.owner = self
            self._say(f"take {self.name}\n".encode())
        self._log.info(
            "slot started", pid=self._process.pid, restarts=self.restarts, **({"spare": True} if driver else {}))

    def _bury(self, now_ms: int, *, in_order: bool) -> None:
        end_session(self._process)
        ran_ms = now_ms - self.since_ms if self._has_driver else 0
        # One that drained and ended, because somebody sent it SIGTERM to have it anew, has not failed.
        self._failures = 1 if in_order else backoff.failures_after(self._failures, ran_ms=ran_ms)
        # The first death is forgiven at once: a killed slot should be back as soon as it can.
        self._retry_at_ms = now_ms + (backoff.delay_ms(self._failures - 1) if self._failures > 1 else 0)
        self.restarts += 1
        self.report = {}
        self._process = None

    def hear(self, process: subprocess.Popen[bytes], line: bytes) -> None:
        """Take in a line of the process, on the thread that listens to it."""
        try:
            report = read_line(line)
        except UnreadableLine as error:
            self._log.warning("unreadable line", line=line[:200].decode(errors="replace"), why=str(error))
            return
        if process is not self._process:
            return
        if "pulse" in report:
            self._pulse = (_now_ms(), report["pulse"])
            return
        self._heard_at_ms = _now_ms()
        if "answer" in report:
            if report["answer"] == self._request_number:  # or what nobody asked for would be kept for ever
                self._answers.put(report)
            return
        if "open" in report:
            if self._answer is not None:
                self._say(self._answer(self, report), pid=process.pid)
            return
        report["fragments"] = {name: query for name, query in report["fragments"].items() if self._works_for(name)}
        for event in report.pop("events"):
            if self._works_for(event.get("fragment", "")):  # slots tell of queries alone
                self._on_event(**event)
        if self.serves_since_ms is None and report["state"] == "running":
            self.serves_since_ms = self._heard_at_ms
        is_news = _shape(report) != _shape(self.report)
        self.report = report
        if is_news:
            self._on_news()

    def hear_end(self) -> None:
        """Nothing more comes from a process."""
        self._on_news()

    def _say(self, line: bytes, *, pid: int | None = None) -> None:
        """Write to the slot; with ``pid`` only to that process, and not to one that has taken its place."""
        process = self._process  # another thread may bury it meanwhile
        if process is not None and (pid is None or process.pid == pid):
            with self._saying, suppress(OSError, ValueError):  # it is ending, or has been ended just now
                if not takes(process.stdin, line):
                    self._log.warning("slot takes no commands, and is ended", pid=process.pid)
                    process.kill()


class Spare(SlotProcess):
    """A driver that is kept ready to take the place of one that died: its session is open and warm, it runs nothing.

    It is looked after like a slot.
    """

    @property
    def is_ready(self) -> bool:
        """True where it can take a place now: it is warm, lives and answers."""
        return self._process is not None and self._process.poll() is None and self.state == READY

    def give(self) -> _Driver | None:
        """The driver, which is its new owner's from now on; None where none is ready."""
        if not self.is_ready:
            return None
        driver, self._driver, self._process, self.report = self._driver, None, None, {}
        self._retry_at_ms = _now_ms()
        return driver


class _Driver:
    """A slot's process and the thread that reads its lines, for whoever owns it by now."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], *, owner: SlotProcess) -> None:
        self.owner = owner
        self.process = spawn(
            argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=None if owner.log is None else subprocess.PIPE)
        self._reader = threading.Thread(target=self._read, name=f"slot {owner.name}", daemon=True)
        if owner.log is not None:
            listening = (self.process.stderr, lambda: self.owner.name)
            threading.Thread(target=owner.log, args=listening, name=f"log of {owner.name}", daemon=True).start()

    def listen(self) -> None:
        """Begin to read."""
        self._reader.start()

    def hear_out(self) -> None:
        """Wait until what an ended process wrote last is read."""
        self._reader.join(LAST_WORDS_S)

    def _read(self) -> None:
        for line in paced(lines_of(self.process.stdout)):
            try:
                self.owner.hear(self.process, line)
            except Exception:  # whatever it says: the next line is heard, or it would be taken for one that hangs
                logger().exception("a slot's line was not taken in", slot=self.owner.name)
        self.owner.hear_end()


def end_session(process: subprocess.Popen[bytes], *, timeout_s: float = 3.0) -> None:
    """Kill a child and everything in its session, and wait until all of it is gone.

    The session, not the process group: Spark's Python daemon makes itself a group of its own. The caller must have
    adopted orphans, or a JVM whose slot died is nobody's descendant.
    """
    deadline = time.monotonic() + timeout_s
    while members := [pid for pid in descendants() if _session(pid) == process.pid]:
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            if pid != process.pid:
                reap(pid)
        process.poll()
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)
    process.poll()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):
            pipe.close()


def reap_orphans(children: Collection[int]) -> None:
    """Collect adopted orphans that have ended (Spark's launcher leaves a shell behind); ``children`` are not."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid in children or not reap(ended.si_pid):
            return


def _why(code: int | None, silent_ms: int) -> str:
    """Why a slot's process ended, in words."""
    if code is None:
        return f"Its driver did not answer for {silent_ms // 1000} s and was ended."
    if code < 0:
        with suppress(ValueError):
            return f"Its process was killed by {signal.Signals(-code).name}."
        return f"Its process was killed by signal {-code}."
    return _STATUSES.get(code, f"Its process ended with status {code}.")


_STATUSES = {
    JVM_GONE: "Its JVM ended.",
    LEFT_AT_WORK:
        "A query that was stopped still worked in it, and would have taken its core for long: it was ended, and the "
        "others there go on from their checkpoints.",
    CLUSTER_GONE:
        "Its Spark cluster ended its application: no master was left, or its executors failed again and again.",
}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def _shape(report: Mapping[str, Any]) -> Any:
    """What of a report is news: states and what is in force, not its counters."""
    fragments = report.get("fragments", {})
    connectors = {**report.get("connectors", {}), **report.get("sinks", {})}
    return report.get("state"), report.get("idle"), {
        name: [source.get(fact) for fact in ("state", "restarts", "error")] for name, source in connectors.items()
    }, {
        name: [report.get(fact) for fact in ("state", "outlets", "routes", "threads", "active", "restarts", "error")]
        for name, report in fragments.items()
    }
