"""Who waits for other writers longer than is bounded is told so, and nothing is a defect."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg.errors
import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.db import connection
from django.db.utils import OperationalError
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from dashboard.audit.trail import audited
from dashboard.catalog.models import DataflowRecord
from dashboard.core import database
from dashboard.core.database import WriteLine, writing
from dashboard.core.http_errors import DatabaseBusy, as_weir_error, http_status
from dashboard.operations.models import EstateState
from tests.dashboard.building import World, document


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("error", [
    caused(OperationalError("database is locked"), sqlite3.OperationalError("database is locked")),
    sqlite3.OperationalError("database table is locked"),
    caused(OperationalError("canceling statement"), psycopg.errors.LockNotAvailable()),
    caused(OperationalError("deadlock detected"), psycopg.errors.DeadlockDetected()),
    caused(OperationalError("could not serialize"), psycopg.errors.SerializationFailure()),
], ids=str)
def test_a_busy_database_is_named(error: Exception):
    wrong = as_weir_error(error)
    assert (wrong.code, http_status(wrong), wrong.facts) == ("database_busy", 503, {"retry_after_s": 5})


def test_other_errors_are_not_a_busy_database():
    for error in (ValueError("database is locked"), sqlite3.OperationalError("no such table: locked")):
        assert as_weir_error(error).code == "internal_error"


def locked(*_: object, **__: object) -> None:
    """What SQLite says when a writer has waited long enough."""
    raise caused(OperationalError("database is locked"), sqlite3.OperationalError("database is locked"))


@pytest.mark.parametrize("where", [(DataflowRecord, "save"), (SessionStore, "save")], ids=["view", "middleware"])
def test_whatever_meets_it_the_answer_says_when_to_try_again(
    world: World, monkeypatch: pytest.MonkeyPatch, settings, where: tuple[type, str]
):
    settings.SESSION_SAVE_EVERY_REQUEST = True  # so that middleware writes, after the view
    client = Client(raise_request_exception=False)
    client.force_login(world.carla, backend="dashboard.teams.logins.ThrottledBackend")
    monkeypatch.setattr(*where, locked)
    for path in ("/api/dataflows", "/dataflows/new"):
        body = {"team": "city", "text": document("traffic"), "format": "json"}
        answer = client.post(path, body, **({"content_type": "application/json"} if "api" in path else {}))
        assert (answer.status_code, answer["Retry-After"]) == (503, "5"), answer.content
        assert "database_busy" in answer.text


@pytest.mark.django_db(transaction=True)
def test_a_writer_waits_no_longer_than_is_bounded_whoever_holds_the_lock(monkeypatch: pytest.MonkeyPatch):
    if connection.vendor != "sqlite":
        pytest.skip("on PostgreSQL lock_timeout bounds the wait; this is how SQLite waits")
    monkeypatch.setattr(database, "LONGEST_WAIT_S", 0.2)
    is_held, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with audited(actor=None, verb="test.hold", subject=EstateState.objects.get_or_create(pk=1)[0]):
                is_held.set()
                may_end.wait(30)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(hold)
        assert is_held.wait(30)
        with pytest.raises(DatabaseBusy), writing():
            raise AssertionError("it has no turn")
        may_end.set()
        holding.result()
        with writing():  # the next one has it
            EstateState.objects.update(generation=5)
    assert EstateState.objects.get().generation == 5


@given(st.lists(st.sampled_from(["waits", "gives up"]), min_size=1, max_size=8))
def test_turns_are_taken_in_order_and_who_gives_up_holds_nobody(kinds: list[str]):
    line, took = WriteLine(), []
    give_turn = line.take_turn(timeout_s=1)

    def wait(number: int) -> None:
        try:
            give = line.take_turn(timeout_s=30 if kinds[number] == "waits" else 0.0)
        except DatabaseBusy:
            return
        took.append(number)
        give()
        give()  # twice is once

    threads = []
    for number in range(len(kinds)):
        threads.append(threading.Thread(target=wait, args=(number,)))
        threads[-1].start()
        while threads[-1].is_alive() and (kinds[number] == "gives up" or len(line._tickets) < sum(
                kind == "waits" for kind in kinds[:number + 1])):
            pass  # it is in line before the next one comes
    give_turn()
    for thread in threads:
        thread.join(30)
    assert took == [number for number, kind in enumerate(kinds) if kind == "waits"]
    line.take_turn(timeout_s=0)()
