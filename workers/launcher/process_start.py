"""The start of processes, alike for `./weir up` and `./weir agent`: tell whoever watches, give children their
surroundings, build."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from workers.processes import python_path

from .state_folder import ROOT
from .supervise import Errand, Service, Supervisor

READY_LIMIT_S = 600.0  # a machine that gives a tenth of its cores needs that long


def say(text: str) -> None:
    """A line for whoever watches; a terminal that is gone is no reason to fail."""
    with suppress(OSError, ValueError):
        print(f"weir: {text}", flush=True)


@contextmanager
def stopped_at_the_end(supervisor: Supervisor) -> Iterator[None]:
    """A context at whose end, however it comes, all that was started is stopped, and that is told."""
    try:
        yield
    finally:
        say("stopping")
        stopping_s = time.monotonic()
        supervisor.stop()
        say(f"stopped ({time.monotonic() - stopping_s:.1f} s)")


def engine_environment(*, url: str, data_dir: Path, node: str, slots: int) -> dict[str, str]:
    """The variables that a node agent starts with."""
    jar = os.environ.get("WEIR_CHANNELS_JAR", "").strip()
    return {
        **os.environ, "REDIS_URL": url, "WEIR_DATA_DIR": str(data_dir), "WEIR_NODE": node, "WEIR_SLOTS": str(slots),
        "WEIR_CHANNELS_JAR": str(Path(jar).expanduser().resolve()) if jar else "",
        "PYTHONPATH": python_path(ROOT), "PYTHONUNBUFFERED": "1",
    }  # fmt: skip


def shown(url: str) -> str:
    """A broker's address without its password."""
    return url.rpartition("@")[2].rpartition("://")[2]


def channels(*, then: Service) -> Errand:
    """Compile the channels, unless a jar of the same sources is there; the agent starts with it.

    It fails where no jar fits and none can be built; its last words say what to install or to copy.
    """
    return Errand("channels", (sys.executable, "-P", "-m", "workers.engine.channels.jvm.build"), then=(then,))
