"""Loads that are simulated: what takes more cores than are played with is refused before one is placed."""

from __future__ import annotations

import pytest

from dashboard.simulations.lifecycle import FAILED
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
