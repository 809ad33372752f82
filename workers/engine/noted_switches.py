"""Which alternates of dynamic tasks worked on which events, as their queries noted it in the broker."""

from __future__ import annotations

import redis

from scheduler.contracts.switches import SWITCHES, AlternateSwitch, in_sequence
from workers.engine.channels import keys


def noted_switches(broker: redis.Redis, task_id: str) -> tuple[AlternateSwitch, ...]:
    """All switches of a running task that are known still: for 90 days after the last one."""
    return in_sequence(map(SWITCHES.loads, broker.hvals(keys.switches(task_id))))
