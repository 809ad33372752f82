"""PostgreSQL: what is not settled is waited for, what cannot be read is refused in words."""

from __future__ import annotations

from decimal import Decimal

import psycopg
import pytest

from tests.postgresql import cluster
from workers.engine.connectors.contract import Opening, SourceAway, SourceRefused
from workers.engine.connectors.formats import MessageLayout, decode
from workers.engine.connectors.postgresql_source import open_postgresql
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
    decoded = decode(reader.poll(0.1).messages, MessageLayout("json", columns), now_ms=0)
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


ODD_VALUES = {
    "time": ["17:00", "24:00"], "timetz": ["24:00+02"], "date": ["infinity", "4713-01-01 BC", "2026-05-01"],
    "timestamptz": ["infinity", "2026-05-01 12:00+02"], "interval": ["1 year 2 mons 3 days", "-00:00:01"],
    "tstzrange": ["[2024-01-01,infinity)", "empty", "(,)"], "int8range": ["[1,5)"],
    "numeric": ["1.10", "NaN", "-2.999", "1" * 5000 + ".5"], "bytea": ["\\x00ff"],
    "jsonb": ['{"n": ' + "9" * 5000 + "}"], "json": ['{"a": 1.10}'], "uuid": ["00000000-0000-0000-0000-000000000001"],
    "inet": ["10.0.0.1", "10.0.0.0/8"], "forever": ["infinity"], "time[]": ["{24:00,17:00}"],
    "numeric[]": ["{1.10,NaN}"], "money": ["1.50"], "bit(3)": ["101"], "xml": ["<a/>"], "point": ["(1,2)"],
    "float8": ["NaN", "-Infinity", "1e308"], "boolean": ["true"], "tsvector": ["'a':1"]}


def test_a_value_that_python_has_none_for_comes_as_the_server_writes_it_and_stops_no_other(address):
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("create domain forever as timestamptz")
        for number, (kind, values) in enumerate(ODD_VALUES.items()):
            connection.execute(f"create table odd{number} (id bigserial primary key, v {kind})")
            for value in ["good", *values, "good"]:
                connection.execute(f"insert into odd{number} (v) values (%s)", (None if value == "good" else value,))
            reader = open_postgresql(opening(address, table=f"odd{number}", columns=["v"], start="oldest"))
            polled = reader.poll(0.1)
            reader.close(for_good=True)
            decoded = decode(polled.messages, MessageLayout("json", {"v": "string"}), now_ms=0)
            rows = [row for row, in decoded.rows]
            assert not polled.lost
            if kind == "bytea":
                assert len(decoded.dead) == 1 and rows == [None, None], "bytes that are no text"
            else:
                assert not decoded.dead and len(rows) == len(values) + 2 and rows[0] is rows[-1] is None, kind
                assert all(rows[1:-1]), kind


@pytest.mark.parametrize(("kind", "values", "as_", "right", "dead"), [
    ("numeric", ["1.5", "-2.999", "NaN", "7.00", "9223372036854775808"], "bigint", [7], 4),
    ("numeric", ["1.5", "-2.999", "NaN", "7"], "decimal(10,2)", [Decimal("1.50"), Decimal("7.00")], 2),
    ("bigint", ["9007199254740993"], "bigint", [9007199254740993], 0),
    ("bytea", ["\\x00ff"], "binary", [b"\x00\xff"], 0),
    ("float8", ["Infinity", "1.5"], "double", [float("inf"), 1.5], 0),
    ("time", ["17:00", "24:00"], "string", ["17:00:00", "24:00:00"], 0)])
def test_a_type_keeps_its_values_or_the_row_is_a_dead_letter(address, kind, values, as_, right, dead):
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("drop table if exists kept")
        connection.execute(f"create table kept (id bigserial primary key, v {kind})")
        for value in values:
            connection.execute("insert into kept (v) values (%s)", (value,))
    reader = open_postgresql(opening(address, table="kept", columns=["v"], start="oldest"))
    decoded = decode(reader.poll(0.1).messages, MessageLayout("json", {"v": as_}), now_ms=0)
    reader.close(for_good=True)
    assert [row for row, in decoded.rows] == right
    assert len(decoded.dead) == dead and all(letter.place.startswith("kept, id ") for letter in decoded.dead)


def test_a_row_that_a_driver_cannot_load_is_told_and_those_around_it_are_read(address):
    class Refusing(psycopg.adapt.Loader):
        def load(self, data):
            if bytes(data) == b"13":
                raise psycopg.DataError("no such number")
            return int(data)

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("create table unlucky (id bigserial primary key, n bigint)")
        connection.execute("insert into unlucky (n) values (12), (13), (14), (13)")
    reader = open_postgresql(opening(address, table="unlucky", start="oldest"))
    reader._connection.adapters.register_loader("int8", Refusing)
    polled = reader.poll(0.1)
    assert [message.values["n"] for message in polled.messages] == [12, 14]
    assert [letter.place for letter in polled.lost] == ["unlucky, id 2", "unlucky, id 4"]
    assert polled.position == {"after": "4"} and "no such number" in polled.lost[0].reason
    assert not reader.poll(0.1).messages
    reader.close(for_good=True)
