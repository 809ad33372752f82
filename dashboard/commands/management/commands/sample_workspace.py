"""`./weir manage sample_workspace`: what a new installation begins with. `./weir up` calls it at every start."""

from __future__ import annotations

from django.conf import settings
from django.core.management.base import BaseCommand

from dashboard.commands.workspace import make_workspace


class Command(BaseCommand):
    help = "Make what is missing of the sample workspace: node, teams, users, a dataflow that runs."

    def handle(self, **_: object) -> None:
        for line in make_workspace(logins=settings.DATA_DIR / "logins.json"):
            self.stdout.write(line)
