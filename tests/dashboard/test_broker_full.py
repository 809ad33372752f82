"""A broker whose disk is full refuses what would write: that is named, nothing ends, and all goes on by itself."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from django.test import Client

from dashboard import jobs
from dashboard.config.environment import ROOT
from dashboard.core.http_errors import as_weir_error
from dashboard.operations.diagnosis.health import findings
from dashboard.operations.live_view.estate_view import view_for
from dashboard.queue import app
from dashboard.teams.permissions import viewer_of
from tests.dashboard.building import World
from tests.engine.filled_broker import bounded
from tests.engine.filled_broker import fill as fill_broker
from tests.small_disk import fill, small_disk
from workers.engine.spark.failure_messages import BROKER_DISK_IS_FULL, BROKER_IS_FULL, explain_error
from workers.launcher import broker as embedded
from workers.processes import spawn, stop

pytestmark = pytest.mark.broker


def until(is_so: Callable[[], object], *, within_s: float = 90.0) -> None:
    deadline = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture
def small_broker(tmp_path: Path, settings) -> Iterator[tuple[Path, redis.Redis]]:
    """The embedded broker on a file system of 4 MB."""
    with small_disk(tmp_path / "small", megabytes=4) as folder:
        prepared = embedded.prepare(folder)
        with (tmp_path / "broker.log").open("ab") as log:
            process = spawn(prepared.argv, stdout=log)
        settings.REDIS_URL = prepared.url
        jobs._window.cache_clear()
        try:
            until(lambda: embedded.answers(prepared.url))
            with redis.Redis.from_url(prepared.url) as client:
                yield folder, client
        finally:
            stop(process, timeout_s=5)
            jobs._window.cache_clear()


def refuse(client: redis.Redis) -> redis.RedisError:
    """Write until the broker refuses; the error."""
    for number in range(5_000):
        try:
            client.set(f"filler:{number}", "x" * 4_000, ex=60)
        except redis.RedisError as error:
            return error
        time.sleep(0.002)
    raise AssertionError("it takes everything")


def writes(client: redis.Redis) -> bool:
    try:
        return bool(client.set("filler", "x"))
    except redis.RedisError:
        return False


def test_it_is_named_with_a_remedy_and_passes_by_itself(small_broker, world: World) -> None:
    folder, client = small_broker
    assert not jobs.read_live((), {}).broker_full
    ballast = fill(folder)
    error = refuse(client)
    assert as_weir_error(error).code == "disk_full"
    assert str(explain_error(error)) == BROKER_DISK_IS_FULL
    worst = findings(view_for(viewer_of(world.root)))
    assert [(finding.part, finding.state) for finding in worst if finding.part in ("broker", "node", "worker")] == [
        ("broker", "full")], "nodes and worker cannot be heard, and that is not their fault"
    ballast.unlink()
    until(lambda: writes(client))
    assert not jobs.read_live((), {}).broker_full


def test_a_full_memory_is_named_with_a_remedy_and_passes_by_itself(broker_url, broker, settings, world: World) -> None:
    settings.REDIS_URL = broker_url
    jobs._window.cache_clear()

    def named() -> list[tuple[str, str]]:
        return [(finding.part, finding.name) for finding in findings(view_for(viewer_of(world.root)))
                if finding.part in ("broker", "node")]

    def broker_check() -> str:
        return Client().get("/readyz").json()["checks"]["broker"]

    before = named()
    with bounded(broker, more_mb=20):
        fill_broker(broker)
        with pytest.raises(redis.exceptions.OutOfMemoryError) as refusal:
            broker.set("x", "y" * 1_000)
        assert as_weir_error(refusal.value).code == "broker_full"
        assert str(explain_error(refusal.value)) == BROKER_IS_FULL
        with pytest.raises(jobs.BrokerAway, match="memory of the broker is full"), jobs.broker_needed("so it is."):
            broker.set("x", "y" * 1_000)
        jobs._window.cache_clear()
        assert set(named()) - set(before) == {("broker", "memory")} and broker_check() == "full"
        jobs.worker_works()
        assert jobs.read_live((), {}).worker, "who works says so at a full broker"
    jobs._window.cache_clear()
    assert named() == before and broker_check() == "ok"


def test_a_worker_does_not_end_for_it() -> None:
    assert app.conf.broker_channel_error_retry
    with app.connection_for_read() as connection:
        assert issubclass(redis.exceptions.OutOfMemoryError, tuple(connection.channel_errors)), "nor for a full memory"


@pytest.mark.long
def test_a_real_worker_waits_and_goes_on(small_broker, tmp_path: Path) -> None:
    folder, client = small_broker
    variables = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    environment = {**variables, "REDIS_URL": client_url(client), "WEIR_DATA_DIR": str(tmp_path / "data"),
                   "PYTHONPATH": str(ROOT), "DJANGO_SETTINGS_MODULE": "dashboard.config.settings"}
    subprocess.run((sys.executable, "-P", "manage.py", "migrate", "-v", "0"), cwd=ROOT, env=environment, check=True)

    def waits_for_jobs() -> bool:
        return any(entry.get("cmd") == "brpop" for entry in client.client_list())

    with (tmp_path / "worker.log").open("ab") as log:
        worker = spawn(
            [sys.executable, "-P", "-m", "celery", "-A", "dashboard.tasks.app", "worker", "--pool", "threads",
             "--concurrency", "1", "--without-gossip", "--without-mingle", "--without-heartbeat"],
            env=environment, cwd=ROOT, stdout=log)
    try:
        until(waits_for_jobs)
        ballast = fill(folder)
        refuse(client)
        until(lambda: "MISCONF" in (tmp_path / "worker.log").read_text())
        time.sleep(3)
        assert worker.poll() is None, (tmp_path / "worker.log").read_text()[-2_000:]
        ballast.unlink()
        until(lambda: writes(client) and waits_for_jobs())
        assert worker.poll() is None
    finally:
        stop(worker, timeout_s=15)


def client_url(client: redis.Redis) -> str:
    options = client.connection_pool.connection_kwargs
    return f"redis://:{options['password']}@{options['host']}:{options['port']}/0"
