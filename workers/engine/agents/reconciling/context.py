"""The context of a slot: its engine, the broker, the store and what is desired, for all that acts on its fragments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import redis

from scheduler.contracts.desired import DesiredState
from scheduler.model.task_types import TaskTypes
from workers.engine.channels.channel_registry import Channels

from .query_engine import Engine
from .started_fragments import SlotStore


@dataclass(frozen=True, slots=True)
class SlotContext:
    """The context of a slot: Spark, the broker and the store, the same for every fragment."""

    engine: Engine
    channels: Channels
    broker: redis.Redis
    store: SlotStore
    task_types: TaskTypes
    desired: Callable[[], DesiredState]  # the node's newest
