"""`./weir controller [NAME TEAM MODE]`: what Weir may do by itself, and what it recommends, from the command line."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from dashboard.approvals.selectors import proposals
from dashboard.approvals.services import approve_proposal, reject_proposal
from dashboard.commands.actors import actor_of
from dashboard.controllers.selectors import overview
from dashboard.controllers.services import set_mode
from dashboard.core.state_words import words
from dashboard.teams import selectors as teams
from dashboard.teams.models import User
from dashboard.teams.permissions import viewer_of
from scheduler.controllers.loop_values import MODES
from scheduler.model.errors import NotFound, WeirError


class Command(BaseCommand):
    help = (
        "List what each controller may do for each team: off, recommends or acts; with a controller, a team and a mode "
        "set it. What one recommends is carried out, or declined, by the key of its round.")

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("controller", nargs="?", help="as the list has it")
        parser.add_argument("team", nargs="?", help="short name of a team")
        parser.add_argument("mode", nargs="?", choices=MODES)
        answer = parser.add_mutually_exclusive_group()
        answer.add_argument("--carry-out", metavar="ROUND", help="approve the plan of a round, such as adaptation-7")
        answer.add_argument("--decline", metavar="ROUND", help="reject it: it is not recommended again for a day")
        parser.add_argument("--as", dest="username", help="who asks; otherwise the first administrator")

    def handle(
        self, *, controller: str | None, team: str | None, mode: str | None, username: str | None,
        carry_out: str | None = None, decline: str | None = None, **_: Any
    ) -> None:
        actor = actor_of(username)
        if carry_out or decline:
            try:
                self.stdout.write(_answered(actor, carry_out or decline or "", is_wanted=bool(carry_out)))
            except WeirError as error:
                raise CommandError(error.full_message) from error
            return
        if controller is not None:
            if team is None or mode is None:
                raise CommandError("Name the controller, a team and a mode; without any of them all are listed.")
            try:
                set_mode(actor=actor, controller=controller, team=teams.team(viewer_of(actor), team), mode=mode)
            except WeirError as error:
                raise CommandError(error.full_message) from error
        for row in overview(viewer_of(actor)):
            for of_team in row.teams:
                if controller in (None, row.controller.name) and team in (None, of_team.slug):
                    policy = of_team.policy
                    self.stdout.write(
                        f"{row.controller.name}: {of_team.slug or 'shared'} {policy.mode}, at most "
                        f"{policy.changes_per_hour} changes an hour and {policy.changes_per_day} a day")


def _answered(actor: User, key: str, *, is_wanted: bool) -> str:
    """Approve or reject the proposal of a round; what has become of it."""
    proposal = proposals(viewer_of(actor)).filter(round__key=key).first()
    if proposal is None:
        raise NotFound(f"No round {key} has a proposal.", remedy="See the rounds on the controller's page.")
    if is_wanted:
        done = approve_proposal(actor=actor, proposal_id=proposal.pk, digest=proposal.plan.digest)
    else:
        done = reject_proposal(actor=actor, proposal_id=proposal.pk, comment="Declined from the command line.")
    return f"The proposal of {key} is {words(done.status)}."
