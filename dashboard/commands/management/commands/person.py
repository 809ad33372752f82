"""`./weir person list`, `deactivate NAME`, `reactivate NAME`, `link NAME SUBJECT`: who may log in."""

from __future__ import annotations

from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError

from dashboard.commands.actors import actor_of
from dashboard.teams.models import Role
from dashboard.teams.permissions import viewer_of
from dashboard.teams.selectors import people
from dashboard.teams.services import deactivate, link, reactivate
from scheduler.model.errors import WeirError


class Command(BaseCommand):
    help = "List the people of the installation; let one log in no more, which ends sessions and tokens, or again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", choices=("list", "deactivate", "reactivate", "link"))
        parser.add_argument("name", nargs="?", default="", help="user name")
        parser.add_argument("subject", nargs="?", default="", help="to link: what the provider of single sign-on has")
        parser.add_argument("--as", dest="username", help="who does this; otherwise the first administrator")

    def handle(self, *, what: str, name: str, subject: str, username: str | None, **_: object) -> None:
        actor = actor_of(username)
        try:
            if what == "list":
                for user in people(viewer_of(actor)):
                    roles = [f"{Role(member.role).label} in {member.team.slug}" for member in user.memberships.all()]
                    facts = ["administrator"] * user.is_superuser + roles + ["deactivated"] * (not user.is_active)
                    self.stdout.write(f"{user.username}: {', '.join(facts) or 'in no team'}")
                return
            if not name:
                raise CommandError("Who? Give the user name.")
            if what == "link":
                link(actor=actor, username=name, subject=subject)
                self.stdout.write(f"{name} signs on as {subject} as well.")
                return
            (deactivate if what == "deactivate" else reactivate)(actor=actor, username=name)
        except WeirError as error:
            raise CommandError(error.full_message) from error
        self.stdout.write(f"{name} is {what}d." + (
            " Sessions, tokens and live connections have ended." if what == "deactivate" else ""))
