"""A migrated database is kept beside the environment, of one set of migrations, and new data folders begin with it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.utils import ConnectionHandler

from dashboard.core.migrated_database import copy_into, is_new, keep, template_file


def handler(folder: Path) -> ConnectionHandler:
    return ConnectionHandler({
        name: {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / name),
               "OPTIONS": {"init_command": "PRAGMA journal_mode=WAL"}} for name in ("default", "other")})


@pytest.mark.django_db
def test_a_new_database_becomes_a_copy_of_what_was_kept(tmp_path: Path) -> None:
    databases, template = handler(tmp_path), tmp_path / "template" / "now.sqlite3"
    made, new = databases["default"], databases["other"]
    assert is_new(made) and is_new(new)
    made.cursor().execute("CREATE TABLE tasks AS SELECT 7 AS number")
    keep(made, template)
    (template.parent / "earlier.sqlite3").touch()
    keep(made, template)
    assert [path.name for path in template.parent.iterdir()] == ["now.sqlite3"], "those of other migrations go"
    assert copy_into(new, template) and not is_new(new)
    assert new.cursor().execute("SELECT number FROM tasks").fetchall() == [(7,)]
    new.cursor().execute("DELETE FROM tasks")
    new.close()
    assert made.cursor().execute("SELECT number FROM tasks").fetchall() == [(7,)]
    made.close()


@pytest.mark.django_db
def test_what_cannot_be_kept_or_copied_is_migrated(tmp_path: Path) -> None:
    new = handler(tmp_path)["default"]
    (tmp_path / "no-folder").touch()
    keep(new, tmp_path / "no-folder" / "now.sqlite3")
    assert not copy_into(new, tmp_path / "gone.sqlite3") and is_new(new)
    new.close()
    assert not is_new(connection), "the tests' own has tables"


def test_the_file_is_of_one_set_of_migrations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))  # as in a virtual environment
    (tmp_path / "changes.py").write_text("class Migration: pass")
    monkeypatch.syspath_prepend(str(tmp_path))
    import changes  # as a migration's module

    now = SimpleNamespace(disk_migrations={("bills", "0001"): changes.Migration()})
    before = template_file(now, prefix=tmp_path)
    assert before == template_file(now, prefix=tmp_path)
    assert before not in (
        template_file(SimpleNamespace(disk_migrations={}), prefix=tmp_path),
        template_file(MigrationLoader(None), prefix=tmp_path))
    (tmp_path / "changes.py").write_text("class Migration: atomic = False")
    assert template_file(now, prefix=tmp_path) != before
    monkeypatch.setattr(sys, "base_prefix", sys.prefix)
    assert template_file(now) is None
