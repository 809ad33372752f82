"""`./weir ring DATAFLOW TASK`: who has which keys of a task that is divided by key."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from dashboard.catalog.models import DataflowRecord
from dashboard.commands.proposing import DataflowCommand
from dashboard.operations.key_rings import STAYS, RingRange, TaskRing, ring_of_task
from dashboard.teams.models import User
from dashboard.teams.permissions import viewer_of
from scheduler.model.latency_limits import figure_in_words


class Command(DataflowCommand):
    help = "Show which query has which keys of a task that is divided by key, and what a node's loss would take."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("task", help="its name in the dataflow")
        parser.add_argument("--json", action="store_true", help="the answer of the API as it is")

    def act(self, record: DataflowRecord, actor: User, options: Mapping[str, Any]) -> str:
        ring = ring_of_task(viewer_of(actor), record.pk, options["task"])
        return json.dumps(asdict(ring), indent=2) if options["json"] else "\n".join(_lines(ring))


def _lines(ring: TaskRing) -> Iterator[str]:
    counted = f"{ring.counted} events counted" if ring.counted else "too few events counted"
    yield f"{ring.name}, by {', '.join(ring.by)}: {len(ring.ranges)} ranges, {counted}."
    for piece in ring.ranges:
        load = "" if piece.load is None else f", {piece.load:.1%} of the events"
        rate = "" if piece.rate_per_s is None else f", {piece.rate_per_s:g} events/s"
        change = "" if piece.change == STAYS else f", {piece.change} of others"
        hot = ", one key alone is more than it sustains" if piece.hot else ""
        yield (f"{piece.bundle} on {piece.slot}: groups from {piece.first}, {piece.part:.1%} of the ring{load}{rate}, "
               f"{piece.state_kb or 0} kB, {piece.state}{change}{hot}; {_copies(piece)}")
    for old in ring.leaving:
        yield f"{old.bundle} on {old.slot} leaves ({old.state}): {', '.join(old.to)} go on with its keys"
    for key in ring.keys:
        name = "a key" if key.values is None else f"key {', '.join(key.values)}"
        yield f"{name} in group {key.group} has {key.share:.1%} of the events at least: {key.bundle}"
    for loss in ring.losses:
        takes = f"the state of {loss.lost_part:.1%} of the keys" if loss.lost else "nothing"
        yield f"{loss.node} has {loss.part:.1%} of the keys, {loss.state_kb or 0} kB; its loss takes {takes}"
    yield " ".join(filter(None, (f"The state of its keys {ring.survives}.", ring.one_more)))


def _copies(piece: RingRange) -> str:
    """The holders of a range's copies, the age of the oldest copy, and the reason why there are no more."""
    nodes = [f"{holder.node} (zone {holder.zone})" if holder.zone else holder.node for holder in piece.holders]
    age = "" if piece.copy_age_ms is None else f", the oldest is {figure_in_words(piece.copy_age_ms / 1000)} old"
    return f"copies on {', '.join(nodes) or 'no node'}{age}{f' ({piece.not_copied})' if piece.not_copied else ''}"
