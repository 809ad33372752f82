"""What drivers start from: the jar of the channels, and an archive of a driver's classes.

Both stand beside the environment, for all state folders and all runs. The archive, which takes much of what a start
costs, is made where it is missing; where Java writes none, drivers start without.

    python -m tests.driver_files FOLDER
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.engine.channels.jvm import build
from workers.engine.spark import shared_classes
from workers.launcher import broker as embedded
from workers.processes import spawn, stop

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process in at a time."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def running_broker(folder: Path) -> Iterator[str]:
    """Run an embedded broker with its state in a folder; its address."""
    prepared = embedded.prepare(folder)
    with (folder / "broker.log").open("ab") as log:
        process = spawn(prepared.argv, stdout=log)
    try:
        deadline = time.monotonic() + 120
        while not embedded.answers(prepared.url):
            assert process.poll() is None and time.monotonic() < deadline, (folder / "broker.log").read_text()
            time.sleep(0.02)
        yield prepared.url
    finally:
        stop(process, timeout_s=5)


def make(folder: Path) -> None:
    """Make both, unless they are there. ``folder`` is the run's own, and one process makes them while others wait."""
    with locked(folder):
        jar = build.build(folder)
        if shared_classes.find_archive(folder, class_path=str(jar)) is not None:
            return
        (folder / "broker").mkdir(exist_ok=True)
        with running_broker(folder / "broker") as url, (folder / "archive.log").open("w") as log:
            subprocess.run(
                (sys.executable, "-m", "workers.engine.spark.class_archive"), check=False, stdout=log,
                stderr=subprocess.STDOUT, cwd=ROOT, env={
                    **os.environ, "REDIS_URL": url, "WEIR_DATA_DIR": str(folder), "WEIR_PIN": "never",
                    "PYTHONPATH": str(ROOT)})


if __name__ == "__main__":
    make(Path(sys.argv[1]))
