"""What grows: sizes by part, and what they come to in a week, bounds included."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import redis

from tests.benches.growth import HOUR_S, KEPT_S, PLAN_TABLES, WEEK_S, Sizes, keys_of, parts_of, tables_of, week_of

MB = 2**20


def sizes(at_s: float, parts: dict[str, int], rows: dict[str, int] | None = None) -> Sizes:
    return Sizes(at_s, parts, rows or {})


def by_part(*looks: Sizes) -> dict[str, dict]:
    return {row["part"]: row for row in week_of(looks)}


def test_a_folder_goes_on_at_its_rate() -> None:
    name = "folder outputs: files"
    row = by_part(*(sizes(60 * minute, {name: (10 + minute) * MB}) for minute in range(4)))[name]
    assert row["MB in a week"] == pytest.approx(13 + WEEK_S / 60)
    assert row["bound"] == ""


@pytest.mark.parametrize("levels", [(20, 1, 19, 2, 21, 1), (20, 15, 10, 5, 2, 1)], ids=["rises and falls", "shrinks"])
def test_a_folder_without_a_trend_counts_as_its_most(levels: tuple[int, ...]) -> None:
    row = by_part(*(sizes(60 * at, {"folder broker": level * MB}) for at, level in enumerate(levels)))["folder broker"]
    assert (row["MB in a week"], row["bound"]) == (max(levels), "level")


def test_the_database_is_as_large_as_its_tables() -> None:
    name = "profiles_observationrow"
    looks = [
        sizes(100 * at, {"folder weir.sqlite3": at * MB, f"table {name}": 1_000 * at}, {name: at}) for at in (1, 2, 3)]
    rows = by_part(*looks)
    assert rows["folder weir.sqlite3"]["MB in a week"] == max(3, rows[f"table {name}"]["MB in a week"])


def test_logs_are_bounded() -> None:
    row = by_part(*(sizes(60 * minute, {"folder logs": minute * MB}) for minute in range(4)))["folder logs"]
    assert row["MB in a week"] == 160


def test_a_table_of_which_hours_are_kept_grows_no_longer_than_these() -> None:
    name = "profiles_observationrow"
    first, last = sizes(0, {f"table {name}": 100_000}, {name: 100}), sizes(100, {f"table {name}": 200_000}, {name: 200})
    row = by_part(first, last)[f"table {name}"]
    assert row["MB in a week"] * MB == pytest.approx(1_000 * KEPT_S[name])  # a row of 1,000 bytes a second


def test_charges_are_rows_of_hours() -> None:
    first = sizes(0, {}, {})
    last = sizes(600, {"table bills_usagehour": 4_000}, {"bills_usagehour": 10})
    assert by_part(first, last)["table bills_usagehour"]["MB in a week"] * MB == pytest.approx(
        4_000 * WEEK_S / HOUR_S)


def test_what_users_read_is_told_apart_from_what_is_weirs_own(tmp_path: Path) -> None:
    for name, size in (("outputs/a/f/events.parquet", 5), ("outputs/a/f/.weir/state.json", 3), ("logs/web.log", 7)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    assert parts_of(tmp_path) == {"outputs: files": 5, "outputs: staged and state": 3, "logs": 7}


def test_a_tables_indexes_are_its_own(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "db") as connection:
        connection.execute("CREATE TABLE t (a text)")
        connection.execute("CREATE INDEX i ON t (a)")
        connection.executemany("INSERT INTO t VALUES (?)", [("x" * 100,)] * 1_000)
    connection.close()
    bytes_of, rows = tables_of(tmp_path / "db")
    assert rows == {"t": 1_000}
    assert bytes_of == {} or bytes_of["t"] > 200_000, "the table and the index"


@pytest.mark.broker
def test_keys_are_counted_by_kind(broker: redis.Redis) -> None:
    broker.set("weir:observed:n1", "x" * 1_000, ex=60)
    broker.hset("weir:ch:f1-0.0:meta", "a", "b")
    kinds, lasting = keys_of(broker)
    assert kinds["weir:observed"] > 1_000 and "weir:ch" in kinds and lasting == 1


@pytest.mark.django_db
def test_the_tables_that_it_names_are_there() -> None:
    from django.db import connection

    assert {*KEPT_S, *PLAN_TABLES, "bills_usagehour"} <= set(connection.introspection.table_names())
