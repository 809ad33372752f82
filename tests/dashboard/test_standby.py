"""The database's primary ends while the site uses it, and its standby goes on with all that was stored."""

from __future__ import annotations

import time

import dj_database_url
import pytest
from django.db import Error, transaction
from django.db.utils import ConnectionHandler

from dashboard.config.environment import Environment
from dashboard.core.http_errors import as_weir_error, http_status
from tests.postgresql import with_standby


def database_of(url: str) -> dict:
    return dict(dj_database_url.parse(
        Environment({"DATABASE_URL": url}).database_url(), conn_max_age=60, conn_health_checks=True))


@pytest.mark.parametrize("url", ["", "sqlite:////tmp/weir.sqlite3", "postgres://u:p@h:5432/weir?sslmode=require"])
def test_the_address_of_one_database_stays_what_it_was(url):
    assert Environment({"DATABASE_URL": url}).database_url() == url


def test_of_several_servers_the_one_that_takes_writes_is_found():
    read = database_of("postgres://u:p%40@h1,h2:5433/weir?connect_timeout=9")
    assert (read["HOST"], read["PORT"], read["NAME"], read["PASSWORD"]) == ("h1,h2", "", "weir", "p@")
    assert read["OPTIONS"].items() >= {
        "port": "5432,5433", "target_session_attrs": "read-write", "connect_timeout": 9}.items()


def test_what_was_stored_outlives_the_primary_and_what_was_not_is_told(django_db_blocker):
    with with_standby() as (url, standby), django_db_blocker.unblock():
        handler = ConnectionHandler({"default": database_of(url)})
        connection, stored, answers = handler["default"], [], set()

        def store(number: int, *, then=lambda: None) -> bool:
            """One request: as Django begins it, a transaction, and what its failure is answered with."""
            connection.close_if_unusable_or_obsolete()
            try:
                with transaction.Atomic("default", savepoint=True, durable=False), connection.cursor() as cursor:
                    cursor.execute("INSERT INTO kept VALUES (%s)", [number])
                    then()
            except Error as error:
                answers.add((as_weir_error(error).code, int(http_status(as_weir_error(error)))))
                return False
            stored.append(number)
            return True

        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE kept (number int)")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("django.db.transaction.get_connection", lambda using=None: connection)
            assert all(store(number) for number in range(20))
            assert not store(20, then=standby.kill_primary)  # a task that dies in the middle
            lost = time.monotonic()
            assert not store(21)  # the standby takes nothing yet
            promoting = time.monotonic()
            standby.promote()
            promoted = time.monotonic()
            deadline = promoted + 180
            while not store(22):
                assert time.monotonic() < deadline
        back = time.monotonic()
        print(f"promoted {promoting - lost:.2f} s after the loss, which took {promoted - promoting:.2f} s; "
              f"{back - promoted:.2f} s after that a request was stored")
        assert answers == {("database_away", 503)}
        with connection.cursor() as cursor:
            cursor.execute("SELECT number FROM kept ORDER BY number")
            assert [number for number, in cursor.fetchall()] == stored
        connection.close()
