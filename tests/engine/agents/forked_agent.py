"""An agent with stand-in slots, forked from the test's process: what it imports, which takes seconds, is there."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

from workers.engine.agents import node_agent
from workers.processes import die_with_parent, stop

ROOT = Path(__file__).parents[3]
STAND_IN = Path(__file__).with_name("stand_in.py")


def be_an_agent(url: str, data_dir: Path, *, slots: int, spares: int, tells_slots: bool, parent_pid: int) -> NoReturn:
    """Be the agent of node n1 in a process that has just been forked. Of what was open its output alone stays so."""
    ended = 1
    try:
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        die_with_parent(parent_pid=parent_pid)
        gc.enable()  # `subprocess` turns it off meanwhile
        sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1, closefd=False)
        os.environ |= {"REDIS_URL": url, "PYTHONPATH": str(ROOT), "WEIR_SPARES": str(spares)}

        def slot_argv(slot: str) -> list[str]:
            desired = data_dir / "nodes" / "n1" / "told" / "desired.json"
            which = ["--spare"] if slot == "spare" else ["--slot", slot]
            return [sys.executable, str(STAND_IN), *which, "--desired", str(desired)]

        node_agent.CALM_MS = 100
        node_agent.main(["--node", "n1", "--slots", str(slots), "--data-dir", str(data_dir)], slot_argv=slot_argv,
                        tells_slots=tells_slots)
        ended = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(ended)


@contextmanager
def agent(
    url: str, data_dir: Path, *, slots: int = 1, spares: int = 0, tells_slots: bool = True
) -> Iterator[subprocess.Popen[bytes]]:
    data_dir.mkdir(exist_ok=True)
    be = partial(
        be_an_agent, url, data_dir, slots=slots, spares=spares, tells_slots=tells_slots, parent_pid=os.getpid())
    with (data_dir / "agent.log").open("ab") as log:
        # What runs between fork and exec never comes to the exec.
        process = subprocess.Popen(
            ["agent"], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=be)
    try:
        yield process
    finally:
        stop(process, timeout_s=10)
