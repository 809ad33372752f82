"""The database, surroundings and world of ``tests/dashboard``, a client for each person, and a schedule that runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from dashboard import jobs
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import prepare_proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.schedules.promises import in_force
from tests.dashboard.building import World, approved, enacted, planned
from tests.dashboard.conftest import _surroundings, sent, world  # noqa: F401
from tests.pages.deployment import halves, heard, unchained  # noqa: F401
from tests.pages.observed import RATE, Observed
from tests.pages.scheduling import linear, measured

ClientOf = Callable[[str], Client]


@pytest.fixture
def client_of(world: World) -> ClientOf:  # noqa: F811 - pytest's way of naming a fixture
    """A logged-in client by user name."""
    def log_in(name: str) -> Client:
        client = Client()
        client.force_login(world.users[name], backend="dashboard.teams.logins.ThrottledBackend")
        return client

    return log_in


@pytest.fixture
def waiting(world: World) -> DataflowRecord:  # noqa: F811
    """A dataflow in review whose tasks have profiles, and a node with slots enough."""
    measured(world, slots=16)
    return planned(world.carla, world.city, linear()).dataflow


@pytest.fixture
def scheduled(world: World, client_of: ClientOf) -> DataflowRecord:  # noqa: F811
    """A dataflow that runs by MBA with SAM, for 190 events/s."""
    measured(world, slots=16)
    record = planned(world.carla, world.city, linear()).dataflow
    client_of("carla").post(reverse("schedule_propose", args=[record.pk]), {"pair": "MBA-SAM", "rate": str(RATE)})
    return enacted(approved(prepare_proposal(proposal_id=Proposal.objects.get(dataflow=record).pk), world.ana)).dataflow


@pytest.fixture
def observed(scheduled: DataflowRecord, monkeypatch: pytest.MonkeyPatch) -> Observed:
    """What is observed of it."""
    def patch(reading: jobs.LiveReading) -> None:
        monkeypatch.setattr(jobs, "read_live", lambda *_: reading)

    scheduled_by = in_force([scheduled.pk])[str(scheduled.pk)]
    return Observed(scheduled, scheduled_by.promise, patch)
