"""No config of a task, and no refusal of the broker, opens more of it to a node's processes than is the node's own."""

from __future__ import annotations

import pytest
import redis

from scheduler.contracts.desired import DESIRED_STATES
from workers.engine.agents.node_files.node_store import NodeStore
from workers.engine.agents.supervising import key_patterns
from workers.engine.agents.supervising.broker_users import SLOTS, BrokerUsers
from workers.engine.channels import keys
from workers.library.model_store import ModelName

pytestmark = pytest.mark.broker


@pytest.mark.parametrize(("type_", "config"), [
    ("python", {"arguments": {"name": "Ada Byron", "team": "the roads"}}),
    ("python", {"arguments": {"name": "rides", "team": "others"}}),
    ("spark_source", {"options": {"name": "rides\0", "team": "others\n"}}),
    ("train", {"model": {"name": "two words", "team": "others 2"}, "target": {"name": "rides", "team": "others"}}),
])
def test_no_config_takes_the_wall_away_or_lets_models_of_others_be_had(broker, broker_url, tmp_path, type_, config):
    store = NodeStore(tmp_path, "n1")
    store.write_desired(DESIRED_STATES.read({"version": 1, "node": "n1", "generation": 1, "slots": {"0": {"fragments": [
        {"id": "f1-0", "inputs": [], "outlets": {}, "active": 1, "trigger_ms": 500,
         "tasks": [{"id": "t", "type": type_, "config": config}]}]}}}))
    broker.zadd(f"{ModelName('others', 'rides').key}", {"v": 1})
    made = BrokerUsers(broker, broker_url, store)
    made.expect()
    assert not made.is_refused and made.url(SLOTS) != broker_url
    with redis.Redis.from_url(made.url(SLOTS)) as client:
        assert client.hset(keys.valve("f1-0"), "x", 1) == 1, "what is its own it has"
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.zrange(ModelName("others", "rides").key, 0, -1)


def test_what_is_wrong_with_a_user_opens_the_broker_to_nobody(broker, broker_url, tmp_path, monkeypatch):
    monkeypatch.setattr(key_patterns, "can_be_given", lambda pattern: True)
    monkeypatch.setattr(key_patterns, "of_fragments", lambda fragments: frozenset({"two words"}))
    made = BrokerUsers(broker, broker_url, NodeStore(tmp_path, "n1"))
    made.expect()
    assert not made.is_refused and made.url(SLOTS) != broker_url
