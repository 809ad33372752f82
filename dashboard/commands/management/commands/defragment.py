"""`./weir defragment DATAFLOW`: propose a step of defragmentation from the command line."""

from __future__ import annotations

from dashboard.approvals.services import defragment_dataflow
from dashboard.commands.proposing import ProposingCommand


class Command(ProposingCommand):
    help = "Propose the step of defragmentation of a running dataflow that gains most, where one is worth it."
    propose = staticmethod(defragment_dataflow)
