"""`./weir bench handover`: measure, print tables, write JSON."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benches import results
from tests.benches.arguments import count, positive
from tests.benches.engine import bench

from .chains import Chains, ChainsBetweenNodes, Load
from .figures import ALL, beside, summary
from .measuring import measure

# What is asked of 95 of 100 handovers on one node: that an output stands still for less than so many seconds.
GOAL_S, GOAL_STATE_S, LARGE_MB = 0.25, 1.0, 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where an output lost or doubled an event."""
    given = _arguments(arguments)
    load = Load(given.rate, given.trigger, not given.stateless, given.state_mb, given.bystanders)
    load_before = os.getloadavg()[0]
    with bench() as at:
        chains = (ChainsBetweenNodes if given.between_nodes else Chains)(at, load, log=given.log)
        try:
            measured = measure(chains, repeats=given.repeats, warm_ups=given.warm_ups, window_s=given.window)
        finally:
            chains.end()
    document = {
        "bench": "handover", "machine": results.machine(),
        "load_average": {"before": load_before, "after": os.getloadavg()[0]},
        "rate_per_s": load.rate_per_s, "trigger_ms": load.trigger_ms, "has_state": load.has_state,
        "state_mb": load.state_mb, "bystanders_ms": load.bystanders_ms, "between_nodes": given.between_nodes,
        "forms": summary(measured["handovers"], trigger_ms=load.trigger_ms), "beside": beside(measured["handovers"]),
        **measured}
    print("\n\n".join(tables(document)))
    print("\n".join(["", *goals(document)]))
    if given.json:
        results.write(given.json, document)
    return 1 if any(output["lost"] or output["doubled"] for output in document["outputs"].values()) else 0


def tables(document: Mapping[str, Any]) -> Iterator[str]:
    """The output that was handed over, where its time went, those beside it, and whether all are whole."""
    forms = document["forms"]
    yield results.table([
        {"handover": form, "times": figures["took_s"]["times"], "in force s": figures["took_s"]["median"],
         **_three("still s", figures, "output_stood_still_s"), **_three("without", figures, "without_s"),
         **_three("beyond", figures, "beyond_s"), "within a trigger": figures["within_a_trigger"]}
        for form, figures in forms.items()])
    if any("first_batch_s" in figures for figures in forms.values()):
        yield results.table([
            {"handover": form, **{
                f"{words} {name}": figures[phase][name] for phase, words in (
                    ("until_recorded_s", "record s"), ("until_heir_runs_s", "heir s"), ("first_batch_s", "batch s"))
                for name in ("median", "p95")}}
            for form, figures in forms.items() if "first_batch_s" in figures])
    if document["beside"]:
        yield results.table([
            {"beside": row["role"], "figure": row["figure"],
             **{f"{side} {name}": row[side][name] for name in ("median", "p95") for side in ("without", "with")},
             "shift": row["shift"], "noise": row["noise"]["median"], "unchanged": "yes" if row["unchanged"] else "no",
             "worse": f"{row['worse']} of {row['times']}"}
            for row in document["beside"]])
    yield results.table([{"output": name, **output} for name, output in document["outputs"].items()])


def _three(words: str, figures: Mapping[str, Any], name: str) -> dict[str, float]:
    return {f"{words} {which}": figures[name][which] for which in ("median", "p95", "worst")}


def goals(document: Mapping[str, Any]) -> Iterator[str]:
    """What is asked of handovers, and whether this run shows it."""
    figures, trigger_s = document["forms"][ALL], document["trigger_ms"] / 1000
    times = figures["took_s"]["times"]
    goal_s = GOAL_STATE_S if document["state_mb"] >= LARGE_MB else None if document["has_state"] else GOAL_S
    if goal_s is not None and trigger_s < goal_s and not document["between_nodes"]:
        p95 = figures["output_stood_still_s"]["p95"]
        yield f"95 of 100 below {goal_s:g} s: {_verdict(p95 < goal_s)} ({p95:.2f} s)"
    within = figures["within_a_trigger"]
    yield (f"at most a trigger ({trigger_s:g} s) longer than without: {_verdict(within == times)} "
           f"({within} of {times})")
    everywhere = [row for row in document["beside"] if row["role"] == ALL]
    if everywhere:
        changed = [row["figure"] for row in everywhere if not row["unchanged"]]
        words = f" ({', '.join(changed)})" if changed else ""
        yield f"others in both slots as without: {_verdict(not changed)}{words}"


def _verdict(is_reached: bool) -> str:
    return "reached" if is_reached else "missed"


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Hand a chain over between two slots: two fragments are fused, moved to the other slot and cut, "
        "again and again, on a node of its own. How long the output stands still, against a window of the same length "
        "without a handover; where that time goes; and with --bystanders, rate and latency of others in both slots.")
    parser.add_argument("--repeats", type=count, default=6, help="of three handovers each (%(default)d)")
    parser.add_argument(
        "--warm-ups", type=int, default=0, metavar="N", help="repeats before them that are not measured")
    parser.add_argument("--rate", type=positive, default=50.0, help="messages/s of a chain, of five events each (50)")
    parser.add_argument("--trigger", type=count, default=500, metavar="MS", help="between batches (%(default)d)")
    parser.add_argument(
        "--window", type=positive, default=5.0, metavar="S",
        help="seconds with a handover, and without; longer where a handover takes longer (%(default)g)")
    parser.add_argument(
        "--bystanders", type=count, metavar="MS",
        help="in each slot also runs a chain that is not handed over, with so many ms between its batches")
    parser.add_argument("--between-nodes", action="store_true", help="the chain moves to another agent and back")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--stateless", action="store_true", help="no task has state")
    sizes.add_argument(
        "--state-mb", type=int, default=0, metavar="N", help="a task has state of N MB, by key, 1 kB each")
    parser.add_argument("--log", type=Path, help="what agent and slots log goes there")
    parser.add_argument("--json", type=Path)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
