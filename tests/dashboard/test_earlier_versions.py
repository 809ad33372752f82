"""Databases of earlier versions, wherever they are in the chains of migrations that were, become as new ones are."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tarfile
from contextlib import closing
from pathlib import Path

import pytest
from django.db.migrations.loader import MigrationLoader

from dashboard.commands.earlier import earlier_names, is_amid
from tests.postgresql import cluster
from workers.launcher.backup import held_database
from workers.launcher.state_folder import ROOT

AF0FDCB = Path(__file__).parents[1] / "launcher" / "state_af0fdcb.tar.xz"
SET_UP = """
import sys
import django
django.setup()
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from dashboard.commands.earlier import EarlierExecutor
from dashboard.commands.management.commands.restore_database import make_tables
"""
UP_TO = SET_UP + """
executor = EarlierExecutor(connection)
plan = executor.migration_plan(executor.loader.graph.leaf_nodes(), clean_start=True)
executor.migrate(None, plan=plan[:int(len(plan) * float(sys.argv[1]))])
"""
# Rows of two moments on the way, and on to now: each way through the chains takes long.
WITH_ROWS = SET_UP + """
def models_of(*at):
    executor = EarlierExecutor(connection)
    executor.migrate(list(at))
    return EarlierExecutor(connection).loader.project_state(at).apps.get_model

get_model = models_of(("teams", "0004_when_behind"), ("profiles", "0005_code_and_what_was_fed"))
for mode in ("off", "recommends", "acts"):
    get_model("teams", "Team").objects.create(slug=mode, name=mode, defragmentation=mode)
user = get_model("teams", "User").objects.create(username="carla")
sweep = get_model("profiles", "SweepRecord").objects.create(
    task_type="pi_viete", config="{}", version=1, feed=[], slot="n1/0", bounds={}, warm_up_s=1, seconds=1, author=user)
errors = ("Not stable, and set aside when the sweep was tried again.", "No column x.", "")
for number, error in enumerate(errors):
    get_model("profiles", "TrialRecord").objects.create(
        sweep=sweep, number=number, threads=1, rate_per_s=1, why="", error=error, stable=None if error else True,
        ended=timezone.now())

get_model = models_of(("operations", "0026_unlimited"), ("controllers", "0003_changes_that_are_no_plans"))
now = timezone.now()
fragments, paces = (get_model("operations", name).objects for name in ("FragmentRow", "FragmentPace"))
for name in ("f1-0", "f1-1"):
    fragments.create(id=name, tasks=["a"], slot="n1/0", active=1, started_generation=1)
for name, real_time in (("f1-0", True), ("gone", False)):
    paces.create(fragment=name, trigger_ms=20, since=now, real_time=real_time, cost={"batch_s": 0.1}, refusal="no")
rounds = get_model("controllers", "RoundRow").objects
for key, controller, carried, asked, ended in (
        ("1", "open_batches", None, now, None), ("2", "open_batches", now, None, None),
        ("3", "open_batches", now, None, now), ("4", "chaining", None, now, None), ("5", "chaining", None, None, None)):
    rounds.create(
        key=key, controller=controller, target="x", mode="acts", phase="kept" if ended else "asked", decision={},
        begun=now, carried=carried, asked=asked, ended=ended)
call_command("migrate", interactive=False, verbosity=0)
"""
MIGRATE = SET_UP + "call_command('migrate', interactive=False, verbosity=0)"
AS_A_BACKUP = SET_UP + """
executor = EarlierExecutor(connection)
plan = executor.migration_plan(executor.loader.graph.leaf_nodes(), clean_start=True)
make_tables({(step.app_label, step.name) for step, _ in plan[:int(len(plan) * float(sys.argv[1]))]})
"""
CATALOG = """
SELECT 'column', table_name, column_name, data_type, character_maximum_length::text, is_nullable, column_default
FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL SELECT 'index', tablename, indexname, indexdef, '', '', '' FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid), '', '', ''
FROM pg_constraint WHERE connamespace = 'public'::regnamespace
"""


def in_a_process(data: Path, script: str, *arguments: str, url: str = "") -> str:
    variables = {name: value for name, value in os.environ.items() if name not in ("REDIS_URL", "DATABASE_URL")}
    done = subprocess.run(
        (sys.executable, "-P", "-c", script, *arguments), capture_output=True, text=True, cwd=ROOT,
        env={**variables, "WEIR_DATA_DIR": str(data), "PYTHONPATH": str(ROOT), **({"DATABASE_URL": url} if url else {}),
             "DJANGO_SETTINGS_MODULE": "dashboard.config.settings"})
    assert done.returncode == 0, done.stderr
    return done.stdout


def schema(path: Path) -> dict[str, object]:
    """What SQLite was told of each table and index; columns and constraints in the order of their names."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,), "the file can shrink"
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {name: parts_of(sql) for name, sql in rows if not name.startswith("sqlite_")}


def parts_of(sql: str) -> tuple[str, list[str]]:
    """What stands before and behind a statement's outer brackets, and between the commas in them."""
    head, _, rest = sql.partition("(")
    body, _, tail = rest.rpartition(")")
    parts, depth = [""], 0
    for letter in body:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return head + tail, sorted(part.strip() for part in parts)


def count(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def test_every_migration_that_was_replaced_is_kept_and_known_to_back_ups() -> None:
    present = MigrationLoader(None).disk_migrations
    replaced = {name for migration in present.values() for name in migration.replaces}
    assert replaced == earlier_names() - set(present)
    by_app = held_database.known_migrations()
    assert earlier_names() | {name for name in present if name[0] in by_app} == {
        (app, name) for app, names in by_app.items() for name in names}


def test_only_a_database_in_the_middle_of_the_chains_needs_them() -> None:
    names = earlier_names()
    assert is_amid({("teams", "0001_initial"), ("auth", "0001_initial")})
    assert is_amid(names - {("alerts", "0001_initial")})
    for others in (set(), {("auth", "0001_initial")}, names, {*names, ("teams", "0001_squashed_0006_freshness")}):
        assert not is_amid(others)


@pytest.mark.long  # the database that had rows on its way goes through all chains, too
def test_a_database_of_af0fdcb_becomes_as_a_new_one_is_and_keeps_its_rows(tmp_path: Path, migrated_file: Path) -> None:
    with tarfile.open(AF0FDCB) as archive:
        archive.extract("./weir.sqlite3", tmp_path, filter="data")
    path = tmp_path / "weir.sqlite3"
    tables = ("catalog_dataflowrecord", "plans_planrecord", "approvals_proposal", "operations_use", "audit_auditentry")
    before = {table: count(path, table) for table in tables}
    in_a_process(tmp_path, MIGRATE)
    assert schema(path) == schema(migrated_file)
    assert {table: count(path, table) for table in tables} == before
    assert all(before.values())


@pytest.mark.long  # that of af0fdcb begins in the middle, too
@pytest.mark.parametrize("part", [0.02, 0.6, 1.0])
def test_so_does_one_that_was_left_anywhere(tmp_path: Path, migrated_file: Path, part: float) -> None:
    in_a_process(tmp_path, UP_TO, str(part))
    in_a_process(tmp_path, MIGRATE)
    assert schema(tmp_path / "weir.sqlite3") == schema(migrated_file)


@pytest.fixture(scope="module")
def carried(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that had rows at two moments on its way."""
    folder = tmp_path_factory.mktemp("carried")
    in_a_process(folder, WITH_ROWS)
    return folder / "weir.sqlite3"


def test_what_rows_meant_then_is_carried_over(carried: Path, migrated_file: Path) -> None:
    assert schema(carried) == schema(migrated_file)
    with closing(sqlite3.connect(carried)) as connection:
        chosen = connection.execute(
            "SELECT slug, mode FROM controllers_controllersettings JOIN teams_team ON teams_team.id = team_id "
            "WHERE controller = 'defragmentation' ORDER BY slug").fetchall()
        trials = connection.execute(
            "SELECT stable, set_aside, error FROM profiles_trialrecord ORDER BY number").fetchall()
    assert chosen == [("acts", "acts"), ("off", "off")], "what a team left as it was needs no row"
    assert trials == [(0, 1, ""), (None, 0, "No column x."), (1, 0, "")]


def test_settings_come_to_their_fragments_and_rounds_that_asked_in_another_way_end(carried: Path) -> None:
    with closing(sqlite3.connect(carried)) as connection:
        fragments = connection.execute(
            "SELECT id, trigger_ms, real_time FROM operations_fragmentrow ORDER BY id").fetchall()
        figures = connection.execute("SELECT fragment_id, cost, refusal FROM operations_batchfigures").fetchall()
        rounds = connection.execute(
            "SELECT key, phase, ended IS NOT NULL FROM controllers_roundrow ORDER BY key").fetchall()
    assert fragments == [("f1-0", 20, 1), ("f1-1", None, 0)]
    assert figures == [("f1-0", '{"batch_s": 0.1}', "no")]
    assert rounds == [
        ("1", "declined", 1), ("2", "unchecked", 1), ("3", "kept", 1), ("4", "declined", 1), ("5", "asked", 0)]


@pytest.mark.long
@pytest.mark.parametrize("part", [0.5, 1.0])
def test_so_it_is_on_postgresql_where_a_back_up_is_restored(tmp_path: Path, part: float) -> None:
    import psycopg

    catalogs = []
    with cluster() as first, cluster() as second:
        in_a_process(tmp_path, AS_A_BACKUP, str(part), url=first)
        for url in (first, second):
            in_a_process(tmp_path, MIGRATE, url=url)
            with psycopg.connect(url) as connection:
                catalogs.append(set(connection.execute(CATALOG).fetchall()))
    assert catalogs[0] == catalogs[1]
