"""The database does not grow for ever: months of the trail go to files, old details go, and the file shrinks."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.utils import timezone

from dashboard.audit import audit_archive
from dashboard.audit.audit_archive import ARCHIVED, archive_month, archive_months
from dashboard.audit.models import AuditEntry
from dashboard.bills.models import SUMMED, UsageHour
from dashboard.bills.periods import Period
from dashboard.bills.rollup import roll_up_days
from dashboard.bills.selectors import cost_history
from dashboard.config.environment import ROOT
from dashboard.core.ended_sessions import drop_ended_sessions
from dashboard.profiles.models import SweepRecord, TrialRecord
from dashboard.profiles.services.trial_retention import forget_series
from dashboard.tasks import tidying
from dashboard.teams.permissions import viewer_of
from tests.dashboard.building import World, document, running

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
JANUARY, FEBRUARY, MARCH = (datetime(2024, month, 1, tzinfo=UTC) for month in (1, 2, 3))

# -- the audit trail ---------------------------------------------------------------------------------------------------


@pytest.fixture
def trail(world: World, settings, tmp_path: Path) -> list[AuditEntry]:
    """Entries of January, February and today, oldest first; files go to a folder of the test's own."""
    settings.DATA_DIR = tmp_path
    moments = [JANUARY, JANUARY + timedelta(days=30, hours=23), FEBRUARY, FEBRUARY + timedelta(days=20), timezone.now()]
    entries = [
        AuditEntry(actor=world.ana, verb="proposal.approve", subject_type="proposal", subject_id=str(number),
                   team=world.city, details={"comment": "Straße \u2028 ok"}) for number in range(len(moments))]
    for entry, at in zip(entries, moments, strict=True):
        entry.save()
        QuerySet(AuditEntry).filter(pk=entry.pk).update(at=at)
    return entries


def months(folder: Path) -> dict[str, list[dict]]:
    return {
        path.name: [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().split("\n") if line]
        for path in sorted(folder.glob("audit/*"))}


def test_months_that_are_old_enough_go_to_files_and_leave_an_entry_each(trail, settings, tmp_path) -> None:
    settings.AUDIT_KEEP_DAYS = 730
    before = AuditEntry.objects.count()
    assert archive_months(FEBRUARY + timedelta(days=730)) == 2, "January is over for two years"
    assert archive_months(MARCH + timedelta(days=729)) == 0, "February is not"
    assert archive_months(MARCH + timedelta(days=730)) == 2
    files = months(tmp_path)
    assert list(files) == ["2024-01.jsonl.gz", "2024-02.jsonl.gz"]
    assert [line["subject_id"] for line in files["2024-01.jsonl.gz"]] == ["0", "1"]
    assert files["2024-02.jsonl.gz"][0] == {
        "id": trail[2].pk, "at": FEBRUARY.isoformat(), "actor": "ana", "verb": "proposal.approve",
        "subject_type": "proposal", "subject_id": "2", "team": "city", "details": {"comment": "Straße \u2028 ok"}}
    left = AuditEntry.objects.filter(pk__in=[entry.pk for entry in trail])
    assert [entry.subject_id for entry in left] == ["4"]
    notes = list(AuditEntry.objects.filter(verb=ARCHIVED).order_by("id"))
    assert AuditEntry.objects.count() == before - 4 + 2
    for note, name in zip(notes, files, strict=True):
        digest = hashlib.sha256((tmp_path / "audit" / name).read_bytes()).hexdigest()
        assert (note.details["file"], note.details["sha256"], note.details["entries"]) == (name, digest, 2)
    assert [note.details["first"] for note in notes] == [trail[0].pk, trail[2].pk]


def test_nothing_is_archived_where_the_database_is_to_keep_all(trail, settings) -> None:
    settings.AUDIT_KEEP_DAYS = 0
    assert archive_months(NOW + timedelta(days=10_000)) == 0


@pytest.mark.parametrize("step", ["fsync", "replace", "_raw_delete", "audited"])
def test_an_end_at_any_step_leaves_each_entry_in_the_trail_or_in_the_file(trail, tmp_path, monkeypatch, step) -> None:
    def end(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        owner = {"fsync": audit_archive.os, "replace": Path, "_raw_delete": QuerySet, "audited": audit_archive}[step]
        patch.setattr(owner, step, end)
        archive_month(JANUARY)
    assert AuditEntry.objects.filter(at__lt=FEBRUARY).count() == 2
    assert archive_month(JANUARY) == 2
    assert [line["id"] for line in months(tmp_path)["2024-01.jsonl.gz"]] == [trail[0].pk, trail[1].pk]
    assert archive_month(JANUARY) == 0
    assert [path.name for path in (tmp_path / "audit").iterdir()] == ["2024-01.jsonl.gz"]


def test_a_file_is_never_written_over_what_only_it_holds(trail, world, tmp_path) -> None:
    assert archive_month(JANUARY) == 2
    late = AuditEntry.objects.create(verb="late", subject_type="team", subject_id="1")
    QuerySet(AuditEntry).filter(pk=late.pk).update(at=JANUARY + timedelta(days=5))
    assert archive_month(JANUARY) == 1
    assert [line["id"] for line in months(tmp_path)["2024-01.jsonl.gz"]] == [trail[0].pk, trail[1].pk, late.pk]


def test_the_trail_stays_append_only_for_everybody_else(trail) -> None:
    for change in (AuditEntry.objects.all().delete, trail[0].delete, lambda: AuditEntry.objects.update(verb="x")):
        with pytest.raises(TypeError):
            change()


# -- charges -----------------------------------------------------------------------------------------------------------


def test_old_hours_become_days_and_no_bill_changes(world: World) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    old = datetime(2026, 3, 1, tzinfo=UTC)
    for hour in range(24 * 3):
        for fingerprint in ("a", "b"):
            UsageHour.objects.create(
                hour=old + timedelta(hours=hour), dataflow=record, fingerprint=fingerprint,
                **{name: hour * 7 + number for number, name in enumerate(SUMMED)})
    UsageHour.objects.create(hour=old + timedelta(hours=5), cost_nanos=11)  # nobody's
    UsageHour.objects.create(hour=NOW, dataflow=record, fingerprint="a", cost_nanos=13)

    def sums() -> list[dict]:
        return [
            dict(row) for day in range(3)
            for row in UsageHour.objects.filter(
                hour__gte=old + timedelta(days=day), hour__lt=old + timedelta(days=day + 1)).order_by(
                "dataflow", "fingerprint").values("dataflow", "fingerprint", *SUMMED)]

    def totals() -> dict[tuple, int]:
        rows: dict[tuple, int] = {}
        for number, row in enumerate(sums()):
            del number
            for name in SUMMED:
                key = (row["dataflow"], row["fingerprint"], name)
                rows[key] = rows.get(key, 0) + row[name]
        return rows

    before, period = totals(), Period("custom", old, old + timedelta(days=3))
    history = cost_history(viewer_of(world.ana), period)
    assert roll_up_days(old + timedelta(days=36)) == 2 * 23, "one day is over for long enough"
    assert roll_up_days(NOW) == 2 * 2 * 23
    assert roll_up_days(NOW) == 0
    assert totals() == before and UsageHour.objects.count() == 3 * 2 + 2
    assert cost_history(viewer_of(world.ana), period) == history
    one_day = cost_history(viewer_of(world.ana), Period("custom", old, old + timedelta(days=1)))
    assert one_day["at"] == [old.isoformat()]


# -- trials and sessions -----------------------------------------------------------------------------------------------


def test_series_of_old_trials_go_and_what_they_found_stays(world: World, settings) -> None:
    sweep = SweepRecord.objects.create(
        task_type="pi_viete", config="{}", version=1, feed=[], slot="n1/0", bounds={}, warm_up_s=1, seconds=1,
        author=world.ana)
    trials = [
        TrialRecord.objects.create(
            sweep=sweep, number=number, threads=1, rate_per_s=10.0, why="", ended=ended, stable=True, cpu=0.5,
            series=[[0.0, 1.0, 2.0, 0.1, 0.1]], batches=[[1, 2, 3, 4, 5]])
        for number, ended in enumerate((NOW - timedelta(days=91), NOW - timedelta(days=89), None))]
    settings.TRIALS_KEEP_DAYS = 0
    assert forget_series(NOW) == 0
    settings.TRIALS_KEEP_DAYS = 90
    assert (forget_series(NOW), forget_series(NOW)) == (1, 0)
    for trial in trials:
        trial.refresh_from_db()
    assert [len(trial.series) + len(trial.batches) for trial in trials] == [0, 2, 2]
    assert trials[0].stable and trials[0].cpu == 0.5


def test_sessions_that_have_ended_go(db) -> None:
    for name, days in (("old", -1), ("new", 1)):
        Session.objects.create(session_key=name, session_data="", expire_date=NOW + timedelta(days=days))
    assert drop_ended_sessions(NOW) == 1
    assert [session.session_key for session in Session.objects.all()] == ["new"]


def test_one_step_that_fails_keeps_no_other_away(db, monkeypatch) -> None:
    def full(at: datetime) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tidying, "STEPS", (full, drop_ended_sessions))
    assert tidying.tidy() == {"drop_ended_sessions": 0}


# -- the file ----------------------------------------------------------------------------------------------------------

SHRINK = """
import django
django.setup()
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from dashboard.core.database import give_back_space
call_command("migrate", verbosity=0)
with connection.cursor() as cursor:
    cursor.execute("CREATE TABLE filler (content text)")
    cursor.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) "
                   "INSERT INTO filler SELECT hex(randomblob(2000)) FROM n")
    cursor.execute("DELETE FROM filler")
print(give_back_space(timezone.now()))
"""


def in_a_process(data: Path, script: str) -> str:
    variables = {name: value for name, value in os.environ.items() if name not in ("REDIS_URL", "DATABASE_URL")}
    return subprocess.run(
        (sys.executable, "-P", "-c", script), capture_output=True, text=True, check=True, cwd=ROOT,
        env={**variables, "WEIR_DATA_DIR": str(data), "PYTHONPATH": str(ROOT),
             "DJANGO_SETTINGS_MODULE": "dashboard.config.settings"}).stdout


@pytest.mark.parametrize("was_there", [pytest.param(False, marks=pytest.mark.long), True], ids=["new", "earlier"])
def test_the_database_file_shrinks_when_rows_go(tmp_path, migrated_file, was_there) -> None:
    database = tmp_path / "weir.sqlite3"
    if was_there:
        shutil.copyfile(migrated_file, database)
        with sqlite3.connect(database) as earlier:
            earlier.execute("PRAGMA journal_mode=WAL")
            earlier.execute("PRAGMA auto_vacuum=NONE")
            earlier.execute("VACUUM")
            assert earlier.execute("PRAGMA auto_vacuum").fetchone() == (0,)
            earlier.execute("CREATE TABLE kept (content text)")
            earlier.execute("INSERT INTO kept VALUES ('here')")
    assert int(in_a_process(tmp_path, SHRINK)) > 1_000
    with sqlite3.connect(database) as now:
        assert now.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        assert now.execute("PRAGMA freelist_count").fetchone()[0] < 500
        if was_there:
            assert now.execute("SELECT content FROM kept").fetchone() == ("here",)
    assert database.stat().st_size < 4_000_000


def test_who_connects_and_reads_waits_for_no_writer(tmp_path, settings) -> None:
    database, options = tmp_path / "weir.sqlite3", settings.DATABASES["default"].get("OPTIONS", {})
    with closing(sqlite3.connect(database, isolation_level=None)) as writer:
        writer.executescript(f"{options.get('init_command', '')} CREATE TABLE kept (content text); BEGIN IMMEDIATE")
        with closing(sqlite3.connect(database, isolation_level=None, timeout=0)) as reader:
            for command in options.get("init_command", "").split(";"):
                reader.execute(command)
            assert reader.execute("SELECT count(*) FROM kept").fetchone() == (0,)
