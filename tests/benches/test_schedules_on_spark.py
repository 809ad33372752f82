"""What is told of experiments with schedules: rows, fits, the page; and what is counted on the way."""

from __future__ import annotations

import json
import os
import random
from dataclasses import asdict
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest

from tests.benches import climbing, results, schedules_on_spark
from tests.benches.experiment_dataflows import document, kinds, write_recording
from tests.benches.schedules_page import page, violins
from tests.benches.schedules_summary import (
    MOST_RUNS,
    actual_per_s,
    better,
    fits,
    highest_stable,
    is_to_repeat,
    shown,
    summary,
)
from workers.library.markup import read_records, wanted_values


def stair(rate, carried, *, cpu=0.5, stable=True):
    return {
        "rate_per_s": rate, "carried_per_s": carried, "stable": stable, "latency_ms": [float(n) for n in range(60)],
        "loads": {"n1/0": {"cpu": cpu, "memory": 0.02}, "n1/1": {"cpu": cpu / 2, "memory": 0.01}},
        "predicted": {"n1/0": {"cpu": cpu, "memory": 0.02}, "n1/1": {"cpu": cpu / 2, "memory": 0.01}},
    }


def run(name="linear", pair=("MBA", "SAM"), planned=100.0, predicted=100.0, actual=98.0):
    return {
        "key": f"{name}, {'+'.join(pair)}, {planned}", "dataflow": name, "pair": list(pair), "planned_per_s": planned,
        "predicted_per_s": predicted, "threads": 9, "slots": 2,
        "stairs": [stair(0.8 * planned, 0.8 * planned, cpu=planned / 200),
                   stair(planned, actual, stable=actual >= 0.95 * planned, cpu=planned / 150)],
    }


RUNS = [run(), run(planned=60.0, predicted=66.0, actual=64.0), run(pair=("LSA", "RSM"), predicted=50.0, actual=52.0),
        {"key": "star", "dataflow": "star", "pair": ["LSA", "DSM"], "fraction": 1.0, "error": "too few slots"}]


def test_a_row_tells_the_highest_rate_that_kept_up_and_what_it_took():
    row = summary(RUNS[2])
    assert row["actual/s"] == 80.0 and row["p50 ms"] == 30 and row["CPU % actual"] == "50 25"
    grown = {**RUNS[2], "stairs": [*RUNS[2]["stairs"], stair(120.0, 90.0, stable=False)]}
    assert (summary(grown)["actual/s"], summary(grown)["most/s"]) == (80.0, 90.0), "more came through, but piled up"
    none = {**RUNS[2], "stairs": [stair(120.0, 90.0, stable=False)]}
    assert summary(none)["actual/s"] == 90.0, "nothing was stable: what came through is all that is known"
    assert summary(RUNS[3])["actual/s"] is None and highest_stable(RUNS[3]) is None
    assert actual_per_s(RUNS[1]) == 64.0


def test_fits_are_over_all_that_ran():
    fitted = fits(RUNS)
    assert fitted["rate"]["points"] == 3 and fitted["CPU"]["points"] == 6 and fitted["CPU"]["identity"] == 1
    assert [fit["keeps"] for fit in fitted["mba_sam"]] == [True, True]
    assert fitted["mba_sam"][0]["carried_over_planned"] == pytest.approx(0.98)
    assert (fitted["rate"]["schedules"], fitted["CPU"]["schedules"]) == (3, 3)
    few = fits(RUNS[:1])
    assert few["rate"]["correlation"] is None and "NaN" not in json.dumps(few) and "–" in shown({"fits": few})


def test_a_plan_is_kept_at_the_planned_rate_and_not_by_more_at_another():
    beyond = run(actual=93.0)
    beyond["stairs"].append(stair(150.0, 120.0, stable=False))
    [fit] = fits([beyond])["mba_sam"]
    assert (fit["keeps"], fit["carried_over_planned"], fit["most_over_planned"]) == (False, 0.93, 1.2)


def test_the_page_needs_nothing_besides_itself():
    text = page({"runs": RUNS, "fits": fits(RUNS)})
    assert text.count("<div") >= 5 and "MBA+SAM" in text and "src=" not in text.split("<table>")[1]
    shown_latencies = {(trace.type, trace.name): len(trace.y) for trace in violins(RUNS[:3]).data}
    assert shown_latencies == {("violin", "MBA+SAM"): 120, ("violin", "LSA+RSM"): 60}
    assert "Latency at the highest" in text
    assert shown({"fits": fits(RUNS)}).count("R²") == 8


def test_quantiles_are_of_what_was_counted_in_between():
    quantiles = climbing.quantiles_ms({10: 5, 20: 1}, {10: 5, 20: 101, 24: 100})
    assert len(quantiles) == climbing.VIOLIN and quantiles == sorted(quantiles)
    assert quantiles[0] >= 2**5 - 1 and quantiles[-1] <= 2**6.25 and climbing.quantiles_ms({1: 2}, {1: 2}) == []


def test_documents_hold_what_the_task_reads(tmp_path):
    text = document(random.Random(1))
    assert ElementTree.fromstring(text) is not None and 3_000 < len(text) < 12_000
    config = kinds("http://127.0.0.1:1")["parse"].config
    [values] = read_records(text, wanted_values({"record": None, **config}))
    assert None not in values and values[0].startswith("s")
    write_recording(tmp_path / "a.parquet", [0, 10, 20])
    write_recording(tmp_path / "b.parquet", [0, 10, 20])
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.num_rows == 3 and table.equals(pq.read_table(tmp_path / "b.parquet"))


def test_a_run_whose_cpu_went_elsewhere_is_made_again_and_the_better_one_counts():
    def run(*stolen: float) -> dict:
        return {"stairs": [{"stolen": stolen_share, "stable": True, "rate_per_s": 1.0} for stolen_share in stolen]}

    disturbed, quiet = better({}, run(0.0, 0.4, 0.5)), run(0.3, 0.02, 0.05)
    assert is_to_repeat(disturbed) and disturbed["runs"] == 1
    once_more = better(disturbed, quiet)
    assert once_more == {**quiet, "runs": 2, "aside": [run(0.0, 0.4, 0.5)]} and not is_to_repeat(once_more)
    third = better(once_more, run(0.5))
    assert third == {**quiet, "runs": 3, "aside": [run(0.0, 0.4, 0.5), run(0.5)]}, "what was better stays"
    never = {"stairs": [{"stolen": 0.0, "stable": False, "rate_per_s": 1.0}]}
    assert is_to_repeat(better({}, never)) and better(never, quiet)["stairs"] == quiet["stairs"]
    assert better(quiet, never)["stairs"] == quiet["stairs"], "what was stable at some rate says more"
    busy = {"stairs": [{"stolen": 0.0, "others_cores": cores, "stable": True, "rate_per_s": 1.0}
                       for cores in (0.2, 1.0, 1.1)]}
    assert is_to_repeat(better({}, busy)), "something else ran on the machine"
    assert better(busy, quiet)["stairs"] == quiet["stairs"] == better(quiet, busy)["stairs"]
    failed = {"error": "no"}
    assert is_to_repeat(better({}, failed)) and better(quiet | {"runs": 1}, failed)["stairs"] == quiet["stairs"]
    for _ in range(MOST_RUNS):
        failed = better(failed, {"error": "no"})
    assert not is_to_repeat(failed), "not for ever"


@pytest.mark.parametrize("options,named", [
    (["--trigger-ms", "200"], "trigger_ms 500, not 200"), (["--slots", "3"], "slots 2, not 3"),
    (["--stair", "10"], "stair_s 20.0, not 10.0"), (["--quick"], "trial_s 4.0, not 2.5")])
def test_what_was_measured_otherwise_is_not_gone_on_with(tmp_path, options: list[str], named: str):
    """Else trials and runs of one interval would be told as those of another."""
    sizes = schedules_on_spark.sizes_of(schedules_on_spark._options([]))
    stored = json.loads(json.dumps({"sizes": asdict(sizes), "machine": results.machine(), "trials": {"pi": [1]}}))
    assert schedules_on_spark.unlike(stored, sizes) == schedules_on_spark.unlike({}, sizes) == ""
    assert "cores" in schedules_on_spark.unlike(stored | {"machine": {"cores": 96}}, sizes)
    out = tmp_path / "kept.json"
    out.write_text(json.dumps(stored))
    with pytest.raises(SystemExit) as refused:
        schedules_on_spark.main(["--out", str(out), *options])
    assert named in str(refused.value) and "--anew" in str(refused.value)
    assert json.loads(out.read_text()) == stored


def test_a_measurement_that_is_ended_while_it_is_written_is_there_as_it_was(tmp_path, monkeypatch: pytest.MonkeyPatch):
    results.write(tmp_path / "kept.json", {"trials": [1, 2]})

    def ended(_file: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", ended)
    with pytest.raises(KeyboardInterrupt):
        results.write(tmp_path / "kept.json", {"trials": [1, 2, 3]})
    assert json.loads((tmp_path / "kept.json").read_text()) == {"trials": [1, 2]}
