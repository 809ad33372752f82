"""Loads that are simulated: what takes more cores than are played with is refused before one is placed; and whose turn
it is."""

from __future__ import annotations

import pytest
from django.utils import timezone

from dashboard.simulations import services
from dashboard.simulations.lifecycle import FAILED
from dashboard.simulations.models import SimulationRun
from dashboard.simulations.services import TooManySimulations
from dashboard.simulations.simulation_driver import advance_simulations
from scheduler.adaptation import side_by_side
from scheduler.model.bounds import SIMULATED_CORES
from tests.dashboard.building import World
from tests.dashboard.test_simulations import ask, recorded, worked_off

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("load", ["recorded", "constant", "sinusoid"])
def test_a_load_of_more_cores_than_algorithms_are_played_with_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch, load: str
) -> None:
    record = recorded(world)

    def no_core_is_placed(*_, **__):
        raise AssertionError("placing cores for it would never end")

    monkeypatch.setattr(side_by_side, "deploy_centrally", no_core_is_placed)
    run = ask(world, record, algorithms=("CE",), load=load, times=1e6)
    worked_off()
    run.refresh_from_db()
    assert run.status == FAILED and f"{SIMULATED_CORES.most:,} at the most" in run.reason


def test_a_team_does_not_take_all_places_and_people_take_turns(world: World, monkeypatch) -> None:
    record = recorded(world)
    long = ask(world, record)
    monkeypatch.setattr(services, "MOST_OPEN_TEAM", 1)
    chosen = {"dataflow_id": record.pk, "algorithms": ("CE",), "hours": 1, "times": 1000.0}
    with pytest.raises(TooManySimulations, match="of people of your teams"):
        services.start_side_by_side(actor=world.dev, **chosen)
    short = services.start_side_by_side(actor=world.mo, **chosen)

    def parts() -> list[int]:
        return [len(SimulationRun.objects.get(pk=run.pk).results) for run in (long, short)]

    for before in range(2):  # a part each
        advance_simulations(at=timezone.now(), monotonic_s=lambda n=before: 100.0 if sum(parts()) > n else 0.0)
    assert parts() == [1, 1], "the oldest has begun, and the other's part comes before its next"
