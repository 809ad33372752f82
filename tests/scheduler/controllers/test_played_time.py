"""The loop in random worlds: no budget broken, nothing back and forth, nothing half done, every rollback complete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from scheduler.controllers import engine, limits
from scheduler.controllers.protocol import Progress
from scheduler.controllers.values import (
    BEGUN,
    BROKEN,
    CHECKING,
    DECLINED,
    KEPT,
    ROLLED_BACK,
    ROLLING_BACK,
    UNCHECKED,
    WITHDRAWING,
)

from .played_world import World, faults

TICKS = 150


def played(seed: int) -> World:
    world = World(seed)
    world.play(TICKS)
    return world


def test_in_random_worlds_every_limit_holds() -> None:
    assert {seed: wrong for seed in range(250) if (wrong := faults(played(seed)))} == {}


@pytest.mark.long
@pytest.mark.parametrize("begin", range(1_000, 11_000, 1_000))
def test_in_ten_thousand_random_worlds_every_limit_holds(begin: int) -> None:
    assert {seed: wrong for seed in range(begin, begin + 1_000) if (wrong := faults(played(seed)))} == {}


def test_worlds_come_to_what_is_to_be_judged() -> None:
    """The worlds are no desert: changes come, are kept and taken back, with trouble and without."""
    ends = [turn.phase for seed in range(20) for turn in played(seed).state.rounds]
    assert ends.count(KEPT) > 20 and ends.count(ROLLED_BACK) > 20


# The worlds find what is wrong ----------------------------------------------------------------------------------------

_command, _followed, _heard, _last_s = engine._command, engine._followed, engine._heard, limits._last_s
_in_flight = limits._in_flight


def _never(phase: str) -> Callable[..., Any]:
    return lambda controller, turn: None if turn.phase == phase else _command(controller, turn)


def _kept_too_soon(controller, turn, effect, now_s):
    return replace(turn, phase=KEPT, ended_s=now_s) if effect is None or effect.samples else turn


def _given_up_for_absent(controller, turn, observations, policies, now_s):
    """Silence is taken for proof that nothing was done, instead of withdrawing it."""
    progress = observations.progress.get(turn.key, Progress("absent"))
    if turn.phase == BEGUN and progress.phase == "absent" and now_s - turn.begun_s > 60:
        return replace(turn, phase=DECLINED, ended_s=now_s)
    return _followed(controller, turn, observations, policies, now_s)


def _without(*pairs: tuple[str, str]) -> dict[tuple[str, str], Any]:
    return {pair: become for pair, become in engine._BECOMES.items() if pair not in pairs}


def _beside_what_moves(controller, state, decision):
    """What goes alongside others does so while they move as well."""
    return iter(()) if decision.alongside else _in_flight(controller, state, decision)


WRONG = {
    "what goes alongside others does so while these move": (limits, "_in_flight", _beside_what_moves),
    "what people approve changes queries while others do": (World, "_is_restless", lambda *_: False),
    "budgets hold for nobody": (limits, "_over_budget", lambda *_: ""),
    "a budget counts from when a round began": (limits, "_last_s", lambda turn, now_s: turn.begun_s),
    "no rest after a change": (limits, "_resting", lambda *_: ""),
    "what another controller did is taken back": (limits, "_back_and_forth", lambda *_: ""),
    "a round begins while one is in flight": (limits, "_in_flight", lambda *_: iter(())),
    "what was refused is tried again": (limits, "_unwelcome", lambda *_: ""),
    "old evidence counts": (engine, "OLDEST_EVIDENCE_S", 1e12),
    "a rollback is never begun": (engine, "_command", _never(ROLLING_BACK)),
    "a change that was given up is not withdrawn": (engine, "_command", _never(WITHDRAWING)),
    "the first figures decide, whatever they are": (engine, "_checked", _kept_too_soon),
    "silence is proof that nothing was done": (engine, "_followed", _given_up_for_absent),
    "what fails is kept": (engine, "_failing", engine._in_force),
    "a rollback by hand goes unnoticed": (
        engine, "_BECOMES", _without(*((phase, back) for phase in (CHECKING, KEPT, BROKEN, UNCHECKED)
                                       for back in ("rolling_back", "rolled_back")))),
}


@pytest.mark.parametrize("what", WRONG)
def test_the_worlds_see_what_is_wrong(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*WRONG[what])
    if what == "what fails is kept":
        monkeypatch.setattr(engine, "_BECOMES", {
            pair: engine._in_force if pair[1] == "failing" else become for pair, become in engine._BECOMES.items()})
    assert any(_is_wrong(seed) for seed in range(250))


def _is_wrong(seed: int) -> bool:
    try:
        return bool(faults(played(seed)))
    except AssertionError:  # something never comes to its end
        return True
