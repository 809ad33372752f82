"""What every test may ask for: an embedded broker of its own, a state folder, and the shared data sets."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import redis

from workers.supervisor import broker as embedded
from workers.supervisor.process import spawn, stop

ROOT = Path(__file__).resolve().parent.parent

# How fast a busy machine draws cases says nothing of what is tested.
hypothesis.settings.register_profile("weir", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("weir")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the tests that take minutes")


SHARED_SESSIONS = (ROOT / "tests/channels/contract", ROOT / "tests/library")  # a Spark driver serves the whole folder


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:  # where tests are spread over workers, what stays with one
        whole = next((folder for folder in SHARED_SESSIONS if item.path.is_relative_to(folder)), item.path)
        item.add_marker(pytest.mark.xdist_group(whole.name))
    if config.getoption("--long"):
        return
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="takes minutes: run with --long"))


@pytest.fixture(scope="session")
def broker_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an embedded broker that lives as long as the test session; see ``broker`` for an empty one."""
    folder = tmp_path_factory.mktemp("broker")
    prepared = embedded.prepare(folder)
    with (folder / "broker.log").open("ab") as log:
        process = spawn(prepared.argv, stdout=log)
    try:
        deadline = time.monotonic() + 20
        while not embedded.answers(prepared.url):
            assert process.poll() is None and time.monotonic() < deadline, (folder / "broker.log").read_text()
            time.sleep(0.02)
        yield prepared.url
    finally:
        stop(process, timeout_s=5)


@pytest.fixture
def broker(broker_url: str) -> Iterator[redis.Redis]:
    """A client of the embedded broker, emptied before and after the test."""
    with redis.Redis.from_url(broker_url) as client:
        client.flushall()
        yield client
        client.flushall()


@pytest.fixture
def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    return embedded.free_port()


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty state folder, which ``WEIR_DATA_DIR`` names during the test."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("WEIR_DATA_DIR", str(folder))
    return folder


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public data sets; the test is skipped where it is absent."""
    folder = Path(os.environ.get("WEIR_SHARED_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("the public data sets are not here; WEIR_SHARED_DATA names their folder")
    return folder
