"""Looking something up in a database: which rows, with which values, and nothing but reading."""

from __future__ import annotations

import sqlite3

import pytest

from workers.library import registry, tables
from workers.library.config import InvalidConfig
from workers.library.databases import locate
from workers.library.outside import NotAnswered
from workers.library.tables import SQL_LOOKUP, look_up, read_query, sql_lookup_check


@pytest.fixture
def stations(tmp_path, monkeypatch):
    """The address of a SQLite file with a table of stations."""
    monkeypatch.setenv("WEIR_REPLAY_DIRS", str(tmp_path))
    with sqlite3.connect(tmp_path / "stations.db") as made:
        made.execute("create table stations (id text, place text, height real)")
        made.executemany("insert into stations values (?, ?, ?)",
                         [("s1", "harbour", 3.5), ("s1", "old harbour", 4), ("s2", None, 100)])
    made.close()
    yield "sqlite:stations.db"
    for key in list(tables._open):
        tables._open.pop(key).close()


def ask(address, query, event, *, kinds=("string", "double"), first=True, patience_s=5.0):
    return look_up(
        event, location=locate(address), query=read_query(query), kinds=kinds, first=first, patience_s=patience_s)


BY_ID = "select place, height from stations where id = :id order by height"


def test_the_first_row_or_nulls_or_all_rows(stations):
    assert ask(stations, BY_ID, {"id": "s1"}) == [("harbour", 3.5)]
    assert ask(stations, BY_ID, {"id": "s9"}) == [(None, None)]
    assert ask(stations, BY_ID, {"id": "s1"}, first=False) == [("harbour", 3.5), ("old harbour", 4.0)]
    assert ask(stations, BY_ID, {"id": "s9"}, first=False) == []


def test_a_value_is_never_part_of_the_query(stations):
    assert ask(stations, BY_ID, {"id": "s1' or '1'='1"}) == [(None, None)]
    assert ask(stations, "select :id, 1.5", {"id": "'; drop table stations; --"}) == [
        ("'; drop table stations; --", 1.5)]


def test_values_are_of_the_declared_types(stations):
    assert ask(stations, BY_ID, {"id": "s2"}, kinds=("string", "bigint")) == [(None, 100)]
    with pytest.raises(NotAnswered, match="gives 2 columns"):
        ask(stations, BY_ID, {"id": "s1"}, kinds=("string",))


def test_one_connection_serves_all_events(stations):
    for _ in range(3):
        ask(stations, BY_ID, {"id": "s1"})
    assert len(tables._open) == 1


@pytest.mark.parametrize("query", [
    "delete from stations returning id, height", "attach 'other.db' as other", "pragma query_only = off",
    "with gone as (select 1) insert into stations select 'x', 'y', 1 from gone",
    "select id, height from stations; drop table stations", "select no_such_column, 1 from stations",
])
def test_what_is_no_reading_is_refused(stations, query):
    with pytest.raises(NotAnswered, match="refused"):
        ask(stations, query, {})
    assert ask(stations, "select count(*), 0 from stations", {}, kinds=("bigint", "bigint")) == [(3, 0)]


@pytest.mark.parametrize("query", [
    "select hex(zeroblob(300000000)), 1",
    "select replace(hex(zeroblob(1000000)), '0', hex(zeroblob(1000))), 1",
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < 400) "
    "select group_concat(hex(zeroblob(20000))), 1 from n",
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < 4000) "
    "select i, hex(randomblob(200000)) from n order by 2",
])
def test_what_takes_much_memory_is_refused(stations, query):
    with pytest.raises(NotAnswered, match="refused"):
        ask(stations, query, {}, patience_s=60.0)
    assert ask(stations, BY_ID, {"id": "s1"}) == [("harbour", 3.5)]


def test_rows_that_are_many_and_long_are_refused(stations):
    long = "with recursive n(i) as (select 1 union all select i + 1 from n) select hex(zeroblob(1000000)), i from n"
    assert ask(stations, long, {}, patience_s=60.0)[0][1] == 1
    with pytest.raises(NotAnswered, match="bytes"):
        ask(stations, long, {}, first=False, patience_s=60.0)


def test_a_pattern_that_takes_long_within_one_step_is_refused(stations):
    with pytest.raises(NotAnswered, match="refused"):
        ask(stations, f"select 'x', 1 where '{'a' * 5000}' like '{'%a' * 2000}b'", {}, patience_s=1.0)


def test_a_query_without_end_is_ended(stations):
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*), 0 from n"
    with pytest.raises(NotAnswered, match="interrupted"):
        ask(stations, endless, {}, patience_s=0.1)
    assert ask(stations, BY_ID, {"id": "s1"}, patience_s=0.1) == [("harbour", 3.5)]


def test_placeholders_are_told_from_text_comments_and_casts():
    text = ("select ':no', \"a:no\", x::text, 'it''s :no' -- :no\n/* :no */ from t where a = :a and b like '100%' "
            "or c=:b_2")
    query = read_query(text)
    assert query.names == ("a", "b_2") and query.text("named") == text
    assert query.text("pyformat") == text.replace("%", "%%").replace("= :a", "= %(a)s").replace(":b_2", "%(b_2)s")


@pytest.mark.parametrize("address", [
    "sqlite:../outside.db", "sqlite:nothing.db", "mysql://host/name", "postgresql:///name", "postgresql://h.example/n",
    "postgresql://db.example,evil.example/n", "postgresql://db.example/n?hostaddr=10.0.0.1",
    "postgresql://db.example/n?service=x", "postgresql://db.example/n?passfile=/etc/x", "postgresql://db.example:99/n",
    "postgresql://db.example:5433/n?host=other.example", "postgres://%zz",
])
def test_the_operator_says_which_databases_may_be_read(stations, monkeypatch, address):
    monkeypatch.setenv("WEIR_DATABASE_HOSTS", "DB.example:5433, other:5432")
    locate("postgresql://me:p@db.example:5433/n?sslmode=require")
    locate("postgresql://other/n")
    with pytest.raises(InvalidConfig) as error:
        locate(address)
    assert error.value.remedy


def test_nobody_there_is_no_answer_and_the_password_stays_away(monkeypatch):
    monkeypatch.setenv("WEIR_DATABASE_HOSTS", "127.0.0.1:9")
    with pytest.raises(NotAnswered, match="cannot be reached") as error:
        ask("postgresql://me:hidden@127.0.0.1:9/n", BY_ID, {"id": "s1"}, patience_s=1)
    assert "hidden" not in str(error.value) and not tables._open


def test_declared():
    assert SQL_LOOKUP.parameter("database").secret
    sql_lookup_check({"database": {"secret": "x"}, "query": "select 1", "columns": ["a"]})
    assert isinstance(registry.check(SQL_LOOKUP, {"query": "select 1", "columns": []}), InvalidConfig)
    assert isinstance(registry.check(SQL_LOOKUP, {"query": "select 1", "columns": ["a:decimal"]}), InvalidConfig)


@pytest.mark.parametrize("query", [
    "select 1 from a" + " join b" * 30, "select " + "array[" * 30 + "1" + "]" * 30,
    "select 1; drop table t", "select 1; commit; begin read write; insert into t values (1)", "drop table t",
    "with x as (delete from t returning 1) select * from x", "set statement_timeout = 0", "select * into y from t",
    "select 1 from t for update", "select 1 from t where exists (select 1 from u for share)", "commit", "",
    "with x as (insert into t values (1)) select 1", "select pg_sleep(10)", "select set_config('role', 'x', false)",
    "select pg_catalog.set_config('role', 'x', false)", "select pg_advisory_lock(1)", "copy t to '/tmp/x'",
    "select lo_import('/etc/passwd')", "explain analyze delete from t", "pragma query_only = off", "vacuum",
    "attach 'x' as y", "do $$ begin end $$", "(" * 5000 + "select 1" + ")" * 5000,
    "select " + "1, " * 9000 + "1",
    "select dblink_exec('x', 'delete from t')", "select load_extension('x')", "select nextval('s')",
    "select U&\"\\0070g_sleep\"(5)", "select pg_switch_wal()", "select pg_logical_emit_message(false, 'a', 'b')",
    "select pg_file_write('a', 'b', false)", "select * from pg_stat_file('x')", "select lowrite(1, 'a')",
    "select pg_create_physical_replication_slot('x')", "select * from ts_stat('select pg_sleep(5)')",
    "select database_to_xml(true, true, '')", "select writefile('a', 'b')", "select * from pragma_table_info('x')",
    "select * from rows from (pg_sleep(5))", 'select pg_catalog."pg_sleep"(5)',
])
def test_a_query_that_does_more_than_read_is_refused_before_it_is_stored(query):
    with pytest.raises(InvalidConfig) as error:
        sql_lookup_check({"query": query, "columns": ["a"]})
    assert error.value.remedy


@pytest.mark.parametrize("query", [
    "select 1", "select place from stations where id = :id order by height limit 1;", "values (1), (:a)",
    "with recursive n(i) as (select 1 union all select i + 1 from n) select * from n", "select ';' as a -- ;",
    "select x::text, y->>'k', z[1] from t where a = any(:b) and c ~* 'x' and d @> :e", "select $$a;b$$",
    "select 1 union all select 2 except select 3", "select count(*) filter (where a > 1) over w from t window w as ()",
    "select a from t, lateral (select 1 as b) q where t.id between :low and :high",
    "select glob('a*', b), datetime(c, 'unixepoch') from t",
    "select update_time, insert_count from delete_log where \"set\" = 'drop table'",
    "select st_x(g) from p order by g <-> st_point(:x, :y) limit 1", "select pg_typeof(a), pg_column_size(b) from t",
])
def test_a_query_that_reads_is_taken(query):
    sql_lookup_check({"query": query, "columns": ["a"]})
