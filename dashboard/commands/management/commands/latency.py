"""`./weir latency DATAFLOW LIMIT`: how late a dataflow's events may be."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from dashboard.catalog.document_checks import limits_for
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.services import choose_latency
from dashboard.commands.proposing import DataflowCommand
from dashboard.operations.latency_control.latency_view import limits_in_words
from dashboard.plans.latency_remarks import limit_remarks
from dashboard.teams.models import User

DOCUMENT = "document"


class Command(DataflowCommand):
    help = (
        "Choose how late a dataflow's events may be: a time such as 400ms or '2 s', none, or limits as a document has "
        "them; document: as its document says, or its team. Intervals restart nothing.")

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("limit")

    def act(self, record: DataflowRecord, actor: User, options: Mapping[str, Any]) -> str:
        limits = None if options["limit"] == DOCUMENT else limits_for(record, options["limit"])
        chosen = choose_latency(actor=actor, dataflow_id=record.pk, limits=limits)
        return " ".join([f"{chosen.name}: {limits_in_words(chosen)}.", *limit_remarks(chosen)])
