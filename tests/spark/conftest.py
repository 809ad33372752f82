"""An agent with two real slots that a module's tests share: a driver takes long to start."""

import sys

import pytest
import redis

from . import plugin
from .rig import catalogue, running_agent


@pytest.fixture(scope="module")
def test_types(tmp_path_factory):
    """A folder with a package of task types for tests, importable here and in slots, and its types."""
    folder = plugin.install(tmp_path_factory.mktemp("plugin"))
    sys.path.insert(0, str(folder))
    sys.modules.pop("weir_test_types", None)
    import weir_test_types

    yield folder, weir_test_types.TYPES
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def rig(broker_url, tmp_path_factory, test_types):
    """A running agent with two slots."""
    plugin_folder, types = test_types
    with redis.Redis.from_url(broker_url) as client:
        client.flushall()
        data_dir = tmp_path_factory.mktemp("data")
        with running_agent(
            client, broker_url, data_dir, slots=2, plugin=plugin_folder, task_types=catalogue(*types)
        ) as rig:
            yield rig
        client.flushall()
