"""Logs of agents and slots, where the disk that they are on is full."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
LOGS = """
import sys
from workers.engine.agents.agent_logs import configure, logger
configure(sys.stderr, node="n1")
for number in range(3):
    logger().info("trial", number=number)
    try:
        raise ValueError(number)
    except ValueError as error:
        logger().error("no trial came of an order", exc_info=error)
print("goes on", flush=True)
"""


def test_a_log_that_cannot_be_written_ends_nothing(tmp_path: Path):
    """Threads that log within a handler of what failed would die of it, and with them what only they do."""
    path = tmp_path / "agent.log"
    for log, lines in (("/dev/full", 0), (path, 6)):
        with open(log, "w") as file:
            ran = subprocess.run(
                [sys.executable, "-c", LOGS], cwd=ROOT, stdout=subprocess.PIPE, stderr=file, text=True, check=False)
        assert ran.stdout == "goes on\n"
        assert lines == 0 or path.read_text().count('"node": "n1"') == lines
