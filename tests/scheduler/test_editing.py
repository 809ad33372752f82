"""Editing documents in place: the values change, and nothing else does."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.documents import dump_document, read_document
from scheduler.model.editing import with_values

from .catalogue import TYPES
from .strategies import dataflows

FLOW = """# Levels of the canals
name: Sluices
tasks:
  - {id: levels, type: sensors}   # no config
  - {id: metres, type: scale, config: {by: 0.01, label: "m"}}  # in metres
  - id: keep
    type: archive
    config:
      name: levels   # as before
  - id: warn
    type: alarm   # of floods
streams:
  - {from: levels, to: metres}
  - {from: metres, to: keep}
  - {from: metres, to: warn}
rates: {levels: 50}   # each second
"""


def changed(dataflow, values):
    rates = dict(dataflow.rates_per_s)
    tasks = []
    for task in dataflow.tasks:
        config = dict(values.get(task.id, {}))
        if "rate_per_s" in config:
            rates[task.id] = config.pop("rate_per_s")
        tasks.append(replace(task, config={**task.config, **config}))
    return replace(dataflow, tasks=tuple(tasks), rates_per_s=rates)


def edited(text, values, format="yaml"):
    dataflow = read_document(text, task_types=TYPES, format=format)
    return with_values(text, values, meant=changed(dataflow, values), format=format, task_types=TYPES)


@pytest.mark.parametrize(
    ("values", "before", "after"),
    [
        ({"metres": {"by": 0.02}}, "by: 0.01,", "by: 0.02,"),
        ({"metres": {"by": 60.0}}, "by: 0.01,", "by: 60,"),
        ({"metres": {"label": "cm"}}, 'label: "m"', 'label: "cm"'),
        ({"metres": {"weights": [1.0, 2.5]}}, 'label: "m"}', 'label: "m", weights: [1.0, 2.5]}'),
        ({"levels": {"seed": 4}}, "type: sensors}", "type: sensors, config: {seed: 4}}"),
        ({"levels": {"seed": 4, "city": "turin"}}, "type: sensors}",
         'type: sensors, config: {seed: 4, city: turin}}'),
        ({"keep": {"name": "metres"}}, "name: levels   #", "name: metres   #"),
        ({"warn": {"level": 5}}, "# of floods\n", "# of floods\n    config: {level: 5}\n"),
        ({"levels": {"rate_per_s": 40.0}}, "levels: 50}", "levels: 40}"),
        ({"levels": {"rate_per_s": 40.0}, "metres": {"by": 2}}, "levels: 50}", "levels: 40}"),
    ],
)
def test_a_value_changes_and_the_rest_stays_as_it_was_written(values, before, after):
    text = edited(FLOW, values)
    assert text.in_place and after in text.text
    assert text.text.replace(after, before).replace("by: 2,", "by: 0.01,") == FLOW


def test_json_stays_json_however_it_is_indented():
    tasks = [{"id": "s", "type": "sensors"}, {"id": "o", "type": "alarm", "config": {"level": 4}}]
    text = json.dumps({"name": "a", "tasks": tasks, "streams": [{"from": "s", "to": "o"}]}, indent="\t")
    result = edited(text, {"o": {"level": 5}, "s": {"seed": 2}}, format="json")
    assert result.in_place
    expected = text.replace('"level": 4', '"level": 5').replace('"sensors"', '"sensors",\n\t\t\t"config": {"seed": 2}')
    assert result.text == expected


def test_a_value_over_several_lines_is_edited_in_place():
    text = FLOW.replace('{id: metres, type: scale, config: {by: 0.01, label: "m"}}', """id: metres
    type: scale
    config:
      by: 0.01
      weights:
        - 1   # of the first
        - 2
""")
    result = edited(text, {"metres": {"by": 0.02, "weights": [1, 3.5]}})
    assert result.in_place
    assert result.text == text.replace("by: 0.01", "by: 0.02").replace("- 2\n", "- 3.5\n")


@pytest.mark.parametrize(
    "text",
    [
        FLOW.replace("{by: 0.01, label: \"m\"}", "&c {by: 0.01}").replace(
            "streams:", "  - {id: other, type: scale, config: *c}\nstreams:").replace(
            "rates:", "  - {from: warned, to: other}\n  - {from: other, to: warn}\nrates:").replace(
            "  - id: warn", "  - {id: warned, type: thin}\n  - id: warn").replace(
            "  - {from: metres, to: warn}", "  - {from: metres, to: warned}"),
    ],
    ids=["alias"],
)
def test_what_cannot_be_edited_in_place_is_written_anew(text):
    values = {"metres": {"by": 0.02, "weights": [3.0]}}
    written = edited(text, values)
    assert not written.in_place
    meant = changed(read_document(text, task_types=TYPES), values)
    assert read_document(written.text, task_types=TYPES) == read_document(dump_document(meant), task_types=TYPES)


@settings(max_examples=40)
@given(dataflows(), st.sampled_from(["json", "yaml"]), st.data())
def test_whatever_is_edited_says_what_was_meant(dataflow, format, data):
    task = data.draw(st.sampled_from(dataflow.tasks))
    name, value = {
        "sensors": ("seed", 7), "scale": ("by", 9.5), "archive": ("name", "x"), "alarm": ("level", 8),
    }.get(task.type, (None, None))
    values = {task.id: {name: value}} if name else {}
    text = dump_document(dataflow, format)
    result = with_values(text, values, meant=changed(dataflow, values), format=format, task_types=TYPES)
    again = read_document(result.text, task_types=TYPES, format=format)
    assert again.task(task.id).config.get(name) == value
    others = [task_ for task_ in again.tasks if task_.id != task.id]
    assert others == [task_ for task_ in dataflow.tasks if task_.id != task.id] and again.streams == dataflow.streams
