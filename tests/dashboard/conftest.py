"""Jobs that are noted instead of sent, and a broker that is away unless a test asks for one."""

from __future__ import annotations

import pytest

from dashboard import jobs
from dashboard.controllers import site_world
from dashboard.operations.diagnosis import probes
from dashboard.operations.live_view.estate_view import SharedViews
from scheduler.contracts.switches import AlternateSwitch
from scheduler.controllers.evidence.minute_forecasts import MinuteForecasts
from tests.dashboard.building import World, make_world
from tests.dashboard.played import Played
from tests.dashboard.slots_at_work import Slots, slots_at_work
from tests.pages.scheduling import measured

AWAY = "redis://127.0.0.1:1/0"
SURROUNDINGS = {
    # A test's client begins with middleware of its own, which would look at each static file, asked for or not.
    "WHITENOISE_AUTOREFRESH": True,
    "REDIS_URL": AWAY, "PASSWORD_HASHERS": ["django.contrib.auth.hashers.MD5PasswordHasher"],
    "CHANNEL_LAYERS": {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}}


@pytest.fixture(autouse=True)
def _surroundings(settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SURROUNDINGS.items():
        setattr(settings, name, value)
    monkeypatch.setattr(site_world, "FORECASTS", MinuteForecasts())
    monkeypatch.setattr(probes, "_VIEWS", SharedViews(for_s=0.0))  # who asks again has changed something


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, str]]]:
    """The jobs that were sent, instead of sending them."""
    noted: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr(jobs, "_send_now", lambda name, kwargs: noted.append((name, kwargs)))
    return noted


@pytest.fixture
def world(db) -> World:
    """Two teams, their people and one node with two slots."""
    return make_world()


@pytest.fixture
def profiled(world: World) -> World:
    """The same, with profiles of the tasks that ``linear`` has."""
    measured(world)
    return world


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, settings) -> Played:
    """An estate that does as it is told, whose batches may lie 30 s apart."""
    settings.LONGEST_TRIGGER_MS = 30_000
    return Played(monkeypatch)


@pytest.fixture
def slots(world: World, monkeypatch: pytest.MonkeyPatch) -> Slots:
    """The two slots of the world, whose counters grow by what their queries take."""
    return slots_at_work(monkeypatch)


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> AlternateSwitch:
    """What the broker has of every running task."""
    switch = AlternateSwitch("all", "f1-0", 0, 0, 7)
    monkeypatch.setattr(jobs, "switches_of", lambda tasks: {task: (switch,) for task in tasks})
    return switch


@pytest.fixture
def committed_world(transactional_db) -> World:
    """The same, committed, for tests with several connections."""
    return make_world()
