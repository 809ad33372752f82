"""A full disk is named as that, whatever meets it, and nothing is changed."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

import psycopg.errors
import pytest
import redis
from django.db.utils import DatabaseError, OperationalError
from django.test import Client

from dashboard.catalog.models import DataflowRecord
from dashboard.core.http_errors import as_weir_error, http_status, is_disk_full
from tests.dashboard.building import World, document
from workers.engine.spark.failure_messages import DISK_IS_FULL, Cause, explain, explain_error


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("error", [
    OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EDQUOT, "Disk quota exceeded"),
    sqlite3.OperationalError("database or disk is full"), OperationalError("database or disk is full"),
    caused(DatabaseError("could not extend file"), psycopg.errors.DiskFull()),
    redis.ResponseError("MISCONF Redis is configured to save RDB snapshots, but it is unable to persist to disk."),
], ids=lambda error: type(error).__name__)
def test_a_full_disk_is_named(error: Exception) -> None:
    wrong = as_weir_error(error)
    assert (wrong.code, http_status(wrong)) == ("disk_full", 507)
    assert wrong.remedy


def test_other_errors_are_not_a_full_disk() -> None:
    for error in (OSError(errno.EACCES, "no"), OperationalError("database is locked"), ValueError("disk"), None):
        assert not is_disk_full(error)


def really_full(*_: object, **__: object) -> None:
    """A write that the kernel refuses for lack of space."""
    with open("/dev/full", "w") as file:
        file.write("x")
        file.flush()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_submission_to_a_full_disk_is_told_and_stores_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(world.carla, backend="dashboard.teams.logins.ThrottledBackend")
    monkeypatch.setattr(DataflowRecord, "save", really_full)
    answer = client.post(
        "/api/dataflows", {"team": "city", "text": document("traffic"), "format": "json"},
        content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (507, "disk_full"), answer.content
    page = client.post("/dataflows/new", {"team": "city", "text": document("traffic"), "format": "json"})
    assert page.status_code == 507 and "disk_full" in page.text
    assert not DataflowRecord.objects.exists()


def test_a_query_that_meets_a_full_disk_says_so() -> None:
    causes = [Cause("org.apache.spark.SparkException", "Job aborted"),
              Cause("java.io.IOException", "No space left on device")]
    assert str(explain(causes, [])) == DISK_IS_FULL
    assert str(explain_error(OSError(errno.ENOSPC, "No space left on device"))) == DISK_IS_FULL
