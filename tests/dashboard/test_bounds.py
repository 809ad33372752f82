"""Every bound of `scheduler.model.bounds`: what exceeds it is refused with the bound told, and nothing goes with it.

Each bound has a case here, or names the test of another file that has it; a bound without one fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from dashboard import jobs
from dashboard.config.environment import DECLARED, ROOT
from scheduler.model import bounds
from scheduler.model.documents import columns_of_document, read_document
from scheduler.model.errors import InvalidDataflow, Problem
from scheduler.model.schema import dataflow_schema
from workers.launcher.up_services import LARGEST_FRAME

CASES: dict[str, Callable[..., None]] = {}
DOORS, LIVE = "tests/dashboard/test_doors.py", "tests/dashboard/test_live.py"
INGEST, EVENTS = "tests/dashboard/test_ingest.py", "tests/engine/connectors/test_event_bounds.py"
ARROW = "tests/engine/connectors/test_arrow_messages.py"
GUARDS = "tests/scheduler/guards/test_guard_language.py"
BEYOND = "test_a_message_that_decodes_to_too_much_is_a_dead_letter_and_takes_no_other_with_it"
ELSEWHERE = {  # bound → the test of another file that exceeds it
    "MATCHING_STEPS": "tests/library/test_matching.py::test_what_takes_too_long_fails_with_its_place",
    "PATH_STATES": "tests/scheduler/test_alternates.py::test_what_state_does_not_allow_is_told_with_its_place",
    "KEYS_BY_HAND": "tests/dashboard/test_learned_choices.py::test_keys_by_hand_are_bounded_and_are_keys",
    "SIMULATED_TASKS": "tests/dashboard/test_simulations.py::"
                       "test_a_dataflow_of_more_tasks_than_algorithms_are_played_with_is_refused",
    "SIMULATED_CORES": "tests/dashboard/test_simulated_loads.py::"
                       "test_a_load_of_more_cores_than_algorithms_are_played_with_is_refused",
    "CONNECTIONS": f"{DOORS}::test_connections_beyond_their_number_are_told_to_come_again",
    "HEADER_WAIT": f"{DOORS}::test_headers_that_do_not_come_are_ended_and_others_are_answered",
    "ANSWER_WAIT": f"{DOORS}::test_who_takes_nothing_of_an_answer_is_cut_off",
    "REQUEST_HEADERS": f"{DOORS}::test_headers_and_trailers_are_counted_as_they_come",
    "BODY_WAIT": f"{DOORS}::test_a_body_that_does_not_come_in_time_is_ended",
    "ANONYMOUS_BODY": f"{DOORS}::test_no_route_takes_a_large_body_of_somebody_who_is_not_known",
    "REQUEST_BODY": f"{DOORS}::test_no_route_takes_more_than_a_document_of_somebody_who_is",
    "REQUEST_FIELDS": f"{DOORS}::test_a_form_of_too_many_fields_or_files_is_refused",
    "REQUEST_FILES": f"{DOORS}::test_a_form_of_too_many_fields_or_files_is_refused",
    "INGEST_BODY": f"{DOORS}::test_an_address_of_a_source_takes_much_with_its_token_alone",
    "INGEST_KEY": f"{INGEST}::test_what_is_posted_again_under_its_key_is_taken_once_and_answered_as_at_first",
    "INGEST_EVENTS": f"{INGEST}::test_a_request_that_decodes_to_too_much_is_refused_and_takes_nothing",
    "LIVE_CONNECTIONS": f"{LIVE}::test_connections_of_one_user_are_limited_and_of_others_not",
    "LIVE_FRAME": f"{LIVE}::test_a_frame_that_no_message_needs_is_not_read",
    "LIVE_MESSAGE": f"{DOORS}::test_a_live_connection_that_asks_too_much_is_closed_and_another_goes_on",
    "LIVE_MESSAGES": f"{DOORS}::test_a_live_connection_that_asks_too_much_is_closed_and_another_goes_on",
    "LIVE_FRAMES": "tests/dashboard/test_live_slow.py::test_who_sends_frames_without_end_is_cut_off",
    "LIVE_TOPICS": f"{LIVE}::test_topics_on_one_connection_are_limited",
    "MESSAGE_EVENTS": f"{EVENTS}::{BEYOND}", "MESSAGE_VALUES": f"{EVENTS}::{BEYOND}",
    "MESSAGE_BYTES": f"{EVENTS}::{BEYOND}",
    "DECIMAL_BYTES": "tests/engine/connectors/test_avro.py::test_a_decimal_that_would_take_long_to_read_is_told",
    "MESSAGE_DEPTH": f"{EVENTS}::test_a_value_nested_too_deep_is_a_dead_letter",
    "PACKET_BYTES": "tests/engine/connectors/test_mqtt.py::"
                    "test_a_packet_larger_than_one_may_be_is_a_dead_letter_and_takes_no_other_with_it",
    "CONTROL_BYTES": "tests/engine/connectors/test_hostile_mqtt.py::"
                     "test_what_nobody_asked_for_ends_the_connection_and_is_not_read",
    **dict.fromkeys(
        ("CLUSTER_SERVERS", "CLUSTER_BYTES", "CLUSTER_TOPICS"),
        "tests/engine/connectors/test_hostile_kafka.py::test_what_a_cluster_says_has_bounds"),
    "LOOK_MEMORY": "tests/engine/connectors/test_source_suspects.py::"
                   "test_a_look_that_becomes_too_large_ends_and_says_so",
    "POLL_EVENTS": f"{EVENTS}::test_messages_that_come_together_have_a_bound_together",
    "DEAD_LETTERS": f"{INGEST}::test_of_many_dead_letters_of_one_request_the_newest_are_kept_and_all_counted",
    "GUARD_CHARACTERS": f"{GUARDS}::test_a_guard_of_too_many_characters_or_levels_is_refused",
    "GUARD_LEVELS": f"{GUARDS}::test_a_guard_of_too_many_characters_or_levels_is_refused",
    "GUARD_PARTS": f"{GUARDS}::test_a_guard_that_would_take_long_to_read_or_decide_is_refused_at_once",
    "GUARD_STREAMS": f"{GUARDS}::test_an_element_that_names_too_many_streams_is_refused",
    "GUARD_WORDS": f"{GUARDS}::test_an_element_of_too_many_temporal_words_is_refused",
    "FILE_RECORD": "tests/engine/connectors/test_files.py::test_a_line_without_end_takes_no_memory_and_is_told",
    "FILE_LINES": f"{EVENTS}::test_a_record_of_csv_over_too_many_lines_ends_as_its_first",
    "FILE_VALUES": f"{EVENTS}::test_a_file_that_decodes_to_too_much_ends_there",
    "FILE_BYTES": f"{EVENTS}::test_a_file_that_decodes_to_too_much_ends_there",
    "FILE_FIXED": "tests/engine/connectors/test_parquet_pages.py::test_a_bomb_is_a_dead_letter",
    "ARROW_SCHEMA": f"{ARROW}::test_a_schema_that_comes_to_much_is_never_made",
    **dict.fromkeys(("FILE_FOOTER", "FILE_ITEMS"), f"{ARROW}::test_a_footer_that_comes_to_much_is_never_made"),
    "FILE_GROUP": f"{ARROW}::test_a_group_of_more_bytes_than_may_be_held_is_not_read",
}


def exceeds(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The test goes beyond these bounds."""

    def register(test: Callable[..., None]) -> Callable[..., None]:
        CASES.update(dict.fromkeys(names, test))
        return test

    return register


def test_every_bound_is_exceeded_by_a_test() -> None:
    assert set(CASES) | set(ELSEWHERE) == set(bounds.BOUNDS)
    for place in ELSEWHERE.values():
        path, _, name = place.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(), place


def test_every_bound_is_used_where_something_enters() -> None:
    sources = "\n".join(
        path.read_text() for folder in ("dashboard", "scheduler", "workers") for path in (ROOT / folder).rglob("*.py")
        if path.name != "bounds.py")
    unused = bounds.BOUNDS.keys() - set(re.findall(r"\w+", sources))
    assert unused == {"PATH_TASKS", "LIVE_FRAME"}, "which are in a schema, and in a command"
    assert bounds.LIVE_FRAME.most == LARGEST_FRAME


def test_the_table_of_the_docs_is_that_of_the_code() -> None:
    assert bounds.table() in (ROOT / "docs" / "security.md").read_text()


def test_a_bounds_setting_is_declared_with_its_default() -> None:
    declared = {setting.name: setting.default for setting in DECLARED}
    settable = {bound.setting: bound.default for bound in bounds.BOUNDS.values() if bound.setting}
    assert {name: declared.get(name) for name in settable} == settable


# Documents -----------------------------------------------------------------------------------------------------------
def problems_of(text: str) -> tuple[Problem, ...]:
    try:
        read_document(
            text, task_types=jobs.task_types(), check_config=jobs.check_config, columns_of=jobs.columns_of)
    except InvalidDataflow as invalid:
        return invalid.problems
    return ()


def chain(*queries: str, **more: Any) -> str:
    """A document whose queries follow one another."""
    names = ["s", *(f"t{number}" for number in range(len(queries))), "o"]
    tasks = [{"id": "s", "type": "urban_sensing"},
             *({"id": f"t{number}", "type": "sql", "config": {"query": query}} for number, query in enumerate(queries)),
             {"id": "o", "type": "output", "config": {"name": "o"}}]
    streams = [{"from": source, "to": target} for source, target in pairwise(names)]
    return json.dumps({"name": "x", "tasks": tasks, "streams": streams, **more})


def doubling(times: int) -> str:
    return chain("SELECT 1 AS x FROM input", *["SELECT struct(x AS a, x AS b) AS x FROM input"] * times)


def wide(columns: int, *, of: str = "c") -> str:
    return "SELECT " + ", ".join(f"1 AS {of}{number}" for number in range(columns)) + " FROM input"


def looped(times: int, queries: list[str]) -> str:
    """A document whose second task is so many iterations of queries that follow one another."""
    whole, body = json.loads(chain("SELECT * FROM input")), json.loads(chain(*queries))
    named = {"s": "input", "o": "output"}
    streams = [{key: named.get(end, end) for key, end in stream.items()} for stream in body["streams"]]
    whole["tasks"][1] = {"id": "t0", "loop": {"times": times, "tasks": body["tasks"][1:-1], "streams": streams}}
    return json.dumps(whole)


def dynamic(tasks: int, *, guard: str = "") -> str:
    """A document with dynamic tasks one behind the other."""
    whole = json.loads(chain(*["SELECT 1 AS x FROM input"] * tasks))
    for number, task in enumerate(whole["tasks"][1:-1]):
        way = {"type": task.pop("type"), "config": task.pop("config")}
        task["alternates"] = [{"name": "one", "guard": guard.format(number), **way}, {"name": "other", **way}]
    return json.dumps(whole)


def split(parts: int, *, sources: int) -> str:
    """A document whose sources are dealt out to one task, each in so many parts."""
    whole = json.loads(chain())
    names = [f"s{number}" for number in range(sources)]
    whole["tasks"] = [*({"id": name, "type": "urban_sensing"} for name in names), whole["tasks"][-1]]
    whole["streams"] = [
        {"from": name, "to": "o", "split": {"part": part + 1, "of": parts}} for name in names for part in range(parts)]
    return json.dumps(whole)


ALIASES = "\n".join([
    "name: x", "tasks:", "- {id: s, type: urban_sensing, config: {}}", "description: &d '" + "y" * 2_000 + "'",
    "more: [" + ", ".join(["*d"] * 1_200) + "]"])
DOCUMENTS = [
    ("DOCUMENT_BYTES", " " * bounds.DOCUMENT_BYTES.most + doubling(1), "too_large", None),
    ("DOCUMENT_VALUES", json.dumps({"name": [0] * bounds.DOCUMENT_VALUES.most}), "too_many_values", None),
    ("DOCUMENT_CHARACTERS", ALIASES, "too_many_values", None),
    ("DOCUMENT_DEPTH", '{"name": ' + "[" * 40 + "]" * 40 + "}", "too_deep", None),
    ("DOCUMENT_TASKS", chain(*["SELECT 1 AS x FROM input"] * bounds.DOCUMENT_TASKS.most), "too_many_tasks", None),
    ("DOCUMENT_STREAMS", json.dumps({"name": "x", "tasks": [{"id": "s", "type": "urban_sensing"}], "streams": [
        {"from": "s", "to": "s"}] * (bounds.DOCUMENT_STREAMS.most + 1)}), "too_many_streams", None),
    ("PATH_TASKS", looped(1, ["SELECT 1 AS x FROM input"] * (bounds.PATH_TASKS.most + 1)), "too_many_tasks", None),
    ("LOOP_ITERATIONS", looped(bounds.LOOP_ITERATIONS.most + 1, ["SELECT * FROM input"]), "out_of_range", None),
    ("DOCUMENT_QUERIES", chain(*[wide(1_000)] * 12), "too_long", None),
    ("DYNAMIC_TASKS", dynamic(bounds.DYNAMIC_TASKS.most + 1), "too_many_dynamic_tasks", None),
    ("DOCUMENT_TASKS", split(bounds.DOCUMENT_TASKS.most // 2, sources=2), "too_many_tasks", None),
    ("DOCUMENT_QUERIES", dynamic(60, guard="rate > 1" + " OR rate > 1{0}" * 130), "too_long", None),
    ("DOCUMENT_QUERIES", looped(bounds.LOOP_ITERATIONS.most, [wide(100)] * 2), "too_long", None),
    ("TYPE_CHARACTERS", doubling(21), "types_too_long", "t10"),
    ("STREAM_COLUMNS", chain(wide(1_200), "SELECT *, " + wide(1_200, of="d")[7:]), "types_too_long", "t1"),
    ("STREAM_CHARACTERS", chain(
        "SELECT 1 AS x FROM input", *["SELECT struct(x AS a, x AS b) AS x FROM input"] * 9,
        "SELECT " + ", ".join(f"x AS x{number}" for number in range(15)) + " FROM input"), "types_too_long", "t10"),
    ("DOCUMENT_TYPES", chain(
        "SELECT 1 AS x FROM input", *["SELECT struct(x AS a, x AS b) AS x FROM input"] * 9,
        "SELECT " + ", ".join(f"x AS x{number}" for number in range(11)) + " FROM input",
        *[f"SELECT * FROM input WHERE _seq > {number}" for number in range(60)]), "types_too_long", None),
    ("QUERY_CHARACTERS", chain("SELECT 1 AS x FROM input" + " " * 20_000), "invalid_config", "t0"),
    ("QUERY_LEVELS", chain("SELECT 1 AS x FROM input WHERE " + " AND ".join(["_seq > 1"] * 90)), "invalid_config",
     "t0"),
    ("PARSER_STEPS", chain("SELECT 1 AS x FROM input" + " JOIN input" * 30), "invalid_config", "t0"),
    ("PARSER_STEPS", chain("SELECT " + "STRUCT(" * 30 + "1" + ")" * 30 + " AS x FROM input"), "invalid_config", "t0"),
    ("PARSER_STEPS", chain("SELECT " + "ARRAY[" * 30 + "1" + "]" * 30 + " AS x FROM input"), "invalid_config", "t0"),
    ("SPARK_CHARACTERS", chain("SELECT " + "(" * 12 + "1" + " DIV 2)" * 12 + " AS x FROM input"), "invalid_config",
     "t0"),
    ("RESULT_BYTES", chain("SELECT replace(lpad('', 9000, 'a'), 'a', lpad('', 9000, 'b')) AS x FROM input"),
     "invalid_config", "t0"),  # at run time: tests/library/test_growing.py
    ("PATTERN_CHARACTERS", chain(f"SELECT 'a' RLIKE '{'a' * 1_001}' AS x FROM input"), "invalid_config", "t0"),
]


@exceeds(*(name for name, *_ in DOCUMENTS))
@pytest.mark.parametrize(("name", "text", "code", "task"), DOCUMENTS, ids=[row[0] for row in DOCUMENTS])
def test_a_document_beyond_a_bound_is_told_so_with_its_place_and_remedy(
    name: str, text: str, code: str, task: str | None
) -> None:
    matching = [problem for problem in problems_of(text) if problem.code == code]
    assert matching and (task is None or matching[0].task_id == task), problems_of(text)[:3]
    assert matching[0].remedy and matching[0].line
    assert f"{bounds.BOUNDS[name].most:,}" in f"{matching[0].message} {matching[0].remedy}"
    columns = columns_of_document(text, task_types=jobs.task_types(), columns_of=jobs.columns_of)
    assert sum(task.outputs.characters for task in columns.values()) <= bounds.DOCUMENT_TYPES.most


def test_a_document_at_the_bounds_is_read() -> None:
    assert problems_of(doubling(8)) == ()
    assert problems_of(chain(wide(1_000))) == ()


def test_the_published_schema_has_the_bounds_of_tasks_and_streams() -> None:
    properties = dataflow_schema()["properties"]
    assert properties["tasks"]["maxItems"] == bounds.DOCUMENT_TASKS.most
    assert properties["streams"]["maxItems"] == bounds.DOCUMENT_STREAMS.most
    definitions = dataflow_schema()["$defs"]
    loop = definitions["loop"]["properties"]
    assert loop["times"]["maximum"] == bounds.LOOP_ITERATIONS.most
    alternate = definitions["alternate"]["properties"]
    for within in (loop, alternate):
        assert within["tasks"]["maxItems"] == bounds.PATH_TASKS.most
    assert alternate["guard"]["maxLength"] == alternate["value"]["maxLength"] == bounds.GUARD_CHARACTERS.most
