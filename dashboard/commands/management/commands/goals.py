"""`./weir goals DATAFLOW`: what adaptation is to reach for a dataflow."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dashboard.catalog.document_checks import goals_of
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.services import choose_goals
from dashboard.commands.proposing import DataflowCommand
from dashboard.controllers.adaptation_told import goals_told
from dashboard.teams.models import User
from dashboard.teams.permissions import viewer_of
from scheduler.model.dataflow_goals import DataflowGoals, goals_json

HELP = {
    "most_per_hour": "what may be spent an hour for the greatest value",
    "least_per_hour": "what may be spent an hour for the least value",
    "throughput": "the part of what could leave that is to, from 0.05 to 1",
    "tolerance": "within so much of it nothing is changed",
    "hours": "over so long value and cost are weighed"}


class Command(DataflowCommand):
    help = (
        "Choose what adaptation is to reach for a dataflow; without an option, show it. What is left out stays as it "
        "is. Nothing changes by it at once.")

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        for goal in fields(DataflowGoals):
            parser.add_argument(f"--{goal.name.replace('_', '-')}", type=float, help=HELP[goal.name])
        parser.add_argument("--none", action="store_true", help="no goals: adaptation leaves it alone")
        parser.add_argument("--document", action="store_true", help="as its document says")

    def act(self, record: DataflowRecord, actor: User, options: Mapping[str, Any]) -> str:
        stated_goals = {
            goal.name: options[goal.name] for goal in fields(DataflowGoals) if options[goal.name] is not None}
        if options["none"] or options["document"]:
            record = choose_goals(
                actor=actor, dataflow_id=record.pk, goals=None, as_document=options["document"])
        elif stated_goals:
            before = record.goals_in_force
            record = choose_goals(actor=actor, dataflow_id=record.pk, goals=goals_of(
                ({} if before is None else goals_json(before)) | stated_goals))
        state = goals_told(viewer_of(actor), record.pk)
        goals = record.goals_in_force
        words = "no goals" if goals is None else f"{goals.words} ({state['currency']})"
        return f"{record.name}: {words}. {state['why']}".strip()
