"""The site's database as it is at one moment: SQLite through its backup interface, PostgreSQL through COPY.

Sessions are left out: with one of a back-up anybody could be logged in.
"""

from __future__ import annotations

import json
import re
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from workers.launcher.state_folder import ROOT, CannotStart

from . import backup_layout

SESSIONS = "django_session"
PAGES_AT_ONCE = 4096
Migrations = dict[str, list[str]]


class DatabaseSnapshot(Protocol):
    """A database held at one moment, to be copied later."""

    kind: str

    def copy(self, folder: Path, *, progress: Callable[[float], None]) -> None:
        """Write what was there at that moment into a folder; ``progress`` is told the part that is done."""

    def migrations(self) -> Migrations:
        """The migrations that it had, by app."""


class _SqliteReading:
    kind = "sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def copy(self, folder: Path, *, progress: Callable[[float], None]) -> None:
        """Page by page; the reading's transaction keeps what others write out of it."""
        path = folder / backup_layout.DATABASE
        with closing(sqlite3.connect(path, isolation_level=None)) as target:
            self._connection.backup(
                target, pages=PAGES_AT_ONCE,
                progress=lambda _, remaining_pages, pages: progress(1.0 - remaining_pages / pages if pages else 1.0))
            target.execute("PRAGMA journal_mode=DELETE")
            if target.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (SESSIONS,)).fetchone():
                target.execute("PRAGMA secure_delete=ON")
                target.execute(f"DELETE FROM {SESSIONS}")
            [[verdict]] = target.execute("PRAGMA quick_check(1)").fetchall()
            if verdict != "ok":
                raise CannotStart(f"The copy of the database is damaged ({verdict}): check the database itself.")

    def migrations(self) -> Migrations:
        """From Django's own table."""
        return _by_app(self._connection.execute("SELECT app, name FROM django_migrations ORDER BY id").fetchall())


class _PostgresqlReading:
    kind = "postgresql"

    def __init__(self, connection: object) -> None:
        self._connection = connection

    def copy(self, folder: Path, *, progress: Callable[[float], None]) -> None:
        """Each table into a file of its own, in PostgreSQL's text format, and what columns these have."""
        from psycopg import sql

        folder = folder / backup_layout.TABLES
        folder.mkdir(parents=True, exist_ok=True)
        with self._connection.cursor() as cursor:
            cursor.execute(
                "SELECT table_name, array_agg(column_name::text ORDER BY ordinal_position) "
                "FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name) "
                "WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' AND is_generated = 'NEVER' "
                "GROUP BY table_name ORDER BY table_name")
            columns = {table: names for table, names in cursor.fetchall() if table != SESSIONS}
            for done, (table, names) in enumerate(columns.items()):
                progress(done / len(columns))
                statement = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT").format(
                    sql.SQL(", ").join(map(sql.Identifier, names)), sql.Identifier(table))
                with (folder / f"{table}.copy").open("wb") as file, cursor.copy(statement) as rows:
                    for block in rows:
                        file.write(block)
        (folder / "tables.json").write_text(json.dumps(columns, indent=1))

    def migrations(self) -> Migrations:
        """From Django's own table."""
        return _by_app(self._connection.execute("SELECT app, name FROM django_migrations ORDER BY id").fetchall())


@contextmanager
def read(url: str, data_dir: Path) -> Iterator[DatabaseSnapshot]:
    """Hold the database as it is now, for as long as the context lasts; those who write are not kept waiting.

    Parameters
    ----------
    url : str
        ``DATABASE_URL``; empty for the SQLite file of the data folder.
    """
    if is_postgresql(url):
        with _postgresql(url) as connection:
            yield _PostgresqlReading(connection)
        return
    with closing(sqlite3.connect(sqlite_path(url, data_dir), isolation_level=None, timeout=20)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # only a read makes it a moment
        yield _SqliteReading(connection)


def check_is_there(url: str, data_dir: Path) -> None:
    """Refuse if there is no database of that system. Call it before anything else in the folder is touched."""
    if not is_postgresql(url) and not (path := sqlite_path(url, data_dir)).is_file():
        raise CannotStart(f"There is no database {path}: nothing was started there yet. Name another with --data-dir.")


@contextmanager
def _postgresql(url: str) -> Iterator[object]:
    import psycopg

    try:
        connection = psycopg.connect(url)
    except psycopg.Error as error:
        raise CannotStart(f"DATABASE_URL names a database that does not answer: {str(error).strip()}") from None
    with closing(connection):
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        connection.execute("SELECT 1")
        yield connection


def is_postgresql(url: str) -> bool:
    """True where ``DATABASE_URL`` names PostgreSQL."""
    return urlsplit(url).scheme in ("postgres", "postgresql", "pgsql")


def sqlite_path(url: str, data_dir: Path) -> Path:
    """The file of an SQLite database.

    Raises
    ------
    CannotStart
        ``DATABASE_URL`` names a database of another kind.
    """
    if not url:
        return data_dir / backup_layout.DATABASE
    parts = urlsplit(url)
    if parts.scheme != "sqlite":
        raise CannotStart(f"DATABASE_URL names a database of {parts.scheme}: SQLite's and PostgreSQL's are copied.")
    return Path(parts.path.removeprefix("/") if parts.path.startswith("//") else parts.path)


def known_migrations() -> Migrations:
    """The migrations that this version of Weir has or had, by app, from the names of its files."""
    with zipfile.ZipFile(ROOT / "dashboard" / "commands" / "earlier_migrations.zip") as earlier:
        had = [Path(name) for name in earlier.namelist()]
    by_app: dict[str, set[str]] = {}
    for path in (*had, *(path.parents[1] / path.name for path in (ROOT / "dashboard").glob("*/migrations/*.py"))):
        if re.match(r"\d{4}_", path.name):
            by_app.setdefault(path.parent.name, set()).add(path.stem)
    return {app: sorted(names) for app, names in by_app.items()}


def newer_migrations(migrations: Migrations) -> list[str]:
    """Migrations of Weir's own apps that this version does not know: those of a later one."""
    by_app = known_migrations()
    apps = {path.name for path in (ROOT / "dashboard").iterdir() if path.is_dir()} | set(by_app)
    # Django's own apps, and those of an app that Weir no longer has, say nothing of its version.
    return sorted(
        f"{app}.{name}" for app, names in migrations.items() if app in apps for name in names
        if name not in by_app.get(app, ()))


def _by_app(rows: list[tuple[str, str]]) -> Migrations:
    by_app: Migrations = {}
    for app, name in rows:
        by_app.setdefault(app, []).append(name)
    return by_app
