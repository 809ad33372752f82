"""Tests in several processes, each of them a fork of the one that has collected: ``--forks=COUNT``.

Collecting the suite takes half a minute of CPU, which workers that collect for themselves (xdist) each spend. A fork
begins with all tests and modules there, and shares their memory. Tests of one ``xdist_group`` stay with one fork, and
groups begin in the order of the tests, each with the fork that is free first. Forks hand what they report to the first
process, which alone writes.

A fork asks for its next test before it runs the one that it has, for pytest ends those fixtures which the next does not
need. One that dies fails the test that it ran, and another fork takes over what it has left.
"""

from __future__ import annotations

import os
import pickle
import signal
import tempfile
import traceback
import warnings
from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NoReturn

import pytest
from _pytest.capture import CaptureManager, FDCapture
from _pytest.runner import runtestprotocol

from workers.processes import die_with_parent

WORKER = "PYTEST_XDIST_WORKER"  # as xdist calls it: plugins look for it
ENDS_WITHIN_S = 60


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, metavar="COUNT", help="spread the tests over so many processes")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    config = session.config
    count = config.getoption("--forks")
    if not count or config.option.collectonly or session.testsfailed:  # of the collecting: pytest says so
        return None
    _Forks(session).run(count)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
    return True


@dataclass
class _Fork:
    """A process that runs tests, as the first one sees it."""

    pid: int
    alive: int  # a descriptor that can be read once it has ended
    connection: Connection
    waiting: deque[int]  # what is left of its group, by the tests' numbers
    handed_out: deque[int] = field(default_factory=deque)  # that it has not finished: what it runs, and what comes next


class _Forks:
    """All forks of a run, and what is left for them."""

    def __init__(self, session: pytest.Session) -> None:
        self._session, self._config = session, session.config
        self._forks: list[_Fork] = []
        self._number = 0
        groups: dict[str, deque[int]] = defaultdict(deque)
        for number, item in enumerate(session.items):
            marker = item.get_closest_marker("xdist_group")
            groups[marker.args[0] if marker else str(item.path)].append(number)
        self._groups = deque(groups.values())

    def run(self, count: int) -> None:
        """Run all tests, or those that are begun before the session is to stop."""
        self._config._tmp_path_factory.getbasetemp()  # forks have theirs within it
        if (terminal := self._config.pluginmanager.getplugin("terminalreporter")) is not None:
            terminal.showfspath = False  # several files run at once
        try:
            for _ in range(min(count, len(self._groups))):
                self._start(self._groups.popleft())
            while self._forks:
                ready = wait([end for fork in self._forks for end in (fork.connection, fork.alive)])
                for fork in list(self._forks):
                    if fork.connection in ready:
                        self._take(fork)
                    elif fork.alive in ready:
                        self._bury(fork)
        finally:
            self._end()

    def _start(self, group: deque[int]) -> None:
        ours, theirs = Pipe()
        name = f"gw{self._number}"
        self._number += 1
        parent = os.getpid()
        pid = os.fork()
        if not pid:
            for end in (*(fork.connection for fork in self._forks), ours):
                end.close()
            _run_as_fork(self._session, name, theirs, parent)
        theirs.close()
        self._forks.append(_Fork(pid, os.pidfd_open(pid), ours, group))

    def _take(self, fork: _Fork) -> None:
        """Take one message of a fork."""
        try:
            what, *values = fork.connection.recv()
        except (EOFError, ConnectionError):  # it has ended, whatever it started may not have
            wait([fork.alive])
            self._bury(fork)
            return
        getattr(self, f"_on_{what}")(fork, *values)

    def _on_next(self, fork: _Fork) -> None:
        stopping = self._session.shouldfail or self._session.shouldstop
        if not fork.waiting and self._groups and not stopping:
            fork.waiting = self._groups.popleft()
        number = fork.waiting.popleft() if fork.waiting and not stopping else None
        if number is not None:
            fork.handed_out.append(number)
        fork.connection.send(number)

    def _on_began(self, fork: _Fork) -> None:
        item = self._session.items[fork.handed_out[0]]
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)

    def _on_report(self, fork: _Fork, data: dict[str, Any]) -> None:
        report = self._config.hook.pytest_report_from_serializable(config=self._config, data=data)
        self._config.hook.pytest_runtest_logreport(report=report)

    def _on_finished(self, fork: _Fork) -> None:
        item = self._session.items[fork.handed_out.popleft()]
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _on_warning(self, fork: _Fork, message: tuple[Any, ...], when: str, nodeid: str, location: Any) -> None:
        self._config.hook.pytest_warning_recorded.call_historic(kwargs={
            "warning_message": warnings.WarningMessage(*message), "when": when, "nodeid": nodeid, "location": location})

    def _bury(self, fork: _Fork) -> None:
        """Reckon with a fork that has ended: where it has left tests, the first of them was its end."""
        status = os.waitstatus_to_exitcode(os.waitpid(fork.pid, 0)[1])
        os.close(fork.alive)
        fork.connection.close()
        self._forks.remove(fork)
        left = deque([*fork.handed_out, *fork.waiting])
        if not left:
            return
        item = self._session.items[left.popleft()]
        self._config.hook.pytest_runtest_logreport(report=pytest.TestReport(
            item.nodeid, item.location, {}, "failed", f"its process ended meanwhile with {status}", "call"))
        if left and not (self._session.shouldfail or self._session.shouldstop):
            self._start(left)

    def _end(self) -> None:
        """Let what still runs end its fixtures; where that takes too long, kill it."""
        for fork in self._forks:
            os.kill(fork.pid, signal.SIGINT)  # not yet waited for, so the number is still its own
        for fork in self._forks:
            if not wait([fork.alive], ENDS_WITHIN_S):
                os.kill(fork.pid, signal.SIGKILL)
            os.waitpid(fork.pid, 0)
        self._forks.clear()


def _run_as_fork(session: pytest.Session, name: str, connection: Connection, parent_pid: int) -> NoReturn:
    """Be a fork: run what the first process says, and end."""
    status = 1
    try:
        # Who presses Ctrl-C reaches the first process alone: it asks forks to end, once.
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where a shell began it in the background
        die_with_parent(signal.SIGINT, parent_pid=parent_pid)
        os.environ[WORKER] = name
        factory = session.config._tmp_path_factory
        factory._basetemp = factory.getbasetemp() / name
        factory._basetemp.mkdir()
        _capture_apart(session.config.pluginmanager.getplugin("capturemanager"))
        session.config.pluginmanager.register(_Reporting(connection), "reporting fork")
        try:
            _run_tests(session, connection)
        finally:
            session._setupstate.teardown_exact(None)
        status = 0
    except (KeyboardInterrupt, EOFError, ConnectionError):  # the first process wants no more, or is gone
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _capture_apart(manager: CaptureManager) -> None:
    """Let what tests print go to files of this fork's own; handlers of logs have the old ones open, and write to these.
    """
    capturing = manager._global_capturing
    for capture in (capturing.out, capturing.err):
        if isinstance(capture, FDCapture):
            with tempfile.TemporaryFile() as file:
                os.dup2(file.fileno(), capture.tmpfile.fileno(), inheritable=False)


def _run_tests(session: pytest.Session, connection: Connection) -> None:
    def following() -> pytest.Item | None:
        connection.send(("next",))
        number = connection.recv()
        return None if number is None else session.items[number]

    item = following()
    while item is not None:
        next_item = following()
        connection.send(("began",))
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
        connection.send(("finished",))
        item = next_item


class _Reporting:
    """What a fork's tests report goes to the first process; nothing is written here."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            data = item.config.hook.pytest_report_to_serializable(config=item.config, report=report)
            self._connection.send(("report", data))
        return True

    def pytest_warning_recorded(self, warning_message: Any, when: str, nodeid: str, location: Any) -> None:
        category = warning_message.category
        with suppress(Exception):
            pickle.dumps(category)
            message = (str(warning_message.message), category, warning_message.filename, warning_message.lineno)
            self._connection.send(("warning", message, when, nodeid, location))
