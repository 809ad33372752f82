"""`manage.py restore_database FOLDER`: rows of PostgreSQL as `./weir backup` copied them, for `./weir restore`."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Collection, Mapping
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError
from django.db import connection, transaction
from django.db.migrations import Migration
from django.db.migrations.executor import MigrationExecutor

from dashboard.commands.earlier import EarlierExecutor, Name, is_amid

BLOCK = 1 << 20


class Command(BaseCommand):
    help = "Fill an empty PostgreSQL database with the tables of a back-up: `./weir restore` calls it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path)

    def handle(self, *, folder: Path, **_: object) -> None:
        if connection.introspection.table_names():
            raise CommandError("The database that DATABASE_URL names has tables already: name an empty one.")
        columns: dict[str, list[str]] = json.loads((folder / "tables.json").read_text())
        migrations = json.loads((folder / "migrations.json").read_text())
        names = {(app, name) for app, names in migrations.items() for name in names}
        make_tables(names)
        require_columns(columns)
        with transaction.atomic():
            _fill(folder, columns)
        self.stdout.write(f"{len(columns)} tables filled.")


def make_tables(had: Collection[Name]) -> None:
    """Apply the migrations that the copied database had; what is newer is done by `./weir up`."""
    executor = (EarlierExecutor if is_amid(had) else MigrationExecutor)(connection)
    executor.migrate(None, plan=plan_of(executor, had))


def plan_of(executor: MigrationExecutor, had: Collection[Name]) -> list[tuple[Migration, bool]]:
    """The plan of these migrations, each after those that it needs. As targets they would not do: one that another one
    needs would be gone back to."""
    everything = executor.migration_plan(executor.loader.graph.leaf_nodes(), clean_start=True)
    return [step for step in everything if _was_done(step[0], had)]


def _was_done(migration: Migration, had: Collection[Name]) -> bool:
    replaced = migration.replaces and set(migration.replaces) <= set(had)
    return bool(replaced) or (migration.app_label, migration.name) in had


def require_columns(columns: Mapping[str, Collection[str]]) -> None:
    """Raise ``CommandError`` where a back-up names tables or columns that are not there: what somebody forged would be
    text of a command, for Django's quotes end at a quote."""
    if missing := sorted(set(columns) - set(connection.introspection.table_names())):
        raise CommandError(f"This version has no table {missing[0][:80]!r}: the back-up is of another one.")
    with connection.cursor() as cursor:
        for table, names in columns.items():
            columns_here = {column.name for column in connection.introspection.get_table_description(cursor, table)}
            if missing := sorted(set(names) - columns_here):
                raise CommandError(
                    f"The table {table} has no column {missing[0][:80]!r} here: the back-up is of another version.")


def _fill(folder: Path, columns: dict[str, list[str]]) -> None:
    """Put all rows in, in place of those that migrations made; references are checked at the end."""
    quoted = connection.ops.quote_name
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join(map(quoted, columns))} CASCADE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        for table, names in columns.items():
            into = f"COPY {quoted(table)} ({', '.join(map(quoted, names))}) FROM STDIN"
            with (folder / f"{table}.copy").open("rb") as file, cursor.copy(into) as rows:
                while block := file.read(BLOCK):
                    rows.write(block)
        for table in (table for table, names in columns.items() if "id" in names):
            cursor.execute("SELECT pg_get_serial_sequence(%s, 'id')", [quoted(table)])
            [sequence] = cursor.fetchone()
            if sequence is not None:  # what is added later goes on behind what was copied
                cursor.execute(
                    f"SELECT setval(%s, max(id)) FROM {quoted(table)} HAVING max(id) IS NOT NULL", [sequence])
