"""A city's sensor events as a file that sources replay."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

ROOT = Path(__file__).parents[3]
EVENTS = 1_000
OBSERVED = ("temperature", "humidity", "light", "dust", "airquality_raw")
FILE = "sys.senml"


def public_data() -> Path:
    """The folder of public data sets, if they are here."""
    return Path(os.environ.get("WEIR_SHARED_DATA") or ROOT.parent / "shared" / "data")


def recorded(shared_data: Path) -> str:
    """A city's real sensor events where they are here, else as many made up."""
    real = shared_data / "riotbench" / "SYS_sample_data_senml.csv"
    if real.exists():
        return "\n".join(real.read_text().splitlines()[:EVENTS]) + "\n"
    chance = random.Random(7)
    lines = []
    for number in range(EVENTS):
        time_ms = 1_422_748_800_000 + 60_000 * (number // 10)
        readings = [{"n": "source", "u": "string", "sv": f"station-{number % 10}"}]
        readings += [{"n": name, "u": "", "v": str(round(chance.uniform(0, 60), 1))} for name in OBSERVED]
        lines.append(f"{time_ms}," + json.dumps({"e": readings, "bt": time_ms}))
    return "\n".join(lines) + "\n"
