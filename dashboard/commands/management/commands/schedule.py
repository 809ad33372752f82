"""`./weir schedule DATAFLOW PAIR`: propose from the command line that a dataflow runs by a schedule."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from dashboard.approvals.services import propose_schedule
from dashboard.commands.proposing import ProposingCommand
from dashboard.plans.choices import ScheduleChoice
from scheduler.pairs import MODEL_BASED, key_of


class Command(ProposingCommand):
    help = "Propose that a dataflow runs by a schedule: one that waits for its decision, or one that runs."
    propose = staticmethod(propose_schedule)

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("pair", help=f"allocation and mapping, such as {key_of(MODEL_BASED)}")
        parser.add_argument("--rate", type=float, metavar="PER_S", help="of every source; otherwise each has its own")
        parser.add_argument("--routing", default="slot_aware", help="slot_aware or shuffle")

    def more(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"choice": ScheduleChoice.of(
            pair=options["pair"].split("-"), rate_per_s=options["rate"], routing=options["routing"])}
