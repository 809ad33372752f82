"""`./weir token list`, `./weir token revoke ID`: API tokens of everybody, as an administrator has them."""

from __future__ import annotations

from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError

from dashboard.commands.actors import actor_of
from dashboard.teams.permissions import viewer_of
from dashboard.teams.selectors import tokens_for
from dashboard.teams.services import revoke_token
from scheduler.model.errors import WeirError


class Command(BaseCommand):
    help = "List API tokens, whose they are, what they allow and when they end; revoke one by its number."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", choices=("list", "revoke"))
        parser.add_argument("id", nargs="?", type=int, default=0, help="number of the token")
        parser.add_argument("--as", dest="username", help="who does this; otherwise the first administrator")

    def handle(self, *, what: str, id: int, username: str | None, **_: object) -> None:
        actor = actor_of(username)
        if what == "list":
            for token in tokens_for(viewer_of(actor)):
                ends = f"until {token.expires:%Y-%m-%d}" if token.expires else "without an end"
                used = f"used {token.last_used:%Y-%m-%d %H:%M} UTC" if token.last_used else "not used yet"
                self.stdout.write(f"{token.pk}  {token.user.username}: {token.name}, {token.scope}, {ends}, {used}")
            return
        try:
            revoke_token(actor=actor, token_id=id)
        except WeirError as error:
            raise CommandError(error.full_message) from error
        self.stdout.write(f"Token {id} is revoked.")
