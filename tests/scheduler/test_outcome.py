"""Planned against actual: which promise was missed and why, for every cause that is deviations apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.placement import ThreadShortage
from scheduler.model.promise import BundlePromise, Load, Promise
from scheduler.performance.outcome import blur_of, deviations, lasting_misses, misses, taken_of
from scheduler.performance.rates import falls_short
from scheduler.performance.seen import BundleSeen, DataflowSeen

# make → parse → fetch, which is divided over two slots; the source's one thread does at any rate.
PROMISE = Promise(
    rate_per_s=100, sustained_per_s=120, latency_s=1.0,
    rates_per_s={"make": 100, "parse": 100, "fetch": 200},  # parse gives two events for each
    bundles=(
        BundlePromise("f1-0", "make", "n1/0", 1, 1.0, 100, None, 0.1, 0.1),
        BundlePromise("f1-1", "parse", "n1/0", 1, 1.0, 100, 150, 0.4, 0.2),
        BundlePromise("f1-2", "fetch", "n1/1", 40, 0.75, 150, 150, 0.6, 0.3),
        BundlePromise("f1-3", "fetch", "n1/0", 10, 0.25, 50, 60, 0.2, 0.1),
    ),
)
READ, OFFERED = {"make": 100.0, "parse": 100.0, "fetch": 200.0}, {"parse": 100.0, "fetch": 200.0}


def seen_at(factor: float = 1.0) -> DataflowSeen:
    """All as it was promised, at so many times the planned rate."""
    bundles = {
        bundle.id: BundleSeen(bundle.rate_per_s * factor, Load(bundle.cpu * factor, bundle.memory * factor))
        for bundle in PROMISE.bundles}
    slots = {slot: Load(load.cpu * factor, load.memory * factor)
             for slot in ("n1/0", "n1/1") if (load := PROMISE.load_of(slot))}
    return DataflowSeen(
        100 * factor, 1.0, {task: rate * factor for task, rate in READ.items()},
        {task: rate * factor for task, rate in OFFERED.items()}, bundles, slots)


def seen(bundle: str, **changes: object) -> DataflowSeen:
    """All as promised but for one bundle."""
    before = seen_at()
    return replace(before, bundles=before.bundles | {bundle: replace(before.bundles[bundle], **changes)})


def test_what_keeps_its_promises_is_not_blamed() -> None:
    assert misses(PROMISE, seen_at()) == ()
    assert misses(PROMISE, DataflowSeen()) == ()  # nothing was measured, so nothing is judged


def test_only_what_is_still_missed_counts_with_the_reason_that_it_has_by_now() -> None:
    behind = replace(seen("f1-2", rate_per_s=20.0), read_per_s=READ | {"fetch": 70.0})
    assert misses(PROMISE, behind) and lasting_misses(PROMISE, behind, seen_at()) == ()
    assert lasting_misses(PROMISE, behind, None) == lasting_misses(PROMISE, behind, behind) == misses(PROMISE, behind)
    (miss,) = lasting_misses(PROMISE, behind, seen_at(0.5))
    assert (miss.what, miss.reason.cause) == ("rate", "source")


@given(st.floats(0.01, 0.9))
def test_a_source_that_gives_less_is_told_from_a_task_that_is_behind(factor: float) -> None:
    (miss,) = misses(PROMISE, seen_at(factor))
    assert (miss.what, miss.where, miss.reason.cause, miss.reason.remedy) == ("rate", "", "source", "source")
    assert miss.measured == pytest.approx(100 * factor)


# make → parse → average → out, of which average is declared to make one event of ten.
THIN = Promise(
    rate_per_s=100, sustained_per_s=100, latency_s=1.0,
    rates_per_s={"make": 100, "parse": 100, "average": 100, "out": 10},
    bundles=tuple(
        BundlePromise(f"f1-{number}", task, "n1/0", 1, 1.0, rate, 150, 0.1, 0.1)
        for number, (task, rate) in enumerate((("make", 100), ("parse", 100), ("average", 100), ("out", 10)))))


def thin(made: float, *, read: float | None = None, factor: float = 1.0, over_s: float | None = None) -> DataflowSeen:
    """The average makes so much instead of 10, of which ``out`` reads all unless deviations; the source does a part."""
    rates = dict.fromkeys(("make", "parse", "average"), 100 * factor) | {"out": made if read is None else read}
    return DataflowSeen(
        rates["make"], 1.0, rates, {"parse": rates["make"], "average": rates["parse"], "out": made},
        {bundle.id: BundleSeen(rates[bundle.task], Load(0.1, 0.1)) for bundle in THIN.bundles},
        {"n1/0": Load(0.4, 0.4)},
        over_s=over_s)


def test_fewer_events_than_declared_are_told_and_no_miss() -> None:
    assert misses(THIN, thin(2)) == ()
    (deviation,) = deviations(THIN, thin(2))
    assert (deviation.task, deviation.planned_per_s, deviation.measured_per_s) == ("out", 10, 2)
    assert (deviation.reason.cause, deviation.reason.task, deviation.reason.remedy) == ("selectivity", "out", "compare")
    assert "out gets 2 of 10 planned events/s" in deviation.reason.why
    assert deviations(THIN, thin(9.8)) == deviations(THIN, thin(12)) == deviations(THIN, DataflowSeen()) == ()


def test_of_a_task_that_gets_fewer_events_what_comes_is_due() -> None:
    (miss,) = misses(THIN, thin(4, read=2))
    assert (miss.what, miss.reason.cause, miss.reason.task) == ("rate", "drift", "out")
    assert miss.measured == pytest.approx(50), "half of what comes"
    assert deviations(THIN, thin(4, read=2)) == (), "the miss has the reason"
    (miss,) = misses(THIN, thin(1, factor=0.5))
    assert (miss.reason.cause, miss.measured) == ("source", pytest.approx(50))


@pytest.mark.parametrize(("measured", "due", "over_s", "short"), [
    (94, 100, None, True), (96, 100, None, False),
    (94, 100, 900, True), (94, 100, 10, False), (80, 100, 10, True),
    (0.04, 0.05, 900, False), (0.02, 0.05, 900, True), (0.0, 0.05, 60, False), (0.0, 0.0, 900, False),
])
def test_a_rate_falls_short_beyond_chance(measured: float, due: float, over_s: float | None, *, short: bool) -> None:
    assert falls_short(measured, due, over_s=over_s) is short
    slow = replace(PROMISE, rate_per_s=due, sustained_per_s=due, rates_per_s={}, bundles=())
    assert bool(misses(slow, DataflowSeen(rate_per_s=measured, over_s=over_s))) is short


def test_how_much_may_be_missing_by_chance() -> None:
    assert blur_of(THIN, thin(10)) == 0
    assert blur_of(THIN, thin(10, over_s=900)) == pytest.approx(0.01)
    assert blur_of(THIN, thin(10, over_s=0.01)) == 1


def test_who_gets_few_events_is_found_all_the_same() -> None:
    """Of either bundle alone so many may be missing by chance, of both together not."""
    promise = replace(THIN, bundles=(*THIN.bundles[:3], *(
        BundlePromise(f"f1-{number}", "out", "n1/1", 1, 0.5, 5, 75, 0.1, 0.1) for number in (3, 4))))
    before = thin(10, read=7.5, over_s=20)
    few = replace(before, bundles=before.bundles | {f"f1-{number}": BundleSeen(3.75) for number in (3, 4)})
    assert falls_short(7.5, 10, over_s=20) and not falls_short(3.75, 5, over_s=20)
    (miss,) = misses(promise, few)
    assert (miss.reason.cause, miss.reason.task) == ("drift", "out")


def test_a_task_that_waits_for_anothers_reader_is_not_the_sources_fault() -> None:
    before = seen_at(0.5)
    held = replace(before, bundles=before.bundles | {
        "f1-0": replace(before.bundles["f1-0"], waits_for=("f9-4",))})
    (miss,) = misses(PROMISE, held)
    assert (miss.reason.cause, miss.reason.task, miss.reason.remedy) == ("others", "make", "wait")
    assert "a query of another dataflow" in miss.reason.why and "f9" not in miss.reason.why


def behind(rate: float, **slot: float) -> DataflowSeen:
    """The larger bundle of fetch does so much instead of 150, and parse is held back by its full channel."""
    before = seen_at()
    fetched = rate + 50
    return replace(
        before, rate_per_s=100, read_per_s=READ | {"fetch": fetched},
        bundles=before.bundles | {
            "f1-1": replace(before.bundles["f1-1"], waits_for=("f1-2",)),
            "f1-2": BundleSeen(rate, Load(slot.get("own", 0.6 * rate / 150), 0.3))},
        slots=before.slots | {"n1/1": Load(slot.get("cpu", 0.6), slot.get("memory", 0.3))})


def test_a_bundle_at_its_peak_limits() -> None:
    promise = replace(PROMISE, bundles=tuple(
        replace(bundle, sustains_per_s=120) if bundle.id == "f1-2" else bundle for bundle in PROMISE.bundles))
    (miss,) = misses(promise, behind(118))
    assert (miss.what, miss.reason.cause, miss.reason.task, miss.reason.remedy) == ("rate", "peak", "fetch", "compare")
    assert miss.measured == pytest.approx(100 * 168 / 200)
    assert "fetch on n1/1 (40 threads) handles 118 events/s" in miss.reason.why


def test_a_bundle_that_does_less_than_its_profile_asks_for_a_measurement() -> None:
    (miss,) = misses(PROMISE, behind(90))
    assert (miss.reason.cause, miss.reason.task, miss.reason.remedy) == ("drift", "fetch", "measure")
    assert "profile allows 150" in miss.reason.why


def test_threads_that_wait_for_their_turn_are_told_from_drift() -> None:
    promise = replace(PROMISE, crowded={"n1/1": ThreadShortage(16, 40)})
    (miss,) = misses(promise, behind(90))
    assert (miss.reason.cause, miss.reason.task, miss.reason.remedy) == ("threads", "fetch", "threads")
    assert "the driver of n1/1 has 16 threads for the 40 placed on it" in miss.reason.why
    assert "WEIR_SLOT_THREADS on n1" in miss.reason.why
    elsewhere = replace(PROMISE, crowded={"n1/0": ThreadShortage(4, 12)})
    assert misses(elsewhere, behind(90))[0].reason.cause == "drift"


@pytest.mark.parametrize(("what", "slot", "cause"), [
    ("CPU", {"cpu": 0.99}, "CPU"), ("memory", {"memory": 0.97}, "memory"),
])
def test_a_full_slot_limits(what: str, slot: dict[str, float], cause: str) -> None:
    (miss,) = misses(PROMISE, behind(90, **slot))  # its own bundles take no more than was promised
    assert (miss.what, miss.reason.cause, miss.reason.remedy) == ("rate", cause, "slots")
    assert f"the {what} of n1/1 is fully used" in miss.reason.why and "something else on the slot" in miss.reason.why


def test_a_slot_that_its_own_bundle_fills_asks_for_a_measurement() -> None:
    missed = misses(PROMISE, behind(90, cpu=0.99, own=0.97))
    assert (missed[0].reason.cause, missed[0].reason.task, missed[0].reason.remedy) == ("CPU", "fetch", "measure")
    assert (missed[1].reason.cause, missed[1].reason.task) == ("drift", "fetch")


def test_a_failing_query_comes_before_all_else() -> None:
    before = behind(0)
    failing = replace(before, bundles=before.bundles | {"f1-3": BundleSeen(failing="no such host")})
    assert misses(PROMISE, failing)[0].reason.cause == "failing"
    assert "no such host" in misses(PROMISE, failing)[0].reason.why


def test_a_silent_node_comes_before_what_fails_for_want_of_it() -> None:
    before = behind(0)
    silent = replace(before, bundles=before.bundles | {
        "f1-0": BundleSeen(failing="no such host"), "f1-3": BundleSeen(silent="node n2 does not report")})
    (reason,) = {miss.reason for miss in misses(PROMISE, silent) if miss.what == "rate"}
    assert (reason.cause, reason.task, reason.remedy) == ("silent", "fetch", "wait")
    assert reason.why == "node n2 does not report, where fetch is placed"


def test_events_that_pile_up_are_seen_before_any_channel_is_full() -> None:
    piled_up = behind(90)
    piled_up = replace(piled_up, bundles=piled_up.bundles | {"f1-1": seen_at().bundles["f1-1"]})
    assert not any(bundle.waits_for for bundle in piled_up.bundles.values())
    assert misses(PROMISE, piled_up)[0].reason.task == "fetch"


def test_who_is_held_back_is_not_who_holds_back() -> None:
    before = behind(90)
    before = replace(
        before, rate_per_s=70, read_per_s={"make": 70, "parse": 70, "fetch": 140},
        offered_per_s={"parse": 70, "fetch": 140},
        bundles=before.bundles | {"f1-0": BundleSeen(70, Load(0.1, 0.1), waits_for=("f1-1",))})
    assert misses(PROMISE, before)[0].reason.task == "fetch"


def test_the_rate_that_was_promised_is_the_one_that_was_predicted() -> None:
    assert misses(replace(PROMISE, sustained_per_s=70), seen_at(0.7)) == ()


@pytest.mark.parametrize("what", ["CPU", "memory"])
def test_more_events_than_planned_are_told_from_drift(what: str) -> None:
    (more,) = {miss.reason.cause for miss in misses(PROMISE, seen_at(1.6)) if miss.what == what}
    assert more == "more"
    field = {"CPU": Load(0.9, 0.2), "memory": Load(0.4, 0.7)}[what]
    before = seen("f1-1", load=field)
    before = replace(before, slots=before.slots | {"n1/0": Load(0.7 + field.cpu - 0.4, 0.4 + field.memory - 0.2)})
    (miss,) = misses(PROMISE, before)
    assert (miss.what, miss.where) == (what, "n1/0")
    assert (miss.reason.cause, miss.reason.task, miss.reason.remedy) == ("together", "parse", "measure")


def test_events_for_a_task_that_was_to_get_none_are_told_from_drift() -> None:
    """Nothing was planned of it, so its profile is not asked what it should take: that it gets events is the reason."""
    none = replace(
        PROMISE, rates_per_s=dict(PROMISE.rates_per_s) | {"fetch": 0.0},
        bundles=tuple(replace(bundle, rate_per_s=0.0, cpu=0.0, memory=0.0) if bundle.task == "fetch" else bundle
                      for bundle in PROMISE.bundles))
    missed = misses(none, seen_at())
    assert [(miss.what, miss.where, miss.reason.cause, miss.reason.task) for miss in missed] == [
        ("CPU", "n1/0", "more", "fetch"), ("memory", "n1/0", "more", "fetch"),
        ("CPU", "n1/1", "more", "fetch"), ("memory", "n1/1", "more", "fetch")]
    assert "fetch gets 150 events/s instead of 0" in missed[-1].reason.why


@pytest.mark.parametrize("seeming", ["make", "parse", "fetch"])
def test_of_queries_that_share_a_slot_none_is_blamed_for_what_time_says_that_it_takes(seeming: str) -> None:
    """Whichever of them the others' time is counted for, the reason is of all, and the heaviest is measured first."""
    extra = {"make": "f1-0", "parse": "f1-1", "fetch": "f1-3"}[seeming]
    before = seen_at()
    load = before.bundles[extra].load
    more = replace(before, bundles=before.bundles | {
        extra: replace(before.bundles[extra], load=Load(load.cpu + 0.25, load.memory))})
    (miss,) = misses(PROMISE, more)
    assert (miss.reason.cause, miss.reason.task, miss.reason.remedy) == ("together", "parse", "measure")
    assert "make, parse and fetch use 95% of it together, where their profiles say 70%" in miss.reason.why


def test_beside_others_queries_only_what_all_of_them_take_is_held_against_a_schedule() -> None:
    """What its download seems to take, by time, may well be what another team's π takes."""
    promise = replace(PROMISE, others={"n1/1": Load(0.2, 0.1)})
    seeming = seen("f1-2", load=Load(0.8, 0.3))
    mixed = replace(seeming, mixed=("n1/1",))
    assert [miss.reason.cause for miss in misses(promise, seeming)] == ["drift"]
    assert misses(promise, replace(mixed, slots=mixed.slots | {"n1/1": Load(0.85, 0.4)})) == ()
    assert misses(promise, replace(mixed, slots=mixed.slots | {"n1/1": Load(None, 0.4)})) == (), "it is not measured"
    (miss,) = misses(promise, replace(mixed, slots=mixed.slots | {"n1/1": Load(1.0 + 0.02, 0.4)}))
    assert (miss.what, miss.reason.cause, miss.reason.task, miss.reason.remedy) == ("CPU", "together", "", "slots")
    assert "102%, where 80% was expected" in miss.reason.why and "others' are among them" in miss.reason.why


def test_what_others_take_of_a_shared_slot_is_no_miss_of_this_schedule() -> None:
    shared = replace(seen_at(), slots={"n1/0": Load(0.99, 0.9), "n1/1": Load(0.99, 0.9)})
    assert misses(PROMISE, shared) == ()
    taken = taken_of(PROMISE, shared, "n1/0")
    assert (taken.cpu, taken.memory) == pytest.approx((0.7, 0.4))
    expecting = replace(PROMISE, others={"n1/0": Load(0.2, 0.3)})
    more = replace(seen_at(), bundles=seen_at().bundles | {"f1-1": BundleSeen(100, Load(0.62, 0.2))})
    assert misses(expecting, more) == misses(PROMISE, more) != (), "what others were expected to take excuses nobody"
    whole = replace(seen_at(), bundles={}, slots=seen_at().slots | {"n1/0": Load(0.9, 0.7)})
    assert misses(expecting, whole) == () != misses(PROMISE, whole), "unless only the whole slot was measured"


def test_what_was_not_measured_is_said() -> None:
    before = seen_at()
    unknown = replace(before, bundles={}, slots=before.slots | {"n1/0": Load(0.95, 0.4)})
    (miss,) = misses(PROMISE, unknown)
    assert (miss.what, miss.reason.cause) == ("CPU", "others")
    assert "not measured" in miss.reason.why


def test_latency_is_an_estimate() -> None:
    assert misses(PROMISE, replace(seen_at(), latency_s=1.4)) == ()
    (miss,) = misses(PROMISE, replace(seen_at(), latency_s=3.0))
    assert (miss.what, miss.promised, miss.measured, miss.reason.cause) == ("latency", 1.0, 3.0, "estimate")
    both = misses(PROMISE, replace(behind(90), latency_s=30.0))
    assert [(miss.what, miss.reason.cause) for miss in both] == [("rate", "drift"), ("latency", "drift")]
