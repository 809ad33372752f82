"""`./weir resume DATAFLOW`: propose from the command line that a paused dataflow goes on."""

from __future__ import annotations

from dashboard.approvals.services import resume_dataflow
from dashboard.commands.proposing import ProposingCommand


class Command(ProposingCommand):
    help = "Propose that a paused dataflow goes on, with the state that it has and the events from then on."
    propose = staticmethod(resume_dataflow)
