"""Documents made from answers: valid, and doing what was chosen."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.documents import dump_document, read_document
from workers.library.config import InvalidConfig
from workers.library.first_document import COMPARISONS, FirstDataflow, FirstWork, OwnColumn, first_document
from workers.library.registry import check, columns_of, task_types
from workers.library.select.grammar import parse

MQTT = {"server": "mqtt.example.org:1883", "topics": ["a"]}
COLUMNS = (
    OwnColumn("room"), OwnColumn("celsius", "double"), OwnColumn("n", "bigint"), OwnColumn("ok", "boolean"),
    OwnColumn("at", "timestamp"), OwnColumn("position_lat", "double", ("position", "lat")),
    OwnColumn("price", "decimal(38,2)"))
WORDS = ["select", "from", "order", "timestamp", "case", "end", "not", "null", "true", "interval", "date", "_x", "Aé"]


@pytest.fixture(autouse=True)
def _hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "mqtt.example.org")


def made(first: FirstDataflow) -> dict[str, dict[str, Any]]:
    """The configs of the tasks of a document, which is valid and stays the same as YAML."""
    def checked(task_type: Any, config: Any) -> Any:
        return check(task_type, config)

    registry: dict[str, Any] = {"task_types": task_types(), "check_config": checked, "columns_of": columns_of}
    dataflow = read_document(json.dumps(first_document(first)), format="json", **registry)
    assert read_document(dump_document(dataflow, "yaml"), format="yaml", **registry) == dataflow
    return {task.id: dict(task.config) for task in dataflow.tasks}


def of(work: FirstWork, columns: tuple[OwnColumn, ...] = COLUMNS, **more: Any) -> FirstDataflow:
    return FirstDataflow("Mine", "mqtt", MQTT, columns, work, "output", {"name": "mine"}, **more)


def test_fields_are_declared_and_values_inside_of_them_taken_out() -> None:
    tasks = made(of(FirstWork()))
    assert list(tasks) == ["source", "fields", "out"]
    assert tasks["source"]["columns"] == [
        "room", "celsius:double", "n:bigint", "ok:boolean", "at:timestamp", "price:decimal(38,2)", "position"]
    assert tasks["fields"]["query"] == (
        "SELECT room, celsius, n, ok, at, CAST(get_json_object(position, '$.lat') AS DOUBLE) AS position_lat, price "
        "FROM input")
    assert list(made(of(FirstWork(), columns=()))) == ["source", "out"], "without columns events are text"


@pytest.mark.parametrize(("column", "comparison", "value", "condition"), [
    ("celsius", ">", "25", "celsius > 25"), ("n", "<=", "-3", "n <= -3"), ("room", "=", "it's", "room = 'it\\'s'"),
    ("ok", "!=", "TRUE", "ok <> TRUE"), ("room", "contains", "a", "contains(room, 'a')"),
    ("at", "missing", "", "at IS NULL"), ("at", "there", "", "NOT at IS NULL"),
    ("price", ">=", "1.50", "price >= 1.50"), ("position_lat", "<", "48.1", "position_lat < 48.1"),
    ("at", "<", "2026-05-01", "at < CAST('2026-05-01T00:00:00+00:00' AS TIMESTAMP)")])
def test_a_filter_keeps_what_was_chosen(column: str, comparison: str, value: str, condition: str) -> None:
    tasks = made(of(FirstWork("filter", column, comparison, value)))
    assert tasks["filter"]["query"] == f"SELECT * FROM input WHERE {condition}"


def test_an_average_is_by_key_in_windows() -> None:
    assert made(of(FirstWork("average", "celsius", by="room", size="5 min")))["average"] == {
        "by": ["room"], "size": "5 min", "aggregates": ["celsius=avg(celsius)", "events=count(*)"]}
    assert "by" not in made(of(FirstWork("average", "n")))["average"]


@pytest.mark.parametrize(("work", "answer"), [
    (FirstWork("filter", "celsius", ">", "warm"), "filter_value"),
    (FirstWork("filter", "ok", "=", "1"), "filter_value"),
    (FirstWork("filter", "at", ">", "soon"), "filter_value"), (FirstWork("filter", "none", ">", "1"), "filter_column"),
    (FirstWork("filter", "celsius", "like", "1"), "comparison"),
    (FirstWork("filter", "celsius", "contains", "1"), "comparison"), (FirstWork("average", "room"), "average_column"),
    (FirstWork("average", "celsius", by="none"), "by"), (FirstWork("sort"), "work")])
def test_what_cannot_be_done_is_told_at_its_answer(work: FirstWork, answer: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        first_document(of(work))
    assert refused.value.facts["answer"] == answer and refused.value.remedy


@pytest.mark.parametrize("kind", ["((", "bigint) FROM (SELECT 1", "array<"])
def test_the_type_of_what_is_inside_of_a_field_is_one_of_a_column(kind: str) -> None:
    columns = (OwnColumn("outer"), OwnColumn("inner", kind, ("outer", "inner")))
    with pytest.raises(InvalidConfig) as refused:
        first_document(of(FirstWork(), columns))
    assert refused.value.facts["answer"] == "columns"
    assert first_document(of(FirstWork(), (columns[0], OwnColumn("inner", "", ("outer", "inner")))))


def test_a_time_that_is_no_column_is_told() -> None:
    with pytest.raises(InvalidConfig) as refused:
        first_document(FirstDataflow("Mine", "mqtt", {**MQTT, "time_field": "ts"}, COLUMNS))
    assert refused.value.facts["answer"] == "time_field"


@given(st.one_of(st.sampled_from(WORDS), st.from_regex(r"[A-Za-z_]\w{0,8}", fullmatch=True)),
       st.text(max_size=12), st.sampled_from(list(COMPARISONS)))
def test_no_name_and_no_value_becomes_sql(name: str, value: str, comparison: str) -> None:
    columns = (OwnColumn(name), OwnColumn("inner", "bigint", ("outer", "inner")))
    try:
        document = first_document(FirstDataflow("x", "mqtt", {}, columns, FirstWork("filter", name, comparison, value)))
    except InvalidConfig as refused:
        assert refused.facts["answer"] in ("columns", "comparison")
        return
    queries = {task["id"]: parse(task["config"]["query"]) for task in document["tasks"] if task["type"] == "sql"}
    assert [item.names for item in queries["fields"].items] == [(name,), ("inner",)]
    where = queries["filter"].where
    literals = [str(part.this) for part in where.walk() if type(part).__name__ == "Literal"]
    assert literals == ([] if comparison in ("there", "missing") else [value])
    assert [part.name for part in where.walk() if type(part).__name__ == "Column"] == [name]
