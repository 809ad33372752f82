"""`./weir move DATAFLOW QUERY SLOT`: propose that a query goes on in another slot, from the command line; with
`--preview`, say what that would bring."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from typing import Any

from dashboard.approvals.move_previews import MovePreview, preview_of
from dashboard.approvals.services import move_query
from dashboard.catalog.models import DataflowRecord
from dashboard.commands.proposing import ProposingCommand
from dashboard.teams.models import User
from scheduler.model.errors import InvalidTransition


class Command(ProposingCommand):
    help = "Propose that one of a running dataflow's queries, or several, go on in another slot."
    propose = staticmethod(move_query)

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("query", help="the query's id, which its own page has")
        parser.add_argument("slot", help="the slot, as n1/1")
        parser.add_argument("--along", nargs="+", default=[], metavar="QUERY", help="queries that go there with it")
        parser.add_argument(
            "--preview", action="store_true", help="say what it would bring, for how long outputs stand still, and who "
            "has to agree; propose nothing")

    def more(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"query": options["query"], "slot": options["slot"], "along": options["along"]}

    def act(self, record: DataflowRecord, actor: User, options: Mapping[str, Any]) -> str:
        if not options["preview"]:
            return super().act(record, actor, options)
        preview = preview_of(actor, record.pk, **self.more(options))
        if not preview.is_planned:
            raise InvalidTransition(preview.refused, remedy=preview.remedy)
        return "\n".join(_lines(preview))


def _lines(preview: MovePreview) -> Iterator[str]:
    yield f"{', '.join((preview.query, *preview.along))} to {preview.slot}:"
    for slot in preview.slots:
        yield f"  {slot.slot} has {slot.after:.2f} cores to do then, which is {slot.load}; {slot.cores:.2f} now"
    if preview.traffic:
        yield f"  {preview.traffic}"
    yield (f"  outputs stand still for about {preview.pause_s:.1f} s, {preview.pause_at_most_s:.1f} s at most in 19 of "
           f"20; the move is {'to another' if preview.between_nodes else 'within one'} node")
    yield from (f"  {risk}" for risk in preview.risks)
    for team in preview.teams:
        yield f"  {team.name} " + (
            f"has to agree: {team.approvals} of its {team.role}s" if team.approvals else "agreed beforehand")
    refused = f"It cannot be proposed now: {preview.refused} {preview.remedy}"
    yield refused if preview.refused else "Nothing is proposed."
