"""A session for the whole contract, and a rig for each test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from workers.engine.agents.node_files.node_store import NodeStore
from workers.engine.agents.supervising.broker_users import CONNECTORS, LOOKS, SLOTS, BrokerUsers
from workers.engine.channels.channel_config import ChannelConfig
from workers.engine.channels.channel_registry import Channels
from workers.engine.channels.jvm import build

from .rig import Rig
from .session import close_jvm, open_session

ROOT = Path(__file__).resolve().parents[4]
PROBE = Path(__file__).parent / "probe"


@pytest.fixture(scope="session")
def jar_folder(tmp_path_factory: pytest.TempPathFactory, with_jar: Callable[[Path], Path]) -> Path:
    """Where this run's jar is."""
    return with_jar(tmp_path_factory.mktemp("channels"))


@pytest.fixture(scope="package")
def spark(broker_url: str, jar_folder: Path) -> Iterator:
    """One session, whose JVM has ``weir.Probe`` as well."""
    classes = jar_folder / "probe"
    build.compile_java(
        shutil.which("javac"), sorted(PROBE.rglob("*.java")), into=classes, class_path=(build.build(jar_folder),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        session = open_session(ChannelConfig(broker_url, data_dir=jar_folder), more_classes=classes)
        yield session
        close_jvm()


@pytest.fixture
def broker(embedded_broker: redis.Redis) -> redis.Redis:
    """The embedded broker: Spark reads and writes no other."""
    return embedded_broker


@pytest.fixture
def rig(spark, broker: redis.Redis, broker_url: str, jar_folder: Path, tmp_path: Path):
    """An empty broker, and no query left behind."""
    channels = Channels.connect(broker_url)
    rig = Rig(spark, ChannelConfig(broker_url, data_dir=jar_folder), channels, tmp_path)
    yield rig
    rig.stop_all()
    channels.close()


@pytest.fixture
def users(broker: redis.Redis, broker_url: str, tmp_path: Path) -> Iterator[BrokerUsers]:
    """The broker's users of node n1, whose slots reach what is named ``rehearsal-n1-…``."""
    made = BrokerUsers(broker, broker_url, NodeStore(tmp_path, "n1"))
    made.expect()
    yield made
    for role in (SLOTS, CONNECTORS, LOOKS):
        broker.execute_command("ACL", "DELUSER", made.name(role))
