"""Parsing, filtering, annotating and formatting on Spark, against plain Python."""

from __future__ import annotations

import json
import math
import time
from decimal import Decimal

import pytest

from workers.library.bloom import BloomFilter
from workers.library.config import InvalidConfig
from workers.library.event_schemas import SCHEMAS

from .conftest import build

pytestmark = pytest.mark.spark
SENML = ('5,{"e":[{"u":"string","n":"source","sv":"s1"},{"v":"1.5","u":"far","n":"temperature"},'
         '{"v":7,"u":"per","n":"humidity"},{"v":"no number","u":"per","n":"light"},{"v":"6.1","u":"lon",'
         '"n":"longitude"}],"bt":5}')


@pytest.fixture
def events(spark):
    """A DataFrame of events with one column of text, or of several."""

    def make(columns: str, *rows: tuple):
        from pyspark.sql.types import StructType

        schema = StructType.fromDDL(f"_seq bigint, _time bigint, _born bigint, {columns}")
        return spark.createDataFrame([(seq, 1000 + seq, seq, *row) for seq, row in enumerate(rows)], schema).coalesce(1)

    return make


def plain(frame, *names):
    return [tuple(row[name] for name in names) for row in frame.collect()]


def test_senml_becomes_an_event_for_each_observation(events):
    parsed = build("senml_parse", events("senml string", (SENML,)))
    assert parsed.columns == ["_seq", "_time", "_born", "msg_id", "sensor_id", "obs", "meta", "value"]
    assert plain(parsed, "_seq", "_time", "sensor_id", "obs", "value") == [
        (0, 1000, "s1", "temperature", 1.5), (0, 1000, "s1", "humidity", 7.0), (0, 1000, "s1", "light", None),
        (0, 1000, "s1", "dust", None), (0, 1000, "s1", "airquality_raw", None),
    ]
    assert {json.loads(meta)["longitude"] for (meta,) in plain(parsed, "meta")} == {"6.1"}
    assert len(set(plain(parsed, "msg_id"))) == 1


def test_senml_in_wide_layout_has_a_column_for_each(events):
    parsed = build("senml_parse", events("senml string", (SENML,)), layout="wide", fields=["humidity", "dust"])
    assert parsed.columns == ["_seq", "_time", "_born", "msg_id", "sensor_id", "meta", "humidity", "dust"]
    assert plain(parsed, "sensor_id", "humidity", "dust") == [("s1", 7.0, None)]


NO_SENML = (
    "", "no senml", "5,{", "{}", '{"e":7}', '{"e":[]}', '{"e":[{"n":"temperature","v":1}]}',
    '{"e":[null,{"n":null,"v":"1"}]}', None)


@pytest.mark.parametrize("layout", ["long", "wide"])
def test_what_is_no_senml_gives_no_event_and_no_failure(layout, events):
    rows = events("senml string", *((text,) for text in NO_SENML), (SENML,))
    assert build("senml_parse", rows, layout=layout).select("_seq").distinct().collect() == [(len(NO_SENML),)]


def test_two_messages_with_the_same_text_are_two(events):
    parsed = build("senml_parse", events("senml string", (SENML,), (SENML,)))
    assert len(set(plain(parsed, "msg_id"))) == 2


def test_an_own_schema(events):
    text = '{"e":[{"n":"id","sv":"x"},{"n":"place","sv":"here"},{"n":"a","v":3}]}'
    parsed = build("senml_parse", events("senml string", (text,)), schema="own", id_field="id", fields=["a", "b"],
                   meta_fields=["place"])
    assert plain(parsed, "sensor_id", "obs", "value", "meta") == [
        ("x", "a", 3.0, '{"place":"here"}'), ("x", "b", None, '{"place":"here"}')]


def test_recorded_senml_is_read_whole(spark, events, shared_data):
    """RIoTBench's own recordings: every id, observation and piece of metadata, against Python's JSON reader."""
    for file, name in (("SYS", "urban"), ("TAXI", "taxi"), ("FIT", "wearable")):
        schema = SCHEMAS[name]
        lines = (shared_data / "riotbench" / f"{file}_sample_data_senml.csv").read_text().splitlines()[:200]
        observations = build("senml_parse", events("senml string", *[(line,) for line in lines]), schema=name).collect()
        expected = []
        for seq, line in enumerate(lines):
            entries = {entry["n"]: entry.get("v", entry.get("sv"))
                       for entry in json.loads(line.partition(",")[2])["e"]}
            meta = {key: entries[key] for key in schema.meta_fields}
            expected += [(seq, entries[schema.id_field], obs, float(entries[obs]), meta) for obs in schema.fields]
        assert [(row._seq, row.sensor_id, row.obs, row.value, json.loads(row.meta)) for row in observations] == expected


def test_csv(events):
    rows = events("csv string", ('1,"a,b",true',), ("x,c,perhaps",), ("3",), ("",))
    parsed = build("csv_parse", rows, columns=["n:bigint", "t", "b:boolean"])
    assert plain(parsed, "_seq", "n", "t", "b") == [
        (0, 1, "a,b", True), (1, None, "c", None), (2, 3, None, None), (3, None, None, None)]
    semicolons = build("csv_parse", events("csv string", ("1;2",)), columns=["a:double", "b:double"], delimiter=";")
    assert plain(semicolons, "a", "b") == [(1.0, 2.0)]


def test_json(events):
    rows = events("json string", ('{"n": 4, "t": "x", "other": 1}',), ("not json",), ("[1]",), (None,))
    parsed = build("json_parse", rows, columns=["n:double", "t"])
    assert plain(parsed, "n", "t") == [(4.0, "x"), (None, None), (None, None), (None, None)]


def test_xml(events):
    rows = events("xml string", ('<r k="7"><n>1.5</n><t>a&amp;b</t></r>',), ("<r><n>2</n>",), ("text",), (None,))
    parsed = build("xml_parse", rows, columns=["_k:bigint", "n:double", "t"])
    assert plain(parsed, "_k", "n", "t")[0] == (7, 1.5, "a&b")
    assert plain(parsed, "t")[1:] == [(None,)] * 3


def test_xml_reads_no_file_and_expands_no_entity(events, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    rows = events(
        "xml string",
        (f'<!DOCTYPE r [<!ENTITY x SYSTEM "file://{secret}">]><r><t>&x;</t></r>',),
        (f'<!doctype r [<!ENTITY l0 "ha">{laughs}]><r><t>&l11;</t></r>',),
        (f'<!DOCTYPE r SYSTEM "file://{secret}"><r><t>ok</t></r>',),
    )
    assert plain(build("xml_parse", rows, columns=["t"]), "t") == [(None,)] * 3


def test_columns_become_observations(events):
    wide = events("id string, a double, b string, place string", ("s", 1.5, "2", "x"), ("t", None, "no", None))
    long = build("observations", wide, id_field="id", fields=["a", "b"], meta_fields=["place"])
    assert plain(long, "_seq", "sensor_id", "obs", "value", "meta") == [
        (0, "s", "a", 1.5, '{"place":"x"}'), (0, "s", "b", 2.0, '{"place":"x"}'),
        (1, "t", "a", None, "{}"), (1, "t", "b", None, "{}")]


READINGS = [("a", 1.0), ("a", 5.0), ("a", 5.1), ("a", None), ("b", 99.0)]


def test_range_filter_on_observations(events):
    rows = events("obs string, value double", *READINGS)
    in_range = build("range_filter", rows, ranges={"a": [1, 5]})
    assert plain(in_range, "obs", "value") == [("a", 1.0), ("a", 5.0), ("a", None), ("b", 99.0)]
    blanked = build("range_filter", rows, ranges={"a": [1, 5]}, outside="blank")
    assert plain(blanked, "obs", "value") == [("a", 1.0), ("a", 5.0), ("a", None), ("a", None), ("b", 99.0)]


def test_range_filter_on_columns(events):
    rows = events("a double, b double", (1.0, 1.0), (1.0, 9.0), (9.0, 9.0), (None, 1.0))
    ranges = {"a": [0, 2], "b": [0, 2]}
    assert plain(build("range_filter", rows, ranges=ranges), "a", "b") == [(1.0, 1.0), (None, 1.0)]
    assert plain(build("range_filter", rows, ranges=ranges, outside="blank"), "a", "b") == [
        (1.0, 1.0), (1.0, None), (None, None), (None, 1.0)]
    with pytest.raises(InvalidConfig, match="no c"):
        build("range_filter", rows, ranges={"c": [0, 1]})


def test_bloom_filter_agrees_with_its_plain_twin(events):
    keys = [f"urban-{number:04d}" for number in range(300)] + ["", "é", None]
    rows = events("sensor_id string", *[(key,) for key in keys])
    config = {"prefix": "urban", "count": 50, "members": ["é"], "expected_insertions": 40, "false_positive_ratio": 0.2}
    sensors = [key for (key,) in plain(build("bloom_filter", rows, **config), "sensor_id")]
    twin = BloomFilter.of([*keys[:50], "é"], expected_insertions=40, false_positive_ratio=0.2)
    assert sensors == [key for key in keys if key is not None and key in twin]
    assert 51 < len(sensors) < 200


def test_annotate_from_a_built_in_table(events):
    rows = events("sensor_id string", *[(f"s{number % 50}",) for number in range(100)])
    annotated = plain(build("annotate", rows, table="places"), "sensor_id", "location", "type")
    assert len(set(annotated)) == 50
    assert len({location for _, location, _ in annotated}) > 4
    assert all(location and kind for _, location, kind in annotated)


def test_annotate_from_a_file(events, tmp_path, monkeypatch):
    (tmp_path / "table.txt").write_text("s1:north,solar\ns2:south\n\nnot a line\n")
    monkeypatch.setenv("WEIR_REPLAY_DIRS", str(tmp_path))
    rows = events("sensor_id string, location string", ("s1", "old"), ("s2", "old"), ("s3", "old"), (None, None))
    annotated = build("annotate", rows, table="file", path="table.txt", columns=["location", "type"])
    assert plain(annotated, "sensor_id", "location", "type") == [
        ("s1", "north", "solar"), ("s2", "south", None), ("s3", None, None), (None, None, None)]


def test_senml_survives_parsing_and_formatting(events, ticks):
    source = build("urban_sensing", ticks(20), gap_share=0.3)
    written = build("csv_to_senml", build("senml_parse", source, layout="wide"))
    for before, after in zip(source.collect(), written.collect(), strict=True):
        old, new = (json.loads(row.senml.partition(",")[2]) for row in (before, after))
        assert after.senml.partition(",")[0] == before.senml.partition(",")[0]
        assert new["bt"] == old["bt"]
        assert {entry["n"]: entry for entry in new["e"]} == {entry["n"]: entry for entry in old["e"]}


def test_csv_to_senml_escapes_text_and_leaves_out_nulls(events):
    rows = events("id string, note string, n double", ('a"b\\', "line\nline", None))
    [row] = build("csv_to_senml", rows, schema="none", id_field="id").collect()
    assert json.loads(row.senml.partition(",")[2])["e"] == [
        {"u": "string", "n": "id", "sv": 'a"b\\'}, {"u": "string", "n": "note", "sv": "line\nline"}]


def test_parsers_keep_numbers_or_give_null(events):
    columns = ["s", "d:decimal(20,4)", "n:bigint", "v:double"]
    texts = ('{"d": 1234567890123456.0001, "n": 9007199254740993, "v": "NaN"}', '{"d": 1e30, "n": 1.5, "v": 1}')
    parsed = build("json_parse", events("json string", *((text,) for text in texts)), columns=columns)
    assert plain(parsed, "d", "n") == [(Decimal("1234567890123456.0001"), 2**53 + 1), (None, None)]
    lines = ("1.10,1234567890123456.0001,9007199254740993,NaN", "x,1e30,1_0,1")
    parsed = build("csv_parse", events("csv string", *((line,) for line in lines)), columns=columns)
    assert plain(parsed, "s", "d", "n") == [("1.10", Decimal("1234567890123456.0001"), 2**53 + 1), ("x", None, None)]


NUMBERS = ("1.10", "12345678901234567890.123456789", "1e400", "-0", "-0.0", "1E5", "7", "9" * 30, "0.1")


def test_numbers_of_json_keep_their_text_wherever_a_text_is_read(events):
    inside = [f'{{"a":{number},"l":[{number},"{number}",null],"t":true}}' for number in NUMBERS]
    rows = events("json string", *((f'{{"n": {number}, "o": {inner} , "q": "{number}", "x\'y": 1.5}}',)
                                   for number, inner in zip(NUMBERS, inside, strict=True)))
    parsed = build("json_parse", rows, columns=["n", "o", "q", "v:double"])
    assert plain(parsed, "n", "o", "q") == [
        (number, inner, number) for number, inner in zip(NUMBERS, inside, strict=True)]
    nested = "struct<n: string, o: struct<a: string, l: array<string>>>"
    query = build("sql", rows, query=(
        f"SELECT from_json(json, '{nested}') AS j, from_json(json, 'map<string,string>') AS m, "
        "get_json_object(json, '$.n') AS n, get_json_object(json, '$.o') AS o, get_json_object(json, '$.o.l[0]') AS l, "
        "get_json_object(json, '$.o.l[*]') AS w, get_json_object(json, '$.q') AS q FROM input"))
    for row, number, inner in zip(query.collect(), NUMBERS, inside, strict=True):
        assert (row.j.n, row.j.o.a, row.j.o.l) == (number, number, [number, number, None])
        assert row.m == {"n": number, "o": inner, "q": number, "x'y": "1.5"}
        assert (row.n, row.o, row.l, row.q) == (number, inner, number, number)
        assert row.w == f'[{number},"{number}",null]'


ODD = (
    "", "  ", "not json", "[15]", '{"n": 15', '{"n": 015}', '{"n": [15, }', "null", '"15"', "15",
    "{'n': 'it', 'v': 2.5}", '{"n": "\\u0041\\"", "v": 2.5}', '{"n": 15, "n": 25}', '{"n": null, "d": null}',
    '{"n": 15} trailing', "{}",
    '{"v": "x", "n": 15}', '{"N": 15}', '{"n": "\ue00015\ue000"}', '{"n": "\\uE00015\\ue000"}',
    '{"a": {"n": 15}, "n": "y"}',
    '{"n": true, "d": true}', '[{"n": 15}, {"n": 16}]', '{"d": [1]}', '{"d": {}, "n": {"x" : [ ]}}',
    '{"v": NaN, "n": "NaN"}', '{"d": "1,000.50"}')


def test_what_has_no_number_to_keep_is_read_just_as_spark_reads_it(events):
    rows = events("json string", *((text,) for text in ODD))
    ddl = "n string, v double, d decimal(9,2)"  # because of the decimal each is written anew
    paths = ("$.n", "$.v", "$", "$[0].n", "$.a.n", "$.n.x", "$[*].n")
    query = ", ".join(f"get_json_object(json, '{path}') AS p{place}" for place, path in enumerate(paths))
    ours = build("sql", rows, query=f"SELECT from_json(json, '{ddl}') AS r, {query} FROM input").drop("_time", "_born")
    spark = rows.selectExpr("_seq", f"from_json(json, '{ddl}') AS r", *query.split(", get")[:1], *(
        f"get{part}" for part in query.split(", get")[1:]))
    names = ("_seq", "r", *(f"p{place}" for place in range(len(paths))))
    assert repr(plain(ours, *names)) == repr(plain(spark, *names))  # NaN is not itself


def test_a_decimal_has_every_digit_that_came_or_is_null(events):
    exact = {"1.005": None, "1.50": "1.50", "1.5000": "1.50", "1e1": "10", "1E-1": "0.1",
             "123456789.99": "123456789.99", "1234567890.00": None, "-0": "0", "0.001": None, "1e999999999": None,
             "1e-999999999": None, f"1.{'0' * 999}": None}  # a million digits take Java a minute
    values = [None if text is None else Decimal(text) for text in exact.values()]
    for kind, form in (("csv", "{}"), ("json", '{{"d": {}}}'), ("json", '{{"d": "{}"}}'), ("xml", "<r><d>{}</d></r>")):
        rows = events(f"{kind} string", *((form.format(text),) for text in exact))
        parsed = build(f"{kind}_parse", rows, columns=["d:decimal(11,2)"])
        assert [row.d for row in parsed.collect()] == values, form
    rows = events("json string", *((f'{{"d": [{text}, "{text}"]}}',) for text in exact))
    read = build("sql", rows, query="SELECT from_json(json, 'd array<decimal(11,2)>').d AS d FROM input")
    assert [row.d for row in read.collect()] == [[value, value] for value in values]
    cast = {" 1.5\t": "1.50", "-1.005": "-1.01", "+2E1": "20.00", "1e-50000000": "0.00", "x": None, "1 2": None,
            f"1.{'0' * 999}": None, "9" * 1_000_000: None}
    read = build("sql", events("s string", *((text,) for text in cast)),
                 query="SELECT CAST(s AS decimal(11,2)) AS d FROM input")
    assert [row.d and str(row.d) for row in read.collect()] == list(cast.values())


def test_pi(events):
    rows = build("pi_viete", events("x string", ("a",), ("b",)), iterations=30)
    assert plain(rows, "_seq", "x", "pi") == [(0, "a", pytest.approx(math.pi)), (1, "b", pytest.approx(math.pi))]
    [(rough,), _] = plain(build("pi_viete", events("x string", ("a",), ("b",)), iterations=1), "pi")
    assert rough == pytest.approx(2 * math.sqrt(2))


def test_wait_passes_events_on_after_their_time(events):
    began = time.monotonic()
    rows = build("wait", events("x string", ("a",), ("b",)), pause=40)
    assert plain(rows, "_seq", "x") == [(0, "a"), (1, "b")]
    assert time.monotonic() - began >= 0.08


@pytest.mark.parametrize("name", ["output", "parquet_files", "json_lines"])
def test_sinks_pass_events_on(name, events):
    rows = events("x string", ("a",))
    assert build(name, rows, name="n", folder="f").collect() == rows.collect()
