"""Databases of earlier versions: each package had a chain of migrations then, and has one now.

The chains are kept as they were, in an archive, for databases that are in the middle of them. One that is at their end
needs them no more: Django takes its packages' one migration for done, since that ``replaces`` all of theirs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from django.apps import apps
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

ARCHIVE = Path(__file__).with_name("earlier_migrations.zip")
Name = tuple[str, str]  # app and migration


def earlier_names() -> set[Name]:
    """Every migration of those chains."""
    with ZipFile(ARCHIVE) as archive:
        paths = [Path(name) for name in archive.namelist()]
    return {(path.parent.name, path.stem) for path in paths if path.stem != "__init__"}


class EarlierLoader(MigrationLoader):
    """Reads Weir's own migrations from the archive."""

    @classmethod
    def migrations_module(cls, app_label: str) -> tuple[str | None, bool]:
        if app_label in {app for app, _ in earlier_names()}:
            return f"{ARCHIVE.stem}.{app_label}", True
        return super().migrations_module(app_label)

    def load_disk(self) -> None:
        """Read them; of a package that came later, none."""
        super().load_disk()
        later = {config.label for config in apps.get_app_configs() if config.name.startswith("dashboard.")} - {
            app for app, _ in earlier_names()}
        self.migrated_apps -= later
        self.disk_migrations = {
            name: migration for name, migration in self.disk_migrations.items() if name[0] not in later}


class EarlierExecutor(MigrationExecutor):
    """Applies the migrations of the archive, on databases that the present ones alone would not fit."""

    def __init__(
        self, connection: BaseDatabaseWrapper, progress_callback: Callable[..., Any] | None = None
    ) -> None:
        if str(ARCHIVE) not in sys.path:
            sys.path.append(str(ARCHIVE))
        self.connection = connection
        self.loader = EarlierLoader(connection)
        self.recorder = MigrationRecorder(connection)
        self.progress_callback = progress_callback


def is_amid(names: Collection[Name]) -> bool:
    """True if a database that has these migrations is in the middle of those chains."""
    return set() < earlier_names().intersection(names) < earlier_names()


def bring_to_end(connection: BaseDatabaseWrapper, *, say: Callable[[str], object]) -> None:
    """Apply what a database in the middle of those chains has not had of them; others stay as they are.

    Each migration is a transaction of its own that is recorded with it: whoever was interrupted calls it again.
    """
    if not is_amid(MigrationRecorder(connection).applied_migrations()):
        return
    say("The database is of an earlier version; it goes through that one's migrations first.")
    executor = EarlierExecutor(connection)
    executor.migrate([name for name in executor.loader.graph.leaf_nodes() if name in earlier_names()])
