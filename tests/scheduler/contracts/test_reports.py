"""Reports of nodes: those of earlier versions read, unknown fields are passed over, look-ups go by slot names."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.contracts.codec import InvalidContract
from scheduler.contracts.contract_schemas import CONTRACTS, described
from scheduler.contracts.reports import NODE_REPORTS, NodeReport, QueryReport, Reports, SlotReport, SlotUse, reports_of

# As an agent of af0fdcb wrote it: what is not known is left out, positions are strings.
OLD = {
    "node": "n1", "version": 7, "at_ms": 1_700_000_000_000, "cores": 2, "memory_mb": 24_000, "machine": "cpu-2",
    "threads": 64, "pinning": "few_cores",
    "slots": {
        "0": {
            "state": "running", "pid": 4711, "core": None, "cpu": 0.31, "memory_mb": 812, "restarts": 0,
            "memory_trend_mb_per_h": None, "since_ms": 1, "used": {"since_ms": 1, "cpu_ms": 500, "memory_mb_s": 90},
            "fragments": {"f3-0": {
                "state": "running", "batch": 812, "batch_ms": 31, "rows_per_s": 50.0, "batches": 790,
                "busy_ms": 24100, "rate_per_s": 49.8, "since_ms": 5, "restarts": 0, "failures": 0, "error": None,
                "retry_at_ms": None, "throttled_by": None, "run_id": "r", "outlets": {"1": ["f4-0"]}, "active": 5,
                "threads": 1, "routes": {"2": {"f6-0": {"f6-0": 0.25, "f6-3": 0.75}}}, "cpu": 0.12, "memory": 0.03}}},
        "1": {"state": "starting", "pid": None, "core": None, "cpu": 0.0, "memory_mb": 0, "used": None, "restarts": 1,
              "memory_trend_mb_per_h": None, "since_ms": 9, "fragments": {}},
    },
}


def test_a_report_of_an_earlier_version_reads() -> None:
    reports = reports_of({"n1": (json.dumps(OLD), 0)})
    query = reports.query("n1/0", "f3-0")
    assert query is not None and (query.batch, query.rate_per_s, query.memory) == (812, 49.8, 0.03)
    assert query.outlets == {1: ("f4-0",)} and query.routes == {2: {"f6-0": {"f6-0": 0.25, "f6-3": 0.75}}}
    slot = reports.slot("n1/0")
    assert slot is not None and slot.used == SlotUse(1, 500, 90)
    assert reports.query("n1/1", "f3-0") is reports.query("n1/7", "f3-0") is reports.query("n2/0", "f3-0") is None


def test_what_is_unknown_is_passed_over_and_what_is_missing_has_its_default() -> None:
    slots = {"0": {"rings": [], "fragments": {"f1-0": {"x": 1}}}}
    report = NODE_REPORTS.read({"node": "n9", "moons": 2, "slots": slots})
    assert report == NodeReport("n9", slots={"0": SlotReport(fragments={"f1-0": QueryReport()})})


@pytest.mark.parametrize(("document", "place"), [
    ({}, "node"), ({"node": "n1", "version": "seven"}, "version"),
    ({"node": "n1", "slots": {"0": {"fragments": {"f1-0": {"active": None}}}}}, "slots/0/fragments/f1-0/active"),
])
def test_what_is_no_report_is_refused_with_its_place(document: dict, place: str) -> None:
    with pytest.raises(InvalidContract) as refused:
        NODE_REPORTS.read(document)
    assert refused.value.facts["place"] == place and refused.value.facts["contract"] == "NodeReport"


def test_a_node_whose_report_cannot_be_read_counts_as_silent() -> None:
    texts = {"n0": b"\xff", "n2": "{", "n3": '{"version": 1}', "n4": json.dumps(OLD), "n1": json.dumps(OLD)}
    assert set(reports_of({node: (text, 0) for node, text in texts.items()})) == {"n1"}


names = st.text("abc.-", min_size=1, max_size=5)
shares = st.none() | st.floats(0, 1)
queries = st.builds(
    QueryReport, state=st.sampled_from(["running", "left", "backoff"]), batch=st.none() | st.integers(0, 10**9),
    rate_per_s=shares, error=st.none() | names, outlets=st.dictionaries(st.integers(0, 9), st.lists(names).map(tuple)),
    routes=st.dictionaries(st.integers(0, 9), st.dictionaries(names, st.dictionaries(names, st.floats(0, 1)))),
    active=st.integers(0, 9), threads=st.integers(1, 9), cpu=shares, memory=shares)
slots = st.builds(
    SlotReport, pid=st.none() | st.integers(1), cpu=shares, fragments=st.dictionaries(names, queries, max_size=3),
    used=st.none() | st.builds(SlotUse, st.integers(0), st.integers(0), st.integers(0)))


@given(st.builds(NodeReport, node=names, version=st.integers(0), slots=st.dictionaries(names, slots, max_size=2)))
def test_a_report_survives_its_json(report: NodeReport) -> None:
    assert NODE_REPORTS.loads(NODE_REPORTS.dumps(report)) == report


def test_who_has_left_is_told_by_all_nodes() -> None:
    reports = Reports.of({
        "n1": {"slots": {"0": {"fragments": {"a": {"state": "left"}, "b": {"state": "running"}}}}},
        "n2": {"slots": {"1": {"fragments": {"c": {"state": "left"}}}}}})
    assert reports.left == {"a", "c"}


def test_every_contract_is_described() -> None:
    page = described()
    assert all(f"## {title}\n\n{where}\n" in page for title, (_, where) in CONTRACTS.items())
