"""Playing: step by step what comes is worked at, measured and kept, and each controller has its turn of the loop."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scheduler.controllers.control_loop import is_due, step
from scheduler.controllers.controller_port import Controller, Observations
from scheduler.controllers.controller_registry import CONTROLLERS, PURE_COLLECTORS
from scheduler.controllers.evidence.world import Collector, World
from scheduler.controllers.loop_values import CHECKING, HOUR_S, Round

from .played_world import PlayedWorld
from .setup import Figures, LimitName, Replayed, ReplaySetup


def replay(setup: ReplaySetup, *, on_step: Callable[[int], None] = lambda step: None) -> Replayed:
    """Play an estate over the load of its setup, with the controllers that its policies let decide.

    Parameters
    ----------
    setup : ReplaySetup
        The played dataflows, load and controllers. The same setup always gives the same results.
    """
    playing = _Playing(setup)
    for number in range(setup.steps):
        on_step(number)
        playing.step(number)
    return playing.result()


class _Playing:
    def __init__(self, setup: ReplaySetup) -> None:
        self._setup, self._world = setup, PlayedWorld(setup)
        self._controllers = [
            (controller, PURE_COLLECTORS[controller.reads]) for name, controller in CONTROLLERS.items()
            if name in setup.policies]
        self._decided_s: dict[str, float] = {}
        self._cores, self._waiting = np.zeros(setup.steps), np.zeros(setup.steps)
        self._latency_s: dict[LimitName, Figures] = {
            (name, number): np.full(setup.steps, np.nan)
            for name, limits in setup.limits.items() for number in range(len(limits))}
        self._rounds: dict[str, Round] = {}
        self._why_not: dict[tuple[str, str], tuple[float, str, str]] = {}

    def step(self, number: int) -> None:
        """Let a step pass, then give each controller its turn."""
        world, setup = self._world, self._setup
        world.latency_s.clear()
        planned = {
            task.id: task.rate_per_s or 0.0 for task in setup.estate.tasks.values() if not task.parents}
        world.pass_step(planned | {source: float(rates[number]) for source, rates in setup.rates_per_s.items()})
        self._cores[number] = sum(load.cores for load in world.loads.values()) + len(world.profiles.measured_on)
        self._waiting[number] = sum(load.waiting for load in world.loads.values())
        for key, latency_s in world.latency_s.items():
            self._latency_s[key][number] = latency_s
        if world.now_s % HOUR_S < setup.step_s:
            world.history.tidy(int(world.now_s))
        for controller, collector in self._controllers:
            self._take_turn(controller, collector)

    def _take_turn(self, controller: Controller, collector: Collector[World]) -> None:
        """One turn of the loop, as the site takes it: collect, step, and carry out what it commands."""
        world, policies = self._world, self._setup.policies[controller.name]
        decides = is_due(controller, decided_s=self._decided_s.get(controller.name, 0.0), now_s=world.now_s)
        evidence = collector.evidence(world) if decides else None
        effects = {}
        for loop_round in world.state.rounds:
            if loop_round.controller == controller.name and loop_round.phase == CHECKING:
                effect = collector.effect(loop_round, world)
                if effect is not None:
                    effects[loop_round.key] = effect
        done = step(controller, world.state, Observations(
            evidence, world.now_s, world.actuator.progress(), effects, world.actuator.busy()),
            policies, now_s=world.now_s)
        world.state = done.state
        if evidence is not None:
            self._decided_s[controller.name] = world.now_s
        self._rounds |= {
            loop_round.key: loop_round for loop_round in done.state.rounds
            if loop_round.controller == controller.name}
        for reason in done.reasons:
            self._why_not[controller.name, reason.target] = (world.now_s, controller.name, reason.why)
        for command in done.commands:
            world.actuator.carry_out(command, policies=policies, now_s=world.now_s)

    def result(self) -> Replayed:
        """Its results."""
        setup, world = self._setup, self._world
        limit_s = {(name, number): limit.limit_s for name, limits in setup.limits.items()
                   for number, limit in enumerate(limits)}
        return Replayed(
            world.estate, setup.step_s, setup.prices.core_hour, setup.prices.currency, self._cores, self._waiting,
            self._latency_s, limit_s, tuple(self._rounds.values()), tuple(world.actuator.changes),
            tuple(self._why_not.values()))
