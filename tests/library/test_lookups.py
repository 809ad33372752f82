"""Tables that are read as a whole: from files and databases, kept, read again, and kept on where that fails."""

from __future__ import annotations

import csv
import sqlite3

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workers.library import lookups, registry
from workers.library.config import InvalidConfig
from workers.library.databases import locate
from workers.library.lookups import LOOKUP, TableSource, read_table, row_of
from workers.library.outside import NotAnswered

COLUMNS = (("place", "string"), ("height", "double"))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A replay folder with the same table as CSV, as Parquet and in SQLite."""
    monkeypatch.setenv("WEIR_REPLAY_DIRS", str(tmp_path))
    (tmp_path / "stations.csv").write_text('id,place,height\ns1,"harbour, old",3.5\n7,,high\ns1,harbour,4\n')
    pq.write_table(pa.table({"height": [4.0, 1.0], "id": pa.array(["s1", None]), "place": ["harbour", "nowhere"]}),
                   tmp_path / "stations.parquet")
    with sqlite3.connect(tmp_path / "stations.db") as made:
        made.execute("create table stations (id text, place text, height real)")
        made.execute("insert into stations values ('s1', 'harbour', 4)")
    made.close()
    yield tmp_path
    lookups._tables.clear()


def of_file(folder, name: str) -> TableSource:
    return TableSource(str(folder / name), None, "", ("id",), COLUMNS)


def ask(source: TableSource, key, *, at_s: float = 0.0, drops: bool = False):
    return row_of({"k": key}, source=source, on=("k",), refresh_s=60.0, drops=drops, clock=lambda: at_s)


def test_rows_of_files_by_key_and_type_the_last_one_counts(folder):
    assert read_table(of_file(folder, "stations.csv")) == {("s1",): ("harbour", 4.0), ("7",): (None, None)}
    assert read_table(of_file(folder, "stations.parquet")) == {("s1",): ("harbour", 4.0), (None,): ("nowhere", 1.0)}


def test_rows_of_a_database_are_those_of_the_query():
    query = "select id, place, height from stations where id like 's%'"
    assert read_table(TableSource("", locate("sqlite:stations.db"), query, ("id",), COLUMNS)) == {
        ("s1",): ("harbour", 4.0)}
    with pytest.raises(NotAnswered, match="gives 2 columns"):
        read_table(TableSource("", locate("sqlite:stations.db"), "select id, place from stations", ("id",), COLUMNS))
    with pytest.raises(NotAnswered, match="cannot be read"):
        read_table(TableSource("", locate("sqlite:stations.db"), "delete from stations", ("id",), COLUMNS))


def test_whole_numbers_find_their_row_however_they_are_kept(folder):
    assert ask(of_file(folder, "stations.csv"), 7) == ask(of_file(folder, "stations.csv"), 7.0) == [(None, None)]


def test_a_header_that_is_no_csv_is_told(folder):
    (folder / "wide.csv").write_text(f"id,{'h' * (csv.field_size_limit() + 1)}\n1,2\n")
    error = registry.check(LOOKUP, {"path": "wide.csv", "on": ["k=id"], "columns": ["place"]})
    assert isinstance(error, InvalidConfig) and error.facts["parameter"] == "path" and error.remedy
    assert "header of wide.csv cannot be read as CSV: field larger than field limit" in error.message


def test_an_event_without_a_row_gets_nulls_or_goes(folder):
    assert ask(of_file(folder, "stations.csv"), "s9") == [(None, None)]
    assert ask(of_file(folder, "stations.csv"), "s9", drops=True) == []


def test_a_table_is_read_again_when_it_is_due_and_kept_while_it_is_away(folder):
    source = of_file(folder, "stations.csv")
    assert ask(source, "s1", at_s=0) == [("harbour", 4.0)]
    (folder / "stations.csv").write_text("id,place,height\ns1,pier,5\n")
    assert ask(source, "s1", at_s=59) == [("harbour", 4.0)]
    assert ask(source, "s1", at_s=60) == [("pier", 5.0)]
    (folder / "stations.csv").unlink()
    assert ask(source, "s1", at_s=200) == [("pier", 5.0)]
    (folder / "stations.csv").write_text("id,place,height\ns1,quay,6\n")
    assert ask(source, "s1", at_s=211) == [("quay", 6.0)]


def test_a_table_that_was_never_read_is_told(folder):
    with pytest.raises(NotAnswered):
        ask(of_file(folder, "none.csv"), "s1")


@pytest.mark.parametrize("config,words", [
    ({"path": "stations.csv", "database": {"secret": "x"}}, "file, or a database"), ({}, "file, or a database"),
    ({"database": {"secret": "x"}}, "file, or a database"), ({"path": "stations.db"}, "neither CSV nor Parquet"),
    ({"path": "none.csv"}, "no “none.csv”"), ({"path": "stations.csv", "columns": ["depth"]}, "no column depth"),
    ({"path": "stations.parquet", "on": ["k=key"]}, "no column key"), ({"path": "stations.csv", "on": []}, "a key"),
    ({"database": {"secret": "x"}, "query": "delete from stations"}, "DELETE"),
])
def test_a_config_that_cannot_be_built_is_told_with_a_remedy(config, words):
    problem = registry.check(LOOKUP, {"on": ["k=id"], "columns": ["place", "height:double"], **config})
    assert words in problem.message and problem.remedy


def test_a_sound_config_passes():
    assert registry.check(LOOKUP, {"path": "stations.csv", "on": ["k=id"], "columns": ["height:double"]}) is None
