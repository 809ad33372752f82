"""Figures of traces against counting by hand, and the bench from the command line."""

from __future__ import annotations

import json

import pytest

from tests.benches import reuse_traces
from tests.benches.trace_replay import Moment, moments, replayed, reuse_histogram, saving
from tests.benches.traces import Change, Trace
from tests.benches.traces_on_spark import compare
from tests.benches.workloads import riotbench
from tests.scheduler.shared_data import shared_data

URBAN = riotbench.dataflows()[: len(riotbench.PERMUTATIONS)]
NAMES = [dataflow.name for dataflow in URBAN]
ETL, AVERAGES = "urban: etl", "urban: etl with averages"
STEPS = (Change("submit", ETL), Change("submit", AVERAGES), Change("remove", ETL), Change("remove", AVERAGES))
TRACE = Trace("by hand", STEPS, walk=range(4))


def test_counts_by_hand():
    """ETL is a line of 9 tasks; with averages it has 2 more, in a query of their own."""
    default, reuse = (moments(TRACE, URBAN, strategy=strategy) for strategy in ("default", "reuse"))
    assert [(moment.tasks, moment.queries, moment.hops) for moment in default] == [(9, 1, 0), (20, 3, 1), (11, 2, 1),
        (0, 0, 0)]
    assert [(moment.tasks, moment.queries, moment.hops) for moment in reuse] == [(9, 1, 0), (11, 2, 1), (11, 2, 1),
        (0, 0, 0)]
    assert [dict(moment.users) for moment in reuse] == [{1: 9}, {1: 2, 2: 9}, {1: 11}, {}]
    saved = saving(TRACE, default, reuse)
    assert saved.mean == pytest.approx(1 - 31 / 40) and saved.peak == saved.best == pytest.approx(9 / 20)
    assert reuse_histogram(reuse) == {1: pytest.approx(22 / 31), 2: pytest.approx(9 / 31)}


def test_what_stays_behind_a_closed_tail_counts_as_paused():
    steps = (Change("submit", ETL), Change("submit", "urban: pred"), Change("remove", ETL))
    trace = Trace("tail", steps, walk=range(3))
    seen = moments(trace, URBAN, strategy="reuse")
    assert [moment.paused for moment in seen] == [0, 0, 4], "join, annotation, SenML and output rest"
    assert [(moment.queries, moment.hops) for moment in seen] == [(1, 0), (3, 2), (3, 2)]
    seen = moments(trace, URBAN, strategy="defragmented")
    assert [(moment.paused, moment.queries, moment.hops) for moment in seen] == [(0, 1, 0), (0, 3, 2), (0, 2, 1)]


def test_by_default_nothing_is_shared():
    submits = tuple(Change("submit", name) for name in NAMES)
    *_, last = replayed(Trace("all", submits, walk=range(7)), URBAN, strategy="default")
    assert len(last.tasks) == sum(len(dataflow.tasks) for dataflow in URBAN)
    assert {len(users) for users in last.users.values()} == {1}


def test_a_histogram_is_weighted_by_time():
    def moment(users):
        return Moment(dataflows=1, tasks=1, paused=0, queries=1, hops=0, users=users)

    assert reuse_histogram([moment({1: 1}), moment({1: 1}), moment({2: 2})]) == {1: 0.5, 2: 0.5}


def event(seq: int, value: int, born: int) -> dict[str, int]:
    return {"_seq": seq, "_time": seq, "_born": born, "value": value}


def test_outputs_are_compared_as_far_as_both_have_come():
    default = {"d:out": [event(seq, seq * 2, 5) for seq in range(10)]}
    reuse = {"d:out": [event(seq, seq * 2, 9) for seq in range(7)]}
    assert compare(default, reuse) == {"outputs": 1, "events": 6, "different": []}


@pytest.mark.parametrize("spoil", [
    lambda events: events[1:], lambda events: [*events, events[0]], lambda events: [event(0, 99, 1), *events[1:]],
    lambda events: [],
])
def test_a_lost_doubled_or_changed_event_is_found(spoil):
    events = [event(seq, seq, 1) for seq in range(8)]
    assert compare({"d:out": events}, {"d:out": spoil(events)})["different"]
    assert compare({"d:out": spoil(events)}, {"d:out": events})["different"]


def test_the_bench_writes_tables_plots_and_figures(tmp_path, capsys):
    assert reuse_traces.main(["--opmw", str(tmp_path), "--walk-steps", "10", "--output", str(tmp_path / "out")]) == 0
    output = capsys.readouterr().out
    assert "OPMW is left out" in output and "SEQ" in output
    written = json.loads((tmp_path / "out" / "reuse-traces.json").read_text(encoding="utf-8"))
    traces = written["workloads"]["RIoTBench"]["traces"]
    assert set(traces) == {"SEQ", "RW1", "RW2"} and len(traces["SEQ"]["reuse"]) == 42
    page = (tmp_path / "out" / "traces.html").read_text(encoding="utf-8")
    assert "RIoTBench: 21 dataflows" in page and (tmp_path / "out" / "plotly.min.js").exists()


@pytest.mark.long  # the test above has the bench from the command line, test_traces.py what is drawn from a seed
def test_the_same_seed_writes_the_same_figures(tmp_path):
    folder = str(shared_data("opmw"))
    written = []
    for number in range(2):
        out = tmp_path / str(number)
        reuse_traces.main(["--opmw", folder, "--walk-steps", "5", "--seed", "3", "--output", str(out)])
        written.append(json.loads((out / "reuse-traces.json").read_text(encoding="utf-8")))
    assert written[0] == written[1] and set(written[0]["workloads"]) == {"RIoTBench", "OPMW"}


@pytest.mark.parametrize("flags", [["--dataflows", "0"], ["--draws", "-1"], ["--walk-steps", "many"]])
def test_sizes_that_make_no_sense_are_refused(flags, capsys):
    with pytest.raises(SystemExit) as ended:
        reuse_traces.main(flags)
    assert ended.value.code == 2 and "not a whole number from 1" in capsys.readouterr().err
