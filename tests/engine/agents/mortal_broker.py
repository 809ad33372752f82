"""A played broker that dies while slots use it, and comes back with all that it had."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import redis

from workers.engine.channels.channel_registry import Channels

from ..channels.played_redis import Pipeline
from .played_broker import Broker

LONGEST_MS = 3_000  # that it is away


class MortalBroker:
    """The way of slots to a played broker, which dies before a command, or after it and before its reply.

    It is away for a while then, and whoever asks is refused. As one that writes each change to a file before it
    replies, it loses nothing; what lives for some seconds is gone.

    Parameters
    ----------
    broker : Broker
        What it has.
    chance : random.Random
        Decides when it dies, and for how long.
    deadliness : callable
        How likely it dies at a command now.
    clock_ms : callable
        The world's time.
    """

    def __init__(
        self, broker: Broker, chance: random.Random, *, deadliness: Callable[[], float], clock_ms: Callable[[], int],
    ) -> None:
        self._broker, self._chance, self._deadliness, self._clock_ms = broker, chance, deadliness, clock_ms
        self._back_at_ms = 0
        self.deaths = self.refusals = 0
        self.channels = Channels(self)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self._asking(getattr(self._broker, name))

    def register_script(self, text: str) -> Callable[..., Any]:
        return self._asking(self._broker.register_script(text))

    def pipeline(self, *, transaction: bool) -> Pipeline:
        """Some of its commands may be done and others not."""
        assert not transaction, "no other pipeline is played"
        return Pipeline(self)

    def _asking(self, command: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*arguments: Any, **options: Any) -> Any:
            deadliness = self._deadliness()
            if deadliness and self._clock_ms() < self._back_at_ms:
                self.refusals += 1
                raise redis.ConnectionError("Connection refused")
            dies = deadliness and self._chance.random() < deadliness
            if dies and self._chance.random() < 0.5:
                self._die()
            reply = command(*arguments, **options)
            if dies:
                self._die()
            return reply

        return ask

    def _die(self) -> None:
        self.deaths += 1
        self._back_at_ms = self._clock_ms() + self._chance.randint(0, LONGEST_MS)
        self._broker.texts.clear()
        raise redis.ConnectionError("Connection reset by peer")
