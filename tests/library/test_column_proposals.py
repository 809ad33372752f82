"""Columns proposed from events that were seen: they read all of them, and say what a person would."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.contracts.looks import LOOK_STATES, LookState, ProposedColumn
from workers.engine import look_store
from workers.engine.connectors.contract import Message
from workers.engine.connectors.formats import Decoded, decode, layout_of
from workers.engine.connectors.proposed_columns import layout_for, proposal_for, with_proposal
from workers.library.column_proposals import propose_columns
from workers.library.columns import typed_columns

NOW_MS = int(datetime(2200, 1, 1, tzinfo=UTC).timestamp() * 1000)  # later than any time that is proposed as one
MOMENTS = st.one_of(
    st.datetimes().map(str), st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.isoformat()),
    st.sampled_from(["2026-05-01T12:00Z", "2026-05-01 12:00:00,5", "2026-02-30T12:00:00", "2026-05-01",
                     "0001-01-01T00:00:00+14:00", "2026-05-01T12:00:00.123456789Z"]))
NUMBERS = st.one_of(
    st.integers(), st.integers(min_value=10**18, max_value=10**45), st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([1_777_636_800, 1_777_636_800_000, 1_777_636_800.5]))
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, MOMENTS, st.text(max_size=8), st.sampled_from(["007", "1.50"]))
VALUES = st.recursive(SCALARS, lambda inner: st.one_of(
    st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc é"), inner, max_size=3)), max_leaves=6)
NAMES = st.sampled_from(["n", "at", "Time", "time", "ts", "sensor", "position", "_seq", "a b", "é", "1st"])
EVENTS = st.lists(st.dictionaries(NAMES, VALUES, max_size=5), min_size=1, max_size=6)
# Events as they are: a field has one kind of value, and may be missing.
ALIKE = st.lists(st.fixed_dictionaries(
    {"sensor": st.text(max_size=8)},
    optional={"n": st.integers(), "value": NUMBERS, "ok": st.booleans(), "at": MOMENTS, "ts": NUMBERS}),
    min_size=1, max_size=6)


def read(messages: list[Message], config: dict[str, Any]) -> Decoded:
    """The messages by the columns that are proposed for them."""
    return decode(messages, layout_of(with_proposal(config, proposal_for(messages, config))), now_ms=NOW_MS)


@given(st.one_of(EVENTS, ALIKE), st.sampled_from(["json", "ndjson"]), st.sampled_from([None, "Europe/Berlin"]))
def test_what_is_proposed_reads_all_that_was_seen(
    events: list[dict[str, Any]], format_: str, zone: str | None
) -> None:
    decoded = read([Message(json.dumps(event).encode()) for event in events], {"format": format_, "time_zone": zone})
    assert decoded.dead == [] and len(decoded.rows) == len(events)


FIELD = st.one_of(SCALARS.map(lambda value: "" if value is None else str(value)), st.text("ab,\" é0", max_size=5))


@given(st.integers(1, 4).flatmap(lambda width: st.lists(
    st.lists(FIELD.filter(lambda text: "\n" not in text and "\r" not in text and "\0" not in text),
             min_size=width, max_size=width).filter(any), min_size=1, max_size=5)))
def test_what_is_proposed_reads_all_lines_of_csv(rows: list[list[str]]) -> None:
    lines = [",".join('"' + value.replace('"', '""') + '"' for value in row) for row in rows]
    decoded = read([Message(line.encode()) for line in lines], {"format": "csv"})
    assert decoded.dead == [] and len(decoded.rows) == len(rows)


@given(st.lists(VALUES, min_size=1, max_size=5), st.booleans())
def test_a_proposal_is_a_list_of_columns_that_may_be_declared(values: list[Any], is_text: bool) -> None:
    proposal = propose_columns([{"value": value} for value in values], is_text=is_text)
    assert typed_columns([f"{column.name}:{column.type}" for column in proposal.columns])
    state = LookState("done", proposal=proposal)
    assert LOOK_STATES.loads(LOOK_STATES.dumps(state)) == state


@pytest.mark.parametrize(("texts", "kind"), [
    (['1', '2'], "bigint"), (['1', '2.5'], "double"), (['1', 'null'], "bigint"), (['1', '"a"'], "string"),
    (['true', 'false'], "boolean"), (['true', '1'], "string"), (['"1"', '"2"'], "string"),
    (['9223372036854775808'], "decimal(38,0)"), (['1e400'], "string"), (['[1]'], "string"), (['null'], "string"),
    (['"2026-05-01T12:00:00Z"'], "timestamp"), (['"2026-05-01"'], "string"),
    (['"2026-05-01T12:00:00.123456789Z"'], "string")])
def test_types_of_json(texts: list[str], kind: str) -> None:
    messages = [Message(f'{{"value": {text}}}'.encode()) for text in texts]
    assert [column.type for column in proposal_for(messages, {}).columns] == [kind]


@pytest.mark.parametrize(("texts", "kind"), [
    (["1", "2"], "bigint"), (["007", "8"], "string"), (["1.50", "2"], "double"), (["true", "FALSE"], "boolean"),
    (["2026-05-01 12:00", ""], "timestamp"), (["1", "x"], "string"), (["+1"], "string")])
def test_types_of_csv(texts: list[str], kind: str) -> None:
    proposal = proposal_for([Message(f"{text},a".encode()) for text in texts], {"format": "csv"})
    assert [(column.name, column.type) for column in proposal.columns] == [("column_1", kind), ("column_2", "string")]


def test_values_inside_of_objects_are_columns_of_their_own_behind_the_object() -> None:
    events = [{"id": 1, "position": {"lat": 48.1, "lon": 11, "fix": {"sats": 5}}, "tags": ["a"]}, {"id": 2}]
    assert list(propose_columns(events).columns) == [
        ProposedColumn("id", "bigint"), ProposedColumn("position", "string", True),
        ProposedColumn("position_lat", "double", True, ("position", "lat")),
        ProposedColumn("position_lon", "bigint", True, ("position", "lon")),
        ProposedColumn("position_fix_sats", "bigint", True, ("position", "fix", "sats")),
        ProposedColumn("tags", "string", True)]


@pytest.mark.parametrize(("event", "expected"), [
    ({"ts": 1_777_636_800}, ("ts", "s")), ({"ts": 1_777_636_800_123}, ("ts", "ms")),
    ({"created_at": 1_777_636_800_123_456}, ("created_at", "us")), ({"ts": 12}, ("", "ms")),
    ({"serial": 1_777_636_800}, ("", "ms")), ({"seen": "2026-05-01T12:00:00Z"}, ("seen", "ms")),
    ({"first": "2026-05-01T12:00:00Z", "last": "2026-05-01T12:00:00Z"}, ("", "ms")),
    ({"first": "2026-05-01T12:00:00Z", "at": "2026-05-01T12:00:00Z"}, ("at", "ms"))])
def test_the_time_of_events_is_found(event: dict[str, Any], expected: tuple[str, str]) -> None:
    proposal = propose_columns([event])
    assert (proposal.time_field, proposal.time_unit) == expected
    assert propose_columns([event, {}]).time_field == "", "an event without it would have no place in time"


def test_times_without_a_zone_and_names_that_no_column_has_are_told() -> None:
    proposal = propose_columns([{"at": "2026-05-01T12:00:00", "b": "2026-05-01T12:00:00+02:00", "a b": 1, "B": 2}])
    assert proposal.zoneless == ("at",) and set(proposal.left_out) == {"a b", "B"}


def test_whoever_names_the_fields_of_events_fills_no_proposal() -> None:
    """One message had 300,000 fields: the site read all their names at each question, and kept them with a session."""
    many = {f"field {number}": number for number in range(300_000)}
    long = {"n" * 1_000_000: 1, "inner": {"k" * 1_000_000: 1, "k": 1}, "blank " * 1_000_000: 1}
    proposal = propose_columns([long | many])
    assert [column.name for column in proposal.columns] == ["inner", "inner_k"]
    assert len(proposal.left_out) == 101 and "299,902 others" in proposal.left_out["…"]
    assert len(LOOK_STATES.dumps(LookState("done", proposal=proposal))) < look_store.STATE_BYTES // 10


def test_the_largest_proposal_is_one_that_the_site_reads() -> None:
    inner = {"a" * 60: {"b" * 60: {"c" * 60: {f"k{number}": number for number in range(300)}}}}
    proposal = propose_columns([inner | {f"{number} " + "\u00e9" * 300: 1 for number in range(200)}])
    assert (len(proposal.columns), len(proposal.columns[-1].path)) == (200, 4)
    assert len(LOOK_STATES.dumps(LookState("done", proposal=proposal))) < look_store.STATE_BYTES


def test_a_time_that_is_ahead_of_all_arrivals_is_given_up() -> None:
    messages = [Message(b'{"at": "2026-05-01T12:00:00Z"}')]
    proposal, layout = layout_for(messages, {}, now_ms=0)
    assert proposal.time_field == "" and layout.time_field is None
    assert layout_for(messages, {}, now_ms=NOW_MS)[0].time_field == "at"
