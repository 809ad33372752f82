"""`./weir secret set TEAM NAME`: keep, list and delete the secrets that a team's tasks use."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from getpass import getpass

from django.core.management.base import BaseCommand, CommandError

from dashboard.commands.actors import actor_of
from dashboard.teams.models import Team
from dashboard.teams.selectors import secrets
from dashboard.teams.services import delete_secret, set_secret
from scheduler.model.errors import WeirError


class Command(BaseCommand):
    help = "Keep, list and delete a team's secrets. A value is asked for, or read from standard input; never shown."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", choices=("set", "list", "delete"))
        parser.add_argument("team", help="short name of the team")
        parser.add_argument("name", nargs="?", default="", help="name of the secret")
        parser.add_argument("--as", dest="username", help="who does this; otherwise the first administrator")

    def handle(self, *, what: str, team: str, name: str, username: str | None, **_: object) -> None:
        record = Team.objects.filter(slug=team).first()
        if record is None:
            raise CommandError(f"There is no team {team}.")
        if what == "list":
            for secret in secrets(record):
                self.stdout.write(f"{secret.name}  set {secret.set_at:%Y-%m-%d %H:%M} UTC by {secret.set_by.username}")
            return
        if not name:
            raise CommandError("Which secret? Give its name.")
        try:
            if what == "set":
                set_secret(actor=actor_of(username), team=record, name=name, value=_value())
            else:
                delete_secret(actor=actor_of(username), team=record, name=name)
        except WeirError as error:
            raise CommandError(error.full_message) from error
        self.stdout.write(f"{name} of {record.name} is {'set' if what == 'set' else 'deleted'}.")


def _value() -> str:
    """Typed without echo, or all of standard input but its last line break."""
    return getpass("Value (not shown): ") if sys.stdin.isatty() else sys.stdin.read().removesuffix("\n")
