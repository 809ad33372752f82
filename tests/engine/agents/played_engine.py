"""Stands where Spark does, in played worlds: the engine of one slot."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING

import redis

from scheduler.contracts.desired import WantedFragment
from workers.engine.channels import keys
from workers.engine.channels.open_streams import QueryMode
from workers.engine.spark.compile import StartPosition

from .played_broker import Failed, Gap
from .played_queries import Query, Store

if TYPE_CHECKING:
    from .divided_world import World


class PlayedEngine:
    """Compiles, starts and stops played queries."""

    def __init__(self, world: World, store: Store) -> None:
        self.world, self.store = world, store

    def compile(self, whole: WantedFragment, beginning: StartPosition) -> SimpleNamespace:
        tokens = {} if beginning.gate else {
            channel: self.world.link.channels.take_fence(channel) for channel in whole.written}
        return SimpleNamespace(
            frame=(whole, tokens, beginning.gate), schemas=tuple("{}" for _ in whole.tasks), folds=(), file_sink=None,
            batch_mode=QueryMode())

    def start(self, compiled: SimpleNamespace, name: str, **_: int) -> Query:
        whole, tokens, gate = compiled.frame
        assert gate or self.store.known_fragment(name) == whole
        self.world.may_die()
        return Query(self.world, self.store, whole, tokens, gate)

    def stop(self, query: Query, name: str, **_: float) -> bool:
        """Mostly between two batches; now and then a batch is cut short, but of one that rests already."""
        was_paused = self.world.broker.hexists(keys.valve(name), "paused")
        with contextlib.suppress(redis.ConnectionError):
            self.world.link.channels.pause(name)
        if not was_paused and self.world.deadly and self.world.chance.random() < 0.1:
            self.world.broker.hdel(keys.valve(name), "paused")
            with contextlib.suppress(Failed, Gap, redis.ConnectionError):
                query.batch()
        query.stop()
        return True

    def kill(self, query: Query) -> None:
        query.stop()

    def hold(self, _query: Query, name: str) -> bool:
        self.world.link.channels.pause(name)
        self.world.may_die()
        return self.store.progress(name).is_done

    def read(self, name: str, streams: Sequence[Sequence[str]]) -> None:
        """Its query goes on with other channels, between two batches."""
        self.world.may_die()
        query, whole = self.world.running[name], self.store.known_fragment(name)
        assert whole.streams == tuple(map(tuple, streams)) and self.store.progress(name).is_done
        query.reads(whole)

    def read_states(self, name: str, **_: int) -> list[str | None]:
        states = self.store.states.get(name, {})
        return [json.dumps(states[task]) if task in states else None for task, _ in self.store.folds(name)]

    def due_ms(self, *_: object) -> int:
        return 0
