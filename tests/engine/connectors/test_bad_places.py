"""Systems that answer and take nothing: told with cause and remedy, without host and password."""

from __future__ import annotations

import psycopg
import pytest

from scheduler.contracts.offsets import Offset
from tests.postgresql import cluster
from workers.engine.sinks.contract import SinkAway, SinkOpening, SinkRefused
from workers.engine.sinks.postgresql_sink import open_postgresql
from workers.launcher.broker import free_port

COLUMNS = ("_seq", "_time", "_born", "n", "text")


@pytest.fixture(scope="module")
def address():
    with cluster() as address, psycopg.connect(address, autocommit=True) as connection:
        connection.execute("create table plain (n bigint, text text)")
        connection.execute("create table needy (n bigint, text text, more int not null)")
        connection.execute("create table served (n bigint, text text, more int not null default 1, id serial)")
        connection.execute("create role stranger login")
        yield address


@pytest.mark.parametrize(("config", "words"), [
    ({"table": "nowhere"}, "nowhere is not there"),
    ({"key": ["n"]}, "create unique index on plain (n)"),
    ({"columns": ["m"]}, "no column m"),
    ({"table": "needy"}, "needs a value of more"),
    ({"user": "stranger"}, "grant"),
    ({"user": "nobody_at_all"}, "refuses the user of the secret"),
    ({"name": "no_such_database"}, "refuses the database of the secret"),
])
def test_a_table_that_cannot_be_written_is_told_with_what_to_do(address, monkeypatch, config, words):
    host = address.partition("@")[2].partition(":")[0].replace("%2F", "/").lower()
    monkeypatch.setenv("WEIR_DATABASE_HOSTS", host)
    place = f"{address.removesuffix('/postgres')}/{config.get('name', 'postgres')}".replace(
        "postgres:any@", f"{config.get('user', 'postgres')}:any@")
    with pytest.raises((SinkRefused, SinkAway)) as refusal:
        open_postgresql(SinkOpening("weir-a", "t", {
            "database": place, "table": "plain", "key": [], "columns": [], **config}, COLUMNS, Offset("0-0")))
    message = refusal.value.full_message
    assert words in message and refusal.value.remedy
    assert host not in message and place not in message


def test_a_column_with_a_default_is_left_to_it(address, monkeypatch):
    monkeypatch.setenv("WEIR_DATABASE_HOSTS", address.partition("@")[2].partition(":")[0].replace("%2F", "/").lower())
    open_postgresql(SinkOpening("weir-b", "t", {
        "database": address, "table": "served", "key": [], "columns": []}, COLUMNS, Offset("0-0"))).close()


def test_a_database_that_is_not_there_is_away_and_not_named(monkeypatch):
    monkeypatch.setenv("WEIR_SINK_HOSTS", "127.0.0.1")
    place = f"postgresql://me:hidden@127.0.0.1:{free_port()}/n"
    with pytest.raises(SinkAway) as refusal:
        open_postgresql(SinkOpening("weir-c", "t", {
            "database": place, "table": "plain", "key": [], "columns": []}, COLUMNS, Offset("0-0")))
    assert "127.0.0.1" not in refusal.value.full_message and "hidden" not in refusal.value.full_message
