"""Charging and bills in the database: what is measured is divided, kept by hour, and told to whom it concerns."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import Sum

from dashboard import jobs
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import pause_dataflow, prepare_proposal, resume_dataflow, roll_back_proposal
from dashboard.bills import task_needs
from dashboard.bills.charging import record_usage
from dashboard.bills.models import NeedRow, PriceList, UsageHour
from dashboard.bills.periods import Period
from dashboard.bills.selectors import bills
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.models import BatchFigures, FragmentRow
from dashboard.teams.permissions import viewer_of
from tests.dashboard.building import World, approved, document, enacted, removal_planned, running
from tests.dashboard.played import Played
from tests.dashboard.test_keyed_schedules import keyed, mean, run  # noqa: F401 - a fixture

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
DAY = Period("custom", NOON - 12 * HOUR, NOON + 12 * HOUR)


@dataclass
class Slots:
    """Counters as slots would report them: each query of the estate was busy evenly."""

    cpu_ms: dict[str, int] = field(default_factory=lambda: {"n1/0": 0, "n1/1": 0})
    since_ms: dict[str, int] = field(default_factory=lambda: {"n1/0": 1, "n1/1": 1})
    events: int = 0
    busy_ms: int = 0
    batches: int = 0  # for each 10 ms of being busy

    def read(self, look_up) -> dict:
        running = look_up([bundle.id for fragment in load_estate().fragments.values() for bundle in fragment.queries])
        bill_of = {}
        for slot, cpu_ms in self.cpu_ms.items():
            queries = {
                fragment.id: {
                    "busy_ms": self.busy_ms, "batches": self.batches * self.busy_ms // 10, "in:bytes": 2 * self.events,
                    **{f"{position}:n": self.events for position in range(len(fragment.tasks))},
                    f"ch:{fragment.channel_of(fragment.tasks[0])}": 3 * self.events,
                }
                for fragment in running.values() if fragment.slot == slot
            }
            bill_of[slot] = {
                "since_ms": self.since_ms[slot], "cpu_ms": cpu_ms, "memory_mb_s": cpu_ms // 10, "queries": queries}
        return bill_of

    def work(self, cpu_ms: int, *, slot: str | None = None, events: int = 100) -> None:
        """Use this much more CPU on a slot, or on each."""
        for name in [slot] if slot else list(self.cpu_ms):
            self.cpu_ms[name] += cpu_ms
        self.events += events
        self.busy_ms += 10


@pytest.fixture
def slots(monkeypatch: pytest.MonkeyPatch, settings) -> Slots:
    settings.CORE_HOUR_PRICE = 0.036  # a core-second is 10 millionths
    made = Slots()
    monkeypatch.setattr(jobs, "slot_counters", made.read)
    return made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """The time at which dataflows come and go: its last entry."""
    times = [NOON]
    monkeypatch.setattr(task_needs.timezone, "now", lambda: times[-1])
    return times


def paid(record: DataflowRecord) -> int:
    return sum(record.usage.values_list("cost_nanos", flat=True))


def charged() -> int:
    return sum(UsageHour.objects.values_list("cost_nanos", flat=True))


def test_all_that_slots_used_is_charged_and_nothing_twice(world: World, slots: Slots, clock) -> None:
    first = running(world.carla, world.city, document("traffic"), world.ana)
    second = running(world.mo, world.mobility, document("jams", window=20), world.ben, world.ana)
    assert record_usage(at=NOON) == 0  # what was before the first reading is nobody's
    assert not UsageHour.objects.exists()
    slots.work(4_000)
    assert record_usage(at=NOON + 10 * SECOND) == 2
    cpu_us = sum(UsageHour.objects.values_list("cpu_us", flat=True))
    assert cpu_us == 8_000_000
    assert charged() == pytest.approx(80_000, abs=10)  # 8 core-seconds at 10 millionths, rounded for each task
    before = charged()
    assert record_usage(at=NOON + 10 * SECOND) == 0
    record_usage(at=NOON + 20 * SECOND)
    assert charged() == before
    assert paid(first) + paid(second) + sum(
        UsageHour.objects.filter(dataflow=None).values_list("cost_nanos", flat=True)) == before


def test_shared_tasks_are_paid_in_equal_shares(world: World, slots: Slots, clock) -> None:
    first = running(world.carla, world.city, document("traffic"), world.ana)
    second = running(world.mo, world.mobility, document("jams", window=20), world.ben, world.ana)
    record_usage(at=NOON)
    slots.work(1_000)
    record_usage(at=NOON + SECOND)
    shared = {need.fingerprint for need in first.needs.all()} & {need.fingerprint for need in second.needs.all()}
    assert len(shared) == 2
    for fingerprint in shared:
        one, other = UsageHour.objects.filter(fingerprint=fingerprint).order_by("cost_nanos")
        assert 0 <= other.cost_nanos - one.cost_nanos <= 1
        assert one.alone_nanos == other.alone_nanos == one.cost_nanos + other.cost_nanos
        assert (one.needed_ms, one.user_ms) == (1000, 2000)
    for row in first.usage.exclude(fingerprint__in=shared):
        assert row.cost_nanos == row.alone_nanos


def test_what_every_bundle_of_a_divided_task_used_is_paid_for_the_task(
    keyed: World, slots: Slots  # noqa: F811
) -> None:
    record, begin = run(keyed, 50), datetime.now(UTC)
    slots.cpu_ms = {f"n1/{number}": 0 for number in range(10)}
    slots.since_ms = dict.fromkeys(slots.cpu_ms, 1)
    record_usage(at=begin)
    bundles = mean(record).bundles
    assert len({bundle.slot for bundle in bundles}) > 2
    of_others = {bundle.slot for fragment in load_estate().fragments.values() if fragment.id != mean(record).id
                 for bundle in fragment.queries}
    used_s = 0
    for seconds, name in enumerate(sorted({bundle.slot for bundle in bundles} - of_others), start=1):
        slots.work(1_000 * seconds, slot=name)
        used_s += seconds
    record_usage(at=begin + 60 * SECOND)
    of_task = record.usage.filter(fingerprint__in=mean(record).tasks)
    assert sum(of_task.values_list("cpu_us", flat=True)) == 1_000_000 * used_s > 1_000_000
    assert paid(record) == charged() == pytest.approx(10_000 * used_s, abs=10), "and nobody else's is charged"


def test_who_needs_batches_more_often_pays_for_them(world: World, slots: Slots, clock) -> None:
    first = running(world.carla, world.city, document("traffic"), world.ana)
    second = running(world.mo, world.mobility, document("jams", window=20), world.ben, world.ana)
    estate = load_estate()
    tasks = [set(estate.submitted[str(record.pk)].running.values()) for record in (first, second)]
    (shared,) = {estate.places[task][0] for task in tasks[0] & tasks[1]}
    BatchFigures.objects.create(
        fragment_id=shared, alone_ms={str(first.pk): 10_000, str(second.pk): 500})
    slots.batches = 1_000  # so many that all of its CPU goes to them
    record_usage(at=NOON)
    slots.work(1_000, events=0)
    record_usage(at=NOON + SECOND)

    for fingerprint in tasks[0] & tasks[1]:
        pays = {row.dataflow_id: row for row in UsageHour.objects.filter(fingerprint=fingerprint)}
        whole = pays[first.pk].cost_nanos + pays[second.pk].cost_nanos
        assert pays[first.pk].cost_nanos == pytest.approx(0.025 * whole, rel=0.01)
        assert pays[first.pk].alone_nanos == pytest.approx(0.05 * whole, rel=0.01)
        assert pays[second.pk].alone_nanos == pytest.approx(whole, rel=0.01)


def latency_of(record: DataflowRecord, **where) -> dict[str, int]:
    """What a dataflow pays for batches and for limits, in billionths, and for how long that is known."""
    return record.usage.filter(**where).aggregate(**{name: Sum(name) for name in (
        "cost_nanos", "batches_nanos", "limit_nanos", "needed_ms", "limit_known_ms")})


def test_what_a_limit_costs_is_told_apart(world: World, slots: Slots, clock) -> None:
    slow = running(world.carla, world.city, document("traffic", latency="20 s"), world.ana)
    fast = running(world.mo, world.mobility, document("jams", window=20, latency="500 ms"), world.ben, world.ana)
    estate = load_estate()
    tasks = [set(estate.submitted[str(record.pk)].running.values()) for record in (slow, fast)]
    shared = estate.places[next(iter(tasks[0] & tasks[1]))][0]
    fragment_id = next(iter({estate.places[task][0] for task in tasks[1] - tasks[0]}))
    BatchFigures.objects.bulk_create([
        BatchFigures(
            fragment_id=shared, unlimited_ms=10_000, alone_ms={str(slow.pk): 5_000, str(fast.pk): 500}),
        BatchFigures(fragment_id=fragment_id, unlimited_ms=10_000)])
    slots.batches = 1_000  # so many that all CPU goes to them
    record_usage(at=NOON)
    slots.work(1_000, events=0)
    record_usage(at=NOON + SECOND)

    both = [latency_of(record, fingerprint__in=tasks[0] & tasks[1]) for record in (slow, fast)]
    whole = sum(row["cost_nanos"] for row in both)
    assert [row["batches_nanos"] for row in both] == pytest.approx([row["cost_nanos"] for row in both], rel=0.01)
    assert [row["limit_nanos"] / whole for row in both] == pytest.approx([0.025, 0.925], rel=0.01)
    alone = [latency_of(record, fingerprint__in=mine - others)
             for record, mine, others in ((slow, *tasks), (fast, *tasks[::-1]))]
    assert alone[0]["limit_nanos"] == pytest.approx(0.05 * alone[0]["cost_nanos"], rel=0.01)
    assert alone[1]["limit_nanos"] == pytest.approx(0.95 * alone[1]["cost_nanos"], rel=0.01)
    for record in (slow, fast):
        row = latency_of(record)
        assert row["limit_nanos"] <= row["batches_nanos"] <= row["cost_nanos"]
        assert row["limit_known_ms"] == row["needed_ms"]


def test_while_nobody_has_told_how_often_batches_are_needed_nothing_is_known_of_limits(
    world: World, slots: Slots, clock
) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    record_usage(at=NOON)
    slots.work(1_000)
    record_usage(at=NOON + SECOND)
    assert latency_of(record)["limit_known_ms"] == 0
    (charge,) = [row.charge for row in bills(viewer_of(world.carla), DAY)]
    assert (charge.latency_known, charge.limit_nanos) == (0.0, 0)
    paid_before = paid(record)

    fragment = next(iter(load_estate().fragments))
    FragmentRow.objects.filter(pk=fragment).update(trigger_ms=100)
    BatchFigures.objects.create(fragment_id=fragment, unlimited_ms=400)
    slots.batches = 1_000
    slots.work(1_000, events=0)
    record_usage(at=NOON + 2 * SECOND)
    (charge,) = [row.charge for row in bills(viewer_of(world.carla), DAY)]
    assert charge.latency_known == pytest.approx(0.5)
    assert charge.limit_nanos == pytest.approx(0.75 * (paid(record) - paid_before), rel=0.01)


def test_bills_know_of_limits_as_the_recorder_chooses_intervals(
    world: World, slots: Slots, clock, monkeypatch: pytest.MonkeyPatch, settings
) -> None:
    settings.LONGEST_TRIGGER_MS = 30_000
    records = [
        running(world.carla, world.city, document("rare", latency="none"), world.ana),
        running(world.carla, world.city, document("slow", window=20, latency="10 s"), world.ana),
        running(world.carla, world.city, document("quick", window=30, latency="500 ms"), world.ana)]
    Played(monkeypatch).run(60)
    slots.batches = 1_000
    record_usage(at=NOON)
    slots.work(1_000, events=0)
    record_usage(at=NOON + SECOND)
    rare, slow, quick = (latency_of(record) for record in records)
    assert rare["limit_nanos"] == 0 < slow["limit_nanos"] < quick["limit_nanos"]
    for row in (rare, slow, quick):
        assert row["limit_known_ms"] == row["needed_ms"]
        assert row["limit_nanos"] <= row["batches_nanos"] <= row["cost_nanos"]
    assert quick["limit_nanos"] > 0.8 * quick["batches_nanos"]


def test_hours_are_kept_apart_and_a_gap_is_made_up(world: World, slots: Slots, clock) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    record_usage(at=NOON - 30 * 60 * SECOND)  # charged from noon on: it runs since then
    slots.work(12_000)
    record_usage(at=NOON + 90 * 60 * SECOND)  # the site was down for two hours
    by_hour = [sum(record.usage.filter(hour=hour).values_list("cpu_us", flat=True)) for hour in (NOON, NOON + HOUR)]
    assert by_hour == [6_000_000, 3_000_000]
    assert sum(UsageHour.objects.values_list("cpu_us", flat=True)) == 24_000_000
    assert sum(record.usage.values_list("cpu_us", flat=True)) == 9_000_000  # nothing of the time before it ran


def test_who_leaves_pays_nothing_from_then_on(world: World, slots: Slots, clock) -> None:
    stays: DataflowRecord = running(world.carla, world.city, document("traffic"), world.ana)
    leaves = running(world.mo, world.mobility, document("jams", window=20), world.ben, world.ana)
    record_usage(at=NOON)
    clock.append(NOON + 5 * SECOND)
    approved(removal_planned(world.mo, leaves), world.ben)  # within the interval
    slots.work(1_000)
    record_usage(at=NOON + 10 * SECOND)
    shared = stays.usage.filter(fingerprint__in=leaves.needs.values("fingerprint"))
    for row in shared:
        mine, theirs = row, leaves.usage.get(fingerprint=row.fingerprint)
        assert (mine.needed_ms, theirs.needed_ms) == (10_000, 5_000)
        assert mine.cost_nanos == pytest.approx(3 * theirs.cost_nanos, abs=3)
    so_far = paid(leaves)
    assert so_far > 0
    slots.work(1_000)
    record_usage(at=NOON + 20 * SECOND)
    assert paid(leaves) == so_far
    assert not leaves.needs.filter(until=None).exists()


def test_a_slot_that_was_started_anew_is_charged_from_zero(world: World, slots: Slots, clock) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)
    slots.work(5_000)
    record_usage(at=NOON)
    slots.cpu_ms = {"n1/0": 700, "n1/1": 5_100}
    slots.since_ms["n1/0"] = int((NOON + 4 * SECOND).timestamp() * 1000)
    record_usage(at=NOON + 10 * SECOND)
    assert sum(UsageHour.objects.values_list("cpu_us", flat=True)) == 800_000


def test_a_reading_that_was_overtaken_is_left_alone(world: World, slots: Slots, clock) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)
    record_usage(at=NOON)
    slots.work(1_000)
    record_usage(at=NOON + 10 * SECOND)
    slots.cpu_ms = {"n1/0": 400, "n1/1": 400}  # read before the last one, told after it
    assert record_usage(at=NOON + 8 * SECOND) == 0
    assert sum(UsageHour.objects.values_list("cpu_us", flat=True)) == 2_000_000


def test_prices_apply_from_when_they_change(world: World, slots: Slots, clock, settings) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    record_usage(at=NOON)
    slots.work(1_000)
    settings.CORE_HOUR_PRICE = 0.072  # the site was restarted meanwhile: this interval began at the old price
    record_usage(at=NOON + 10 * SECOND)
    old = paid(record)
    slots.work(1_000)
    record_usage(at=NOON + 20 * SECOND)
    assert paid(record) - old == pytest.approx(2 * old, abs=5)
    assert [price_list.prices["core_hour"] for price_list in PriceList.objects.all()] == [0.072, 0.036]


def test_what_no_dataflow_needs_is_nobodys(world: World, slots: Slots) -> None:
    record_usage(at=NOON)
    slots.work(1_000)
    record_usage(at=NOON + SECOND)
    (row,) = UsageHour.objects.all()
    assert (row.dataflow, row.fingerprint, row.cpu_us) == (None, "", 2_000_000)


def test_a_dataflow_that_ran_before_anything_was_noted_is_charged_from_the_next_reading(
    world: World, slots: Slots, clock
) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    NeedRow.objects.all().delete()
    record_usage(at=NOON)
    slots.work(1_000)
    record_usage(at=NOON + SECOND)
    assert record.needs.count() == 4
    assert paid(record) > 0


def test_a_rolled_back_removal_pays_again(world: World, slots: Slots, clock) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    removal = approved(removal_planned(world.carla, record), world.ana)
    assert not record.needs.filter(until=None).exists()
    clock.append(NOON + HOUR)
    enacted(roll_back_proposal(actor=world.ana, proposal_id=removal.pk))
    assert list(record.needs.filter(until=None).values_list("since", flat=True).distinct()) == [NOON + HOUR]


def test_a_paused_dataflow_pays_nothing_until_it_is_resumed(world: World, slots: Slots, clock) -> None:
    rests = running(world.carla, world.city, document("traffic"), world.ana)
    stays = running(world.mo, world.mobility, document("jams", window=20), world.ben, world.ana)
    record_usage(at=NOON)
    clock.append(NOON + SECOND)
    approve(world, pause_dataflow(actor=world.carla, dataflow_id=rests.pk))
    slots.work(1_000)
    record_usage(at=NOON + 2 * SECOND)
    so_far = paid(rests)
    assert so_far > 0
    slots.work(1_000)
    record_usage(at=NOON + 3 * SECOND)
    assert paid(rests) == so_far
    shared = [row for row in stays.usage.all() if row.user_ms > row.needed_ms]
    assert [(row.needed_ms, row.user_ms) for row in shared] == [(3_000, 4_000)] * 2  # a second for two, two for one
    clock.append(NOON + 3 * SECOND)
    approve(world, resume_dataflow(actor=world.carla, dataflow_id=rests.pk))
    slots.work(1_000)
    record_usage(at=NOON + 4 * SECOND)
    assert paid(rests) > so_far


def approve(world: World, proposal: Proposal) -> None:
    """By whoever is asked, and enacted."""
    prepared = prepare_proposal(proposal_id=proposal.pk)
    teams = set(prepared.teams.values_list("slug", flat=True))
    enacted(approved(prepared, *({"city": world.ana, "mobility": world.ben}[slug] for slug in sorted(teams))))
