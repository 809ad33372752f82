"""The published points of paper [2], from its published profiles; where one is not reached, why not."""

from __future__ import annotations

import json

import pytest

from scheduler.allocation.lsa import allocate_lsa
from scheduler.allocation.mba import allocate_mba
from scheduler.mapping.dsm import map_dsm
from scheduler.model.allocated import Allocation
from scheduler.model.profile_csv import ProfileEntry, read_profiles, write_entries
from scheduler.model.resources import Supply
from scheduler.pairs import Pair
from scheduler.performance.prediction import predict
from scheduler.scheduling import Job, compare, prepare, schedule
from tests.benches import schedules
from tests.benches.highest_rate import highest_rate
from tests.benches.published_dataflows import MACHINES, SINK, SOURCE, TYPES, published_dataflows, published_profiles
from tests.benches.published_pairs import PUBLISHED_PAIRS
from tests.scheduler.shared_data import shared_data

SUPPLY = Supply(catalogue=MACHINES)


def job_of(rate_per_s: float, *, name: str = "linear") -> Job:
    """The job of a published dataflow at a rate."""
    folder = shared_data("performance_models")
    return prepare(
        published_dataflows(folder)[name], task_types=TYPES, profiles=published_profiles(folder), rate_per_s=rate_per_s)


def allocated(allocate, rate_per_s: float, *, ends: bool = True, name: str = "linear") -> Allocation:
    """The allocation of a published dataflow, with or without its source and sink."""
    job = job_of(rate_per_s, name=name)
    inner = {task.id for task in job.dataflow.tasks if task.type not in (SOURCE, SINK)}
    rates = {task: rate for task, rate in job.rates_per_s.items() if ends or task in inner}
    return allocate(rates, job.profiles)


@pytest.mark.parametrize(("rate_per_s", "slots"), [(50, 7), (100, 13), (200, 25)])
def test_slots_of_linear_by_lsa(rate_per_s: float, slots: int):
    """7, 13 and 25 slots, reached with the five tasks alone.

    With source and sink, which the paper says are mapped like other tasks (8.3), their 35% of memory make 25.3 slots of
    the 24.96 at 200 events/s, and 26 of 25. The paper's own sums at 50 (623% memory, 242% CPU) leave them out, too.
    """
    allocation = allocated(allocate_lsa, rate_per_s, ends=False)
    assert allocation.slots == slots
    if rate_per_s == 50:
        assert (int(allocation.memory * 100), int(allocation.cpu * 100)) == (623, 242)
    assert allocated(allocate_lsa, rate_per_s).slots == slots + (rate_per_s == 200)


@pytest.mark.parametrize(("rate_per_s", "slots"), [(50, 4), (100, 7), (200, 15)])
def test_slots_of_linear_by_mba(rate_per_s: float, slots: int):
    """4, 7 and 15 slots, reached with source and sink.

    Here the published 15 at 200 events/s needs them: the five tasks alone take 13.88 slots of CPU, 14 slots. So the
    paper counts them in for MBA and not for LSA: the first place where its figures disagree. Its 323% of CPU at 50
    events/s is again without them.
    """
    assert allocated(allocate_mba, rate_per_s).slots == slots
    alone = allocated(allocate_mba, rate_per_s, ends=False)
    assert alone.slots == slots - (rate_per_s == 200)
    if rate_per_s == 50:
        assert int(alone.cpu * 100) == 323 and int(alone.tasks["blob"].memory * 100) == 128


def test_blob_downloads_of_linear_at_100():
    """LSA 50 threads, 337% CPU, 1196% memory; MBA 170 threads, 315%, 326%."""
    by_lsa, by_mba = (allocated(allocate, 100).tasks["blob"] for allocate in (allocate_lsa, allocate_mba))
    assert (by_lsa.threads, round(by_lsa.cpu * 100), round(by_lsa.memory * 100)) == (50, 336, 1196)
    assert by_lsa.cpu * 100 == pytest.approx(336.5), "published as 337: half a percent, rounded up"
    assert (by_mba.threads, round(by_mba.cpu * 100), round(by_mba.memory * 100)) == (170, 315, 326)


def test_threads_of_linear_at_280_by_mba():
    """420 Table and 470 Blob threads, at the rate that five D3 machines are planned for."""
    allocation = allocated(allocate_mba, 280)
    assert (allocation.tasks["table"].threads, allocation.tasks["blob"].threads) == (420, 470)


@pytest.mark.parametrize(("pair", "planned"), [(("MBA", "SAM"), 280), (("MBA", "RSM"), 280)])
def test_the_rate_that_twenty_slots_are_planned_for_by_mba(pair: Pair, planned: float):
    """280 events/s by MBA and SAM (8.5). The paper has RSM plan for less and does not say how much."""
    folder = shared_data("performance_models")
    linear, profiles = published_dataflows(folder)["linear"], published_profiles(folder)
    highest = highest_rate(
        lambda rate: prepare(linear, task_types=TYPES, profiles=profiles, rate_per_s=rate), pair, supply=SUPPLY,
        slots=20, step_per_s=10)
    assert highest.rate_per_s == planned


def test_the_rate_that_twenty_slots_are_planned_for_by_lsa():
    """160 events/s and 54 Table threads (8.5.1), again without source and sink: 19.96 slots of memory."""
    assert allocated(allocate_lsa, 160, ends=False).slots == 20 < allocated(allocate_lsa, 170, ends=False).slots
    assert allocated(allocate_lsa, 160).tasks["table"].threads == 54


def test_table_threads_of_diamond():
    """MBA at 100 events/s: 160 threads, in bundles of 60, 60 and 40 (reached).

    LSA at 50 events/s: 18 threads published, but 50 events/s at 3 a thread are 16.7, 17 threads; and the paper's own
    split of them, 2 on each of 4 slots and 9 on one, is 17: the second place where its figures disagree.
    """
    by_mba = allocated(allocate_mba, 100, name="diamond").tasks["table"]
    assert [(bundle.threads, bundle.count) for bundle in by_mba.bundles] == [(60, 2), (40, 1)]
    assert allocated(allocate_lsa, 50, name="diamond").tasks["table"].threads == 17 == 4 * 2 + 9


def test_slots_of_linear_at_200_after_rsm():
    """28 published, 27 reached: 26 with source and sink, and one more for what does not fit.

    R-Storm has many readings. The memory share of an XML thread, 22.98%, is reached exactly, and with it the reading
    that a thread takes its share of what its task was allocated. The 8% of memory that the paper says 4 Blob threads
    leave of a slot are 4.3% by its own figures (4 × 23.92%). Mapping anew with one slot more each time, as the paper
    does, instead of going on, ends at 27, too.
    """
    job = job_of(200)
    planned = schedule(job, ("LSA", "RSM"), supply=SUPPLY)
    assert (planned.placement.allocated_slots, planned.slots) == (26, 27)
    assert planned.allocation.tasks["xmlparse"].memory == pytest.approx(0.2298, abs=1e-4)


def test_slots_of_linear_after_sam():
    """The paper's SAM takes one slot more than MBA's 4 at 50 events/s and none more at 100 and 200; ours takes none.

    At 50 all fits 4 slots: Blob's and Table's full bundles on one each, and on two what is left (123% CPU, and 20% for
    source and sink). By the letter of Algorithm 6 a lone XML thread is a full bundle, since XML does best with one;
    then 4 would be 6, and 7 at 100 events/s at least 9, which is not what was published either.
    """
    for rate_per_s, slots in ((50, 4), (100, 7), (200, 15)):
        planned = schedule(job_of(rate_per_s), ("MBA", "SAM"), supply=SUPPLY)
        assert (planned.slots, planned.placement.extra) == (slots, 0)


def test_predictions_from_the_profile():
    """3 Table threads on a slot: 6 events/s, interpolated (5.6); 2 there: 5; 9 there: the paper takes those of 10."""
    table = job_of(50).profiles["table"]
    assert table.estimate(3).point.rate_per_s == pytest.approx(5.625) and table.estimate(3).basis == "interpolated"
    assert table.estimate(2).point.rate_per_s == 5
    assert table.estimate(9).point.rate_per_s == pytest.approx(9.375)


def test_round_robin_keeps_less_than_mba_plans():
    """280 planned and 200 predicted for Linear by MBA and DSM on twenty slots; we predict 230 with Storm's routing.

    The slot with the XML thread has no CPU left then. How the paper adds up the CPU of different tasks on one slot it
    does not say. 470 Blob threads on twenty slots are 23 or 24 each, as published.
    """
    job = job_of(280)
    allocation = allocate_mba(job.rates_per_s, job.profiles)
    placement = map_dsm(allocation, supply=SUPPLY, within_memory=False)
    assert set(placement.counts["blob"].values()) == {23, 24}
    prediction = predict(placement, job.profiles, rates_per_s=job.rates_per_s)
    assert 280 * prediction.factor == pytest.approx(230, abs=1) and prediction.routed.limit.what == "CPU"


@pytest.mark.parametrize("name", ["linear", "diamond", "star", "traffic", "grid"])
@pytest.mark.parametrize("rate_per_s", [50, 100, 200])
def test_mba_needs_fewer_slots_than_lsa_and_keeps_its_rate_with_slot_aware_routing(name: str, rate_per_s: float):
    """In all cases, as published (8.4); that LSA falls short of its plan even so is published of most."""
    comparison = compare(job_of(rate_per_s, name=name), supply=SUPPLY, pairs=PUBLISHED_PAIRS)
    by_pair = {row.pair: row for row in comparison.schedules}
    assert by_pair["MBA", "SAM"].slots < by_pair["LSA", "RSM"].slots
    assert by_pair["MBA", "SAM"].prediction.keeps
    assert not by_pair["LSA", "RSM"].prediction.keeps


def test_the_published_profiles_read_back():
    text = (shared_data("performance_models") / "performance_model.csv").read_text()
    assert read_profiles(write_entries(map(ProfileEntry, read_profiles(text)))) == read_profiles(text)


def test_the_bench_from_the_command_line(tmp_path, capsys):
    """A short one: one rate, small sizes; its rows are those of the schedules."""
    folder, out = shared_data("performance_models"), tmp_path / "schedules.json"
    assert schedules.main([
        "--published", str(folder), "--rates", "50", "--sizes", "10", "20", "--repeat", "1", "--out", str(out)]) == 0
    written = json.loads(out.read_text())
    rows = {(row["dataflow"], row["allocation"], row["mapping"]): row for row in written["published"]}
    assert (rows["linear", "LSA", "RSM"]["slots"], rows["linear", "MBA", "SAM"]["slots"]) == (7, 4)
    assert len(written["growth"]) == 18 and {row["tasks"] for row in written["growth"]} == {10, 20}
    assert "linear" in capsys.readouterr().out


def test_the_bench_without_the_public_data_says_so(tmp_path, capsys):
    assert schedules.main(["--published", str(tmp_path), "--sizes", "20", "--repeat", "1",
                           "--out", str(tmp_path / "schedules.json")]) == 0
    assert "are not at" in capsys.readouterr().out
