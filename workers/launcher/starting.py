"""What `./weir up` and `./weir agent` do alike: tell whoever watches, give children their surroundings, build."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .state import ROOT, CannotStart
from .supervise import Supervisor

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
    return {
        **os.environ, "REDIS_URL": url, "WEIR_DATA_DIR": str(data_dir), "WEIR_NODE": node, "WEIR_SLOTS": str(slots),
        "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1",
    }  # fmt: skip


def shown(url: str) -> str:
    """A broker's address without its password."""
    return url.rpartition("@")[2].rpartition("://")[2]


def build_channels(supervisor: Supervisor) -> None:
    """Compile the fast channel where there is a compiler; say so where there is none."""
    wanted = os.environ.get("WEIR_CHANNEL", "").strip() or "auto"
    if wanted == "python":
        return
    if wanted == "auto" and not shutil.which("javac"):
        say("no javac found: channels run on Python, slower; install openjdk-17-jdk-headless for the fast ones")
        return
    try:
        supervisor.run_once("channels", (sys.executable, "-P", "-m", "workers.engine.channels.jvm.build"))
    except CannotStart as error:
        if wanted == "jvm":
            raise
        say(f"{error}\nchannels run on Python, slower")
