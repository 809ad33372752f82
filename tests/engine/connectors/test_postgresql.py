"""PostgreSQL: what is not settled is waited for, what cannot be read is refused in words."""

from __future__ import annotations

import psycopg
import pytest

from tests.postgresql import cluster
from workers.engine.connectors.contract import Opening, SourceRefused
from workers.engine.connectors.postgresql import open_postgresql
from workers.library.config import InvalidConfig


@pytest.fixture(scope="module")
def address():
    with cluster() as address, psycopg.connect(address, autocommit=True) as connection:
        connection.execute("create table orders (id bigserial primary key, n bigint)")
        connection.execute("create role reader login")
        yield address


@pytest.fixture(autouse=True)
def _allowed(address, monkeypatch):
    monkeypatch.setenv("WEIR_DATABASE_HOSTS", address.partition("@")[2].partition(":")[0].replace("%2F", "/").lower())


def opening(address: str, position=None, **config) -> Opening:
    return Opening("t", {
        "database": address, "table": "orders", "column": "id", "columns": ["n"], "every": 0.0, "start": "newest",
        **config}, position)


def numbers(reader) -> list[int]:
    return [message.values["n"] for message in reader.poll(0.1).messages]


def test_a_row_is_not_passed_while_an_earlier_one_may_still_appear(address):
    reader = open_postgresql(opening(address))
    with psycopg.connect(address) as slow, psycopg.connect(address, autocommit=True) as quick:
        slow.execute("insert into orders (n) values (1)")
        quick.execute("insert into orders (n) values (2)")
        assert numbers(reader) == [], "the row that committed is behind one that has not"
        slow.commit()
        assert numbers(reader) == [1, 2]
        slow.execute("insert into orders (n) values (3)")
        slow.rollback()
        quick.execute("insert into orders (n) values (4)")
        assert numbers(reader) == [4]
    position = reader.position()
    reader.close(for_good=False)
    again = open_postgresql(opening(address, position))
    assert numbers(again) == []
    assert numbers(open_postgresql(opening(address, start="oldest"))) == [1, 2, 4]


@pytest.mark.parametrize(("config", "why"), [
    ({"table": "nowhere"}, "nowhere is not there"), ({"column": "nothing"}, "no column nothing"),
    ({"columns": ["m"]}, "no column m")])
def test_what_is_not_there_is_refused(address, config, why):
    with pytest.raises(SourceRefused, match=why):
        open_postgresql(opening(address, **config))


def test_a_role_that_may_not_read_is_told(address):
    with pytest.raises(SourceRefused, match="orders"):
        reader = open_postgresql(opening(address.replace("postgres:any@", "reader:any@"), start="oldest"))
        reader.poll(0.1)


def test_a_host_that_is_not_named_is_not_reached(address, monkeypatch):
    monkeypatch.setenv("WEIR_DATABASE_HOSTS", "")
    with pytest.raises(InvalidConfig):
        open_postgresql(opening(address))
