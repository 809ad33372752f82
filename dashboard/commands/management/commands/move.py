"""`./weir move DATAFLOW QUERY SLOT`: propose that a query goes on in another slot, from the command line."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from dashboard.approvals.services import move_query
from dashboard.commands.proposing import ProposingCommand


class Command(ProposingCommand):
    help = "Propose that one of a running dataflow's queries, or several, go on in another slot."
    propose = staticmethod(move_query)

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("query", help="the query's id, as the dataflow's page and the page Deployment have it")
        parser.add_argument("slot", help="the slot, as n1/1")
        parser.add_argument("--along", nargs="+", default=[], metavar="QUERY", help="queries that go there with it")

    def more(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"query": options["query"], "slot": options["slot"], "along": options["along"]}
