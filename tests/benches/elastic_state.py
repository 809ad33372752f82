"""`./weir bench elastic-state`: what decides about keyed state on a ring, played; or keyed state, measured.

Worlds of up to 500 bundles (`ring_world`) whose rate doubles and falls back. How evenly bundles are loaded, how many
keys a change moves, what that takes in messages, and what is lost where machines or zones die at the same time. What is
measured is a form of its own, each in its module.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .arguments import count, positive
from .copied_counts import COUNTS, sizes_of_copies
from .key_moves import moves_of_keys
from .killed_bundles import recoveries
from .restarted_query import restarts
from .results import machine, table, write
from .ring_world import WorldOf, lines_of_loss, summary
from .rising_rate import rising
from .state_elsewhere import measure_folds
from .word_counts import HOLDERS, cost_of_copies

Lines = list[dict[str, Any]]


def _played(given: argparse.Namespace) -> Iterator[tuple[str, Lines]]:
    yield "balance", [
        summary(WorldOf(bundles, factor=factor, by_load=by_load), seed=given.seed)
        for bundles in given.bundles for factor in (2.0, 1.0) for by_load in (True, False)]
    yield "losses", [
        line for bundles in given.bundles for zones in (1, 3) for copies in (1, 2)
        for line in lines_of_loss(bundles, zones, copies=copies, seed=given.seed)]


def _moves(given: argparse.Namespace) -> Iterator[tuple[str, Lines]]:
    for megabytes in given.state_mb:
        yield "moves", moves_of_keys(megabytes, repeats=given.repeats, nodes=given.nodes)


def _restarts(given: argparse.Namespace) -> Iterator[tuple[str, Lines]]:
    for megabytes in given.state_mb:
        yield "restarts", restarts(megabytes, repeats=given.repeats)


def _recovery(given: argparse.Namespace) -> Iterator[tuple[str, Lines]]:
    for bundles in given.bundles:
        yield "recovery", recoveries(
            bundles=bundles, rate_per_s=given.rate, copy_s=given.copy_s, lost_s=given.lost_s,
            repeats=given.repeats)


def _scaling(given: argparse.Namespace) -> Iterator[tuple[str, Lines]]:
    yield "scaling", list(rising(given.rates, step_s=given.step_s))


def _folds(given: argparse.Namespace) -> Iterator[tuple[str, Lines]]:
    yield "folds", measure_folds(repeats=given.repeats, events=given.events, batches=given.batches)


def _sizes(given: argparse.Namespace) -> Iterator[tuple[str, Lines]]:
    for counted in given.counts or COUNTS:
        yield "sizes", sizes_of_copies(counted, intervals_s=given.intervals, rounds=given.repeats)


def _words(given: argparse.Namespace) -> Iterator[tuple[str, Lines]]:
    counts, rounds, minutes = (COUNTS[:1], 1, 5.5) if given.quick else (COUNTS[:2], 4, 28.0)
    yield "words", cost_of_copies(given.counts or counts, copies=given.copies, rounds=rounds, lines=given.lines,
                                  within_s=60 * (given.minutes or minutes))


FORMS: Mapping[str, tuple[Callable[[argparse.Namespace], Iterator[tuple[str, Lines]]], str]] = {
    "played": (_played, "balance and losses, simulated"),
    "moves": (_moves, "how long keys stand still that change hands"),
    "restarts": (_restarts, "how long they do where plain Spark stops and restarts"),
    "recovery": (_recovery, "how soon bundles go on whose machine has died"),
    "scaling": (_scaling, "how soon bundles are added while the rate rises, on a whole system"),
    "folds": (_folds, "a word count with its state in other places, without Spark"),
    "sizes": (_sizes, "how large copies of one are by their interval, without Spark"),
    "words": (_words, "what copies on other nodes cost the peak of one, on Spark")}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print tables, write JSON."""
    given = _arguments(arguments)
    tables: dict[str, Lines] = {}
    for name, lines in FORMS[given.form][0](given):
        tables.setdefault(name, []).extend(lines)
        write(given.json, {"machine": machine(), "load": os.getloadavg()[0], **tables})
    for name, lines in tables.items():
        print(f"{name}\n{table(lines)}\n")
    return 0


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Play the balance of keyed bundles on a ring, and what survives when machines die: a simulation, "
                    "nothing runs. Or measure, in one of the forms.")
    parser.add_argument("--form", choices=tuple(FORMS), help="; ".join(
        f"{name}: {what}" for name, (_, what) in FORMS.items()) + ". Without it played; with --state-mb, moves.")
    parser.add_argument("--bundles", type=count, nargs="+", help="played: 12, 100 and 500 by default; recovery: 6")
    parser.add_argument("--nodes", type=int, choices=(1, 2), default=1, help="moves: that the bundles are on")
    parser.add_argument("--rate", type=positive, default=500.0, help="recovery: events/s")
    parser.add_argument("--copy-s", type=positive, default=1.0, help="recovery: seconds between two copies of a state")
    parser.add_argument(
        "--lost-s", type=positive, default=2.0, help="recovery: a node is missed after so long without a heartbeat, s")
    parser.add_argument(
        "--rates", type=positive, nargs="+", default=[300.0, 600.0, 1_200.0],
        help="scaling: one after the other, events/s")
    parser.add_argument("--step-s", type=positive, default=240.0, help="scaling: how long each rate lasts")
    parser.add_argument("--seed", type=int, default=1, help="played")
    parser.add_argument("--state-mb", type=count, nargs="+", help="moves, restarts: states of so many MB in all")
    parser.add_argument(
        "--counts", nargs="+", choices=COUNTS, help="sizes, words: what is counted; by default all, of words total and "
                                                    "15 min, quick total alone")
    parser.add_argument("--copies", type=int, nargs="+", choices=range(len(HOLDERS) + 1), default=[0, 1, 2],
                        help="words: how many nodes have a copy; others are compared with the first")
    parser.add_argument("--quick", action="store_true", help="words: one count, one round, at most six minutes")
    parser.add_argument("--lines", type=count, default=200_000, help="words: how long the text is")
    parser.add_argument("--minutes", type=positive, help="words: how long all may take; by default 28, quick 5.5")
    parser.add_argument("--intervals", type=positive, nargs="+", default=[1.0, 2.0, 5.0, 10.0], help="sizes: in s")
    parser.add_argument("--events", type=count, default=20_000, help="folds: in a batch")
    parser.add_argument("--batches", type=count, default=8, help="folds: of a run")
    parser.add_argument("--repeats", type=count, default=2, help="but for played: how often all is done")
    parser.add_argument("--json", type=Path, default=Path("elastic-state.json"))
    given = parser.parse_args(arguments)
    given.form = given.form or ("moves" if given.state_mb else "played")
    given.bundles = given.bundles or ([6] if given.form == "recovery" else [12, 100, 500])
    given.state_mb = given.state_mb or [1, 10, 100]
    return given


if __name__ == "__main__":
    raise SystemExit(main())
