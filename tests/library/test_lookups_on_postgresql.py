"""Look-ups on a real PostgreSQL, by a role that may do everything: nothing in a query writes, waits or stays."""

from __future__ import annotations

import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.postgresql import cluster
from workers.library import tables
from workers.library.databases import PostgresqlDatabase, locate
from workers.library.outside import NotAnswered
from workers.library.tables import look_up, read_query

ESCAPES = [
    "select 1; commit; begin read write; insert into stations values (9, 'x'); commit; begin; select 1",
    "select 1; insert into stations values (9, 'x')", "commit; insert into stations values (9, 'x')", "commit",
    "rollback", "set statement_timeout = 0", "set session characteristics as transaction read write",
    "begin read write", "with x as (insert into stations values (9, 'x') returning id) select id from x",
    "with x as (delete from stations returning id) select id from x", "delete from stations returning id",
    "select id into copied from stations", "select id from stations for update", "drop table stations",
    "values (1); drop table stations", "select nextval('numbers')", "select setval('numbers', 99)",
    "select set_config('transaction_read_only', 'off', false)", "copy stations to program 'true'",
    "copy stations to stdout",
    "select id from stations; select writes()", "select writes()",
    "do $$ begin insert into stations values (9); end $$",
    "select query_to_xml('insert into stations values (9) returning 1', true, true, '')", "listen x", "notify x",
    "select 1 \\; insert into stations values (9, 'x')", "explain analyze delete from stations",
    "prepare p as select 1", "lock table stations",
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with cluster() as address:
        with psycopg.connect(address, autocommit=True) as made:
            made.execute("create table stations (id int, place text)")
            made.execute("insert into stations values (1, 'harbour'), (2, null), (3, '50% :x')")
            made.execute("create sequence numbers")
            made.execute("create function writes() returns int language sql as "
                         "'insert into stations values (9, null) returning id'")
        yield address


@pytest.fixture
def address(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("WEIR_DATABASE_HOSTS", psycopg.conninfo.conninfo_to_dict(server)["host"])
    assert urlsplit(server).username == "postgres"  # a superuser: the database's own rights keep nothing from it
    yield server
    for key in list(tables._open):
        tables._open.pop(key).close()


def ask(address: str, query: str, event=None, *, kinds=("string",), first=True, patience_s=5.0):
    return look_up(event or {}, location=locate(address), query=read_query(query), kinds=kinds, first=first,
                   patience_s=patience_s)


def state(server: str) -> tuple:
    with psycopg.connect(server) as looking:
        return (
            looking.execute("select array_agg(stations::text order by id) from stations").fetchone(),
            looking.execute("select last_value, is_called from numbers").fetchone(),
            looking.execute("select array_agg(relname::text order by relname) from pg_class "
                            "where relkind in ('r', 'S') and relnamespace = 'public'::regnamespace").fetchone())


@pytest.mark.parametrize("with_value", [False, True])  # without one psycopg would use the simple protocol
@pytest.mark.parametrize("query", ESCAPES)
def test_nothing_is_written(address: str, query: str, with_value: bool):
    before = state(address)
    if with_value:
        query = query.replace("select 1", "select :v::int", 1)
    with pytest.raises(NotAnswered, match="refused the query"):
        ask(address, query, {"v": 1}, kinds=("bigint",))
    assert state(address) == before
    assert ask(address, "select place from stations where id = :id", {"id": 1}) == [("harbour",)]


def test_what_a_query_sets_is_not_there_for_the_next(address: str):
    settings = ("statement_timeout", "default_transaction_read_only", "transaction_read_only", "role", "search_path")
    looked_up = "select " + " || ' ' || ".join(f"current_setting('{name}')" for name in settings)
    before = ask(address, looked_up)
    for name, value in (("statement_timeout", "0"), ("default_transaction_read_only", "off"), ("search_path", "x")):
        ask(address, f"select set_config('{name}', '{value}', false)")
        assert ask(address, looked_up) == before
    assert before[0][0].startswith("5s on on")
    assert len(tables._open) == 1, "it is the same session"


def test_what_a_query_locks_is_free_afterwards(address: str):
    ask(address, "select pg_advisory_lock(7)::text")
    with psycopg.connect(address) as other:
        assert other.execute("select pg_try_advisory_lock(7)").fetchone() == (True,)


def test_nobody_is_notified(address: str):
    with psycopg.connect(address, autocommit=True) as other:
        other.execute("listen alarms")
        ask(address, "select pg_notify('alarms', 'from a query')::text")
        ask(address, "select 'x'")
        assert not list(other.notifies(timeout=0.5, stop_after=1))


@pytest.mark.parametrize("query", [
    "select pg_sleep(30)::text", "select set_config('statement_timeout', '0', false) || pg_sleep(30)::text",
    "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*)::text from n"])
def test_a_query_without_end_is_ended(address: str, query: str):
    began_s = time.monotonic()
    for _ in range(2):  # and the second time as well, on the session that is kept
        with pytest.raises(NotAnswered, match="timeout"):
            ask(address, query, patience_s=0.3)
    assert time.monotonic() - began_s < 20
    assert ask(address, "select place from stations where id = :id", {"id": 1}, patience_s=0.3) == [("harbour",)]


def test_only_the_rows_that_are_needed_are_fetched(address: str):
    endless = "select a.i::text from generate_series(1, 100000) a(i), generate_series(1, 100000) b(i)"
    assert ask(address, endless, patience_s=60.0) == [("1",)]


def test_values_percent_signs_casts_and_a_semicolon_at_the_end(address: str):
    assert ask(address, "select place from stations where place like '50%% :x' or place = :p;", {"p": "50% :x"}) == [
        ("50% :x",)]
    assert ask(address, "select place from stations where place like '50% :x'") == [("50% :x",)]
    assert ask(address, "values (:a::text), ('b') -- done", {"a": "'; drop table stations; --"}, first=False) == [
        ("'; drop table stations; --",), ("b",)]
    assert ask(address, "with s as (select * from stations) select place from s where id > :id order by id",
               {"id": 1}, first=False) == [(None,), ("50% :x",)]


def test_a_session_that_is_lost_is_opened_anew(address: str):
    pid = ask(address, "select pg_backend_pid()::text")[0][0]
    with psycopg.connect(address, autocommit=True) as other:
        other.execute("select pg_terminate_backend(%s)", [int(pid)])
    assert ask(address, "select place from stations where id = :id", {"id": 1}) == [("harbour",)]
    assert isinstance(next(iter(tables._open.values())), PostgresqlDatabase)
