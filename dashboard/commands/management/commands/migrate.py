"""`manage.py migrate`: Django's, for databases of earlier versions too; `./weir up` calls it."""

from __future__ import annotations

from typing import Any

from django.core.management.commands import migrate
from django.db import connections

from dashboard.commands.earlier import bring_to_end
from dashboard.core.database import convert_to_shrinking


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        if not (options["plan"] or options["check_unapplied"]):  # these only look
            convert_to_shrinking()
            bring_to_end(connections[options["database"]], say=self.stdout.write)
        super().handle(*args, **options)
