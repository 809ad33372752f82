"""`./weir bench elastic-state`: what decides about keyed state on a ring, played; and what Spark's state costs.

Played (`ring_world`): worlds of up to 500 bundles whose rate doubles and falls back. How evenly bundles are loaded, how
many keys a change moves, what that takes in messages, and what is lost where machines or zones die at the same time.
With ``--spark`` instead: `spark_state`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from .arguments import count
from .results import machine, table, write
from .ring_world import WorldOf, lines_of_loss, summary


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print tables, write JSON."""
    parser = argparse.ArgumentParser(
        description="Play the balance of keyed bundles on a ring, and what survives when machines die: a simulation, "
                    "nothing runs. With --spark: count by key in each way that Spark has, and in Weir's.")
    parser.add_argument("--bundles", type=count, nargs="+", default=[12, 100, 500])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spark", action="store_true", help="measure Spark's state instead; some 8 minutes")
    parser.add_argument("--rows", type=count, default=10_000, help="events in a batch, with --spark")
    parser.add_argument("--keys", type=count, nargs="+", default=[1_000, 50_000], help="with --spark")
    parser.add_argument("--seconds", type=count, default=6, help="for which each way is measured, with --spark")
    parser.add_argument("--json", type=Path, default=Path("elastic-state.json"))
    given = parser.parse_args(arguments)
    if given.spark:
        from .spark_state import compare  # imports PySpark

        tables = compare(rows=given.rows, keys=given.keys, for_s=given.seconds)
    else:
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
