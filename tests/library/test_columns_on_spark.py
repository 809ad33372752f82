"""Declared columns: each type's are those that the task has on Spark, names, order and types; what it misses is told
before, and Spark would have failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions

from scheduler.model.columns import ColumnError, Columns, interleaved, require_told_apart
from scheduler.model.dataflow import Task
from workers.engine.channels import open_streams
from workers.engine.spark.hosted_folds import HostedFolds, can_be_hosted
from workers.library import registry
from workers.library.state import going_on

from .conftest import build
from .package import install_package

pytestmark = pytest.mark.spark
TICKS = "_seq bigint, _time bigint, _born bigint"
OBSERVATIONS = f"{TICKS}, msg_id string, sensor_id string, obs string, meta string, value double"
PLAIN = f"{TICKS}, sensor_id string, t double, n bigint, ok boolean, at timestamp, tags array<string>, xml string"
TEXT = f"{TICKS}, senml string, csv string, json string, xml string, note int"
WHOLE = f"{TICKS}, msg_id string, sensor_id bigint, obs string, meta string, value int, sum string, count bigint"

CASES = [
    ("urban_sensing", TICKS, {}), ("smart_meter", TICKS, {}), ("wearable", TICKS, {}), ("taxi_trips", TICKS, {}),
    ("sentences", TICKS, {}), ("stock_ticks", TICKS, {}), ("smart_meters", TICKS, {}),
    ("replay", TICKS, {"path": "lines.csv"}), ("replay", TICKS, {"path": "columns.parquet"}),
    ("senml_parse", TEXT, {}), ("senml_parse", TEXT, {"layout": "wide", "schema": "taxi"}),
    ("senml_parse", TEXT, {"layout": "wide", "schema": "own", "id_field": "i", "fields": ["a", "b"], "field": "csv"}),
    ("csv_parse", TEXT, {"columns": ["a", "b:double", "c:bigint", "d:boolean", "e:timestamp"]}),
    ("json_parse", TEXT, {"columns": ["a", "b:double", "c:decimal(20,4)", "d:binary"]}),
    ("xml_parse", TEXT, {"columns": ["_a", "b:bigint"]}),
    ("xml_document", PLAIN, {"values": ["t=T", "v:double=V/@w"], "record": "R"}),
    ("observations", PLAIN, {"id_field": "sensor_id", "fields": ["t", "n", "ok"], "meta_fields": ["tags"]}),
    ("observations", OBSERVATIONS, {"id_field": "sensor_id", "fields": ["value"]}),
    ("annotate", OBSERVATIONS, {}), ("annotate", OBSERVATIONS, {"table": "people", "field": "obs"}),
    ("annotate", PLAIN, {"table": "file", "path": "lines.csv", "columns": ["n", "new"]}),
    ("csv_to_senml", PLAIN, {"fields": ["t", "tags"]}), ("csv_to_senml", OBSERVATIONS, {"schema": "none"}),
    ("range_filter", OBSERVATIONS, {"ranges": {"a": [0, 1]}}), ("range_filter", PLAIN, {"ranges": {"t": [0, 1]}}),
    ("range_filter", PLAIN, {"ranges": {"t": [0, 1], "n": [0, 1]}, "outside": "blank"}),
    ("bloom_filter", PLAIN, {"field": "n", "members": ["1"]}),
    ("kalman_filter", OBSERVATIONS, {}), ("kalman_filter", WHOLE, {"fields": ["a"]}),
    ("interpolate", OBSERVATIONS, {}), ("interpolate", WHOLE, {}),
    ("block_average", OBSERVATIONS, {}), ("block_average", WHOLE, {"by": ["sensor_id", "obs"], "fields": ["a"]}),
    ("second_order_moment", OBSERVATIONS, {}), ("distinct_count", OBSERVATIONS, {}),
    ("distinct_count", PLAIN, {"field": "tags", "by": ["ok", "t", "n"]}),
    ("join_by_message", OBSERVATIONS, {}), ("join_by_message", WHOLE, {"schema": "own", "fields": ["a"]}),
    ("accumulate", OBSERVATIONS, {"by": ["obs"]}), ("exact_average", OBSERVATIONS, {}),
    ("exact_average", WHOLE, {"by": ["sensor_id"]}), ("roll_up", WHOLE, {"blocks": 2}),
    ("sliding_linear_regression", OBSERVATIONS, {}), ("sliding_linear_regression", WHOLE, {}),
    ("forecast", OBSERVATIONS, {}),
    ("forecast", PLAIN, {"by": ["n", "sensor_id", "ok"], "value": "t", "at": "n", "holiday": "ok", "method": "tree"}),
    ("train", PLAIN, {"features": ["t", "n"], "target": "ok", "kind": "decision_tree_classifier", "model": "m"}),
    ("train", PLAIN, {"features": ["n"], "target": "t"}),
    ("predict", f"{PLAIN}, model string, version int", {"features": ["t", "n"]}),
    ("predict", f"{PLAIN}, predicted int", {"features": ["n"], "model": "m", "kind": "decision_tree_classifier"}),
    ("error_estimate", PLAIN, {"predicted": "t", "actual": "n", "average": "t"}),
    ("pi_viete", PLAIN, {}), ("pi_viete", f"{TICKS}, pi string, b int", {}), ("wait", PLAIN, {}),
    ("http_get", PLAIN, {"url": "http://objects.test/{n}"}),
    ("http_get", PLAIN, {"url": "http://objects.test/{n}", "into": "t"}),
    ("sql", PLAIN, {"query": "SELECT *, upper(sensor_id) AS big, n / 2 AS half FROM input WHERE t > 1"}),
    ("sql", PLAIN, {"query": "SELECT explode(tags) AS tag, t AS _t, _seq, at FROM input"}),
    ("python", PLAIN, {"function": "sensors.checks:doubled", "version": "1.2", "columns": ["a", "b:timestamp"]}),
    ("python_by_key", PLAIN, {
        "function": "sensors.checks:counted", "version": "1.2", "by": ["sensor_id"], "reads": ["t", "n", "at"],
        "columns": ["a:bigint", "b:timestamp", "c:boolean", "d", "e:double"]}),
    ("union", PLAIN, {}), ("union", PLAIN, {"columns": ["tags", "_seq", "t"]}),
    ("deduplicate", PLAIN, {"by": ["n", "sensor_id"]}),
    ("window", PLAIN, {"aggregates": ["n=count(*)"]}),
    ("window", PLAIN, {"by": ["n", "sensor_id", "ok", "t"], "kind": "session", "aggregates": [
        "c=count(t)", "s=sum(n)", "lo=min(sensor_id)", "hi=max(ok)", "all=collect(sensor_id)", "nums=collect(n)",
        "p=percentile(t, 0.9)", "f=first(at)", "d=count_distinct(ok)", "sd=stddev(n)"]}),
    ("window", PLAIN, {"kind": "landmark", "landmark": "ok", "by": ["n"], "aggregates": ["c=count(*)", "s=sum(t)"]}),
    ("align", PLAIN, {"side": "sensor_id", "sides": ["a", "b"], "columns": ["a.tags", "x=b.at", "y=b.n"], "on": ["n"]}),
    ("align", PLAIN, {"side": "n", "sides": ["1", "2", "3"], "columns": ["1.t", "m=3.t"]}),
    ("round_robin", PLAIN, {"of": 3, "part": 1}), ("key_split", PLAIN, {"by": ["n", "sensor_id"], "of": 2, "part": 2}),
    ("into_port", PLAIN, {"port": "a.b"}),
    ("from_port", f"{TICKS}, `p/n` int, `q/n` string, `p/a/b` array<string>, _port string", {"port": "p"}),
    ("join", PLAIN, {"on": ["n", "sensor_id"], "left": "t > 1", "right": "ok AND t IS NULL",
                     "left_columns": ["tags", "at"], "right_columns": ["right_t=t", "xml"]}),
    ("sql_lookup", PLAIN, {"database": "sqlite:rows.db", "query": "select :n, :t", "columns": ["n", "m:double"]}),
    ("lookup", PLAIN, {"path": "lines.csv", "on": ["sensor_id=a"], "columns": ["n:double", "more"]}),
    ("file_batches", PLAIN, {"folder": "f", "columns": ["t"]}), ("file_batches", f"{TICKS}, file int", {"folder": "f"}),
    ("output", PLAIN, {"name": "n"}), ("parquet_files", PLAIN, {"folder": "f"}), ("json_lines", PLAIN, {"folder": "f"}),
    ("http_post", PLAIN, {"url": "http://objects.test/"}),
    ("to_postgresql", PLAIN, {"database": {"secret": "d"}, "table": "t", "columns": ["t", "n"], "key": ["n"]}),
    ("to_delta", PLAIN, {"folder": "f", "partition_by": ["sensor_id"]}), ("to_s3", PLAIN, {"bucket": "bucket"}),
    ("to_kafka", PLAIN, {"servers": ["objects.test:9092"], "topic": "t", "columns": ["t"], "key": "n"}),
    ("to_mqtt", PLAIN, {"server": "objects.test", "topic": "t/{sensor_id}", "columns": ["t"]}),
    ("http_ingest", f"{TICKS}, value string", {"name": "n", "token": {"secret": "t"}}),
    ("mqtt", f"{TICKS}, value binary", {"server": "objects.test", "topics": ["t"], "format": "bytes"}),
    ("kafka", f"{TICKS}, a string, at timestamp", {
        "servers": ["objects.test:9092"], "topics": ["t"], "columns": ["a", "at:timestamp"]}),
    ("postgresql", f"{TICKS}, n bigint", {
        "database": {"secret": "d"}, "table": "t", "column": "n", "columns": ["n:bigint"]}),
    ("kafka", f"{TICKS}, a string, kafka_key string, kafka_time timestamp", {
        "servers": ["objects.test:9092"], "topics": ["t"], "columns": ["a"], "include": ["kafka_time", "kafka_key"]}),
    ("files", f"{TICKS}, a double, file_name string", {
        "path": "drop", "columns": ["a:double"], "format": "csv", "include": ["file_name"]}),
    ("spark_source", f"{TICKS}, value bigint", {"source": "rate", "columns": ["value:bigint"]}),
]


@pytest.fixture(scope="module", autouse=True)
def recordings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replay")
    (folder / "lines.csv").write_text("a,1\nb,2\n")
    (folder / "rows.db").touch()
    pq.write_table(pa.table({
        "i": pa.array([1], pa.int32()), "f": pa.array([1.0], pa.float32()), "s": pa.array(["x"]),
        "d": pa.array(["x"]).dictionary_encode(), "w": pa.array([1], pa.timestamp("us", tz="UTC")),
        "l": pa.array([[1.0]]), "r": pa.array([{"a": 1, "b": "x"}]), "_seq": pa.array([7]),
    }), folder / "columns.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEIR_REPLAY_DIRS", str(folder))
        patch.setenv("WEIR_DATA_DIR", str(tmp_path_factory.mktemp("data")))
        patch.setenv("WEIR_HTTP_HOSTS", "objects.test")
        install_package(tmp_path_factory.mktemp("packages"), patch)
        yield


def columns_of_ddl(spark, ddl: str) -> Columns:
    return Columns(dict(spark.createDataFrame([], ddl).dtypes))


@pytest.fixture(scope="module")
def empty_stream(spark, tmp_path_factory):
    """An analysed stream of a schema; nothing of it runs."""
    folder = tmp_path_factory.mktemp("empty")

    def make(ddl: str):
        return spark.readStream.schema(ddl).parquet(str(folder)).coalesce(1)

    return make


# Made of the same expressions as urban_sensing, for each of which Spark takes seconds.
MUCH_ALIKE = {"smart_meter", "wearable", "taxi_trips"}


@pytest.mark.parametrize("name,ddl,config", [
    pytest.param(*case, id=f"{case[0]}-{place}", marks=pytest.mark.long if case[0] in MUCH_ALIKE else ())
    for place, case in enumerate(CASES)])
def test_a_task_has_the_columns_that_its_type_declares(name, ddl, config, spark, empty_stream):
    task_type = registry.task_types()[name]
    declared = registry.columns_of(task_type, columns_of_ddl(spark, ddl), config)
    assert declared.complete
    assert list(declared.types.items()) == build(name, empty_stream(ddl), **config).dtypes


def first_of_each_type() -> Iterator[Any]:
    """Of the types whose batches may stay open; the long run has their other cases, too."""
    seen: set[str] = set(MUCH_ALIKE)
    for case in CASES:
        if registry.task_types()[case[0]].opens:
            yield pytest.param(*case, marks=pytest.mark.long if case[0] in seen else ())
            seen.add(case[0])


@pytest.mark.parametrize("name,ddl,config", [*first_of_each_type()], ids=str)
def test_batches_of_a_type_that_says_so_may_stay_open(name, ddl, config, spark, tmp_path):
    """As its slot finds by Spark's plan: folds are at the host, and nothing else keeps state or runs Python."""
    task_type = registry.task_types()[name]
    assert task_type.terminal not in ("parquet", "json")
    assert not {"idle"} & {option.name for option in task_type.parameters}
    assert can_be_hosted(spark, [Task("t", name, config)], registry.task_types(), tmp_path)
    nulls = [functions.lit(None).cast(column.dataType).alias(column.name)
             for column in spark.createDataFrame([], ddl).schema]
    events = spark.readStream.format("rate").load().select(*nulls).coalesce(1)
    with going_on("t", hosted=HostedFolds(tmp_path, is_open=True).fold):
        assert open_streams.refusal(build(name, events, **config)) == ""


def test_every_type_has_a_case_here():
    assert {task_type.name for task_type in registry.built_in()} == {name for name, *_ in CASES}


WRONG = [
    ("senml_parse", TEXT, {"field": "note"}, "field", "note"), ("csv_parse", PLAIN, {"columns": ["a"]}, "field", "csv"),
    ("observations", PLAIN, {"id_field": "sensor_id", "fields": ["tags"]}, "fields", "tags"),
    ("observations", PLAIN, {"id_field": "sensor", "fields": ["t"]}, "id_field", "sensor"),
    ("range_filter", PLAIN, {"ranges": {"t": [0, 1], "temp": [0, 1]}}, "ranges", "temp"),
    ("range_filter", PLAIN, {"ranges": {"sensor_id": [0, 1]}}, "ranges", "sensor_id"),
    ("forecast", PLAIN, {"value": "sensor_id"}, "value", "sensor_id"),
    ("forecast", PLAIN, {"value": "t", "by": ["n"], "holiday": "tags"}, "holiday", "tags"),
    ("kalman_filter", PLAIN, {}, "", "value"), ("block_average", OBSERVATIONS, {"by": ["obz"]}, "by", "obz"),
    ("distinct_count", PLAIN, {}, "by", "obs"), ("roll_up", OBSERVATIONS, {"blocks": 2}, "", "count"),
    ("sql", PLAIN, {"query": "SELECT sensr_id FROM input"}, "query", "sensr_id"),
    ("sql_lookup", PLAIN, {"database": "sqlite:rows.db", "query": "select :m", "columns": ["n"]}, "query", "m"),
    ("http_get", PLAIN, {"url": "http://objects.test/{m}"}, "url", "m"),
    ("file_batches", PLAIN, {"folder": "f", "columns": ["tt"]}, "columns", "tt"),
    ("window", PLAIN, {"aggregates": ["x=sum(sensor_id)"]}, "aggregates", "sensor_id"),
    ("window", PLAIN, {"aggregates": ["x=count(*)"], "by": ["tags"]}, "by", "tags"),
    ("window", PLAIN, {"aggregates": ["x=count(*)"], "kind": "landmark", "landmark": "t"}, "landmark", "t"),
    ("align", PLAIN, {"side": "sensor", "sides": ["a", "b"], "columns": ["a.t"]}, "side", "sensor"),
    ("align", PLAIN, {"side": "n", "sides": ["1", "2"], "columns": ["1.tt"]}, "columns", "tt"),
    ("key_split", PLAIN, {"by": ["tags"], "of": 2, "part": 1}, "by", "tags"),
    ("from_port", PLAIN, {"port": "n"}, "port", "n"), ("deduplicate", PLAIN, {"by": ["sensor"]}, "by", "sensor"),
    ("union", PLAIN, {"columns": ["tt"]}, "columns", "tt"),
    ("join", PLAIN, {"on": ["n"], "left": "side = 'l'", "right": "ok", "left_columns": ["t"], "right_columns": []},
     "left", "side"),
    ("join", PLAIN, {"on": ["n"], "left": "ok", "right": "ok", "left_columns": ["tt"], "right_columns": []},
     "left_columns", "tt"),
    ("train", PLAIN, {"features": ["t", "sensor_id"], "target": "n"}, "features", "sensor_id"),
    ("train", PLAIN, {"features": ["t"], "target": "nn"}, "target", "nn"),
    ("predict", PLAIN, {"features": ["tt"], "model": "m"}, "features", "tt"),
    ("predict", PLAIN, {"features": ["t"]}, "", "model"),
    ("error_estimate", PLAIN, {"predicted": "t", "actual": "sensor_id", "average": "t"}, "actual", "sensor_id"),
    ("python_by_key", PLAIN, {"function": "sensors.checks:counted", "version": "1.2", "columns": ["a"],
                               "by": ["n"], "reads": ["tags"]}, "reads", "tags"),
    ("python_by_key", PLAIN, {"function": "sensors.checks:counted", "version": "1.2", "columns": ["a"],
                               "by": ["nn"]}, "by", "nn"),
    ("annotate", PLAIN, {"field": "sensor"}, "field", "sensor"),
    ("csv_to_senml", PLAIN, {"fields": ["tt"]}, "fields", "tt"), ("join_by_message", PLAIN, {}, "", "value"),
]


@pytest.mark.parametrize("name,ddl,config,parameter,value", WRONG, ids=[f"{case[0]}-{case[4]}" for case in WRONG])
def test_what_a_task_misses_is_told_with_its_place_and_what_there_is(name, ddl, config, parameter, value, spark):
    with pytest.raises(ColumnError) as caught:
        registry.columns_of(registry.task_types()[name], columns_of_ddl(spark, ddl), config)
    assert caught.value.facts["parameter"] == parameter and caught.value.facts["value"] == value
    assert caught.value.remedy


OBSERVED = {"schema": "own", "id_field": "id", "fields": ["temperature", "light1"]}


@pytest.mark.parametrize("between", [(), (("annotate", {"field": "meta"}),),
                                     (("range_filter", {"ranges": {"light1": [0, 1]}}),)], ids=repr)
@pytest.mark.parametrize("ranges,missed", [
    (["temperatur"], "temperatur"), (["light1", "temperatur"], "temperatur"), (["temperature", "light1"], None),
    (["light1", "light2"], None), (["dust"], None)], ids=repr)
def test_a_range_of_an_observation_that_never_comes_is_told_with_the_one_that_is_meant(between, ranges, missed):
    """But not where the like one is named, too: documents say more than a parser of a few gives."""
    types = registry.task_types()
    given = interleaved([("parse", registry.columns_of(types["senml_parse"], Columns.unknown(), OBSERVED))])
    for name, config in between:
        given = registry.columns_of(types[name], given, config)
    config = {"ranges": {name: [0, 1] for name in ranges}}
    if missed is None:
        registry.columns_of(types["range_filter"], given, config)
        return
    with pytest.raises(ColumnError) as caught:
        registry.columns_of(types["range_filter"], given, config)
    assert (caught.value.facts["parameter"], caught.value.facts["value"]) == ("ranges", missed)
    assert "Did you mean temperature?" in caught.value.remedy


def test_unknown_columns_are_refused_nowhere():
    for name, _, config in CASES:
        if registry.task_types()[name].kind != "source":
            registry.columns_of(registry.task_types()[name], Columns.unknown(), config)


@pytest.mark.parametrize("names", [
    ("id", "Id"), ("id", "other"), ("a.b",), ("a`b",), ("*", "a"), ("_Seq", "_seq"),
    ("a b", "a-b", "1", "größe", "a[0]", "a:b", "a/b")],
    ids=repr)
def test_names_are_refused_just_where_spark_does_not_tell_them_apart(spark, names):
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    rows = spark.createDataFrame([], StructType([StructField(name, StringType()) for name in names]))
    try:
        told_apart = all(rows.select(F.col(name)).columns == [name] for name in names)
    except AnalysisException:
        told_apart = False
    if told_apart:
        require_told_apart(names)
    else:
        with pytest.raises(ColumnError):
            require_told_apart(names)
