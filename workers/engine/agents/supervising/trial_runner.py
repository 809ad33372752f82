"""Trials on a node: the agent takes one order after the other, lets a slot run it, feeds it, and measures the slot.

However a trial ends, nothing of it stays: the name of all that it may leave is on disk before it begins.

    <data-dir>/nodes/<node>/trials/<fragment>      a trial that has not been cleared away yet: the folders below
                                                   <data-dir>/outputs that its tasks may write
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import redis

from scheduler.contracts.trials import TrialOrder, TrialProgress, TrialResult
from scheduler.model.task_types import TaskTypes
from workers.engine import trial_store
from workers.engine.channels import keys
from workers.engine.channels.channel_registry import Channels
from workers.engine.measuring.machine_class import machine_class, memory_mb, processor
from workers.engine.measuring.trial_tasks import folders
from workers.engine.measuring.version import weir_version
from workers.engine.trial_store import TrialFailed
from workers.engine.worker_settings import Settings

from ..agent_logs import logger
from ..node_files.atomic_files import write_atomically
from .broker_sync import connect
from .supervision import SlotGone, SlotProcess
from .trial import WARM_QUERIES, Measurement, TrialBaseline, queries_on

TAKE_S = 1.0  # for the next order; less than the client's own patience
READY_S = 90.0  # for a slot that is just starting, or ending its last query
METERS_KEPT_S = 60


class TrialRunner(threading.Thread):
    """Serves the orders of a node, one at a time, so that no two trials disturb each other.

    Parameters
    ----------
    apart : callable
        Does what it is given where slots write (`Confinement.apart`).
    """

    def __init__(
        self, settings: Settings, *, slots: Callable[[], Sequence[SlotProcess]], folder: Path, task_types: TaskTypes,
        on_trial: Callable[[str], None] = lambda _: None, apart: Callable[[Callable[[], None]], None],
    ) -> None:
        super().__init__(name="trial_runner", daemon=True)
        self._settings, self._on_trial, self._apart = settings, on_trial, apart
        self._slots = slots
        self._trials_folder = folder / "trials"
        self._task_types = task_types
        self._broker = connect(settings.redis_url)
        self._stopped = threading.Event()
        self._measurement: Measurement | None = None
        self._baselines: dict[int, TrialBaseline] = {}  # of slots, by their process ids
        self._began_s = 0.0  # the trial under way: what it takes is of its sweep's budget, waits before it are not
        self._weir = weir_version()
        self._log = logger()

    @property
    def pids(self) -> set[int]:
        """Processes that it has started and waits for itself."""
        measurement = self._measurement
        return set() if measurement is None else measurement.pids

    def stop(self) -> None:
        """End the thread, and the trial under way without a result."""
        self._stopped.set()

    def run(self) -> None:
        while not self._stopped.is_set():
            if not self._slots():  # starting, or standing down: orders are for the agent that serves
                self._stopped.wait(0.25)
                continue
            try:
                self._clear_leftovers()
                order = trial_store.take(self._broker, self._settings.node, wait_s=TAKE_S)
                if order is not None and not self._stopped.is_set():
                    self._serve(order)
            except redis.RedisError:
                self._stopped.wait(1.0)
            except Exception as error:  # an order that another version made, say: the next one may be sound
                self._log.error("no trial came of an order", exc_info=error)
                self._stopped.wait(1.0)

    def _serve(self, order: TrialOrder) -> None:
        result = self._result_of(order)
        if result is None:
            trial_store.give_up(self._broker, order.id)
            return
        self._log.info("trial", id=order.id, type=order.task_type, threads=order.threads, rate=order.rate_per_s,
                       ok=result.ok, code=result.code, message=result.message)
        took_s = round(time.monotonic() - self._began_s, 3)
        machine = {
            "class": machine_class(self._settings.slots), "cores": os.cpu_count(), "memory_mb": memory_mb(),
            "slots": self._settings.slots, "cpu": processor(), "load": round(os.getloadavg()[0], 2), **result.machine,
        }
        values = {name: getattr(result, name) for name in TrialResult.__slots__}
        trial_store.finish(self._broker, TrialResult(**{
            **values, "took_s": took_s, "at_ms": time.time_ns() // 1_000_000, "machine": machine,
            "versions": {"weir": self._weir, **result.versions}, "threads": order.threads,
            "rate_per_s": order.rate_per_s,
        }))

    def _result_of(self, order: TrialOrder) -> TrialResult | None:
        """What comes of an order; None where it was cancelled, or the agent ends."""
        fragment = f"trial-{order.id}"
        try:
            slot, pid = self._ready_slot(order)
            write_atomically(self._trials_folder / fragment, json.dumps(folders(order, self._task_types)))
            self._on_trial(fragment)
            living = {slot.pid for slot in self._slots()}
            self._baselines = {pid: baseline for pid, baseline in self._baselines.items() if pid in living}
            self._measurement = Measurement(
                order, fragment, slot=slot, pid=pid, settings=self._settings, broker=self._broker,
                task_types=self._task_types, baseline=self._baselines.setdefault(pid, TrialBaseline()),
                is_over=lambda: self._is_over(order),
            )
            try:
                return self._measurement.run()
            finally:
                self._measurement = None
                self._clear(fragment)
        except TrialFailed as error:
            return TrialResult(order.id, False, code=error.code, message=error.message, remedy=error.remedy)
        except SlotGone as error:
            if self._stopped.is_set():
                return None
            return TrialResult(order.id, False, code="slot_died", message=f"In the middle of the trial, {error}",
                               remedy="Order it again; the log of the node's agent says why it died.")
        except redis.RedisError:  # nobody can be told
            raise
        except Exception as error:  # the machine's, a damaged file, or a defect: told, not left to silence
            self._log.error("trial failed", id=order.id, exc_info=error)
            return TrialResult(order.id, False, code="agent_stopped", message=f"The agent failed: {error!r}"[:600],
                               remedy="Order it again; the log of the node's agent says more.")

    def _ready_slot(self, order: TrialOrder) -> tuple[SlotProcess, int]:
        """The slot that is ordered, once it has a driver and nothing else to do."""
        self._began_s = time.monotonic()
        by_name = {slot.name: slot for slot in self._slots()}
        slot = by_name.get(order.slot)
        if slot is None:
            raise TrialFailed(
                "no_such_slot", f"Node {order.node} has no slot {order.slot}; it has {', '.join(sorted(by_name))}",
                remedy="Measure on one of these.")
        deadline = time.monotonic() + READY_S
        # What was removed a moment ago may still be draining: its place in the estate is free, and its query there.
        while slot.state != "running" or slot.pid is None or queries_on(slot):
            if time.monotonic() > deadline or self._is_over(order):
                raise _not_ready(slot, order)
            trial_store.tell(self._broker, order.id, TrialProgress("taken"))
            self._stopped.wait(0.25)
            self._began_s = time.monotonic()
        return slot, slot.pid

    def _is_over(self, order: TrialOrder) -> bool:
        return self._stopped.is_set() or trial_store.is_cancelled(self._broker, order.id)

    # -- what stays behind ---------------------------------------------------------------------------------------

    def _clear_leftovers(self) -> None:
        for path in self._trials_folder.glob("trial-*") if self._trials_folder.is_dir() else ():
            self._clear(path.name)

    def _clear(self, fragment: str) -> None:
        """Remove all that a trial may have left in the broker and on disk; what it never had is fine."""
        channels = Channels(self._broker)
        written = self._broker.scan_iter(f"{keys.channel(fragment)}[-.]*:meta", count=1_000)  # as the names below begin
        for key in list(written):
            with suppress(UnicodeDecodeError):  # a slot that measures may make such a key; it is no channel
                channels.delete_channel(key.decode().removeprefix(keys.channel("")).removesuffix(":meta"))
        queries = (fragment, f"{fragment}-feed", *(f"{fragment}-warm{number}" for number in range(WARM_QUERIES)))
        for name in queries:
            channels.forget_fragment(name)
            # What the JVM counted last arrives within the second: it must find meters that will expire.
            with suppress(redis.ResponseError):  # the slot may write something else there meanwhile
                self._broker.hset(keys.meter(name), "in:n", 0)
            self._broker.expire(keys.meter(name), METERS_KEPT_S)
        self._apart(partial(_remove, self._settings.data_dir, queries, _folders(self._trials_folder / fragment)))
        (self._trials_folder / fragment).unlink(missing_ok=True)


def _folders(path: Path) -> list[str]:
    """The folders that a trial may have written; none where that was cut short, for then it never began."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return []


def _remove(data_dir: Path, queries: Collection[str], written: Iterable[str]) -> None:
    """Remove what a trial's queries have on disk, and what they wrote into these folders below ``outputs``."""
    outputs = data_dir / "outputs"
    for path in (path for name in queries for path in (data_dir / "checkpoints" / name, *outputs.glob(f"*/{name}"))):
        shutil.rmtree(path, ignore_errors=True)
    for folder in (outputs.joinpath(name).resolve() for name in written):
        if folder.is_relative_to(outputs.resolve()):  # who broke out may have written of another
            _remove_files(folder, queries)


def _remove_files(folder: Path, queries: Collection[str]) -> None:
    """What a trial has written there: files, and folders by the names of its queries. Below it may be a dataflow's."""
    with suppress(OSError):  # it is not empty, or not there, or leads where no slot may go
        for path in folder.iterdir():
            if path.name in queries:
                shutil.rmtree(path, ignore_errors=True)
            elif not path.is_dir():
                path.unlink(missing_ok=True)
        folder.rmdir()


def _not_ready(slot: SlotProcess, order: TrialOrder) -> TrialFailed:
    """Why a slot that was waited for is not measured on."""
    if queries := queries_on(slot):
        return TrialFailed(
            "slot_busy",
            f"Slot {order.node}/{order.slot} runs {len(queries)} quer{'y' if len(queries) == 1 else 'ies'}",
            remedy="Measure on a slot that nothing runs on, or move these away first.",
        )
    return TrialFailed(
        "slot_not_ready", f"Slot {order.node}/{order.slot} is {slot.state} for more than {READY_S:g} s",
        remedy="Order it again when the slot runs; the log of the node's agent says what keeps it.")
