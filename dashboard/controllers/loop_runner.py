"""The runner of the loop: collects, makes one step of the pure engine, stores it, then carries its commands out.

What a step decides is stored before anything of it is done. A worker that is killed in between, or in the middle,
leaves commands that the next step gives again, and whoever carries them out does so once for the key of their round:
under the lock of its row, and only where that still stands where the command saw it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Protocol

import structlog

from dashboard.audit.trail import audited
from dashboard.controllers import stored_rounds
from dashboard.controllers.collecting import COLLECTORS
from dashboard.controllers.models import RoundRow
from dashboard.controllers.site_world import StoredWorld
from scheduler.controllers.control_loop import LoopStep, is_due, step
from scheduler.controllers.controller_port import CommandProgress, Controller, Effect, Observations
from scheduler.controllers.controller_registry import CONTROLLERS
from scheduler.controllers.loop_values import CHECKING, OFF, Command, LoopState

log = structlog.get_logger(__name__)


class Actuator(Protocol):
    """Carries out what a controller commands, and tells what has become of it."""

    def progress(self, rows: Sequence[RoundRow]) -> Mapping[str, CommandProgress]:
        """The progress of rounds' commands, by what is stored, by their keys."""

    def busy(self) -> Mapping[str, str]:
        """Targets about which something else is open, and what."""

    def carry_out(self, command: Command) -> None:
        """Do it, in a transaction of its own; nothing where it is done, or the round stands elsewhere by now."""


def run(actuators: Mapping[str, Actuator], *, at: datetime) -> int:
    """Make a step of every controller that has to decide or has rounds to follow; how many rounds are in flight.

    All of them look at one world, until one has changed something.
    """
    world = StoredWorld(at)
    for controller in CONTROLLERS.values():
        if not (_is_wanted(controller, world) or controller.name in world.followed):
            continue
        with _alone(controller):
            if not take_turn(controller, actuators[controller.name], world).commands:
                continue
        world = StoredWorld(at)  # the next ones look at what has become of it
    return RoundRow.objects.filter(ended=None).count()


def run_urgent(actuators: Mapping[str, Actuator], *, at: datetime) -> None:
    """Let the controllers decide that something waits for, whenever they did last; the others have their turn in the
    loop."""
    world = StoredWorld(at)
    for controller in CONTROLLERS.values():
        with _alone(controller):
            if COLLECTORS[controller.reads].is_urgent(world):
                take_turn(controller, actuators[controller.name], world, is_urgent=True)


@contextmanager
def _alone(controller: Controller) -> Iterator[None]:
    """A context in which a controller that cannot be followed keeps no other from its turn."""
    try:
        yield
    except Exception:
        log.exception("controller_not_run", controller=controller.name)


def take_turn(
    controller: Controller, actuator: Actuator, world: StoredWorld, *, is_urgent: bool = False
) -> LoopStep:
    """One step of one controller at the moment of a world, stored, and its commands carried out; it decides where it is
    due or urgent."""
    at = world.at
    evidence = _collected(controller, world) if _is_wanted(controller, world, is_urgent=is_urgent) else None
    effects = _effects(controller, world) if controller.name in world.followed else {}
    with audited(actor=None, verb="controller.step") as audit:
        loop = stored_rounds.loop_for_update()
        state = stored_rounds.state_of(loop, at=at)
        observations = Observations(
            evidence, at.timestamp(), actuator.progress(_followed(controller, state)), effects,
            {} if evidence is None else actuator.busy())
        # As they stand under the lock: what was turned off meanwhile begins nothing.
        policies = world.policies[controller.name] | stored_rounds.chosen_policies([controller])[controller.name]
        result = step(controller, state, observations, policies, now_s=at.timestamp())
        if evidence is not None:
            loop.decided_s = loop.decided_s | {controller.name: at.timestamp()}
        begun, moved = stored_rounds.store(loop, state, result.state)
        stored_rounds.note(controller.name, result.reasons, at=at)
        for row in begun:
            audit.also(verb="controller.begin", subject=row, team=row.team, why=row.decision["why"])
        for row in moved:
            audit.also(verb=f"controller.{row.phase}", subject=row, team=row.team, why=row.why)
        audit.nothing_changed()  # but for what has its own row
    for command in result.commands:
        try:
            actuator.carry_out(command)
        except Exception:  # it is given again with the next step
            log.exception("command_not_carried_out", round=command.round.key, command=type(command).__name__)
    return result


def _followed(controller: Controller, state: LoopState) -> list[RoundRow]:
    """Rounds in flight, and those in force, which people may take back."""
    keys = [
        loop_round.key for loop_round in state.rounds
        if loop_round.controller == controller.name and loop_round.phase in stored_rounds.FOLLOWED]
    return list(RoundRow.objects.filter(key__in=keys).select_related("sweep__profile", "profile"))


def _is_wanted(controller: Controller, world: StoredWorld, *, is_urgent: bool = False) -> bool:
    """True if it is to decide now: it is time, and anybody wants to hear of it."""
    decided_s = world.decided_s.get(controller.name, 0.0)
    return (is_urgent or is_due(controller, decided_s=decided_s, now_s=world.now_s)) and any(
        policy.mode != OFF for policy in world.policies[controller.name].values())


def _collected(controller: Controller, world: StoredWorld) -> Any:
    """Evidence of a controller; None where it cannot be collected now: rounds in flight are followed all the same."""
    try:
        collector = COLLECTORS[controller.reads]
        evidence = collector.evidence(world)
        if evidence is not None:
            collector.note(world, evidence)
        return evidence
    except Exception:
        log.exception("evidence_not_collected", controller=controller.name)
        return None


def _effects(controller: Controller, world: StoredWorld) -> dict[str, Effect]:
    """The measurements of rounds whose promise is open."""
    effects = {}
    for row in RoundRow.objects.filter(controller=controller.name, phase=CHECKING).exclude(changed=None):
        effect = COLLECTORS[controller.reads].effect(stored_rounds.round_of(row), world)
        if effect is not None:
            effects[row.key] = effect
    return effects
