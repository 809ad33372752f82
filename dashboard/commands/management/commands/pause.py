"""`./weir pause DATAFLOW`: propose from the command line that a dataflow rests."""

from __future__ import annotations

from dashboard.approvals.services import pause_dataflow
from dashboard.commands.proposing import ProposingCommand


class Command(ProposingCommand):
    help = "Propose that a running dataflow rests: what no other dataflow needs stops working and keeps its state."
    propose = staticmethod(pause_dataflow)
