"""A slot and the channels that its node only reads: it reads and frees their blocks, and adds none."""

from __future__ import annotations

import pytest
import redis

from tests.engine.agents.test_broker_users import READ, as_role, users  # noqa: F401 - a fixture
from workers.engine.agents.supervising.broker_users import SLOTS
from workers.engine.channels import keys, scripts
from workers.engine.channels.channel_registry import Channels

pytestmark = pytest.mark.broker


def test_who_reads_a_stream_forges_no_event_of_it_for_others(users, broker):  # noqa: F811
    """Neither by the script of writers, nor by another name for a channel of its own."""
    with as_role(users, SLOTS) as client:
        for channel in READ:
            names = [keys.channel(channel), keys.meta(channel), keys.readers(channel)]
            Channels(broker).open_channel(channel, schema_json="{}", readers=["f1-0"])
            for forge in (lambda channel=channel: client.xadd(keys.channel(channel), {"b": b"x"}),
                          lambda names=names: scripts.run(client, "write", names, [0, 1, 0, 1, b"block", 0])):
                with pytest.raises(redis.exceptions.ResponseError, match=r"(?i)perm|can't access"):
                    forge()
            written = keys.channel("f1-0.0")
            client.xadd(written, {"b": b"x"})
            for command in ("RENAME", "RENAMENX", "COPY"):
                with pytest.raises(redis.exceptions.NoPermissionError):
                    client.execute_command(command, written, keys.channel(channel))
            assert broker.xlen(keys.channel(channel)) == 0
            client.hset(keys.readers(channel), "f1-0", "0-0")  # what readers do there
