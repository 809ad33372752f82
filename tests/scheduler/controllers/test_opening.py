"""Open batches as a controller: to which dataflow a query belongs, what is promised, and many dataflows at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.controllers.batch_opening import (
    LIMITED,
    BatchOpening,
    LimitThen,
    ModeChange,
    Modes,
    QueryFigures,
    UserOfQueries,
)
from scheduler.controllers.changes import Aspect, AspectChange, BatchMode, Carriage
from scheduler.controllers.control_loop import step
from scheduler.controllers.controller_port import CommandProgress, Effect, MeasureSample, Observations
from scheduler.controllers.defragmentation import CORES
from scheduler.controllers.dry_run import Frame, dry_run
from scheduler.controllers.loop_values import ACTS, ASKED, CHECKING, ENACTING, OFF, RECOMMENDS, LoopState, Policy, Round
from scheduler.controllers.vetoes import veto

CONTROLLER = BatchOpening()
LIMIT = LimitThen("mean latency of 50 ms", 0.05, 0.3, 0.02, True, frozenset({"f1"}), 0.4, {"ends": "t9"})
LOOSE = replace(LIMIT, words="mean latency of 10 s", limit_s=10.0, now_s=5.0, then_s=0.02, is_missed=False)
FIGURES = QueryFigures(0.4, 0.1, ("t1",), ("t0",), 0.5, 80.0)


def user(name: str, *limits: LimitThen, team: str = "city") -> UserOfQueries:
    return UserOfQueries(name, team, limits)


def modes(*users: UserOfQueries, opens: bool = True, query: str = "f1") -> Modes:
    change = ModeChange(query, opens, tuple(user.dataflow for user in users), 20)
    return Modes((change,), {user.dataflow: user for user in users}, {query: FIGURES})


def decided(evidence: Modes, **policies: str):
    return CONTROLLER.evaluate(evidence, {team: Policy(mode) for team, mode in policies.items()}).decisions


def test_a_missed_limit_opens_and_is_promised_or_half_of_what_is_to_be_won() -> None:
    [decision] = decided(modes(user("d1", LIMIT)))
    assert decision.changes == (AspectChange(Aspect.BATCHES, "f1", BatchMode.MICRO, BatchMode.OPEN),)
    assert CONTROLLER.rollback(decision) == (AspectChange(Aspect.BATCHES, "f1", BatchMode.OPEN, BatchMode.MICRO),)
    [bound] = decision.promise.bounds
    assert (bound.measure, bound.before) == (LIMITED, 400.0)
    assert bound.at_most == pytest.approx(210.0), "half of the way from 400 ms to 20 ms is above the limit"
    assert decision.promise.load is None, "a limit holds at any load"
    assert decision.moves_queries and decision.alongside and decision.arguments["trigger_ms"] == "f1=20"
    assert "0.1 cores instead of 0.4" in decision.why and "the least with the modes in force is 300 ms" in decision.why
    [near] = decided(modes(user("d1", replace(LIMIT, measured_s=0.06))))
    assert near.promise.bounds[0].at_most == pytest.approx(50.0)


def test_what_is_cheaper_promises_cpu_at_its_load_and_that_no_limit_is_missed() -> None:
    [decision] = decided(modes(user("d1", LOOSE)))
    cores, latency = decision.promise.bounds
    assert (cores.measure, cores.at_most) == (CORES, pytest.approx(0.5 * 1.1 - 0.15))
    assert (latency.measure, latency.at_most) == (LIMITED, 11_000.0)
    assert decision.promise.load == 80.0
    [closing] = decided(modes(user("d1", LOOSE), opens=False))
    assert closing.changes == (AspectChange(Aspect.BATCHES, "f1", BatchMode.OPEN, BatchMode.MICRO),)
    dearer = modes(user("d1", LOOSE))
    [for_safety] = decided(replace(dearer, figures={"f1": replace(FIGURES, cores_then=0.6)}))
    assert [bound.measure for bound in for_safety.promise.bounds] == [LIMITED]


def test_a_query_belongs_to_the_strictest_limit_that_is_missed_and_others_are_touched() -> None:
    strict, lax = user("d1", replace(LIMIT, limit_s=0.03)), user("d2", LIMIT, team="mobility")
    rich = user("d3", replace(LOOSE, limit_s=0.01), team="third")
    [decision] = decided(modes(lax, strict, rich))
    assert (decision.target, decision.team, decision.touched) == ("d1", "city", ("mobility", "third"))
    [other] = decided(modes(lax, strict, rich), city=OFF)
    assert (other.target, other.touched) == ("d2", ("city", "third")), "who is off is asked by others, not for itself"
    [acting] = decided(modes(lax, strict, rich), city=RECOMMENDS, mobility=ACTS)
    assert acting.target == "d2"
    assert decided(modes(strict), city=OFF) == ()
    [cheaper] = decided(modes(user("d8", LOOSE), user("d9", replace(LOOSE, limit_s=1.0), team="mobility")))
    assert cheaper.target == "d9", "who needs batches most often saves most"


def test_limits_that_are_missed_by_most_come_first() -> None:
    late, later = user("d1", LIMIT), user("d2", replace(LIMIT, now_s=3.0, queries=frozenset({"f2"})))
    both = Modes(
        (ModeChange("f1", True, ("d1",), 20), ModeChange("f2", True, ("d2",), 20), ModeChange("f3", True, ("d3",), 20)),
        {"d1": late, "d2": later, "d3": user("d3")}, {name: FIGURES for name in ("f1", "f2", "f3")})
    worths = {decision.target: decision.worth for decision in decided(both)}
    assert worths["d2"] > worths["d1"] > worths["d3"]


def test_a_team_with_twenty_dataflows_waits_for_minutes_and_not_for_an_hour() -> None:
    """All submitted at once: each restarts alone, and is checked while others begin."""
    names = [f"d{number}" for number in range(20)]
    left, state, now_s, carried = set(names), LoopState(), 1e9, set()
    users = {name: user(name, replace(LIMIT, queries=frozenset({f"f-{name}"}))) for name in names}
    while left and now_s < 1e9 + 600:
        now_s += 10
        evidence = Modes(
            tuple(ModeChange(f"f-{name}", True, (name,), 20) for name in sorted(left)), users,
            {f"f-{name}": FIGURES for name in left})
        result = step(
            CONTROLLER, state, Observations(evidence, now_s, {key: CommandProgress("in_force") for key in carried}), {},
            now_s=now_s)
        state = result.state
        moving = [turn for turn in state.rounds if turn.is_open and turn.key not in carried]
        assert len(moving) <= 1, "one restart at a time"
        carried |= {command.round.key for command in result.commands}
        left -= {turn.decision.target for turn in state.rounds}
    assert not left and now_s <= 1e9 + 250


@pytest.mark.parametrize(("phase", "change", "begins"), [
    (ASKED, AspectChange(Aspect.STREAM, "a>b", Carriage.CHANNEL, Carriage.WITHIN), True),
    (CHECKING, AspectChange(Aspect.STREAM, "a>b", Carriage.CHANNEL, Carriage.WITHIN), False),
    (ENACTING, AspectChange(Aspect.STREAM, "a>b", Carriage.CHANNEL, Carriage.WITHIN), False),
    (ASKED, AspectChange(Aspect.BATCHES, "f1", BatchMode.MICRO, BatchMode.OPEN), False)])
def test_what_another_controller_asks_people_holds_nothing_up(
    phase: str, change: AspectChange, *, begins: bool
) -> None:
    [decision] = decided(modes(user("d1", LIMIT)))
    other = Round("chaining-1", "chaining", RECOMMENDS, replace(
        decision, changes=(change,), alongside=False), begun_s=1e9, phase=phase)
    words = veto(CONTROLLER, LoopState((other,)), decision, {}, now_s=1e9 + 60)
    assert (words == "") is begins, words


def test_a_minute_of_points_keeps_a_promise_and_one_that_did_not_come_is_taken_back() -> None:
    [decision] = decided(modes(user("d1", LIMIT)))

    def effect(latency_ms: float, count: int) -> Effect:
        return Effect(0.0, tuple(MeasureSample(10.0 * at, {LIMITED: latency_ms}) for at in range(count)))

    assert CONTROLLER.check(decision.promise, effect(30.0, 5))[0] == "too early"
    assert CONTROLLER.check(decision.promise, effect(30.0, 6))[0] == "kept"
    assert CONTROLLER.check(decision.promise, effect(390.0, 6))[0] == "broken"


def test_in_a_dry_run_what_was_not_opened_is_not_closed() -> None:
    opening, closing = modes(user("d1", LIMIT)), modes(user("d1", LOOSE), opens=False)
    frames = [Frame(1e9, opening), Frame(1e9 + 300, opening), Frame(1e9 + 600, closing)]
    acts = dry_run(CONTROLLER, frames, {"city": Policy(ACTS, 9, 9, 60.0)})
    assert [turn.decision.changes[0].after for turn in acts.rounds] == [BatchMode.OPEN, BatchMode.MICRO]
    never = dry_run(CONTROLLER, frames, {"city": Policy(ACTS, 0, 0, 60.0)})
    assert never.rounds == ()
    assert all("budget" in reason.why for _, reason in never.reasons)
