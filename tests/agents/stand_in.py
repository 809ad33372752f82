"""Stands in for a slot: obeys the same lines, reports what it is told to run as running, and starts a child that, like
Spark's Python daemon, makes itself a process group of its own."""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--slot", required=True)
    parser.add_argument("--desired", type=Path, required=True)
    given = parser.parse_args()
    child = subprocess.Popen(["sleep", "600"], preexec_fn=os.setpgrp)
    told = threading.Event()
    ended = threading.Event()

    def obey() -> None:
        for line in sys.stdin:
            if line.strip() == "stop":
                break
            told.set()
        ended.set()
        told.set()

    threading.Thread(target=obey, daemon=True).start()
    pokes = 0
    while not ended.is_set():
        desired = json.loads(given.desired.read_text()) if given.desired.exists() else {"slots": {}}
        fragments = desired["slots"].get(given.slot, {"fragments": []})["fragments"]
        running = {
            fragment["id"]: {
                "state": "running", "outlets": fragment["outlets"], "active": fragment["active"], "restarts": 0,
                "error": None, "child": child.pid, "pokes": pokes,
            }
            for fragment in fragments
        }
        print(json.dumps({"state": "running", "fragments": running}), flush=True)
        pokes += told.wait(0.1)
        told.clear()
        time.sleep(0.01)
    child.kill()


main()
