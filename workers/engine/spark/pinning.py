"""The core that a slot is held to, so that it takes no more than the one core that schedules count it as; and why to
none.

With its own core a slot takes nothing from its neighbours and they nothing from it. `auto` wants one core more than
there are slots: broker, site and agent need one as well, and a slot that is held to the one they are on could not go
out of their way. Without it the system deals out the cores as it finds them free.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Literal

from workers.engine.worker_settings import Settings
from workers.processes import descendants

# Each slot has a core for itself; several share one; else none is held, because cores are no more than slots, because
# the setting says never, or because the queries run on a cluster's machines.
Pinning = Literal["own", "shared", "few_cores", "never", "cluster"]


def pinning(settings: Settings, *, cores: int) -> Pinning:
    """The way in which the slots of a machine with so many cores are held to them."""
    if settings.spark_master:
        return "cluster"
    if settings.pin == "never":
        return "never"
    if settings.pin == "auto" and cores <= settings.slots:
        return "few_cores"
    return "own" if cores >= settings.slots else "shared"


def pin_to_core(settings: Settings, slot: int) -> int | None:
    """Keep this process and its children on one core; None where it is not to be."""
    cores = sorted(os.sched_getaffinity(0))
    if pinning(settings, cores=len(cores)) not in ("own", "shared"):
        return None
    core = core_for(slot)
    os.sched_setaffinity(0, {core})
    return core


def pin_tree_to_core(settings: Settings, slot: int) -> None:
    """The same for a driver that runs already: every thread of this process and of all that it started."""
    cores = sorted(os.sched_getaffinity(0))
    if pinning(settings, cores=len(cores)) not in ("own", "shared"):
        return
    core, pinned = core_for(slot), set()
    while threads := _threads() - pinned:  # one that was not held yet may have begun another meanwhile
        for thread in threads:
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread, {core})
        pinned |= threads


def _threads() -> set[int]:
    """Every thread of this process and of all that it started."""
    threads: set[int] = set()
    for pid in (os.getpid(), *descendants()):
        with suppress(FileNotFoundError, ProcessLookupError):
            threads |= {int(thread) for thread in os.listdir(f"/proc/{pid}/task")}
    return threads


def core_for(slot: int) -> int:
    """The core of this process's that is a slot's, where it is held to one: the last ones first."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[-1 - slot % len(cores)]


def core_of(pid: int) -> int | None:
    """The one core that a process is held to, None where it may run on several, or is gone."""
    try:
        cores = os.sched_getaffinity(pid)
    except ProcessLookupError:
        return None
    return cores.pop() if len(cores) == 1 else None
