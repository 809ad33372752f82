"""`./weir simulate DATAFLOW`: algorithms of adaptation side by side, as the page *Simulate* plays them."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandError

from dashboard.catalog.models import DataflowRecord
from dashboard.commands.proposing import DataflowCommand
from dashboard.simulations.lifecycle import DONE
from dashboard.simulations.models import SimulationRun
from dashboard.simulations.services import start_side_by_side
from dashboard.teams.models import User
from scheduler.adaptation.side_by_side import LOADS, MACHINE_SPEEDS, MOST_HOURS, OFFERED

WAITS_S = 1800.0
OPTIONS = ("algorithms", "load", "times", "hours", "billing", "machines", "least", "forecast", "error", "seed")


class Command(DataflowCommand):
    help = ("Play algorithms of adaptation side by side on a dataflow that runs, in a simulated cloud, and print the "
            "results of each. The worker plays it; nothing is changed.")

    def add_arguments(self, parser: ArgumentParser, *, dataflow_needed: bool = True) -> None:
        super().add_arguments(parser, dataflow_needed=dataflow_needed)
        parser.add_argument("--algorithms", nargs="+", choices=OFFERED, default=("CE", "PLAStiCC", "local"))
        parser.add_argument("--load", choices=LOADS, default="recorded", help="what comes (default recorded)")
        parser.add_argument("--times", type=float, default=1.0, help="how many times the rates (default 1)")
        parser.add_argument("--hours", type=int, default=12, help=f"how long, up to {MOST_HOURS} (default 12)")
        parser.add_argument("--billing", choices=("hours", "seconds"), default="hours", help="how machines are paid")
        parser.add_argument("--machines", choices=MACHINE_SPEEDS, default="made", help=(
            "as quick as their class says, by made-up traces, or as nodes were recorded (default made)"))
        parser.add_argument("--least", type=float, default=0.8, help="the least mean throughput Ω (default 0.8)")
        parser.add_argument("--forecast", choices=("learned", "known"), default="learned")
        parser.add_argument("--error", type=float, default=0.0, help="of a known forecast, as a part (default 0)")
        parser.add_argument("--seed", type=int, default=1, help="the same makes the same again (default 1)")

    def act(self, record: DataflowRecord, actor: User, options: Mapping[str, Any]) -> str:
        run = start_side_by_side(
            actor=actor, dataflow_id=record.pk, **{
                name: options[name] for name in OPTIONS} | {"algorithms": tuple(options["algorithms"])})
        until_s = time.monotonic() + WAITS_S
        while run.is_open:
            if time.monotonic() > until_s:
                raise CommandError(f"It is not over yet: /dataflows/{record.pk}/simulate?run={run.pk} goes on.")
            time.sleep(1.0)
            run.refresh_from_db()
        if run.status != DONE:
            raise CommandError(f"It was {run.status}. {run.reason}".strip())
        return "\n".join(_lines(run))


def _lines(run: SimulationRun) -> Iterator[str]:
    yield f"{'':10}{'profit':>10}{'value':>10}{'Ω':>8}{'cost':>12}{'changes':>9}"
    for result in run.results:
        outcome = result["outcome"]
        yield (f"{result['name']:10}{outcome['shown_profit']:>10.3f}{outcome['value']:>10.3f}"
               f"{outcome['throughput']:>8.2f}{outcome['cost']:>12.3f}{result['changes']:>9}")
