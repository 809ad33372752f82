"""PostgreSQL: what is not settled is waited for, what cannot be read is refused in words."""

from __future__ import annotations

import psycopg
import pytest

from tests.postgresql import cluster
from workers.engine.connectors.contract import Opening, SourceAway, SourceRefused
from workers.engine.connectors.formats import Layout, decode
from workers.engine.connectors.postgresql import open_postgresql
from workers.launcher.broker import free_port
from workers.library.config import InvalidConfig

from .authority import Authority


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


def test_a_time_without_end_is_told_and_the_rows_behind_it_are_read(address):
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("create table times (id bigserial primary key, at timestamptz, day date)")
        connection.execute("insert into times (at, day) values ('2026-05-01 12:00+02', '2026-05-01'), "
                           "('infinity', '2026-05-01'), ('2026-05-02Z', '4000-01-01 BC'), (null, null)")
    columns = {"at": "timestamp", "day": "string"}
    reader = open_postgresql(opening(address, table="times", columns=list(columns), start="oldest"))
    decoded = decode(reader.poll(0.1).messages, Layout("json", columns), now_ms=0)
    reader.close(for_good=True)
    assert [(str(at), day) for at, day in decoded.rows] == [
        ("2026-05-01 10:00:00+00:00", "2026-05-01"), ("2026-05-02 00:00:00+00:00", "4000-01-01 BC"), ("None", None)]
    [letter] = decoded.dead
    assert "infinity" in letter.reason and letter.place == "times, id 2"


def test_with_an_authority_the_server_is_held_to_its_certificate_and_not_named(monkeypatch):
    authority, port = Authority(), free_port()
    monkeypatch.setenv("WEIR_DATABASE_HOSTS", f"127.0.0.1:{port}")
    certificate, key = authority.issue("localhost")
    with cluster(certificate=certificate, private_key=key, port=port) as socket_address:
        with psycopg.connect(socket_address, autocommit=True) as connection:
            connection.execute("create table orders (id bigserial primary key, n bigint)")
            connection.execute("insert into orders (n) values (7)")
        over_tls = f"postgres://postgres:geheim@127.0.0.1:{port}/postgres"
        reader = open_postgresql(opening(over_tls, ca=authority.ca, start="oldest"))
        assert numbers(reader) == [7] and reader._connection.pgconn.ssl_in_use
        reader.close(for_good=True)
        with pytest.raises(SourceRefused, match="not trusted, or speaks no TLS") as refused:
            open_postgresql(opening(over_tls, ca=Authority().ca))
    assert "127.0.0.1" not in refused.value.full_message and "geheim" not in refused.value.full_message


def test_a_server_that_is_gone_is_not_named(address, monkeypatch):
    monkeypatch.setenv("WEIR_DATABASE_HOSTS", "/weir-nowhere")
    with pytest.raises(SourceAway) as away:
        open_postgresql(opening("postgres://postgres:any@%2Fweir-nowhere:5432/postgres"))
    assert "nowhere" not in away.value.full_message


def test_a_host_that_is_not_named_is_not_reached(address, monkeypatch):
    monkeypatch.setenv("WEIR_DATABASE_HOSTS", "")
    with pytest.raises(InvalidConfig):
        open_postgresql(opening(address))
