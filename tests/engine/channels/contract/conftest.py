"""A session for the whole contract, and a rig for each test and implementation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from workers.engine.channels.config import ChannelConfig
from workers.engine.channels.registry import Channels
from workers.engine.channels.spark import spark_conf

from .rig import Rig
from .session import close_jvm, open_session

ROOT = Path(__file__).resolve().parents[4]
KILLED_S = 0.5  # of which Spark leaves a stopped query's Python worker 0.1


@pytest.fixture(scope="session")
def jar_folder(tmp_path_factory: pytest.TempPathFactory, with_jar: Callable[[Path], Path]) -> Path:
    """Where this run's jar is."""
    return with_jar(tmp_path_factory.mktemp("channels"))


@pytest.fixture(scope="package")
def spark(broker_url: str, jar_folder: Path) -> Iterator:
    """One session that serves both implementations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        session = open_session(spark_conf(ChannelConfig(broker_url, data_dir=jar_folder)))
        yield session
        close_jvm()


@pytest.fixture(params=["jvm", pytest.param("python", marks=pytest.mark.long)])
def implementation(request: pytest.FixtureRequest) -> str:
    """Each implementation in turn: the one on Java always, the one on Python with --long.

    Where ``PYTHON_TOO`` says so, the short run asks it of Python as well: that types survive, how a stream
    is dealt out, ticks over a restart, and outlets.
    """
    return request.param


@pytest.fixture
def rig(spark, broker: redis.Redis, broker_url: str, jar_folder: Path, implementation: str, tmp_path: Path):
    """An empty broker, the implementation in turn, and no query left behind."""
    channels = Channels.connect(broker_url)
    rig = Rig(spark, ChannelConfig(broker_url, implementation, data_dir=jar_folder), channels, tmp_path)
    yield rig
    rig.stop_all()
    if implementation == "python":
        # A worker of a query that was stopped in a batch writes until it is killed. The next test's channels have the
        # same names and, in a broker that was emptied, the same tokens, so that nothing would refuse what it writes.
        time.sleep(KILLED_S)
    channels.close()
