"""`./weir pause DATAFLOW`: propose from the command line that a dataflow rests; or pause it at once."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from dashboard.approvals.services import pause_at_once, pause_dataflow
from dashboard.catalog.models import DataflowRecord
from dashboard.commands.proposing import ProposingCommand
from dashboard.teams.models import User


class Command(ProposingCommand):
    help = "Propose that a running dataflow rests: what no other dataflow needs stops working and keeps its state."
    propose = staticmethod(pause_dataflow)

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--at-once", metavar="REASON", help="emergency stop: pause it now, without an approval, for this reason")

    def act(self, record: DataflowRecord, actor: User, options: Any) -> str:
        if options["at_once"] is None:
            return super().act(record, actor, options)
        proposal = pause_at_once(actor=actor, dataflow_id=record.pk, reason=options["at_once"])
        return f"{record.name} is being paused: /proposals/{proposal.pk}/"
