"""Rows that go into a table of PostgreSQL: values as they are, and one row for each key."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.contracts.offsets import Offset
from tests.postgresql import cluster
from workers.engine.sinks.contract import Batch, SinkOpening
from workers.engine.sinks.postgresql_sink import open_postgresql
from workers.library.arrow_types import arrow_type


@pytest.fixture(scope="module")
def address():
    with cluster() as address, pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEIR_DATABASE_HOSTS", address.partition("@")[2].partition(":")[0].replace("%2F", "/").lower())
        yield address


def written(address: str, table: str, batches: list[list[dict]], kinds: dict[str, str], key: list[str] = ()):
    """What a new writer of a table refuses of batches."""
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in kinds.items()])
    writer = open_postgresql(SinkOpening(
        f"{table}-sink", "t", {"database": address, "table": table, "columns": [], "key": list(key)}, list(kinds),
        Offset("0-0")))
    refused = []
    for number, rows in enumerate(batches, start=1):
        events = pa.Table.from_pylist(rows, schema)
        writer.write(Batch(events, Offset(f"{number - 1}-0"), Offset(f"{number}-0")), refused.extend)
    writer.close()
    return refused


def run(address: str, *statements: str) -> list[tuple]:
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def test_values_of_every_type_arrive_as_they_are(address):
    kinds = {"a": "bigint", "b": "double", "c": "decimal(38,10)", "d": "binary", "e": "timestamp", "f": "string"}
    row = {"a": 2**53 + 1, "b": float("nan"), "c": Decimal("1234567890123456789012345678.0123456789"), "d": b"\x00\xff",
           "e": datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=UTC), "f": "ü"}
    run(address, "create table every (a bigint, b float8, c numeric, d bytea, e timestamptz, f text)")
    assert not written(address, "every", [[row, dict.fromkeys(kinds)]], kinds)
    [given, nothing] = run(address, "select * from every order by a")
    assert repr(given) == repr(tuple(row.values())) and set(nothing) == {None}


def test_of_a_reason_the_beginning_is_kept_however_much_the_other_system_says(address):
    """Each of 1,000 events was kept in the broker with up to 16 MiB of what a table's trigger said: all dataflows
    waited."""
    run(address, "create table wordy (a bigint)", "create function say() returns trigger language plpgsql as "
        "$$begin raise exception 'not %: %', new.a, repeat('x', 1000000); end$$",
        "create trigger say before insert on wordy for each row execute function say()")
    refused = written(address, "wordy", [[{"a": 1}, {"a": 2}]], {"a": "bigint"})
    assert [row.row for row in refused] == [0, 1] and all(len(row.reason) <= 500 for row in refused)
    assert refused[1].reason.startswith("is not taken by wordy: not 2: xxx")


def test_a_time_that_python_has_none_for_arrives(address):
    run(address, "create table far (e timestamptz)")
    writer = open_postgresql(SinkOpening(
        "far-sink", "t", {"database": address, "table": "far", "columns": [], "key": []}, ["e"], Offset("0-0")))
    far = pa.table({"e": pa.array([0, 10_000 * 366 * 86_400_000_000], pa.timestamp("us", "UTC"))})
    refused = []
    writer.write(Batch(far, Offset("0-0"), Offset("1-0")), refused.extend)
    writer.close()
    assert not refused
    assert [year for year, in run(address, "select extract(year from e)::int from far order by e")] == [1970, 11990]


ROWS = st.lists(st.fixed_dictionaries({
    "k": st.none() | st.integers(0, 2), "x": st.none() | st.sampled_from(["a", "b"]), "v": st.integers(0, 9)}),
    max_size=12)


@pytest.fixture(scope="module", params=[False, True], ids=["nulls are no key", "nulls are equal"])
def keyed(request, address):
    are_equal = request.param
    if are_equal and run(address, "show server_version_num")[0][0] < "150000":
        pytest.skip("needs PostgreSQL 15: older ones have no NULLS NOT DISTINCT")
    table = f"keyed{int(are_equal)}"
    run(address, f"create table {table} (k bigint, x text, v bigint)",
        f"create unique index on {table} (k, x) {'nulls not distinct' if are_equal else ''}")
    return table, are_equal


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, cut=st.integers(0, 12))
def test_a_key_has_one_row_however_batches_fall(address, keyed, rows, cut):
    table, are_equal = keyed
    run(address, f"truncate {table}", "drop table if exists weir_batches")
    cut = min(cut, len(rows))
    batches = [batch for batch in (rows[:cut], rows[cut:]) if batch]
    refused = written(address, table, batches, {"k": "bigint", "x": "string", "v": "bigint"}, key=["k", "x"])
    taken = [row for row in rows if are_equal or None not in (row["k"], row["x"])]
    newest = {(row["k"], row["x"]): row["v"] for row in taken}
    assert dict(((k, x), v) for k, x, v in run(address, f"select k, x, v from {table}")) == newest
    assert run(address, f"select count(*) from {table}") == [(len(newest),)]
    assert len(refused) == len(rows) - len(taken) and all("tells rows apart" in row.reason for row in refused)
