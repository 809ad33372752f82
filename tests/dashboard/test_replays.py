"""Replays on the site: recorded rates, with the estate as it is and as a proposal would make it; nothing is changed."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from dashboard.approvals.replays import replayed
from dashboard.controllers.models import RoundRow
from dashboard.operations.estate_store.estate_loader import load_estate
from scheduler.model.errors import NothingToChange, StalePlan
from tests.dashboard.building import World, document, planned, running
from tests.dashboard.controlling import measured

pytestmark = pytest.mark.django_db


def with_history(world: World, *, rate_per_s: float) -> object:
    """A dataflow with a limit, and an hour in which its tasks had this rate."""
    record = running(world.carla, world.city, document("traffic", latency="400 ms"), world.ana)
    estate, now = load_estate(), timezone.now()
    measured(now - timedelta(hours=1), now, dataflow=str(record.pk), queries=list(estate.fragments),
             tasks=list(estate.tasks), cores=0.1, rate_per_s=rate_per_s)
    return record


def test_recorded_rates_are_played_with_and_without_a_proposal(world: World) -> None:
    record = with_history(world, rate_per_s=200.0)
    proposal, before = planned(world.mo, world.mobility, document("jams", window=20)), load_estate()

    result = replayed(hours=1, at=timezone.now(), proposal=proposal)

    assert result.then is not None and result.then.core_hours > result.now.core_hours > 0
    assert set(result.now.latency_s) == {(str(record.pk), 0)} <= set(result.then.latency_s)
    assert len(result.then.estate.submitted) == len(result.now.estate.submitted) + 1
    assert load_estate() == before and not RoundRow.objects.exists(), "nothing is changed"


def test_a_higher_recorded_rate_costs_more(world: World) -> None:
    with_history(world, rate_per_s=100.0)
    little = replayed(hours=1, at=timezone.now()).now
    estate, now = load_estate(), timezone.now()
    measured(now + timedelta(hours=1), now + timedelta(hours=2), dataflow="any", queries=[],
             tasks=list(estate.tasks), cores=0.1, rate_per_s=1_000.0)
    much = replayed(hours=1, at=now + timedelta(hours=2)).now
    assert much.core_hours > little.core_hours


def test_a_plan_of_another_generation_is_not_played(world: World) -> None:
    with pytest.raises(NothingToChange, match="Nothing runs"):
        replayed(hours=1, at=timezone.now())
    with_history(world, rate_per_s=10.0)
    proposal = planned(world.mo, world.mobility, document("jams", window=20))
    proposal.plan.generation += 1
    with pytest.raises(StalePlan, match="generation"):
        replayed(hours=1, at=timezone.now(), proposal=proposal)


def test_the_command_tells_cost_latency_and_misses(world: World) -> None:
    with_history(world, rate_per_s=100.0)
    proposal, output = planned(world.mo, world.mobility, document("jams", window=20)), StringIO()
    call_command("replay", hours=1.0, proposal=proposal.pk, stdout=output)
    lines = output.getvalue().splitlines()
    assert [line.partition(":")[0] for line in lines if not line.startswith(" ")] == ["as it is", "with the proposal"]
    assert any("traffic: limit 400 ms" in line and "missed" in line for line in lines)
    with pytest.raises(CommandError):
        call_command("replay", proposal=uuid4())
