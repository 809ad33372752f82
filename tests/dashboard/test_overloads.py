"""A rate rises: adaptation decides within seconds about what is overloaded, at the rates of these seconds."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dashboard import jobs
from dashboard.approvals.models import Proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.controllers import loop_runner
from dashboard.controllers.collecting import COLLECTORS
from dashboard.controllers.models import ReasonRow, RoundRow
from dashboard.controllers.site_world import StoredWorld
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.tasks.controlling import ACTUATORS
from scheduler.contracts.reports import Reports
from tests.dashboard.building import World
from tests.dashboard.controlling import Loop
from tests.dashboard.schedules import at, scheduled
from tests.dashboard.test_adapting_bundles import ADAPTATION, GOALS, comes, decided, loop, record  # noqa: F401
from workers.engine.observed import Flows, TaskFlow


class Seen:
    """What nodes report now, of a dataflow whose sources make so much."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.per_s, self.waiting, self.times, self.age_ms = 40.0, 5_000, 0, 61_000
        monkeypatch.setattr(jobs, "read_live", lambda *_: self.reading())
        monkeypatch.setattr(jobs, "waiting_events", lambda estate, fragments: self.counts(fragments))

    def reading(self) -> jobs.LiveReading:
        estate, slots = load_estate(), {}
        for fragment in estate.fragments.values():
            for bundle in fragment.queries:
                slots.setdefault(bundle.slot.rpartition("/")[2], {"state": "running", "fragments": {}})[
                    "fragments"][bundle.id] = {"state": "running", "batch_ms": 990.0, "trigger_ms": 1_000}
        flow = TaskFlow(self.per_s, 1, None, None)
        return jobs.LiveReading(
            reports=Reports(Reports.of({"n1": {"at_ms": self.age_ms, "slots": slots}}), ages_ms={"n1": 0}),
            flows=Flows(tasks={task: flow for task in estate.tasks if not estate.tasks[task].parents}), measured=True)

    def counts(self, fragments) -> dict[str, int]:
        self.times += 1
        return {bundle.id: self.waiting for fragment in fragments for bundle in fragment.queries}


def looks(loop: Loop, *, seconds: int = 3) -> int:  # noqa: F811
    """One look, so much later; how many rounds there are afterwards."""
    loop.at += timedelta(seconds=seconds)
    loop_runner.run_urgent(ACTUATORS, at=loop.at)
    return RoundRow.objects.filter(controller=ADAPTATION).count()


def test_who_is_overloaded_gets_more_bundles_for_the_newest_rate_before_the_next_round(
    loop: Loop, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    comes(loop, record, 16.0)
    loop.run()
    seen = Seen(monkeypatch)
    assert looks(loop) == 0, "it may be over with the next batch"
    assert looks(loop) == 1, "six seconds after a round"
    proposal = decided()
    assert proposal.plan.options["schedule"]["rate_per_s"] == 50.0, "the mean of the last minute is 16"
    assert "the rates of the last seconds count" in RoundRow.objects.get(controller=ADAPTATION).decision["why"]
    assert looks(loop) == 1 and Proposal.objects.filter(round__controller=ADAPTATION).count() == 1
    seen.waiting = 0
    assert looks(loop) == 1 and StoredWorld(loop.at).overloaded == set()


def test_what_cannot_be_helped_is_looked_at_once_and_then_when_it_is_due(
    loop: Loop, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    comes(loop, record, 16.0)
    loop.run()
    Seen(monkeypatch).per_s = 2_000.0  # for which there are too few slots
    before = ReasonRow.objects.filter(controller=ADAPTATION).count()
    for _ in range(8):
        assert looks(loop) == 0
    [row] = ReasonRow.objects.filter(controller=ADAPTATION).order_by("-pk")[:1]
    assert ReasonRow.objects.filter(controller=ADAPTATION).count() == before + 1 and row.times == 1, row.why
    assert "more than there are" in row.why


def test_a_controller_that_cannot_be_asked_keeps_no_other_from_its_turn(
    loop: Loop, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    def fail(_: object) -> bool:
        raise LookupError("nothing is known")

    for name in COLLECTORS.keys() - {"adaptations"}:
        monkeypatch.setitem(COLLECTORS, name, replace(COLLECTORS[name], is_urgent=fail))
    comes(loop, record, 16.0)
    loop.run()
    Seen(monkeypatch)
    assert [looks(loop), looks(loop)] == [0, 1]


def test_who_has_begun_lately_makes_up_for_what_it_missed(
    loop: Loop, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    comes(loop, record, 16.0)
    loop.run()
    Seen(monkeypatch).age_ms = 59_000
    for _ in range(3):
        assert looks(loop) == 0


def test_without_goals_nothing_is_asked(
    profiled: World, loop: Loop, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    record = scheduled(profiled, at(20))  # noqa: F811
    seen = Seen(monkeypatch)
    comes(loop, record, 16.0)
    for _ in range(3):
        assert looks(loop) == 0
    assert seen.times == 0
