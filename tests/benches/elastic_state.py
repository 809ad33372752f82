"""`./weir bench elastic-state`: what decides about keyed state on a ring, in played worlds; or keys that change hands.

Worlds of up to 500 bundles (`ring_world`) whose rate doubles and falls back. How evenly bundles are loaded, how many
keys a change moves, what that takes in messages, and what is lost where machines or zones die at the same time.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .arguments import count
from .key_moves import moves_of_keys
from .results import machine, table, write
from .ring_world import WorldOf, lines_of_loss, summary


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print tables, write JSON."""
    parser = argparse.ArgumentParser(
        description="Play the balance of keyed bundles on a ring, and what survives when machines die: a simulation, "
                    "nothing runs; with --state-mb, let keys change hands on Spark.")
    parser.add_argument("--bundles", type=count, nargs="+", default=[12, 100, 500])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--state-mb", type=count, nargs="+", default=[], help="on Spark: with states of so many MB in all")
    parser.add_argument("--repeats", type=count, default=2, help="how often keys change hands each way (on Spark)")
    parser.add_argument("--json", type=Path, default=Path("elastic-state.json"))
    given = parser.parse_args(arguments)
    if given.state_mb:
        lines: list[dict[str, Any]] = []
        for megabytes in given.state_mb:
            lines += moves_of_keys(megabytes, repeats=given.repeats)
            write(given.json, {"machine": machine(), "load": os.getloadavg()[0], "moves": lines})
        print(table(lines))
        return 0
    tables = {
        "balance": [
            summary(WorldOf(bundles, factor=factor, by_load=by_load), seed=given.seed)
            for bundles in given.bundles for factor in (2.0, 1.0) for by_load in (True, False)],
        "losses": [
            line for bundles in given.bundles for zones in (1, 3) for copies in (1, 2)
            for line in lines_of_loss(bundles, zones, copies=copies, seed=given.seed)]}
    write(given.json, {"machine": machine(), "load": os.getloadavg()[0], **tables})
    for name, lines in tables.items():
        print(f"{name}\n{table(lines)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
