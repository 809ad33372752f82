"""What a node's processes may do to channels that they only read, which others read, too."""

from __future__ import annotations

import pytest

from tests.engine.agents.test_broker_users import READ, as_role, does, users  # noqa: F401
from workers.engine.agents.supervising.broker_users import CONNECTORS, SLOTS, BrokerUsers
from workers.engine.channels import keys

pytestmark = pytest.mark.broker
# What would end a channel for its writer and other readers, or forge one, and no reader does; of a channel's two keys.
ENDS = (
    "XADD {stream} * b x", "XSETID {stream} 9999999999999-0", "SET {stream} x", "DEL {stream}", "UNLINK {meta}",
    "EXPIRE {stream} 1", "PEXPIREAT {meta} 1", "HINCRBYFLOAT {meta} capacity 1", "LPUSH {stream} x")


@pytest.mark.parametrize("role", [SLOTS, CONNECTORS])
def test_who_only_reads_a_channel_does_there_what_readers_do(users: BrokerUsers, role: str) -> None:  # noqa: F811
    with as_role(users, role) as client:
        attacks = [(name, command.format(stream=keys.channel(name), meta=keys.meta(name)))
                   for name in (*READ, "f1-0.0") for command in ENDS]
        assert {name for name, command in attacks if does(client, command)} == {"f1-0.0"}
