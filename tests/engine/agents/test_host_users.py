"""The connector host's user of the broker: what the host notes opens nothing, and it passes on what it holds."""

from __future__ import annotations

import pytest
import redis

from scheduler.contracts.desired import DESIRED_STATES
from tests.engine.agents.test_broker_users import as_role, desired, users  # noqa: F401
from workers.engine.agents.reconciling.started_fragments import SlotStore
from workers.engine.agents.supervising.broker_users import CONNECTORS, BrokerUsers
from workers.engine.channels import keys
from workers.engine.connector_leases import ConnectorLeases

pytestmark = pytest.mark.broker


def test_what_a_connector_host_notes_lets_it_touch_nothing_but_what_it_was_told_of(
    users: BrokerUsers, broker: redis.Redis  # noqa: F811
) -> None:
    """Who breaks out of it notes any channel for a sink's; one whose fragment has gone is written to its end."""
    store = users._store
    slot = SlotStore(store.data_dir, store.slot_dir("0"))
    slot.record(desired().wanted["f1-0"])
    with as_role(users, CONNECTORS) as client:
        client.sadd(keys.sinks("n1"), "f9-0.0", "f1-0.1", b"\xff")
        store.write_desired(DESIRED_STATES.read({"version": 2, "node": "n1", "generation": 2, "slots": {}}))
        slot.forget("f1-0")
        users.expect()
        client.exists(keys.channel("f1-0.1"))
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.xrange(keys.channel("f9-0.0"))
        client.set(keys.sinks("n1"), "no set")
        users.expect()
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.exists(keys.channel("f1-0.1"))


def test_a_connector_host_passes_on_what_it_holds(
    users: BrokerUsers, broker: redis.Redis  # noqa: F811
) -> None:
    with as_role(users, CONNECTORS) as client:
        leases = ConnectorLeases(client, state=keys.sink, leased=keys.sinks)
        assert leases.take("f1-0.1", "n1") and leases.pass_on("f1-0.1", "n1", to="n2")
        assert (leases.holder("f1-0.1"), leases.names("n1")) == ("n2", frozenset())
    next_leases = ConnectorLeases(broker, state=keys.sink, leased=keys.sinks)
    assert next_leases.take("f1-0.1", "n2") and next_leases.names("n2") == {"f1-0.1"}
