"""A migrated SQLite file, kept beside the environment: a new data folder starts from a copy of it.

Migrating an empty database takes longer than all else that a first start does of the site's. The file is of one set of
migrations: with another one, in whatever application, it is made anew by the first start that migrates.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from contextlib import suppress
from inspect import getsourcefile
from pathlib import Path

from django import get_version
from django.apps import apps
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader


def is_new(connection: BaseDatabaseWrapper) -> bool:
    """True if this is an SQLite file in which nothing is yet."""
    return connection.vendor == "sqlite" and not connection.is_in_memory_db() and not (
        connection.introspection.table_names())


def template_file(loader: MigrationLoader, *, prefix: Path = Path(sys.prefix)) -> Path | None:
    """The place of the migrated file of these migrations, present or not; None outside a virtual environment."""
    if sys.prefix == sys.base_prefix:
        return None
    digest = hashlib.sha256(f"{get_version()} {sorted(apps.app_configs)}".encode())
    for name, migration in sorted(loader.disk_migrations.items()):
        source = getsourcefile(type(migration))
        digest.update(f"\0{name}\0".encode() + (Path(source).read_bytes() if source else b""))
    return prefix / "databases" / f"{digest.hexdigest()[:24]}.sqlite3"


def copy_into(connection: BaseDatabaseWrapper, template: Path) -> bool:
    """Let a new database be a copy of the template; whether it is. Nothing else may have it open."""
    database_path = Path(connection.settings_dict["NAME"])
    connection.close()  # with the last connection its log goes, too
    try:
        _copy(template, database_path)
    except OSError:  # it is gone, or the disk is full: migrating says so, or works
        return False
    return True


def keep(connection: BaseDatabaseWrapper, template: Path) -> None:
    """Keep a database that was just migrated, before anything is in it, in place of those of other migrations."""
    connection.close()
    keep_file(Path(connection.settings_dict["NAME"]), template)


def keep_file(migrated: Path, template: Path) -> None:
    """Keep a migrated file that nothing has open, in place of those of other migrations."""
    with suppress(OSError):  # the environment is another user's: each start migrates then
        template.parent.mkdir(exist_ok=True)
        _copy(migrated, template)
        for other_file in template.parent.glob("*.sqlite3"):
            if other_file != template:
                other_file.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    """Copy a file so that the target is whole or as before, whenever this is killed."""
    new = target.with_name(f"{target.name}.{os.getpid()}.new")
    try:
        shutil.copyfile(source, new)
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)
