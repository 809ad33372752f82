"""The database, surroundings and world of ``tests/dashboard``, a client for each person, and a schedule that runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from dashboard import jobs
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import prepare_proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.schedules.promises import in_force
from dashboard.teams.models import User
from tests.dashboard.building import World, approved, enacted, planned
from tests.dashboard.conftest import _surroundings, sent, world  # noqa: F401
from tests.made_once import made_once
from tests.pages.deployment import halves, heard, unchained  # noqa: F401
from tests.pages.observed import RATE, Observed
from tests.pages.scheduling import linear, measured

ClientOf = Callable[[str], Client]
LOGIN = "dashboard.teams.logins.ThrottledBackend"


@pytest.fixture
def client_of(world: World) -> ClientOf:  # noqa: F811 - pytest's way of naming a fixture
    """A logged-in client by user name."""
    def log_in(name: str) -> Client:
        client = Client()
        client.cookies[settings.SESSION_COOKIE_NAME] = session_of(world.users[name])
        return client

    return log_in


@made_once
def session_of(user: User) -> str:
    client = Client()
    client.force_login(user, backend=LOGIN)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


@pytest.fixture
def waiting(world: World) -> DataflowRecord:  # noqa: F811
    """A dataflow in review whose tasks have profiles, and a node with slots enough."""
    measured(world, slots=16)
    return planned(world.carla, world.city, linear()).dataflow


@pytest.fixture
def scheduled(world: World) -> DataflowRecord:  # noqa: F811
    """A dataflow that runs by MBA with SAM, for 190 events/s."""
    return scheduled_by_page(world)


@made_once
def scheduled_by_page(world: World) -> DataflowRecord:  # noqa: F811
    measured(world, slots=16)
    record = planned(world.carla, world.city, linear()).dataflow
    client = Client()
    client.cookies[settings.SESSION_COOKIE_NAME] = session_of(world.carla)
    client.post(reverse("schedule_propose", args=[record.pk]), {"pair": "MBA-SAM", "rate": str(RATE)})
    return enacted(approved(prepare_proposal(proposal_id=Proposal.objects.get(dataflow=record).pk), world.ana)).dataflow


@pytest.fixture
def observed(scheduled: DataflowRecord, monkeypatch: pytest.MonkeyPatch) -> Observed:
    """What is observed of it."""
    def patch(reading: jobs.LiveReading) -> None:
        monkeypatch.setattr(jobs, "read_live", lambda *_: reading)

    scheduled_by = in_force([scheduled.pk])[str(scheduled.pk)]
    return Observed(scheduled, scheduled_by.promise, patch)
