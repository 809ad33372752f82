"""`./weir replay`: the last hours again, with the estate as it is, and as a proposal would make it."""

from __future__ import annotations

from argparse import ArgumentParser
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from dashboard.approvals.replays import ReplayOfProposal, replayed
from dashboard.approvals.selectors import proposal as proposal_of
from dashboard.operations.live_view.telemetry import EVERYTHING
from scheduler.model.errors import WeirError
from scheduler.model.latency_limits import in_words
from scheduler.replay.setup import Replayed


class Command(BaseCommand):
    help = ("Play the rates of the last hours again in a simulation, with the controllers as teams let them act: CPU, "
            "cost, latency and misses of the estate as it is, and as a proposal would make it. Nothing is changed.")

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--hours", type=float, default=24.0, help="how far back, up to a week (default 24)")
        parser.add_argument("--proposal", type=UUID, help="the id of a proposal whose plan is looked at")

    def handle(self, *, hours: float, proposal: UUID | None, **_: object) -> None:
        try:
            looked_at = None if proposal is None else proposal_of(EVERYTHING, proposal)
            result = replayed(hours=hours, at=timezone.now(), proposal=looked_at)
        except WeirError as error:
            raise CommandError(error.full_message) from error
        self._tell("as it is", result.now, result)
        if result.then is not None:
            self._tell("with the proposal", result.then, result)

    def _tell(self, title: str, played: Replayed, result: ReplayOfProposal) -> None:
        self.stdout.write(
            f"{title}: {played.core_hours:.3f} core-hours, {played.cost:.4f} {played.currency}; at most "
            f"{played.waiting.max():.0f} events wait; {len(played.rounds)} rounds of controllers")
        for (dataflow, number), limit_s in played.limit_s.items():
            middle_s = played.middle_s((dataflow, number))
            latency = "at rest" if middle_s is None else f"{in_words(middle_s)} in the middle"
            self.stdout.write(
                f"  {result.names[dataflow]}: limit {in_words(limit_s)}, {latency}, missed "
                f"{100 * played.missed((dataflow, number)):.1f}% of the time")
