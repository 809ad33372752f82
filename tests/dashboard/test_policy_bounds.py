"""What policies may not do to others: tell what a credential reads, read everything, stop what keeps the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dashboard import jobs
from dashboard.approvals.policy_drafts import PolicyDraft
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.models import GuardState, RunningTaskRow
from dashboard.operations.policies import policy_catalogs
from dashboard.operations.policies.guard_watches import GuardWatches
from scheduler.guards import guard_reading
from scheduler.guards.guard_values import InvalidGuard
from scheduler.model.bounds import GUARD_CHARACTERS, GUARD_STREAMS
from tests.dashboard.building import World, document, running
from tests.dashboard.policies import NOW_S, in_force, proposed, switched, wanted

pytestmark = pytest.mark.django_db


@pytest.fixture
def record(world: World) -> DataflowRecord:
    return running(world.carla, world.city, switched("air"), world.ana)


@pytest.mark.parametrize("text", ["x" * (GUARD_CHARACTERS.most + 1), "all\0", "\ud800"], ids=["long", "nul", "half"])
def test_a_text_that_is_too_long_or_that_no_database_keeps_is_not_known(
    world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    events: list[dict[str, Any]] = [{"_born": NOW_S * 1000 - 9, "_seq": 1, "value": 5.0, "made": "all"}]
    monkeypatch.setattr(jobs, "newest_events", lambda *_, **__: jobs.NewestEvents(events=list(reversed(events))))
    in_force(world, record, PolicyDraft({"few": "out.made = 'all'"}, {"few": 9}))
    watches = GuardWatches()
    assert wanted(watches, second=0) == ["few"]
    events.append({"_born": NOW_S * 1000 + 500, "_seq": 2, "value": 60.0, "made": text})
    assert wanted(watches, second=1) == []
    watches.store()
    [state] = GuardState.objects.all()
    assert set(state.readings.values()) == {None}


def test_what_a_shared_dataflow_reads_with_a_credential_no_policy_tells(
    world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [{"_born": NOW_S * 1000 - 9, "_seq": 1, "value": 5.0}]
    monkeypatch.setattr(jobs, "newest_events", lambda *_, **__: jobs.NewestEvents(events=events))
    draft = PolicyDraft({"few": "out.value > 1"}, {"few": 9})
    in_force(world, record, draft)
    assert wanted(GuardWatches(), second=0) == ["few"]
    source = load_estate().submitted[str(record.pk)].running["sense"]
    row = RunningTaskRow.objects.get(pk=source)
    row.config |= {"token": {"secret": "meters", "team": world.city.slug}}
    row.save()
    watches = GuardWatches()
    assert wanted(watches, second=1) == []
    watches.store()
    assert set(GuardState.objects.get().readings.values()) == {None}
    in_force(world, record, PolicyDraft({"few": "rate > 1"}))
    with pytest.raises(InvalidGuard, match=r"no figure out\.value"):
        proposed(world, record, draft)


def test_a_draft_that_names_too_many_dataflows_is_refused_before_they_are_read(
    world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_reading, "GUARD_STREAMS", replace(GUARD_STREAMS, most=1))
    for name in ("roads", "lanes"):
        running(world.mo, world.mobility, document(name), world.ben, world.ana)
    assert proposed(world, record, PolicyDraft({"few": "roads.parse.rate > 5"})).status == "pending"
    read, begin = [], policy_catalogs._columns
    monkeypatch.setattr(policy_catalogs, "_columns", lambda record: read.append(record.pk) or begin(record))
    with pytest.raises(InvalidGuard, match="name 2 tasks, dataflows"):
        proposed(world, record, PolicyDraft({"few": "mobility.roads.parse.rate > 5 OR lanes.out.value > 1"}))
    assert set(read) == {record.pk}
