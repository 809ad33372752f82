"""The bench of handovers: what it tells of an output's blocks, with a handover and without, and of chains beside it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.benches.handover.chains import CHAIN
from tests.benches.handover.command import goals, main, tables
from tests.benches.handover.figures import (
    ALL,
    BESIDE,
    BOTH,
    SOURCE,
    TARGET,
    WITH,
    WITHOUT,
    Block,
    Window,
    beside,
    joined,
    phases,
    roles,
    shown,
    summary,
    whole,
)


def block(written_ms: int, events: int = 1, age_ms: int = 50, first: int = 0) -> Block:
    return Block(written_ms, (age_ms,) * events, tuple(range(first, first + events)))


def steady(began_ms: int, ended_ms: int, *, every_ms: int = 100, events: int = 5, age_ms: int = 50) -> list[Block]:
    return [block(at, events, age_ms) for at in range(began_ms, ended_ms, every_ms)]


# what an output shows ------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 9)), min_size=2, max_size=40),
    st.lists(st.integers(0, 20_000), min_size=2, max_size=8, unique=True))
def test_windows_that_lie_side_by_side_share_all_events(pairs: list[tuple[int, int]], cuts: list[int]) -> None:
    blocks = joined(block(*pair) for pair in sorted(pairs))
    assume(len(blocks) > 1)
    edges = sorted({blocks[0].written_ms, *cuts, blocks[-1].written_ms})
    edges = [edge for edge in edges if blocks[0].written_ms <= edge <= blocks[-1].written_ms]
    counted = sum(
        shown(blocks, Window(began, ended))["rate_per_s"] * (ended - began) / 1000
        for began, ended in itertools.pairwise(edges))
    assert counted == pytest.approx(sum(len(item.ages_ms) for item in blocks[1:]))


@given(st.integers(0, 99), st.integers(1, 20))
def test_a_steady_output_has_its_rate_wherever_the_window_lies(offset_ms: int, events: int) -> None:
    figures = shown(steady(0, 20_000, events=events), Window(3_000 + offset_ms, 8_000 + offset_ms))
    assert figures["rate_per_s"] == pytest.approx(10 * events)
    assert figures["stood_still_s"] == 0.1 and figures["latency_p50_s"] == figures["oldest_s"] == 0.05


def test_a_pause_counts_whole_also_where_it_ends_behind_the_window() -> None:
    blocks = [*steady(0, 5_000), *steady(6_200, 9_000, age_ms=900)]
    assert shown(blocks, Window(4_000, 6_000))["stood_still_s"] == pytest.approx(1.3)
    assert shown(blocks, Window(4_000, 7_000))["oldest_s"] == 0.9
    assert shown(blocks, Window(2_000, 4_000))["stood_still_s"] == 0.1


def test_nothing_is_said_of_latency_where_nothing_came() -> None:
    figures = shown([block(0), block(9_000)], Window(1_000, 2_000))
    assert figures["latency_p50_s"] is None and figures["stood_still_s"] == 9


def test_a_block_has_the_age_of_each_event_and_blocks_of_one_moment_are_one() -> None:
    batch = pa.RecordBatch.from_pydict({"_born": [900, 950], "_seq": [7, 8]})
    assert Block.of(1_000, [batch, batch]) == Block(1_000, (100, 50, 100, 50), (7, 8, 7, 8))
    assert joined([block(5, 2), block(5, 1, first=2), block(6)]) == [
        Block(5, (50, 50, 50), (0, 1, 2)), Block(6, (50,), (0,))]


@given(st.integers(1, 5), st.integers(2, 30), st.data())
def test_whatever_is_lost_or_doubled_is_seen(times: int, last: int, data) -> None:
    numbers = [number for number in range(last + 1) for _ in range(times)]
    assert whole([Block(1, (), tuple(numbers))]) == {"events": last * times, "lost": 0, "doubled": 0}
    changed = data.draw(st.integers(0, last - 1))
    assume(last > 2)  # else either may be what is usual
    index = changed * times
    lacking, doubled = numbers[:index] + numbers[index + 1:], [*numbers[:index], changed, *numbers[index:]]
    assert whole([Block(1, (), tuple(lacking))])["lost"] == 1
    assert whole([Block(1, (), tuple(doubled))])["doubled"] == 1
    assert whole([]) == {"events": 0, "lost": 0, "doubled": 0}


def test_the_pause_is_what_was_recorded_the_gap_and_the_first_batch() -> None:
    blocks = [block(0), block(100), block(420), block(520)]
    parts = phases(blocks, {"at_ms": 300, "gap_ms": 60})
    assert parts == {"until_recorded_s": 0.14, "until_heir_runs_s": 0.06, "first_batch_s": 0.12}
    assert sum(parts.values()) == pytest.approx(0.32)
    assert phases(blocks, None) == phases(blocks[:2], {"at_ms": 300, "gap_ms": 60}) == {}


# which slot is what --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "after", "expected"), [
    ({"n/0", "n/1"}, {"n/0"}, {"n/0": BOTH, "n/1": SOURCE}), ({"n/0"}, {"n/1"}, {"n/0": SOURCE, "n/1": TARGET}),
    ({"n/1"}, {"n/0", "n/1"}, {"n/0": TARGET, "n/1": BOTH}), ({"n/1"}, {"n/1"}, {"n/1": BOTH})])
def test_a_slot_is_left_or_reached_or_both(before: set[str], after: set[str], expected: dict[str, str]) -> None:
    assert roles(["n/0", "n/1"], before=before, after=after) == expected


# what is told --------------------------------------------------------------------------------------------------------


def side(rate: float = 50.0, latency: float = 0.2, still: float = 0.5) -> dict[str, float]:
    return {"rate_per_s": rate, "latency_p50_s": latency, "latency_p95_s": 2 * latency, "oldest_s": 3 * latency,
            "stood_still_s": still}


def handover(number: int, *, with_it: dict, still: float = 0.2, usual: float = 0.1) -> dict:
    quiet = side(50 + number % 2, 0.2 + 0.01 * (number % 2), 0.5 + 0.05 * (number % 2))
    windows = {WITH: with_it, WITHOUT: quiet}
    return {
        "form": ("fused", "moved")[number % 2], "took_s": 0.7,
        "chain": {WITH: side(still=still), WITHOUT: side(still=usual)},
        "phases": {"until_recorded_s": 0.1, "until_heir_runs_s": 0.03, "first_batch_s": still - 0.13},
        "bystanders": {"n/0": {"role": SOURCE, **windows}, "n/1": {"role": TARGET, **windows}}}


def document(handovers: list[dict], *, trigger_ms: int = 100, **changed: object) -> dict:
    return {
        "trigger_ms": trigger_ms, "has_state": False, "state_mb": 0, "between_nodes": False,
        "forms": summary(handovers, trigger_ms=trigger_ms), "beside": beside(handovers),
        "outputs": {CHAIN: {"events": 9, "lost": 0, "doubled": 0}}, **changed}


def test_pauses_are_held_against_the_windows_without() -> None:
    forms = summary([handover(number, with_it=side(), still=0.2 + 0.1 * (number == 3)) for number in range(4)],
                    trigger_ms=100)
    assert forms["fused"]["within_a_trigger"] == 2 and forms["moved"]["within_a_trigger"] == 1
    assert forms[ALL]["beyond_s"] == {"median": 0.1, "p95": 0.185, "worst": 0.2, "times": 4}
    assert forms[ALL]["first_batch_s"]["median"] == 0.07


def test_others_that_go_on_as_they_did_are_unchanged() -> None:
    rows = beside([handover(number, with_it=side(50.5, 0.205, 0.52)) for number in range(8)])
    assert [(row["role"], row["figure"]) for row in rows] == [
        (role, figure) for figure in BESIDE for role in (SOURCE, TARGET, ALL)]
    assert all(row["unchanged"] and not row["worse"] for row in rows)
    assert rows[2]["times"] == 16 and rows[2]["noise"] == {"median": 1, "p95": 1}


@pytest.mark.parametrize(("with_it", "figures"), [
    (side(40), {"rate_per_s"}), (side(latency=0.4), {"latency_p50_s", "latency_p95_s"}), (side(still=2.0), {
        "stood_still_s"}), (side(90, 0.1, 0.1), set())])
def test_others_that_are_slower_or_later_are_seen_and_those_that_do_better_are_no_harm(
    with_it: dict, figures: set[str]
) -> None:
    rows = [row for row in beside([handover(number, with_it=with_it) for number in range(8)]) if row["role"] == ALL]
    assert {row["figure"] for row in rows if not row["unchanged"]} == figures
    assert all(row["worse"] == (row["times"] if row["figure"] in figures else 0) for row in rows)


def test_goals_are_told_by_what_was_measured() -> None:
    handovers = [handover(number, with_it=side()) for number in range(4)]
    assert list(goals(document(handovers))) == [
        "95 of 100 below 0.25 s: reached (0.20 s)", "at most a trigger (0.1 s) longer than without: reached (4 of 4)",
        "others in both slots as without: reached"]
    slow = [handover(number, with_it=side(40), still=1.5) for number in range(4)]
    assert list(goals(document(slow, state_mb=100))) == [
        "95 of 100 below 1 s: missed (1.50 s)", "at most a trigger (0.1 s) longer than without: missed (0 of 4)",
        "others in both slots as without: missed (rate_per_s)"]
    assert len(list(goals(document(slow, trigger_ms=1_000, beside=[])))) == 1
    assert len(list(goals(document(slow, has_state=True, beside=[])))) == 1


def test_tables_name_each_form_and_each_chain_beside() -> None:
    text = "\n".join(tables(document([handover(number, with_it=side()) for number in range(4)])))
    for words in ("fused", "moved", "within a trigger", "batch s median", "source", "target", "latency_p95_s", "lost"):
        assert words in text


@pytest.mark.parametrize("arguments", [
    ["--repeats", "0"], ["--stateless", "--state-mb", "3"], ["--window", "0"], ["--bystanders", "none"]])
def test_what_cannot_be_measured_is_told_before_anything_starts(arguments: list[str], capsys) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert "error" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("between_nodes", [False, True])
def test_on_spark_all_outputs_are_whole_and_all_windows_have_their_pair(between_nodes: bool, tmp_path: Path) -> None:
    path = tmp_path / "handover.json"
    options = ["--between-nodes"] if between_nodes else []
    assert main([
        "--repeats", "1", "--window", "3", "--trigger", "300", "--bystanders", "500", "--json", str(path),
        *options]) == 0
    measured = json.loads(path.read_text())
    assert [item["form"] for item in measured["handovers"]] == (
        ["there", "back"] if between_nodes else ["fused", "moved", "cut"])
    assert all(
        output["events"] > 100 and output["lost"] == output["doubled"] == 0 for output in measured["outputs"].values())
    for item in measured["handovers"]:
        assert len(item["bystanders"]) == 2 and item["phases"]
        assert all(seen[when]["rate_per_s"] for seen in item["bystanders"].values() for when in (WITH, WITHOUT))
