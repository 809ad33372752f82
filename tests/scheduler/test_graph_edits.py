"""Edits of a graph: the document says what was meant, and every other line stays as it was."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.documents import dump_document, to_document
from scheduler.model.graph_edits import (
    add_task,
    configure_task,
    join_stream,
    remove_stream,
    remove_task,
    rename_task,
)
from scheduler.model.text_changes import applied, text_changes, undone

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
        (lambda value: configure_task(value, "warn", {"level": 5}), [], ['    config: {"level": 5}\n']),
        (lambda value: remove_task(value, "keep"),
         ["  - id: keep\n", "    type: archive\n", "    config:\n", "      name: levels   # as before\n",
          "  - {from: metres, to: keep}\n"], []),
        (lambda value: add_task(value, {"id": "thin", "type": "thin"}, source="metres", target="warn"),
         ["  - {from: metres, to: warn}\n"],
         ['  - {"id": "thin", "type": "thin"}\n', '  - {from: metres, to: "thin"}\n',
          '  - {"from": "thin", "to": "warn"}\n']),
        (lambda value: join_stream(value, "levels", "keep"), [], ['  - {"from": "levels", "to": "keep"}\n']),
        (lambda value: remove_stream(value, "metres", "warn"), ["  - {from: metres, to: warn}\n"], []),
        (lambda value: rename_task(value, "warn", "flood"),
         ["  - id: warn\n", "  - {from: metres, to: warn}\n"],
         ['  - id: "flood"\n', '  - {from: metres, to: "flood"}\n']),
    ],
    ids=["configure", "first-config", "remove", "add-on-stream", "join", "remove-stream", "rename"],
)
def test_an_edit_touches_its_own_lines_alone(edit, gone, new):
    meant = edit(yaml.safe_load(FLOW))
    changes = text_changes(FLOW, meant, "yaml")
    after = applied(FLOW, changes)
    assert changed_lines(after) == (gone, new)
    assert yaml.safe_load(after) == meant
    assert applied(after, undone(FLOW, changes)) == FLOW


def test_an_alias_is_not_edited_in_place():
    text = "tasks:\n  - {id: a, type: t, config: &c {by: 1}}\n  - {id: b, type: t, config: *c}\nstreams: []\n"
    assert text_changes(text, configure_task(yaml.safe_load(text), "a", {"by": 2}), "yaml") is None


@settings(max_examples=60)
@given(dataflows(), st.sampled_from(["json", "yaml"]), st.data())
def test_any_edit_says_what_was_meant_and_can_be_undone(dataflow, format, data):
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
        assert applied(after, undone(text, changes)) == text
    else:  # long texts are folded over lines in YAML; JSON has nothing that stands in the way
        assert format == "yaml"
