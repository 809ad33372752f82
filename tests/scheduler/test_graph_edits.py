"""Edits of a graph: the document says what was meant, and every other line stays as it was."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.documents import dump_document, to_document
from scheduler.model.graph_edits import (
    GraphNotEditable,
    add_task,
    configure_task,
    editable,
    join_stream,
    possible_readers,
    remove_stream,
    remove_task,
    rename_task,
)
from scheduler.model.text_changes import applied, document_value, text_changes

from .strategies import dataflows
from .test_editing import FLOW

LINES = FLOW.splitlines(keepends=True)


def changed_lines(text):
    after = text.splitlines(keepends=True)
    return [line for line in LINES if line not in after], [line for line in after if line not in LINES]


@pytest.mark.parametrize(
    ("edit", "gone", "new"),
    [
        (lambda value: configure_task(value, "metres", {"by": 0.02, "label": None}),
         ['  - {id: metres, type: scale, config: {by: 0.01, label: "m"}}  # in metres\n'],
         ["  - {id: metres, type: scale, config: {by: 0.02}}  # in metres\n"]),
        (lambda value: configure_task(value, "warn", {"level": 5}), [], ["    config: {level: 5}\n"]),
        (lambda value: remove_task(value, "keep"),
         ["  - id: keep\n", "    type: archive\n", "    config:\n", "      name: levels   # as before\n",
          "  - {from: metres, to: keep}\n"], []),
        (lambda value: add_task(value, {"id": "thin", "type": "thin"}, source="metres", target="warn"),
         ["  - {from: metres, to: warn}\n"],
         ["  - {id: thin, type: thin}\n", "  - {from: metres, to: thin}\n", "  - {from: thin, to: warn}\n"]),
        (lambda value: join_stream(value, "levels", "keep"), [], ["  - {from: levels, to: keep}\n"]),
        (lambda value: remove_stream(value, "metres", "warn"), ["  - {from: metres, to: warn}\n"], []),
        (lambda value: rename_task(value, "levels", "gauges"),
         ["  - {id: levels, type: sensors}   # no config\n", "  - {from: levels, to: metres}\n",
          "rates: {levels: 50}   # each second\n"],
         ["  - {id: gauges, type: sensors}   # no config\n", "  - {from: gauges, to: metres}\n",
          "rates: {gauges: 50}   # each second\n"]),
        (lambda value: remove_task(value, "metres"),
         ['  - {id: metres, type: scale, config: {by: 0.01, label: "m"}}  # in metres\n',
          "  - {from: levels, to: metres}\n", "  - {from: metres, to: keep}\n", "  - {from: metres, to: warn}\n"],
         ["  - {from: levels, to: keep}\n", "  - {from: levels, to: warn}\n"]),
        (lambda value: remove_task(value, "levels"),
         ["  - {id: levels, type: sensors}   # no config\n", "  - {from: levels, to: metres}\n",
          "rates: {levels: 50}   # each second\n"], []),
        (lambda value: configure_task(value, "levels", {"rate_per_s": 60}),
         ["rates: {levels: 50}   # each second\n"], ["rates: {levels: 60}   # each second\n"]),
        (lambda value: rename_task(value, "warn", "flood"),
         ["  - id: warn\n", "  - {from: metres, to: warn}\n"],
         ["  - id: flood\n", "  - {from: metres, to: flood}\n"]),
    ],
    ids=["configure", "first-config", "remove", "add-on-stream", "join", "remove-stream", "rename-source",
         "remove-between", "remove-source", "rate", "rename"],
)
def test_an_edit_touches_its_own_lines_alone(edit, gone, new):
    meant = edit(yaml.safe_load(FLOW))
    changes = text_changes(FLOW, meant, "yaml")
    after = applied(FLOW, changes)
    assert changed_lines(after) == (gone, new)
    assert yaml.safe_load(after) == meant


def test_an_alias_is_not_edited_in_place():
    text = "tasks:\n  - {id: a, type: t, config: &c {by: 1}}\n  - {id: b, type: t, config: *c}\nstreams: []\n"
    assert text_changes(text, configure_task(yaml.safe_load(text), "a", {"by": 2}), "yaml") is None


@settings(max_examples=60)
@given(dataflows(), st.sampled_from(["json", "yaml"]), st.data())
def test_any_edit_says_what_was_meant(dataflow, format, data):
    text = dump_document(dataflow, format)
    value = json.loads(json.dumps(to_document(dataflow)))
    task_id = data.draw(st.sampled_from([task["id"] for task in value["tasks"]]))
    stream = data.draw(st.sampled_from(value["streams"]))
    ends = stream["from"], stream["to"]
    meant = data.draw(st.sampled_from([
        configure_task(value, task_id, {"added": [1, 2.5], "label": "no: # x"}),
        remove_task(value, task_id),
        add_task(value, {"id": "new one", "type": "thin"}, source=task_id),
        add_task(value, {"id": "new one", "type": "thin"}, source=ends[0], target=ends[1]),
        join_stream(value, task_id, ends[1]),
        remove_stream(value, *ends),
        rename_task(value, task_id, "new one"),
    ]))
    changes = text_changes(text, meant, format)
    if changes is not None:
        after = applied(text, changes)
        read = json.loads(after) if format == "json" else yaml.safe_load(after)
        assert read == meant
    else:  # long texts are folded over lines in YAML; JSON has nothing that stands in the way
        assert format == "yaml"


LIMITED = {
    "name": "a", "tasks": [{"id": name, "type": "t"} for name in "abcd"],
    "streams": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}, {"from": "b", "to": "d"}],
    "latency": ["2 s", {"limit": "1 s", "along": ["a", "b", "c"]}, {"limit": "1 s", "along": ["a -> b", "b", "b -> d"]},
                {"limit": "1 s", "along": ["c"]}, {"limit": "1 s", "along": ["d", "a"]}]}  # the last is wrong already


@pytest.mark.parametrize(("edit", "along"), [
    (lambda value: rename_task(value, "b", "x"), [["a", "x", "c"], ["a -> x", "x", "x -> d"], ["c"], ["d", "a"]]),
    (lambda value: remove_task(value, "b"), [["a", "c"], ["c"], ["d", "a"]]),
    (lambda value: remove_task(value, "c"), [["a", "b"], ["a -> b", "b", "b -> d"], ["d", "a"]]),
    (lambda value: remove_stream(value, "b", "d"), [["a", "b", "c"], ["c"], ["d", "a"]]),
    (lambda value: add_task(value, {"id": "x", "type": "t"}, source="a", target="b"),
     [["a", "x", "b", "c"], ["a -> x", "x", "x -> b", "b", "b -> d"], ["c"], ["d", "a"]]),
], ids=["rename", "remove", "remove-end", "remove-stream", "add-on-stream"])
def test_latency_limits_follow_what_they_name(edit, along):
    first, *others = edit(LIMITED)["latency"]
    assert first == "2 s" and [limit["along"] for limit in others] == along


def test_the_only_limit_goes_with_its_task():
    value = {**LIMITED, "latency": {"limit": "1 s", "along": ["c"]}}
    assert "latency" not in remove_task(value, "c")
    assert rename_task(value, "c", "x")["latency"] == {"limit": "1 s", "along": ["x"]}


def test_what_goes_round_is_no_reader():
    assert possible_readers(LIMITED, "b") == [] and possible_readers(LIMITED, "a") == ["c", "d"]
    assert possible_readers(LIMITED, "c") == ["d"]


def test_edits_around_a_dynamic_task_keep_its_ports():
    value = {"name": "x", "tasks": [{"id": name} for name in ("s", "t", "w", "o")], "streams": [
        {"from": "s", "to": "t"}, {"from": "t", "to": "w", "input": "left", "selectivity": 0.5},
        {"from": "w", "to": "o", "output": "high"}]}
    assert remove_task(value, "t")["streams"] == [
        {"from": "s", "to": "w", "input": "left"}, {"from": "w", "to": "o", "output": "high"}]
    assert remove_task(value, "w")["streams"] == [
        {"from": "s", "to": "t"}, {"from": "t", "to": "o", "selectivity": 0.5}]
    before = add_task(value, {"id": "new"}, source="t", target="w")
    assert before["streams"][1:3] == [
        {"from": "t", "to": "new", "selectivity": 0.5}, {"from": "new", "to": "w", "input": "left"}]
    behind = add_task(value, {"id": "new"}, source="w", target="o")
    assert behind["streams"][2:] == [{"from": "w", "to": "new", "output": "high"}, {"from": "new", "to": "o"}]
    twice = {**value, "streams": [*value["streams"], {"from": "w", "to": "o", "output": "low"}]}
    with pytest.raises(GraphNotEditable, match="two streams") as refused:
        editable(twice)
    assert "change the text" in refused.value.remedy, "both streams are right"


@pytest.mark.parametrize(
    "new", ["SELECT a\nFROM input\nWHERE b > 2", "SELECT a\n\n  FROM input", "SELECT a", " x\ny", "\n"])
def test_a_text_over_lines_stays_over_lines(new):
    text = """tasks:
  - id: query   # ours
    type: sql
    config:
      query: |
        SELECT a
        FROM input
      # that was it
streams: []
"""
    meant = configure_task(yaml.safe_load(text), "query", {"query": new})
    after = applied(text, text_changes(text, meant, "yaml"))
    assert yaml.safe_load(after) == meant
    assert after.splitlines()[-2:] == ["      # that was it", "streams: []"]
    if new.startswith("SELECT"):
        assert f"|-\n        {new.splitlines()[0]}\n" in after


@pytest.mark.parametrize(("begun", "format"), [
    ("", "json"), ("{}", "json"), ("", "yaml"), ("\n", "yaml"), ("# Mine\n", "yaml"), ("# Mine", "yaml"),
    ("{}", "yaml"), ("name: Mine\n", "yaml"), ("name: Mine\ntasks:\nstreams:   # none\n", "yaml"),
    ("name: Mine\ntasks: []\nstreams: []", "yaml")])
def test_a_graph_grows_from_any_beginning(begun, format):
    text = begun
    for edit in (lambda value: add_task(value, {"id": "a", "type": "sensors"}),
                 lambda value: add_task(value, {"id": "b", "type": "alarm"}, source="a"),
                 lambda value: add_task(value, {"id": "c", "type": "alarm", "config": {"level": 4}}, source="a")):
        text = applied(text, text_changes(text, edit(editable(document_value(text, format))), format))
    value = document_value(text, format)
    assert [task["id"] for task in value["tasks"]] == ["a", "b", "c"]
    assert value["streams"] == [{"from": "a", "to": "b"}, {"from": "a", "to": "c"}]
    assert text.startswith(begun.split("\n")[0]) or begun == "{}"
    if format == "yaml" and begun != "{}":
        assert "  - {id: b, type: alarm}\n" in text and "  - {from: a, to: c}" in text
