"""Commands about a dataflow that is there; most propose something for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from dashboard.approvals.models import Proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import is_uuid
from dashboard.catalog.selectors import dataflows
from dashboard.commands.actors import actor_of
from dashboard.teams.models import User
from dashboard.teams.permissions import viewer_of
from scheduler.model.errors import WeirError


class DataflowCommand(ABC, BaseCommand):
    """Looks up a dataflow by its id or name and calls ``act`` for it."""

    def add_arguments(self, parser: ArgumentParser, *, dataflow_needed: bool = True) -> None:
        parser.add_argument("dataflow", nargs=None if dataflow_needed else "?",
                            help="its id, or its name where that is of one dataflow only")
        parser.add_argument("--team", help="short name of its team, where several have one of that name")
        parser.add_argument("--as", dest="username", help="who asks; otherwise the first administrator")

    @abstractmethod
    def act(self, record: DataflowRecord, actor: User, options: Mapping[str, Any]) -> str:
        """Do what the command is for; what is printed then."""

    def handle(self, *, dataflow: str, team: str | None, username: str | None, **options: Any) -> None:
        actor = actor_of(username)
        candidates = dataflows(viewer_of(actor), team=team or "")
        candidates = candidates.filter(pk=UUID(dataflow)) if is_uuid(dataflow) else candidates.filter(name=dataflow)
        records: list[DataflowRecord] = list(candidates[:2])
        if not records:
            raise CommandError(f"There is no dataflow {dataflow} that {actor.username} may know of.")
        if len(records) > 1:
            raise CommandError(f"Several teams have a dataflow {dataflow}: name one with --team, or give its id.")
        try:
            if text := self.act(records[0], actor, options):
                self.stdout.write(text)
        except WeirError as error:
            raise CommandError(error.full_message) from error


class ProposingCommand(DataflowCommand):
    """Calls ``propose`` for a dataflow."""

    propose: Callable[..., Proposal]

    def more(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Further arguments of ``propose``, from the command's own options."""
        return {}

    def act(self, record: DataflowRecord, actor: User, options: Mapping[str, Any]) -> str:
        proposal = type(self).propose(actor=actor, dataflow_id=record.pk, **self.more(options))
        return f"Proposed for {record.name}: /proposals/{proposal.pk}/"
