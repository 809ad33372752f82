"""`./weir manage prepare`: all that a start needs of the site's files and database. `./weir up` calls it each time."""

from __future__ import annotations

from argparse import ArgumentParser

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from dashboard import jobs
from dashboard.commands.workspace import make_workspace
from dashboard.core import migrated_database, static_files


class Command(BaseCommand):
    help = (
        "Collect static files and bring the database up to date, where either has changed; make what is missing of the "
        "sample workspace: node, teams, users, a dataflow that runs.")
    requires_system_checks: tuple[str, ...] = ()  # the tests do; each start would wait for all pages to be imported

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--migrate", action="store_true", help="migrate a new database, though a template of one is there")

    def handle(self, *, migrate: bool, **_: object) -> None:
        if static_files.collect():
            self.stdout.write("static files are collected")
        jobs.seal("")  # makes the key of secrets: further nodes of this machine get a copy of it
        self._bring_up_to_date(copies=not migrate)
        for line in make_workspace(logins=settings.DATA_DIR / "logins.json"):
            self.stdout.write(line)

    def _bring_up_to_date(self, *, copies: bool) -> None:
        executor = MigrationExecutor(connection)
        if not executor.migration_plan(executor.loader.graph.leaf_nodes()):
            return
        is_new = migrated_database.is_new(connection)
        template = migrated_database.template_file(executor.loader) if is_new and copies else None
        if template is not None and template.is_file() and migrated_database.copy_into(connection, template):
            self.stdout.write("the database is a copy of one that was migrated before")
            return
        call_command("migrate", interactive=False, stdout=self.stdout)
        if template is not None:
            migrated_database.keep(connection, template)
