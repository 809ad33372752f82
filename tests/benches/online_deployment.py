"""Online task deployment (paper [4], section 5) in simulation: from round robin, round by round, until it is settled.

Nothing runs: loads and traffic are made up from a seed. What a move costs while it happens is not part of it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scheduler.deployment.deployed_bundles import Deployment, PlacedBundle
from scheduler.deployment.online import Thresholds, decide
from tests.benches.results import machine, table, write

SLOTS_A_NODE = 2
MOST_ROUNDS = 5_000
CHAIN = 5  # bundles of a line that exchange events


def slots_of(nodes: int) -> list[str]:
    """The names of all slots of so many nodes."""
    return [f"n{node}/{index}" for node in range(nodes) for index in range(SLOTS_A_NODE)]


def computing(nodes: int, *, chance: random.Random) -> Deployment:
    """Bundles of very different CPU, dealt out in turn: some slots get far more than they can do."""
    slots = slots_of(nodes)
    bundles: dict[str, PlacedBundle] = {}
    heavy = [chance.choice((0.05, 0.1, 0.2, 0.4)) for _ in range(8 * len(slots))]
    heavy.sort(key=lambda _: chance.random())
    cores_dealt, dealt = 0.0, 0
    while cores_dealt < 0.78 * len(slots):
        # Every other slot gets the heavy ones, as where tasks of a dataflow are dealt out in the order of its graph.
        cores = max(heavy[dealt], 0.4) if dealt % len(slots) % 2 else min(heavy[dealt], 0.1)
        bundles[f"b{dealt}"] = PlacedBundle(f"b{dealt}", slots[dealt % len(slots)], cores)
        cores_dealt, dealt = cores_dealt + cores, dealt + 1
    names = list(bundles)
    return Deployment(bundles, slots, {pair: 1.0 for pair in itertools.pairwise(names)})


def talking(nodes: int, *, chance: random.Random) -> Deployment:
    """Lines of small bundles that exchange much, in any order dealt out in turn: most of it passes between nodes."""
    slots = slots_of(nodes)
    names = [(line, place) for line in range(2 * len(slots)) for place in range(CHAIN)]
    chance.shuffle(names)
    bundles = {f"b{line}-{place}": PlacedBundle(f"b{line}-{place}", slots[at % len(slots)], 0.03)
               for at, (line, place) in enumerate(names)}
    traffic: dict[tuple[str, str], float] = {}
    for line in range(2 * len(slots)):
        rate_per_s = chance.uniform(50, 500)
        for place in range(1, CHAIN):
            traffic[f"b{line}-{place - 1}", f"b{line}-{place}"] = rate_per_s
    return Deployment(bundles, slots, traffic)


def settled(deployment: Deployment, thresholds: Thresholds) -> tuple[Deployment, int]:
    """The deployment when nothing moves any more, and after how many rounds."""
    for number in range(MOST_ROUNDS):
        turn = decide(deployment, thresholds)
        if turn.move is None:
            return deployment, number
        deployment = deployment.moved(turn.move.bundles, turn.move.target)
    return deployment, MOST_ROUNDS


def growth(nodes: Sequence[int], *, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Use of slots and traffic between nodes before and after, by the number of nodes; medians over the seeds."""
    rows = []
    for count in nodes:
        use, share, rounds = [], [], []
        for seed in seeds:
            busy, chatty = (make(count, chance=random.Random(seed)) for make in (computing, talking))
            busy_after, busy_rounds = settled(busy, Thresholds(high=0.95, low=0.9, margin=0.0, score_change=10.0))
            chatty_after, chatty_rounds = settled(chatty, Thresholds(high=0.95, low=0.9, margin=0.0, score_change=10.0))
            use.append((busy.use, busy_after.use))
            share.append((chatty.share_between_nodes, chatty_after.share_between_nodes))
            rounds.append((busy_rounds, chatty_rounds))
        medians = [statistics.median(values) for pairs in (use, share, rounds) for values in zip(*pairs, strict=True)]
        rows.append({
            "nodes": count, "use before": _percent(medians[0]), "after": _percent(medians[1]), "rounds": medians[4],
            "between nodes before": _percent(medians[2]), "then": _percent(medians[3]), "rounds, traffic": medians[5]})
    return rows


def decision_s(bundles: int, nodes: int, *, repeats: int, score_change: float = 0.0) -> list[float]:
    """How long one round takes, in seconds, each time anew from plain values.

    Parameters
    ----------
    bundles, nodes : int
        How many there are.
    repeats : int
        How many rounds are timed.
    score_change : float, optional
        What traffic a move has to save; where nothing reaches it, a round looks at bundles and series and finds none.
    """
    chance, slots = random.Random(1), slots_of(nodes)
    placed = {f"b{number}": PlacedBundle(f"b{number}", chance.choice(slots), 0.05) for number in range(bundles)}
    names = list(placed)
    traffic = {(name, chance.choice(names)): chance.uniform(1, 100) for name in names for _ in range(3)}
    taken = []
    for _ in range(repeats):
        began_s = time.perf_counter()
        decide(Deployment(placed, slots, traffic), Thresholds(score_change=score_change))
        taken.append(time.perf_counter() - began_s)
    return taken


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(
        description="Play online task deployment from round robin until nothing moves: CPU use of slots, traffic "
                    "between nodes, rounds; and time one round for many bundles. A simulation: nothing runs.")
    parser.add_argument("--nodes", type=int, nargs="+", default=[2, 4, 8, 16])
    parser.add_argument("--seeds", type=int, default=9)
    parser.add_argument("--bundles", type=int, default=10_000, help="of the round that is timed")
    parser.add_argument("--many-nodes", type=int, default=1_000, help="of the round that is timed")
    parser.add_argument("--json", type=Path, default=Path("online-deployment.json"))
    given = parser.parse_args(arguments)
    rows = growth(given.nodes, seeds=range(given.seeds))
    taken, nothing = (
        decision_s(given.bundles, given.many_nodes, repeats=7, score_change=score) for score in (0.0, 1e9))
    write(given.json, {
        "machine": machine(), "load": os.getloadavg()[0], "rows": rows, "bundles": given.bundles,
        "nodes": given.many_nodes, "round_s": taken, "round_without_s": nothing})
    print(table(rows))
    for what, times_s in (("that moves something", taken), ("that finds nothing", nothing)):
        print(f"a round {what}, of {given.bundles:,} bundles on {given.many_nodes:,} nodes: "
              f"{statistics.median(times_s):.3f} s, worst {max(times_s):.3f} s")
    return 0


def _percent(share: float) -> str:
    return f"{share:.0%}"


if __name__ == "__main__":
    raise SystemExit(main())
