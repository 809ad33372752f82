"""Which alternates of dynamic tasks worked on which events, as their queries noted it in the broker."""

from __future__ import annotations

import redis

from scheduler.contracts.switches import KEY_SWITCHES, SWITCHES, AlternateSwitch, KeySwitch, in_sequence
from workers.engine.channels import keys
from workers.engine.slot_values import answers_of, readable


def noted_switches(broker: redis.Redis, task_id: str) -> tuple[AlternateSwitch, ...]:
    """All switches of a running task that are known still: for 90 days after the last one."""
    return in_sequence(readable(SWITCHES.loads, _noted(broker, keys.switches(task_id))))


def noted_key_switches(broker: redis.Redis, task_id: str) -> tuple[KeySwitch, ...]:
    """The switches of single keys of a running task that are known still, in the order in which they were noted."""
    noted = readable(KEY_SWITCHES.loads, _noted(broker, keys.key_switches(task_id)))
    return tuple(sorted(noted, key=lambda switch: (switch.at_ms, switch.batch)))


def _noted(broker: redis.Redis, key: str) -> list[bytes]:
    [values] = answers_of(broker.pipeline(transaction=False).hvals(key))
    return values or []
