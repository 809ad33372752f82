"""`./weir bench migration`: measure, print tables, write JSON and a page of figures."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.benches import results
from tests.benches.arguments import count, file, positive
from workers.engine.worker_settings import ROOT

from .measuring import Protocol, Run
from .page import page
from .schemes import SCHEMES, Scheme
from .summary import COUNTED, cells, disturbance, outputs, quiet_rows, rows
from .text import sentences_of
from .topology import Workload

WORKLOADS = {"word-count": 0, "cpu-bound": 400_000}  # factors of a product for each sentence: 20 ms of a core
OWN = "handover"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where an output is not the reference's."""
    given = _arguments(arguments)
    texts = given.text or sorted((ROOT / "docs").glob("*.md"))
    sentences = sentences_of(path.read_text() for path in texts)
    document: dict[str, Any] = {
        "bench": "migration", "machine": results.machine(), "load": [os.getloadavg()[0]] * 2,
        "text": f"{len(sentences):,} sentences of {len(texts)} files", "runs": []}
    with tempfile.TemporaryDirectory(prefix="weir-migration-") as folder:
        for workload, scheme, protocol in _runs(given):
            run = Run(scheme, protocol, sentences=sentences, folder=Path(folder) / "data")
            document["runs"].append({"workload": workload, **run.measure()})
            document["load"][1] = os.getloadavg()[0]
            results.write(given.json, document)
            given.page.write_text(page(document))
    for table_rows in (rows(document), quiet_rows(document), outputs(document)):
        print(results.table(table_rows), end="\n\n")
    if words := disturbance(document):
        print(words)
    cells_of_own = [cell for cell in cells(document) if cell.scheme == OWN]
    if cells_of_own:
        print("handover: " + "; ".join(
            f"{cell.workload}, {cell.moved} at once: goal {'reached' if cell.reaches_goal else 'missed'}"
            for cell in cells_of_own))
    is_equal = all(
        row[name] == 0 for row in outputs(document) for name in COUNTED if name != "events")
    return 0 if is_equal else 1


def _runs(given: argparse.Namespace) -> Iterator[tuple[str, Scheme, Protocol]]:
    """All runs; every second round in the opposite order, so that a load that comes or goes is nobody's alone."""
    for number in range(given.rounds):
        names = given.schemes if number % 2 == 0 else given.schemes[::-1]
        for workload in given.workloads:
            for name in names:
                yield workload, SCHEMES[name], Protocol(
                    Workload(gap_ms=given.gap_ms, iterations=WORKLOADS[workload] and given.iterations),
                    lanes=given.lanes, slots=given.slots, trigger_ms=given.trigger, moved=tuple(given.moved),
                    moves=max(1, round(60 * given.minutes / given.every)), every_s=given.every, quiet_s=given.quiet,
                    settle_s=given.settle, seed=given.seed + number, class_archive=given.class_archive,
                    warm_ups=given.warm_ups)


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Move bundles of a word count between the slots of a node, by each scheme: seconds at each level "
                    "of degradation, throughput, pauses, and outputs held to a reference event by event. With what "
                    "is preset a scheme takes about eight minutes. As published: --minutes 10 --every 60.",
        epilog="Schemes: " + "; ".join(f"{scheme.name}: {scheme.doc}" for scheme in SCHEMES.values()) + ".")
    parser.add_argument("--workloads", nargs="+", choices=tuple(WORKLOADS), default=["word-count"],
                        help="what runs (%(default)s)")
    parser.add_argument("--schemes", nargs="+", choices=tuple(SCHEMES), default=list(SCHEMES),
                        help="how bundles move (all)")
    parser.add_argument("--moved", nargs="+", type=count, default=[1, 2, 4, 8, 16],
                        help="how many bundles at once (1 2 4 8 16)")
    parser.add_argument("--minutes", type=positive, default=1.0,
                        help="for each scheme and number of bundles (%(default)g)")
    parser.add_argument("--every", type=positive, default=60.0, help="seconds from one move to the next (%(default)g)")
    parser.add_argument("--rounds", type=count, default=1,
                        help="how often all of it, in turn forwards and backwards (%(default)d)")
    parser.add_argument("--quiet", type=positive, default=30.0,
                        help="seconds without moves, before and after them (%(default)g)")
    parser.add_argument("--settle", type=positive, default=30.0,
                        help="seconds from when all flows, not measured (%(default)g)")
    parser.add_argument("--warm-ups", type=int, default=1, help="moves that are not measured, before all others: the "
                        "first ones of a driver take long, whatever the scheme (%(default)d)")
    parser.add_argument("--lanes", type=count, default=8, help="of two bundles each (%(default)d)")
    parser.add_argument("--slots", type=count, default=4, help="of the node (%(default)d)")
    parser.add_argument("--gap-ms", type=count, default=250, help="between two sentences of a lane (%(default)d)")
    parser.add_argument("--trigger", type=count, default=1000, help="ms between batches (%(default)d)")
    parser.add_argument("--iterations", type=count, default=WORKLOADS["cpu-bound"],
                        help="of the workload cpu-bound, for each sentence (%(default)d)")
    parser.add_argument("--text", nargs="+", type=file, help="files of text; without them Weir's own documentation")
    parser.add_argument("--class-archive", action="store_true", help="write drivers an archive of their classes first, "
                        "as an installation has after some minutes: slots start sooner")
    parser.add_argument("--seed", type=int, default=1, help="of sentences and moves (%(default)d)")
    parser.add_argument("--json", type=Path, default=Path("migration.json"))
    parser.add_argument("--page", type=Path, default=Path("migration.html"), help="figures")
    given = parser.parse_args(arguments)
    if max(given.moved) > 2 * given.lanes:
        parser.error(f"{max(given.moved)} bundles cannot move: {given.lanes} lanes have {2 * given.lanes}")
    if given.slots < 2:
        parser.error("bundles move between two slots at least")
    return given


if __name__ == "__main__":
    raise SystemExit(main())
