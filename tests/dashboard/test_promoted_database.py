"""A dataflow runs on while the site's database ends and its standby is promoted; then the site goes on with both."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from django.core.management import call_command
from django.db import Error, connections
from django.db.utils import ConnectionHandler

from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.services import register_node
from dashboard.tasks.execution import publish
from scheduler.contracts.desired import DESIRED_STATES
from tests.dashboard.building import document, make_world, running
from tests.dashboard.test_standby import database_of
from tests.engine.agents.forked_agent import agent
from tests.engine.agents.test_node import fragments_of, slot_of, until
from tests.postgresql import with_standby
from workers.engine.channels import keys, scripts
from workers.engine.channels.channel_registry import Channels

pytestmark = pytest.mark.broker
OUT = "out.0"


class PlayedQuery:
    """Writes a block every few ms into a channel of the broker, as long as its node is told to run its fragment."""

    def __init__(self, broker: redis.Redis, state_file: Path, fragment: str) -> None:
        self._broker, self._state_file, self._fragment = broker, state_file, fragment
        self.written, self._stopping = 0, threading.Event()
        channels = Channels(broker)
        channels.open_channel(OUT, schema_json="{}", retain=1_000_000)
        self._token = channels.take_fence(OUT)

    def work(self) -> None:
        names = [keys.channel(OUT), keys.meta(OUT), keys.readers(OUT)]
        while not self._stopping.wait(0.02):
            fragment = DESIRED_STATES.loads(self._state_file.read_text()).wanted.get(self._fragment)
            if fragment is not None and not fragment.paused:
                scripts.run(self._broker, "write", names, [self._token, self.written + 1, 0, 1, b"block", 0])
                self.written += 1

    @contextmanager
    def at_work(self) -> Iterator[None]:
        thread = threading.Thread(target=self.work)
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            thread.join(timeout=60)

    def goes_on(self) -> bool:
        """Whether it writes further blocks."""
        before = self.written
        return bool(until(lambda: self.written > before + 20))


def test_a_dataflow_runs_on_while_the_database_is_promoted_and_is_changed_behind_that(
    broker: redis.Redis, broker_url: str, tmp_path: Path, settings, monkeypatch: pytest.MonkeyPatch, django_db_blocker
) -> None:
    settings.REDIS_URL, data_dir = broker_url, tmp_path / "data"
    with with_standby() as (url, standby), django_db_blocker.unblock():
        connection = ConnectionHandler({"default": database_of(url)})["default"]
        monkeypatch.setattr(connections._connections, "default", connection, raising=False)
        call_command("migrate", verbosity=0)
        world = make_world()
        running(world.carla, world.city, document("line"), world.ana)
        publish()
        [(name, fragment)] = load_estate().fragments.items()
        index = fragment.slot.rpartition("/")[2]
        state_file = data_dir / "nodes" / "n1" / "told" / "desired.json"

        def stands_again() -> bool:
            """A job of the site, as a worker does it with a connection that may be gone."""
            connection.close_if_unusable_or_obsolete()
            try:
                publish()
            except Error:
                return False
            return True

        with agent(broker_url, data_dir, slots=2):
            until(lambda: slot_of(broker, index).get("fragments", {}).get(name))
            slot, before = slot_of(broker, index), state_file.read_text()
            query = PlayedQuery(broker, state_file, name)
            with query.at_work():
                assert query.goes_on()
                standby.kill_primary()
                with pytest.raises(Error):
                    register_node(name="n2", slots=1)
                assert not stands_again() and query.goes_on(), "nobody who runs it needs the database"
                standby.promote()
                until(stands_again)
                assert state_file.read_text() == before, "what was published follows from what is stored"
                running(world.carla, world.city, document("other", window=20), world.ana)
                publish()
                [other] = load_estate().fragments.keys() - {name}
                until(lambda: other in {*fragments_of(broker), *slot_of(broker, "1").get("fragments", {})})
                assert query.goes_on()
            last = slot_of(broker, index)
            assert (last["pid"], last["restarts"]) == (slot["pid"], slot["restarts"])
        connection.close()
    ids = [entry.decode() for entry, _ in broker.xrange(keys.channel(OUT))]
    assert ids == [f"{number}-0" for number in range(1, query.written + 1)], "as without a loss"
