"""Scripts and registry are tested on a real broker and on the one that played worlds use."""

from __future__ import annotations

import pytest
import redis

from .played_redis import PlayedRedis


@pytest.fixture(params=["embedded", "played"])
def broker(request: pytest.FixtureRequest) -> redis.Redis | PlayedRedis:
    """An empty broker: the embedded one and the played one in turn."""
    return PlayedRedis() if request.param == "played" else request.getfixturevalue("embedded_broker")
