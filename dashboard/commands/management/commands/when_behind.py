"""`./weir when_behind DATAFLOW CHOICE`: what becomes of a dataflow that is too slow for a stream that others need."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from dashboard.approvals.services.reader_choices import choose_when_behind
from dashboard.catalog.models import DataflowRecord
from dashboard.commands.proposing import DataflowCommand
from dashboard.teams.models import User
from scheduler.model.behind import CHOICES, WORDS

TEAM = "team"


class Command(DataflowCommand):
    help = (
        "Choose what becomes of a dataflow that reads a stream more slowly than events come, where others need that "
        "stream. " + " ".join(f"{choice}: it {WORDS[choice]}." for choice in CHOICES) + " team: as its team has it.")

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("choice", choices=[*CHOICES, TEAM])

    def act(self, record: DataflowRecord, actor: User, options: Mapping[str, Any]) -> str:
        choice = "" if options["choice"] == TEAM else options["choice"]
        chosen = choose_when_behind(actor=actor, dataflow_id=record.pk, choice=choice)
        return f"If it is too slow for others, {chosen.name} {WORDS[chosen.behind_choice]}."
