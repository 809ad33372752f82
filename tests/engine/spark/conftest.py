"""An agent with two real slots that all tests here share, beside a broker of its own: a driver takes long to start."""

import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from tests.conftest import running_broker
from tests.library.package import install_package
from workers.launcher.broker import free_port

from . import plugin, recording
from .own_broker import own_broker
from .rig import Hosts, Rig, catalogue, estate_of, running_agent
from .wire import Wire

NODES = ("n1", "n2")
TRIGGER_MS = 700  # a batch costs the same however few its events are, and two cores have several queries to serve


@pytest.fixture(scope="package")
def test_types(tmp_path_factory):
    """A folder with a package of task types for tests, importable here and in slots, and its types."""
    folder = plugin.install(tmp_path_factory.mktemp("plugin"))
    with pytest.MonkeyPatch.context() as patch:  # for slots, which find it beside those types
        install_package(folder, patch)
    sys.path.insert(0, str(folder))
    sys.modules.pop("weir_test_types", None)
    import weir_test_types

    yield folder, weir_test_types.TYPES
    sys.path.remove(str(folder))


@pytest.fixture(scope="package")
def replayed(tmp_path_factory):
    """The folder that slots may replay recordings from."""
    folder = tmp_path_factory.mktemp("replay")
    (folder / recording.FILE).write_text(recording.recorded(recording.public_data()))
    return folder


@pytest.fixture(scope="package")
def rig(tmp_path_factory, test_types, replayed, with_jar):
    """A running agent with two slots. Names of fragments are a test's own."""
    plugin_folder, types = test_types
    data_dir = with_jar(tmp_path_factory.mktemp("data"))
    with running_broker(tmp_path_factory.mktemp("broker")) as url, redis.Redis.from_url(url) as client, running_agent(
        client, url, data_dir, slots=2, plugin=plugin_folder, task_types=catalogue(*types),
        WEIR_REPLAY_DIRS=str(replayed), WEIR_FILE_S="2", WEIR_PYTHON_PACKAGES="sensors",
    ) as rig:
        rig.trigger_ms = TRIGGER_MS
        began_s = time.monotonic()
        rig.wait(lambda: [slot["state"] for slot in rig.report()["slots"].values()] == ["running"] * 2)
        rig.slot_start_s = time.monotonic() - began_s
        yield rig


@pytest.fixture(scope="package")
def postgresql_folder():
    """Where both agents may reach a PostgreSQL; a test that needs one makes it."""
    folder = Path(tempfile.mkdtemp(prefix="weir-pg-"))  # its server could not enter pytest's own folders
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="package")
def ports():
    """Where both agents may reach an MQTT server and one of S3; a test that needs one starts it."""
    return {"mqtt": free_port(), "s3": free_port()}


@pytest.fixture(scope="package")
def hosts(tmp_path_factory, test_types, with_jar, postgresql_folder, ports):
    """Two agents with a slot and a data folder each; either reaches a broker of theirs by a wire of its own."""
    plugin_folder, types = test_types
    with ExitStack() as stack:
        broker = stack.enter_context(own_broker(tmp_path_factory.mktemp("broker")))
        client = stack.enter_context(redis.Redis.from_url(broker.url))
        nodes = {}
        for node in NODES:
            wire = Wire(broker.url)
            stack.callback(wire.close)
            nodes[node] = stack.enter_context(running_agent(
                client, wire.url, with_jar(tmp_path_factory.mktemp(node)), plugin=plugin_folder,
                task_types=catalogue(*types), node=node, WEIR_SLOT_MEMORY_MB="2048",
                WEIR_DATABASE_HOSTS=str(postgresql_folder), WEIR_SECRETS_KEY="of both nodes",
                WEIR_CONNECTOR_HOSTS=",".join(f"127.0.0.1:{port}" for port in ports.values())))
            nodes[node].wire = wire
        hosts = Hosts(client, nodes, own_broker=broker)
        hosts.wait_serving()
        yield hosts


@pytest.fixture
def afterwards_nothing(rig: Rig):
    """Ends what a test has started."""
    yield
    rig.publish(estate_of([], []))
    rig.wait(lambda: not any(slot["fragments"] for slot in rig.report()["slots"].values()), what="nothing runs")
