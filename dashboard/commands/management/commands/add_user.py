"""`./weir manage add_user NAME`: add a user, with a password that is shown once."""

from __future__ import annotations

import secrets
from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError

from dashboard.teams.models import Role, Team
from dashboard.teams.services import create_team, create_user, set_role
from scheduler.model.errors import WeirError


class Command(BaseCommand):
    help = "Add a user with a generated password; with --team also to a team, which is made where it is missing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--team", help="short name of a team")
        parser.add_argument("--role", choices=[label for _, label in Role.choices], default="engineer")
        parser.add_argument("--administrator", action="store_true", help="administers the whole installation")

    def handle(self, *, username: str, team: str | None, role: str, administrator: bool, **_: object) -> None:
        password = secrets.token_urlsafe(12)
        try:
            user = create_user(username=username, password=password, superuser=administrator)
            if team:
                record = Team.objects.filter(slug=team).first() or create_team(slug=team, name=team)
                set_role(user=user, team=record, role=Role[role.upper()])
        except WeirError as error:
            raise CommandError(error.full_message) from error
        self.stdout.write(f"user name: {username}\npassword:  {password}")
