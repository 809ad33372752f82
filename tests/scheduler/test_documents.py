"""Reading documents: what is accepted, what each kind of mistake is told, and where."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from scheduler.model import structure
from scheduler.model.bounds import DOCUMENT_BYTES
from scheduler.model.columns import ColumnError
from scheduler.model.documents import dump_document, read_document, to_document
from scheduler.model.errors import InvalidDataflow
from scheduler.model.positions import MAX_PROBLEMS

from .catalogue import TYPES, flow

DOCS = Path(__file__).resolve().parents[2] / "docs" / "dataflow_format.md"

VALID = """\
name: Sluices
description: Levels of the inner canals
tasks:
  - {id: levels, type: sensors, config: {city: delft}}
  - {id: metres, type: scale, config: {by: 0.01}}
  - {id: keep, type: archive, config: {name: levels}}
streams:
  - {from: levels, to: metres}
  - {from: metres, to: keep, selectivity: 0.5}
rates: {levels: 50}
"""


def problems_of(text, **options):
    with pytest.raises(InvalidDataflow) as raised:
        read_document(text, task_types=TYPES, **options)
    assert raised.value.problems
    return raised.value.problems


def line_replaced(number: int, line: str) -> str:
    lines = VALID.splitlines()
    lines[number - 1] = line
    return "\n".join(lines) + "\n"


def test_a_valid_document_is_read_as_it_stands():
    dataflow = read_document(VALID, task_types=TYPES)
    assert (dataflow.name, dataflow.description) == ("Sluices", "Levels of the inner canals")
    assert [task.id for task in dataflow.tasks] == ["levels", "metres", "keep"]
    assert dict(dataflow.task("levels").config) == {"city": "delft"}, "defaults are not written into the document"
    assert [stream.selectivity for stream in dataflow.streams] == [None, 0.5]
    assert dict(dataflow.rates_per_s) == {"levels": 50.0}
    assert dataflow.visibility == "shared"


def test_json_and_yaml_mean_the_same():
    from_yaml = read_document(VALID, task_types=TYPES)
    as_json = dump_document(from_yaml, "json")
    assert as_json.startswith("{")
    assert read_document(as_json, task_types=TYPES) == from_yaml
    assert read_document(as_json.encode(), task_types=TYPES, format="json") == from_yaml
    assert read_document(b"\xef\xbb\xbf" + VALID.encode(), task_types=TYPES) == from_yaml, "a byte order mark is passed"


def test_what_is_optional_may_be_left_out():
    text = '{"$schema": "x", "name": "a", "tasks": [{"id": "s", "type": "sensors", "rate": 3, "config": null},' \
        ' {"id": "o", "type": "archive"}], "streams": [{"from": "s", "to": "o"}]}'
    dataflow = read_document(text, task_types=TYPES)
    assert dict(dataflow.rates_per_s) == {"s": 3.0}
    assert to_document(dataflow) == {
        "name": "a", "tasks": [{"id": "s", "type": "sensors"}, {"id": "o", "type": "archive"}],
        "streams": [{"from": "s", "to": "o"}], "rates": {"s": 3.0},
    }


LINE_CASES = [
    # line, its new text with ‸ where the problem is, code, what its message or remedy says
    (1, "‸nmae: Sluices", "unknown_key", "name"),
    (1, "name: ‸''", "empty_name", "empty"),
    (1, "name: ‸7", "ill_typed", "quotes"),
    (1, f"name: ‸{'x' * 101}", "too_long", "101"),
    (1, "name: ‸&a !!str Sluices", "yaml_tag", "tag"),
    (1, "‸<<: {name: x}", "merge_key", "<<"),
    (1, "‸7: Sluices", "key_not_text", "quotes"),
    (1, "name: ‸.nan", "not_finite", ".nan"), (1, "name: ‸1e999", "out_of_range", "1e999"),
    (1, 'name: ‸"a\\0b"', "invalid_unicode", "null"), (2, 'description: ‸"a\\u202Eb"', "invalid_unicode", "direction"),
    (2, "‸name: twice", "duplicate_key", "line 1"),
    (2, "visibility: ‸secret", "not_a_choice", "private"),
    (2, "description: ‸*where", "unknown_alias", "anchor"),
    (2, "description: ‸[a, b]", "ill_typed", "text"),
    (2, "description: a‸: b", "yaml_syntax", "mapping values"),
    (2, "description: &‸ù x", "yaml_syntax", "a to z"), (2, "description: *‸ой", "yaml_syntax", "a to z"),
    (4, "‸\t- {id: levels, type: sensors}", "yaml_syntax", "spaces"),
    (2, "‸--- more", "several_documents", "one dataflow"),
    (4, "  - {id: levels, type: ‸sensor, config: {city: delft}}", "unknown_task_type", "sensors"),
    (4, "  - {id: levels, type: ‸whatever}", "unknown_task_type", "library"),
    (4, "  - {id: levels, type: ‸[sensors]}", "ill_typed", "task type"),
    (4, "  - {id: levels, ‸typ: sensors}", "unknown_key", "type"),
    (4, "  - ‸{id: levels}", "missing_key", "type"),
    (4, "  - ‸levels", "ill_typed", "mapping"),
    (4, "  - {id: levels, type: sensors, config: {city: ‸delf}}", "not_a_choice", "delft"),
    (4, "  - {id: levels, type: sensors, config: {‸cty: delft}}", "unknown_parameter", "city"),
    (4, "  - {id: levels, type: sensors, config: {seed: ‸-1}}", "out_of_range", "0 or more"),
    (4, "  - {id: levels, type: sensors, config: {seed: ‸1.5}}", "ill_typed", "integer"),
    (4, "  - {id: levels, type: sensors, config: {seed: ‸9223372036854775808}}", "out_of_range", "64 bits"),
    (4, "  - {id: levels, type: sensors, config: {seed: ‸true}}", "ill_typed", "integer"),
    (4, "  - {id: levels, type: sensors, config: {seed: ‸null}}", "ill_typed", "null"),
    (4, "  - {id: levels, type: sensors, config: ‸[delft]}", "ill_typed", "mapping"),
    (4, "  - {id: ‸-levels, type: sensors}", "invalid_id", "letter or digit"),
    (4, f"  - {{id: ‸{'l' * 65}, type: sensors}}", "invalid_id", "64"),
    (4, "  - {id: ‸7, type: sensors}", "ill_typed", "quotes"),
    (5, "  - ‸{id: metres, type: scale}", "missing_parameter", "Factor"),
    (5, "  - {id: metres, type: scale, config: {by: 0.01, label: ‸A}}", "no_match", "[a-z]+"),
    (5, "  - {id: metres, type: scale, config: {by: 0.01, weights: [1, ‸x, 2]}}", "ill_typed", "a number"),
    (5, "  - {id: metres, type: scale, config: {by: 0.01, exact: ‸yes}}", "ill_typed", "true or false"),
    (5, "  - {id: metres, type: scale, config: {by: 0.01, options: ‸3}}", "ill_typed", "mapping"),
    (5, "  - {id: metres, type: scale, config: {by: ‸1001}}", "out_of_range", "1000 or less"),
    (5, "  - {id: metres, type: scale, config: {by: ‸'1'}}", "ill_typed", "a number"),
    (5, "  - {id: metres, type: scale, config: {by: 0.01}, rate: ‸5}", "rate_of_no_source", "transform"),
    (6, "  - {id: ‸metres, type: archive}", "duplicate_id", "line 5"),
    (6, "  - ‸{id: metres, type: scale}", "missing_parameter", "metres"),
    (6, "  - {id: keep, type: archive, config: &c {name: ‸*c}}", "recursive_alias", "inside"),
    (8, "  - {from: ‸level, to: metres}", "unknown_task", "levels"),
    (8, "  - {from: ‸nowhere, to: metres}", "unknown_task", "Add the task"),
    (8, "  - ‸{from: metres, to: metres}", "self_loop", "itself"),
    (8, "  - {from: ‸[levels], to: metres}", "ill_typed", "one task"),
    (8, "  - {from: levels, ‸too: metres}", "unknown_key", "to"),
    (9, "  - {from: metres, to: keep, selectivity: ‸-1}", "not_positive", "0 or more"),
    (9, "  - {from: metres, to: keep, selectivity: ‸much}", "ill_typed", "number"),
    (9, "  - ‸{from: metres, to: levels}", "source_with_input", "levels"),
    (9, "  - ‸{from: metres, to: levels}", "cycle", "levels → metres → levels"),
    (10, "rates: {levels: ‸0}", "not_positive", "greater than 0"),
    (10, "rates: {levels: ‸1e9}", "out_of_range", "10,000,000"),
    (10, "rates: {levels: ‸'5'}", "ill_typed", "number"),
    (10, "rates: {‸metres: 5}", "rate_of_no_source", "sources"),
    (10, "rates: {‸level: 5}", "unknown_task", "levels"),
    (10, "rates: ‸5", "ill_typed", "of each source"),
    (10, "  - ‸{from: levels, to: metres}", "duplicate_stream", "line 8"),
    (10, "  - ‸{from: keep, to: metres}", "sink_with_output", "keep"),
    (10, "‸task: []", "unknown_key", "tasks"),
]


@pytest.mark.parametrize(("line", "text", "code", "says"), LINE_CASES)
def test_a_mistake_is_told_with_its_place_and_remedy(line, text, code, says):
    all_found = problems_of(line_replaced(line, text.replace("‸", "")))
    problems = [
        problem for problem in all_found
        if (problem.code, problem.line, problem.column) == (code, line, text.index("‸") + 1)
    ]
    assert problems, all_found
    assert says in f"{problems[0].message} {problems[0].remedy}"
    assert problems[0].message and problems[0].remedy


JSON_CASES = [
    ('{"name": "a",}', "trailing_comma", 1, 13),
    ('{"name": [1,\n2 ,]}', "trailing_comma", 2, 3),
    ('{"name": "a"\n "tasks": []}', "json_syntax", 2, 2),
    ("{'name': 1}", "json_syntax", 1, 2),
    ('{"name"; 1}', "json_syntax", 1, 8),
    ('{"name": True}', "json_syntax", 1, 10),
    ('{"name": 01}', "json_syntax", 1, 10),
    ('{"name": "a\nb"}', "json_syntax", 1, 12),
    ('{"name": "a', "json_syntax", 1, 10),
    ('{"name": "\\x"}', "json_syntax", 1, 11),
    ('{"name": -Infinity}', "not_finite", 1, 10),
    ('{"name": 1e999}', "out_of_range", 1, 10),
    ('{"name": ' + "9" * 5000 + "}", "out_of_range", 1, 10),
    ('{"name": 1, "a": 2, "a": 3}', "duplicate_key", 1, 21),
    ('{"name": "\\ud800"}', "invalid_unicode", 1, 10), ('{"a\u202eb": 1}', "invalid_unicode", 1, 4),
    ('{"name": 1} x', "json_syntax", 1, 13),
    ('{"name": 1}{"name": 1}', "json_syntax", 1, 12),
    ("[" * 40, "too_deep", 1, 33),
    ("[" * 500_000, "too_deep", 1, 33),
    ('{"a":' * 100_000, "too_deep", 1, 161),
    ("[1]", "ill_typed", 1, 1),
    ("{}", "missing_key", 1, 1),
    ("", "json_syntax", 1, 1),
    ("\r\n\r\n[x", "json_syntax", 3, 2),
]


@pytest.mark.parametrize(("text", "code", "line", "column"), JSON_CASES)
def test_json_is_read_strictly(text, code, line, column):
    problems = problems_of(text, format="json")
    assert (code, line, column) in {(problem.code, problem.line, problem.column) for problem in problems}, problems


YAML_CASES = [
    ("", "empty"), ("# nothing\n", "empty"), ("---\n...\n", "empty"), ("~", "empty"), ("text", "ill_typed"),
    ("- a\n- b", "ill_typed"), ("a: [", "yaml_syntax"), ("\tname: x", "yaml_syntax"), ("name: \x07", "yaml_syntax"),
    ("name: !!python/object/apply:os.system [ls]", "yaml_tag"), ("? [a]\n: b", "key_not_text"),
    ("&a a: *a\n*a : b", "key_not_text"), ("[" * 500_000, "too_deep"), ("- " * 500_000, "too_deep"),
    ("%YAML 9.9\n---\nname: x", "yaml_syntax"),
]


@pytest.mark.parametrize(("text", "code"), YAML_CASES)
def test_yaml_that_is_no_dataflow_is_told_so(text, code):
    assert code in {problem.code for problem in problems_of(text, format="yaml")}


@pytest.mark.parametrize(("text", "code"), [
        (b"name: \xff\xfe", "invalid_unicode"), ("name: \ud800", "invalid_unicode"), ("name: a\0b", "invalid_unicode"),
        ("name: a # \u202eb", "invalid_unicode"), ("#" * (DOCUMENT_BYTES.most + 1), "too_large"),
        ("é" * (DOCUMENT_BYTES.most // 2 + 1), "too_large"),
    ])
def test_text_that_is_no_text_is_told_so(text, code):
    assert [problem.code for problem in problems_of(text)] == [code]


def test_aliases_are_followed_within_bounds():
    text = VALID.replace("{by: 0.01}", "&by {by: 0.01}").replace(
        "streams:", "  - {id: more, type: scale, config: *by}\nstreams:\n"
        "  - {from: metres, to: more}\n  - {from: more, to: keep}"
    )
    assert dict(read_document(text, task_types=TYPES).task("more").config) == {"by": 0.01}


def test_aliases_that_explode_are_refused_at_once():
    layers = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    layers += [f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]" for number in range(1, 20)]
    (problem,) = problems_of("\n".join(layers))
    assert (problem.code, problem.line) == ("too_many_values", 6)


def test_aliases_that_nest_ever_deeper_are_refused_at_once():
    layers = ["a0: &a0 []"] + [f"a{number}: &a{number} [[[*a{number - 1}]]]" for number in range(1, 100)]
    (problem,) = problems_of("\n".join(layers))
    assert (problem.code, problem.line) == ("too_deep", 12)


@pytest.mark.parametrize("format", ["json", "yaml"])
def test_thirty_two_levels_are_read(format):
    nested = "[" * 31 + "1" + "]" * 31
    assert [problem.code for problem in problems_of(f'{{"a": {nested}}}', format=format)][-1] == "unknown_key"
    assert [problem.code for problem in problems_of(f'{{"a": [{nested}]}}', format=format)] == ["too_deep"]


def test_all_problems_of_a_file_are_told_at_once_in_document_order():
    text = VALID.replace("sensors", "sensor").replace("by: 0.01", "bye: 1").replace("to: keep", "to: kep")
    problems = problems_of(text)
    assert {(problem.line, problem.code) for problem in problems} == {
        (4, "unknown_task_type"), (5, "missing_parameter"), (5, "unknown_parameter"), (5, "reaches_no_sink"),
        (6, "missing_input"), (9, "unknown_task"),
    }
    assert [(problem.line, problem.column) for problem in problems] == sorted(
        (problem.line, problem.column) for problem in problems
    )


def test_a_rate_may_be_stated_in_one_place_only():
    text = line_replaced(4, "  - {id: levels, type: sensors, rate: 7}")
    assert [(problem.code, problem.line, problem.column) for problem in problems_of(text)] == [("two_rates", 10, 9)]
    assert read_document(text.replace("rate: 7", "rate: 5e1"), task_types=TYPES).rates_per_s == {"levels": 50}


def test_problems_name_the_json_pointer_and_the_task():
    (problem,) = problems_of(VALID.replace("city: delft", "a/b~c: 1"))
    assert problem.path == "/tasks/0/config/a~1b~0c"
    assert problem.task_id == "levels"


def test_a_flood_of_problems_is_cut_off():
    tasks = [{"id": f"t{number}", "type": "nothing"} for number in range(1000)]
    problems = problems_of(json.dumps({"name": "x", "tasks": tasks, "streams": []}))
    assert len(problems) == MAX_PROBLEMS + 1
    assert problems[-1].code == "too_many_problems"


@pytest.mark.parametrize(("key", "most"), [("tasks", 2000), ("streams", 20_000)])
def test_there_is_a_most_of_tasks_and_streams(key, most):
    document = {"name": "x", "tasks": [], "streams": []} | {key: [0] * (most + 1)}
    assert f"too_many_{key}" in {problem.code for problem in problems_of(json.dumps(document))}


def test_the_largest_dataflow_is_read():
    tasks = {"s": "sensors"} | {f"t{number}": ("scale", {"by": 1}) for number in range(1998)} | {"o": "archive"}
    dataflow = flow("largest", tasks, " > ".join(tasks))
    assert len(read_document(dump_document(dataflow, "json"), task_types=TYPES).tasks) == 2000


GRAPH_CASES = [
    ({"s": "sensors"}, [], {("reaches_no_sink", "s")}),
    ({"o": "archive"}, [], {("missing_input", "o")}),
    ({"s": "sensors", "t": "thin", "o": "archive"}, ["s > o", "t > o"], {("missing_input", "t")}),
    (
        {"s": "sensors", "t": "thin", "u": "alone", "o": "archive"}, ["s > o", "t > u > o"],
        {("missing_input", "t"), ("unreachable", "u")},
    ),
    (
        {"s": "sensors", "t": "thin", "u": "alone", "o": "archive"}, ["s > o", "s > t > u"],
        {("reaches_no_sink", "t"), ("reaches_no_sink", "u")},
    ),
    ({"s": "sensors", "t": "thin", "u": "alone", "o": "archive"}, ["s > t > u > t", "u > o"], {("cycle", "t")}),
    (
        {"s": "sensors", "t": "thin", "u": "alone", "v": "thin", "w": "alone", "o": "archive"},
        ["s > t > u > t", "u > v > w > v", "w > o"], {("cycle", "t"), ("cycle", "v")},
    ),
    ({"s": "sensors", "t": "thin", "u": "alone", "o": "archive"}, ["s > t > u > t", "s > o"], {("cycle", "t")}),
    ({"s": "sensors", "t": "thin", "u": "alone", "o": "archive"}, ["t > u > t", "u > o", "s > o"], {("cycle", "t")}),
    ({"s": "sensors", "p": "alarm", "o": "archive"}, ["s > p > o"], {("sink_with_output", "p")}),
    ({"s": "sensors", "r": ("sensors", {"seed": 1}), "o": "archive"}, ["s > r > o"], {("source_with_input", "r")}),
]


@pytest.mark.parametrize(("tasks", "streams", "expected"), GRAPH_CASES)
def test_what_is_wrong_with_the_graph_is_told_for_each_task(tasks, streams, expected):
    problems = problems_of(dump_document(flow("x", tasks, *streams)))
    assert {(problem.code, problem.task_id) for problem in problems} == expected


def test_a_cycle_lists_its_shortest_way_round():
    tasks = {"s": "sensors", "a": "thin", "b": "alone", "c": ("scale", {"by": 1}), "o": "archive"}
    (problem,) = problems_of(dump_document(flow("x", tasks, "s > a > b > c > a", "c > b", "c > o", "b > a")))
    assert "a → b → a" in problem.message


def test_equivalent_tasks_are_told_with_the_deduplicated_document():
    duplicated = flow(
        "twice",
        {
            "s": "sensors", "a": ("scale", {"by": 1}), "b": ("scale", {"by": 1.0}),
            "c": "thin", "d": "thin", "e": "alone", "o": "archive",
        },
        "s > a > c > o", "s > b > d > o", "c > e", "d > e > o",
        rates={"s": 5},
    )
    for format, start in (("json", "{"), ("yaml", "name:")):
        with pytest.raises(InvalidDataflow) as raised:
            read_document(dump_document(duplicated, format), task_types=TYPES, format=format)
        assert [(problem.code, problem.task_id) for problem in raised.value.problems] == [
            ("equivalent_tasks", "b"), ("equivalent_tasks", "d"),
        ]
        assert "e, o then receives each event once" in raised.value.problems[1].remedy
        assert raised.value.suggestion.startswith(start)
        assert read_document(raised.value.suggestion, task_types=TYPES, format=format) == flow(
            "twice", {"s": "sensors", "a": ("scale", {"by": 1}), "c": "thin", "e": "alone", "o": "archive"},
            "s > a > c > o", "c > e > o", rates={"s": 5},
        )


def test_tasks_that_become_equivalent_are_made_one_in_the_suggestion():
    duplicated = flow(
        "chained", {"s": "sensors", "a": "thin", "b": "thin", "c": "alone", "d": "alone", "o": "archive"},
        "s > a > c > o", "s > b > c", "a > d > o",
    )
    with pytest.raises(InvalidDataflow) as raised:
        read_document(dump_document(duplicated), task_types=TYPES)
    assert [problem.task_id for problem in raised.value.problems] == ["b"], "c hears everything twice, d once"
    assert [task.id for task in read_document(raised.value.suggestion, task_types=TYPES).tasks] == ["s", "a", "c", "o"]


def test_a_flood_of_equivalent_tasks_still_gets_its_suggestion():
    twins = {f"t{number}": "thin" for number in range(1000)}
    duplicated = flow("x", {"s": "sensors"} | twins | {"o": "archive"}, *(f"s > {twin} > o" for twin in twins))
    with pytest.raises(InvalidDataflow) as raised:
        read_document(dump_document(duplicated), task_types=TYPES)
    assert len(raised.value.problems) == MAX_PROBLEMS + 1
    assert len(read_document(raised.value.suggestion, task_types=TYPES).tasks) == 3


def test_the_same_source_at_another_rate_is_no_duplicate():
    tasks = {"slow": "sensors", "fast": "sensors", "o": "archive"}
    read_document(
        dump_document(flow("x", tasks, "slow > o", "fast > o", rates={"fast": 20})), task_types=TYPES
    )
    problems = problems_of(dump_document(flow("x", tasks, "slow > o", "fast > o", rates={"fast": 10})))
    assert [problem.code for problem in problems] == ["equivalent_tasks"]


def test_every_code_is_documented_and_every_documented_code_is_used():
    table = DOCS.read_text(encoding="utf-8").split("## Problems", 1)[1]
    documented = {
        code for row in table.splitlines() if row.startswith("| `")
        for code in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    model = Path(read_document.__code__.co_filename).parent
    used = set()
    for name in ("alternate_state", "documents", "draft", "flux", "graph_checks", "json_text", "latency_reading",
                 "parameters", "positions", "secrets", "shorthand", "yaml_text"):
        source = (model / f"{name}.py").read_text(encoding="utf-8")
        calls = re.findall(r'(?:add|stop|report|Problem)\(\s*"(\w+)"|code = "(\w+)" if .* else "(\w+)"', source)
        used |= {code for call in calls for code in call if code}
    used |= {"flux_unsupported", *structure.CODES.values(), *(kind.code for kind in ColumnError.__subclasses__())}
    assert documented == used


def test_the_documented_examples_are_valid_with_the_built_in_task_types():
    from workers.library.registry import task_types

    blocks = re.findall(r"(?:^    .*\n)+", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    examples = [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in blocks]
    assert len(examples) == 3
    for example in examples:
        assert len(read_document(example, task_types=task_types()).tasks) >= 3
