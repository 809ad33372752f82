"""The services of the experiments: what they answer, and that waiting for them overlaps."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from urllib.parse import urlsplit

import psutil
import pytest

from tests.benches import services
from workers.library.databases import locate, open_database
from workers.library.outside import NotAnswered
from workers.library.tables import look_up, read_query


def test_the_store_serves_objects_side_by_side_each_after_its_time():
    with services.object_store(service_s=0.2, size=500) as (address, pid):
        host = urlsplit(address).netloc

        def get(target):
            connection = HTTPConnection(host, timeout=10)
            try:
                connection.request("GET", target)
                answer = connection.getresponse()
                return answer.status, answer.read()
            finally:
                connection.close()

        began = time.monotonic()
        with ThreadPoolExecutor(100) as pool:
            answers = list(pool.map(get, [f"/objects/{number}%20x" for number in range(100)]))
        took_s = time.monotonic() - began
        assert [(status, len(body)) for status, body in answers] == [(200, 500)] * 100
        assert answers[7][1].startswith(b"7 x\n") and get("/elsewhere")[0] == 404
        assert 0.2 <= took_s < 10, "each waits for its time, and they wait together: one after the other takes 20 s"
        store = psutil.Process(pid)
    assert not store.is_running()


@pytest.fixture(scope="module")
def places():
    with pytest.MonkeyPatch.context() as patch:
        try:
            with services.database(rows=100) as (address, _):
                patch.setenv("WEIR_DATABASE_HOSTS", urlsplit(address).netloc.rpartition("@")[2])
                yield address
        except services.NotInstalled as error:
            pytest.skip(f"PostgreSQL is optional: {error}")


def ask(address, query, event=None, *, patience_s=5.0):
    return look_up(
        event or {}, location=locate(address), query=read_query(query), kinds=("string", "double"), first=True,
        patience_s=patience_s)


@pytest.mark.long
def test_postgresql_is_read_with_values_bound(places):
    query = "select name || '%' || :what::text, height from places where key = :key"
    assert ask(places, query, {"key": 7, "what": "'; drop table places; --"}) == [
        ("place 7%'; drop table places; --", 3.5)]
    assert ask(places, query, {"key": 1000, "what": ""}) == [(None, None)]


@pytest.mark.long
@pytest.mark.parametrize("query", [
    "with gone as (delete from places returning *) select name, height from gone",
    "select set_config('transaction_read_only', 'off', false), 1.0",
    "select name, height from places; delete from places", "select name, height from nowhere",
    "select nextval('n'), 1 from (select 1) as one",
])
def test_postgresql_refuses_to_write(places, query):
    with pytest.raises(NotAnswered, match="refused"):
        ask(places, query)
    assert ask(places, "select name, height from places where key = 3") == [("place 3", 1.5)]


@pytest.mark.long
def test_a_slow_query_ends_and_a_lost_connection_is_opened_anew(places):
    with pytest.raises(NotAnswered, match="timeout"):
        ask(places, "select 'x', 1.0 from pg_sleep(5)", patience_s=0.2)
    assert ask(places, "select 'x', 1.0", patience_s=0.2) == [("x", 1.0)]
    import psycopg

    with psycopg.connect(places, autocommit=True) as other:
        other.execute("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()")
    assert ask(places, "select 'y', 1.0", patience_s=0.2) == [("y", 1.0)]
    database = open_database(locate(places), patience_s=1)
    database.close()
    with pytest.raises(ConnectionError):
        database.rows("select 1", {}, most=1)
