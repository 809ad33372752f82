"""`./weir manage prepare`: all that a start needs of the site's files and database. `./weir up` calls it each time."""

from __future__ import annotations

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from dashboard.commands.workspace import make_workspace
from dashboard.core import static_files


class Command(BaseCommand):
    help = (
        "Collect static files and bring the database up to date, where either has changed; make what is missing of the "
        "sample workspace: node, teams, users, a dataflow that runs.")
    requires_system_checks: tuple[str, ...] = ()  # the tests do; each start would wait for all pages to be imported

    def handle(self, **_: object) -> None:
        if static_files.collect():
            self.stdout.write("static files are collected")
        if _is_behind():
            call_command("migrate", interactive=False, stdout=self.stdout)
        for line in make_workspace(logins=settings.DATA_DIR / "logins.json"):
            self.stdout.write(line)


def _is_behind() -> bool:
    """Whether the database lacks a migration."""
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))
