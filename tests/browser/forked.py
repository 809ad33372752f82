"""Pieces of Python in a site's environment, each in a fork of one process that has Django ready: that takes long.

``python -m tests.browser.forked`` reads a piece with its arguments from each line (JSON), and answers with a line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Forked:
    """The process, as whoever asks sees it."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.browser.forked"], env=environment, cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, code: str, *arguments: str) -> str:
        """What a piece prints; it has to end well."""
        print(json.dumps([code, *arguments]), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, f"the process ended with {self._process.wait()}"
        answer = json.loads(line)
        assert answer["ended"] == 0, answer["errors"]
        return answer["printed"]

    def close(self) -> None:
        """Let it end."""
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)


def answer(code: str, *arguments: str) -> dict[str, str | int]:
    """Run a piece in a process of its own; how that ended and what it wrote."""
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as errors:
        child = os.fork()
        if not child:
            os.dup2(printed.fileno(), 1)
            os.dup2(errors.fileno(), 2)
            sys.argv = ["-c", *arguments]
            ended = 1
            try:
                exec(compile(code, "<piece>", "exec"), {"__name__": "__main__"})
                ended = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(ended)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        printed.seek(0)
        errors.seek(0)
        return {"ended": ended, "printed": printed.read(), "errors": errors.read()}


def main() -> None:
    """Answer until nobody asks any more."""
    import django

    django.setup()
    import dashboard.config.urls  # noqa: F401 - all that pieces import, for the forks to have it

    for line in sys.stdin:
        print(json.dumps(answer(*json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
