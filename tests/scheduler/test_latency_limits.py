"""The latency that a document asks for: every way to write it, every mistake told where it is, and back to text."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.dataflow import Dataflow
from scheduler.model.documents import dataflow_from_json, dump_document, read_document, to_document
from scheduler.model.errors import InvalidDataflow, Problem
from scheduler.model.latency_limits import LatencyLimit, canonical, from_json, stream_ends, to_json
from scheduler.model.latency_reading import gap_in
from workers.library.registry import task_types

HEAD = """name: Limits
tasks:
  - {id: city, type: urban_sensing}
  - {id: parse, type: senml_parse}
  - {id: out, type: output, config: {name: out}}
streams: [{from: city, to: parse}, {from: parse, to: out}]
"""


def read(latency: str) -> Dataflow:
    return read_document(f"{HEAD}latency: {latency}\n", task_types=task_types())


def problem(latency: str) -> Problem:
    with pytest.raises(InvalidDataflow) as caught:
        read(latency)
    (only,) = caught.value.problems
    return only


@pytest.mark.parametrize(("written", "limits"), [
    ("400 ms", (LatencyLimit(0.4),)),
    ("2", (LatencyLimit(2.0),)),
    ("none", ()),
    ("null", None),
    ("{limit: 2 s, percentile: 99}", (LatencyLimit(2.0, percentile=99.0),)),
    ("[{limit: 1 s, along: [city, parse], over: 10 s}, 5 s]",
     (LatencyLimit(1.0, along=("city", "parse"), over_s=10.0), LatencyLimit(5.0))),
    ("{limit: 1 s, along: [city -> parse, parse]}", (LatencyLimit(1.0, along=("city -> parse", "parse")),)),
    ("{limit: 1 s, along: [parse, parse->out]}", (LatencyLimit(1.0, along=("parse", "parse -> out")),)),
    ("{limit: 1 s, along: [city -> parse]}", (LatencyLimit(1.0, along=("city -> parse",)),)),
    ("{limit: 1 s, along: [city -> parse, parse -> out]}",
     (LatencyLimit(1.0, along=("city -> parse", "parse", "parse -> out")),)),
    ("{limit: 1 s, along: [city, city -> parse, parse, parse -> out, out]}",
     (LatencyLimit(1.0, along=("city", "parse", "out")),)),
])
def test_limits_are_read_and_written_again(written: str, limits: tuple[LatencyLimit, ...] | None) -> None:
    dataflow = read(written)

    assert dataflow.latency == limits
    assert read_document(dump_document(dataflow), task_types=task_types()) == dataflow
    assert dataflow_from_json(to_document(dataflow)) == dataflow


def test_a_document_that_says_nothing_leaves_it_to_the_team() -> None:
    dataflow = read_document(HEAD, task_types=task_types())

    assert dataflow.latency is None
    assert "latency" not in to_document(dataflow)


@pytest.mark.parametrize(("written", "code", "message", "remedy"), [
    ("soon", "ill_typed", "no time", "400 ms"),
    ("5 ms", "out_of_range", "5 ms", "Weir promises no less"),
    ("2 h", "out_of_range", "7200 s", "3600 s"),
    ("true", "ill_typed", "no time", "400 ms"),
    ("{limit: 1 s, alnog: [city]}", "unknown_key", "alnog", "along"),
    ("{over: 1 s}", "missing_key", "limit", "limit: 400 ms"),
    ("{limit: 1 s, along: [city, out]}", "no_path", "from city to out", "each task on the way"),
    ("{limit: 1 s, along: [cty, parse]}", "unknown_task", "cty", "city"),
    ("{limit: 1 s, percentile: 100}", "out_of_range", "100, which is not measured", "Write 50, 95 or 99."),
    ("{limit: 1 s, percentile: 99.9}", "out_of_range", "99.9, which is not measured", "Write 50, 95 or 99."),
    ("{limit: 1 s, percentile: 75}", "out_of_range", "75, which is not measured", "Write 50, 95 or 99."),
    ("{limit: 1 s, percentile: most}", "ill_typed", "number", "Write 50, 95 or 99."),
    ("{limit: 1 s, over: 4 s}", "out_of_range", "span of a latency limit is 4 s", "10 s to 3600 s: it is measured"),
    ("{limit: 1 s, over: 2 h}", "out_of_range", "7200 s", "10 s to 3600 s."),
    ("{limit: 1 s, along: []}", "ill_typed", "list of tasks and streams", "first to the last"),
    ("{limit: 1 s, along: {from: city, to: parse}}", "ill_typed", "list of tasks and streams", "written as a -> b"),
    ("{limit: 1 s, along: [city -> out]}", "no_path", "from city to out", "each task on the way"),
    ("{limit: 1 s, along: [parse -> city, city]}", "no_path", "from parse to city", "each task on the way"),
    ("{limit: 1 s, along: [city -> parse, city]}", "no_path", "from parse to city", "each task on the way"),
    ("{limit: 1 s, along: [city, city]}", "no_path", "from city to city", "each task on the way"),
    ("{limit: 1 s, along: [city -> parse, city -> parse]}", "no_path", "from parse to city", "each task on the way"),
    ("{limit: 1 s, along: [city -> prse]}", "unknown_task", "prse", "parse"),
    ("{limit: 1 s, along: [city -> parse -> out]}", "unknown_task", "parse -> out", "Name tasks"),
    ("{limit: 1 s, along: [-> parse]}", "unknown_task", "without an id", "Name tasks"),
])
def test_a_mistake_is_told_with_its_place_and_remedy(written: str, code: str, message: str, remedy: str) -> None:
    mistake = problem(written)

    assert mistake.code == code
    assert message in mistake.message
    assert remedy in mistake.remedy
    assert mistake.line == 7


@pytest.mark.parametrize("stored", [{"limit": 1.0, "over": 1.0}, {"limit": 1.0, "percentile": 99.9}])
def test_what_was_accepted_before_is_read_from_its_row(stored: dict[str, float]) -> None:
    limits = from_json([stored])

    assert to_json(limits) == [stored]


def test_limits_of_every_kind_are_written_and_read() -> None:
    limits = (LatencyLimit(5.0), LatencyLimit(3.0, percentile=99), LatencyLimit(0.1, along=("a", "b")))

    assert from_json(to_json(limits)) == limits


@pytest.mark.parametrize(("along", "words"), [
    (("city", "parse"), "mean of at most 1 s from city to parse"), (("parse",), "mean of at most 1 s along parse"),
    (("city -> parse", "parse"), "mean of at most 1 s from city -> parse to parse"),
    (("city -> parse",), "mean of at most 1 s along city -> parse")])
def test_a_limit_says_where_it_is(along: tuple[str, ...], words: str) -> None:
    assert LatencyLimit(1.0, along).words == words


IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,6}", fullmatch=True)


@given(st.lists(IDS, min_size=2, max_size=5, unique=True), st.data())
def test_every_spelling_of_a_sequence_is_one(tasks: list[str], data: st.DataObject) -> None:
    arrow = data.draw(st.sampled_from(["->", " -> ", "  ->"]))
    whole = [name for ends in pairwise(tasks) for name in (ends[0], arrow.join(ends))] + [tasks[-1]]
    begin = data.draw(st.integers(0, len(whole) - 1))
    along = whole[begin:data.draw(st.integers(begin + 1, len(whole)))]
    spelled = [name for at, name in enumerate(along) if at in (0, len(along) - 1) or not (
        stream_ends(name) and data.draw(st.booleans()))]

    limit = LatencyLimit(1.0, canonical(spelled))

    assert gap_in(spelled, set(pairwise(tasks))) is None
    assert limit.along == canonical(along) == canonical(limit.along)
    assert limit.tasks == tuple(name for name in along if stream_ends(name) is None)
    assert limit.begins_with_stream == (stream_ends(along[0]) is not None)
    assert limit.ends_with_stream == (stream_ends(along[-1]) is not None)
    assert " ".join(limit.path) in " ".join(tasks)
    assert from_json(to_json((limit,))) == (limit,)
