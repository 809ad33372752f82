"""Switches of alternates as queries noted them in the broker: which alternate worked on which events."""

from __future__ import annotations

from dataclasses import replace

import redis

from scheduler.contracts.switches import KEY_SWITCHES, SWITCHES, AlternateSwitch, KeySwitch, in_sequence
from scheduler.model.warm_up import on_of, warming_of
from workers.engine.channels import keys
from workers.engine.slot_values import answers_of, readable


def noted_switches(broker: redis.Redis, task_id: str) -> tuple[AlternateSwitch, ...]:
    """All switches of a running task that are known still: for 90 days after the last one."""
    noted = readable(SWITCHES.loads, _values_of(broker, keys.switches(task_id)))
    return in_sequence(
        replace(switch, alternate=on_of(switch.alternate), warming=warming_of(switch.alternate)) for switch in noted)


def noted_key_switches(broker: redis.Redis, task_id: str) -> tuple[KeySwitch, ...]:
    """The switches of single keys of a running task that are known still, in the order in which they were noted."""
    noted = readable(KEY_SWITCHES.loads, _values_of(broker, keys.key_switches(task_id)))
    return tuple(sorted(noted, key=lambda switch: (switch.at_ms, switch.batch)))


def _values_of(broker: redis.Redis, key: str) -> list[bytes]:
    [values] = answers_of(broker.pipeline(transaction=False).hvals(key))
    return values or []
