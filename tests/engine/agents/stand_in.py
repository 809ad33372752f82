"""Stands in for a slot: obeys the same lines, reports what it is told to run as running, and starts a child that, like
Spark's Python daemon, makes itself a process group of its own. Of a trial it opens the channel and a checkpoint, and
leaves the events unread."""

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
    parser.add_argument("--slot")
    parser.add_argument("--spare", action="store_true")
    parser.add_argument("--desired", type=Path, required=True)
    given = parser.parse_args()
    if given.spare:
        taken = threading.Event()
        threading.Thread(target=wait_ready, args=(taken,), daemon=True).start()
        word, _, given.slot = sys.stdin.readline().strip().partition(" ")
        taken.set()
        if word != "take":
            return
    child = subprocess.Popen(["sleep", "600"], preexec_fn=os.setpgrp)
    stop = threading.Event()
    ended = threading.Event()

    def obey() -> None:
        for line in sys.stdin:
            if line.strip() == "stop":
                break
            if line.startswith("trial "):
                answer(json.loads(line.removeprefix("trial ")), given.desired.parents[3])
            else:
                stop.set()
        ended.set()
        stop.set()

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
        pokes += stop.wait(0.1)
        stop.clear()
        time.sleep(0.01)
    child.kill()


def wait_ready(taken: threading.Event) -> None:
    """Say again and again that it is there: a spare that says nothing is taken for one that hangs."""
    while not taken.is_set():
        print(json.dumps({"state": "ready"}), flush=True)
        taken.wait(1.0)


def answer(request: dict, data_dir: Path) -> None:
    from tests.engine.measuring.test_feed import events
    from workers.engine.channels.channel_registry import Channels
    from workers.engine.measuring import feed

    reply = {"answer": request["ask"], "ok": True, "heap_mb": 40.0, "java": "17", "pyspark": "4", "fence": 0}
    reply["batches"] = []
    if request["do"] == "feed":
        feed.write(Path(request["path"]), [events(50)], schema_json="{}")
    if request["do"] == "begin":
        channels, channel = Channels.connect(os.environ["REDIS_URL"]), f"{request['fragment']}.in"
        channels.open_channel(channel, schema_json="{}", readers=[request["fragment"]])
        reply["fence"] = channels.take_fence(channel)
        (data_dir / "checkpoints" / request["fragment"]).mkdir(parents=True)
    print(json.dumps(reply), flush=True)


main()
