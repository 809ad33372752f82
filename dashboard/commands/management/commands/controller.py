"""`./weir controller [NAME TEAM MODE]`: what Weir may do by itself, from the command line."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from dashboard.commands.actors import actor_of
from dashboard.controllers.selectors import overview
from dashboard.controllers.services import set_mode
from dashboard.teams import selectors as teams
from dashboard.teams.permissions import viewer_of
from scheduler.controllers.loop_values import MODES
from scheduler.model.errors import WeirError


class Command(BaseCommand):
    help = (
        "List what each controller may do for each team: off, recommends or acts; with a controller, a team and a mode "
        "set it.")

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("controller", nargs="?", help="as the list has it")
        parser.add_argument("team", nargs="?", help="short name of a team")
        parser.add_argument("mode", nargs="?", choices=MODES)
        parser.add_argument("--as", dest="username", help="who asks; otherwise the first administrator")

    def handle(
        self, *, controller: str | None, team: str | None, mode: str | None, username: str | None, **_: Any
    ) -> None:
        actor = actor_of(username)
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
