"""Runs looks at sources that do not run: each in a process of its own, for as long as somebody asks and not longer."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import redis

from scheduler.contracts.looks import FAILED, LOOK_ORDERS, LookOrder, LookState
from scheduler.model.errors import WeirError
from workers.engine import look_store
from workers.engine.sealed_secrets import open_one, references_in
from workers.engine.slot_values import UNREADABLE
from workers.engine.worker_settings import Settings
from workers.library.registry import makes_events, task_types
from workers.processes import kill_group, spawn

from ..agent_logs import logger
from .broker_sync import connect
from .broker_users import LOOKS
from .confinement import Confinement
from .supervision import SlotProcess

AT_ONCE = 3  # processes
START_S = 60.0  # for a process to start on a busy machine, beyond what it may wait for its source
TAKE_S = 1.0
TICK_S = 0.1


@dataclass(frozen=True, slots=True)
class _Running:
    order: LookOrder
    process: subprocess.Popen[bytes]
    deadline_s: float


class LookRunner(threading.Thread):
    """Serves the looks of a node.

    Parameters
    ----------
    slots : callable, optional
        The slots that there are now: they show what sources would make that read nothing.
    """

    def __init__(
        self, settings: Settings, confinement: Confinement, *, slots: Callable[[], Sequence[SlotProcess]] = tuple
    ) -> None:
        super().__init__(name="look_runner", daemon=True)
        self._settings, self._confinement = settings, confinement
        self._broker = connect(settings.redis_url)
        self._slots = slots
        self._running: dict[str, _Running] = {}
        self._deadlines_s: dict[str, float] = {}  # of looks that slots were asked for
        self._stopped = threading.Event()
        self._log = logger()
        self._types = task_types()

    @property
    def pids(self) -> set[int]:
        """Processes that it has started and waits for itself."""
        return {running.process.pid for running in list(self._running.values())}

    def stop(self) -> None:
        """End the thread, and all looks."""
        self._stopped.set()

    def run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._turn()
            except redis.RedisError:
                self._stopped.wait(1.0)
            except Exception as error:  # an order that another version made, say: the next one may be sound
                self._log.error("no look came of an order", exc_info=error)
                self._stopped.wait(1.0)
        for running in self._running.values():
            self._end(running)

    def _turn(self) -> None:
        for running in list(self._running.values()):
            self._look_after(running)
        for look_id, deadline_s in list(self._deadlines_s.items()):
            self._look_after_slot(look_id, deadline_s)
        if len(self._running) >= AT_ONCE:
            self._stopped.wait(TICK_S)
            return
        order = look_store.take(self._broker, self._settings.node, wait_s=TICK_S if self._running else TAKE_S)
        if order is None:
            return
        task_type = self._types.get(order.task_type)  # one that is not installed here is told by the process
        if task_type is not None and makes_events(task_type):
            self._let_a_slot_show(order)
        else:
            self._begin(order)

    def _let_a_slot_show(self, order: LookOrder) -> None:
        slot = next((slot for slot in self._slots() if slot.state == "running" and slot.pid is not None), None)
        if slot is None:
            look_store.tell(self._broker, order.id, LookState(
                FAILED, "slot_not_ready", f"No slot of node {order.node} has started yet.", "Look again in a minute."))
            return
        self._deadlines_s[order.id] = time.monotonic() + order.waits_s + START_S
        self._confinement.users.let_looks(self._deadlines_s, in_slots=True)
        slot.order(
            "show", pid=slot.pid, look=order.id, task_type=order.task_type, config=dict(order.config),
            count=order.count)

    def _look_after_slot(self, look_id: str, deadline_s: float) -> None:
        state = None
        with suppress(*UNREADABLE):  # the slot writes there: a look of which it says what is none is over
            state = look_store.state_of(self._broker, look_id)
        if state is not None and not state.is_over and time.monotonic() < deadline_s:
            return
        del self._deadlines_s[look_id]
        if state is not None and not state.is_over:
            look_store.tell(self._broker, look_id, LookState(
                FAILED, "look_ended", "The slot did not show the events in time: it may be busy with a measurement.",
                "Look again later."))

    def _begin(self, order: LookOrder) -> None:
        """Start the process, with the values of the secrets that the order names: it has no key of its own."""
        settings = self._settings
        try:
            values = [
                (team, name, open_one(team, name, redis_url=settings.redis_url, data_dir=settings.data_dir))
                for team, name in references_in(order.config)]
        except WeirError as error:
            look_store.tell(self._broker, order.id, LookState(FAILED, error.code, error.message, error.remedy))
            return
        self._confinement.users.let_looks([*self._running, order.id])
        argv, env = self._confinement.enclosed(
            f"look-{order.id}", [sys.executable, "-m", "workers.engine.connectors.look"], role=LOOKS)
        process = spawn(argv, env=env, stdin=subprocess.PIPE, stdout=None)
        self._running[order.id] = _Running(order, process, time.monotonic() + order.waits_s + START_S)
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended already: that is noticed
            process.stdin.write(f"{LOOK_ORDERS.dumps(order)}\n{json.dumps(values)}\n".encode())
            process.stdin.close()

    def _look_after(self, running: _Running) -> None:
        """Notice that a look has ended; end one that nobody asks for, or that takes too long."""
        order = running.order
        has_ended = running.process.poll() is not None
        is_late = time.monotonic() > running.deadline_s
        if not has_ended and not is_late and look_store.is_asked(self._broker, order.id):
            return
        self._end(running)
        del self._running[order.id]
        state = look_store.state_of(self._broker, order.id)
        if state is not None and not state.is_over:
            look_store.tell(self._broker, order.id, LookState(
                FAILED, "look_ended", "The look ended before the source was read.",
                f"Look again; if this comes again, see the log of node {self._settings.node}."))

    def _end(self, running: _Running) -> None:
        kill_group(running.process)
        running.process.wait()
        self._confinement.clear(f"look-{running.order.id}")
