"""Makes the state that later versions open (`test_upgrade.py`): a back-up of a small system, taken while it runs.

    python -m tests.launcher.make_state FILE

Run it when a version is given out, keep the file beside this one, and name it in `test_upgrade.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from workers.launcher.broker import free_port

from .system import System
from .waiting import ROOT

FLOW_S = 12.0


def main(path: Path) -> None:
    """Start a system, run the dataflows of ``carried_estate``, and back it up."""
    os.environ["WEIR_FILE_S"] = "5"
    with tempfile.TemporaryDirectory(prefix="weir-state-") as name:
        data = Path(name) / "data"
        system = System(data, free_port(), slots=2)
        try:
            system.until_ready()
            url = (data / "broker" / "url").read_text().strip()
            subprocess.run(
                (sys.executable, "-P", "-m", "tests.launcher.carried_estate", "--whole"), check=True, cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "WEIR_DATA_DIR": str(data), "REDIS_URL": url})
            time.sleep(FLOW_S)
            subprocess.run(
                (sys.executable, "-P", "-m", "workers.launcher.backup", "backup", str(path), "--data-dir", str(data)),
                check=True, cwd=ROOT, env={
                    **{key: value for key, value in os.environ.items() if key != "REDIS_URL"}, "PYTHONPATH": str(ROOT)})
        finally:
            system.process.terminate()
            system.process.wait(60)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
