"""A policy manager as a process of its own, which a test kills and starts again: it reads figures, evaluates guards and
publishes which alternates are on, as the site does, with what it needs to go on in a file instead of a database.

    python -m tests.engine.spark.policy_manager BROKER FOLDER PREFIX TRIGGER_MS
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import redis

from scheduler.guards.element_policies import policy_in
from scheduler.guards.element_watch import ElementWatch, state_with
from scheduler.guards.guard_compiling import compile_element
from scheduler.guards.guard_values import GuardCatalog, GuardEvent
from scheduler.model.alternates import alternates_in
from scheduler.model.wave_elements import wave_elements
from workers.engine import desired_publishing
from workers.engine.wave_publishing import publish_waves
from workers.library.registry import task_types
from workers.processes import spawn

from .rig import NODE
from .switching_estate import DROPS, SwitchingEstate, switching_estate

MEASURED = "test:measured"  # a hash: by element the figure that its guards look at
EVERY_S = 0.1
STEP = 10.0
WAYS = list(DROPS)


def measured_for(on: Mapping[str, str]) -> dict[str, float]:
    """Figures by which guards want these alternates."""
    return {task: STEP * WAYS.index(way) + STEP / 2 for task, way in on.items()}


def guards() -> dict[str, str]:
    """An alternate is on while the figure has been within its step for a moment."""
    return {
        way: f"for_at_least(rate >= {STEP * number} AND rate < {STEP * (number + 1)}, '1 s')"
        for number, way in enumerate(WAYS)}


class Manager:
    """What one such process has at hand."""

    def __init__(self, broker: redis.Redis, folder: Path, switching: SwitchingEstate, trigger_ms: int) -> None:
        self.broker, self.switching, self.trigger_ms = broker, switching, trigger_ms
        self.stored = folder / "manager.json"
        stored = json.loads(self.stored.read_text()) if self.stored.exists() else {}
        self.version: int = stored.get("version", 1)
        self.on: dict[str, str] = stored.get("on") or dict.fromkeys(switching.places, WAYS[0])
        self.states: dict[str, Any] = stored.get("states", {})
        self.watches: dict[str, ElementWatch] = {}
        self.is_published = False

    def step(self, now_ms: int) -> None:
        """Take in what is measured, and publish what guards want."""
        figures = {name.decode(): float(value) for name, value in self.broker.hgetall(MEASURED).items()}
        for task, figure in sorted(figures.items()):
            event = GuardEvent(now_ms, "", {"rate": figure})
            if task not in self.watches:
                state = self.states.get(task) or state_with(self.on[task], event)
                self.watches[task] = ElementWatch(self._compiled(task), now_ms, state=state)
            for _ in self.watches[task].take(event, now_ms):
                pass
        wanted = {task: watch.choice.alternate for task, watch in self.watches.items() if watch.choice is not None}
        if any(self.on[task] != way for task, way in wanted.items()):
            self.on |= wanted
            self.version += 1
            self.is_published = False
        self._store()
        if not self.is_published:
            self._publish()

    def _compiled(self, task: str) -> Any:
        running = self.switching.estate.tasks[task]
        policy = policy_in({"kind": "activation", "guards": guards()})
        return compile_element(
            policy.element(task, alternates_in(running.type, running.config)), GuardCatalog({"": {"rate": "number"}}))

    def _store(self) -> None:
        """All of it at once, before anybody is told."""
        self.states |= {task: watch.state() for task, watch in self.watches.items()}
        made = self.stored.with_suffix(f".{os.getpid()}")
        made.write_text(json.dumps({"version": self.version, "on": self.on, "states": self.states}))
        made.replace(self.stored)

    def _publish(self) -> None:
        estate = replace(self.switching.wanted(self.on), generation=self.version)
        publish_waves(self.broker, wave_elements(estate), generation=estate.generation, revision=estate.revision)
        desired_publishing.publish(
            self.broker, desired_publishing.desired_of(estate, NODE, task_types(), self.trigger_ms))
        self.is_published = True


class ManagerProcess:
    """The process, as a test kills it and starts it again."""

    def __init__(self, url: str, folder: Path, prefix: str, trigger_ms: int, environment: Mapping[str, str]) -> None:
        self._argv = [sys.executable, "-m", __name__, url, str(folder), prefix, str(trigger_ms)]
        self._environment, self._log = {**os.environ, **environment}, folder / "manager.log"
        self.start()

    def start(self) -> None:
        """Start it, for the first time or again."""
        with self._log.open("ab") as log:
            self.process = spawn(self._argv, env=self._environment, stdout=log)

    def kill(self) -> None:
        """End it wherever it is."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def main() -> None:
    """Look again and again; a broker that is away is there again soon."""
    url, folder, prefix, trigger_ms = sys.argv[1:]
    manager = Manager(
        redis.Redis.from_url(url), Path(folder), switching_estate(prefix, task_types()), int(trigger_ms))
    while True:
        with suppress(redis.RedisError):
            manager.step(round(time.time() * 1000))
        time.sleep(EVERY_S)


if __name__ == "__main__":
    main()
