"""Alerts over played time: nothing flaps, nothing is told twice, and a round done again changes nothing."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.alerting.alert_states import GONE, OFF, EvaluationInput, evaluate
from scheduler.alerting.alert_values import (
    FIRING,
    RESOLVED,
    SEVERITIES,
    AlertReading,
    AlertRule,
    AlertState,
    Element,
    alert_key,
)
from scheduler.alerting.grouping import FIRED, MORE, OVER, WAIT_S, WINDOW_S, Group, Member, Mute, look_at
from scheduler.alerting.retrying import LONGEST_S, MOST_ATTEMPTS, next_attempt_s
from scheduler.alerting.rule_kinds import RULE_KINDS

FLOW = Element("dataflow", "d1")
WATCHED = ("team:city/latency", FLOW)
STEP_S = 10


def rule(*, for_s: int = 30, clear_for_s: int = 20, above: bool = True) -> AlertRule:
    low, high = 80.0, 100.0
    return AlertRule(
        id=WATCHED[0], kind="latency", threshold=high if above else low, clear_threshold=low if above else high,
        for_s=for_s, clear_for_s=clear_for_s, severity="warning", above=above)


class Played:
    """Rounds one after the other, and what came of them."""

    def __init__(self, of: AlertRule) -> None:
        self.rule, self.now_s = of, 1_000
        self.states: dict = {}
        self.log: list[tuple[int, str, str]] = []

    def step(self, value: float | None, *, gone: bool = False, unread: bool = False, off: bool = False) -> list:
        readings = {} if unread else {self.rule.id: {} if gone else {FLOW: AlertReading(value=value, cause="c")}}
        evidence = EvaluationInput({} if off else {self.rule.id: self.rule}, readings, self.now_s, dict(self.states))
        changes = list(evaluate(evidence))
        assert changes == list(evaluate(evidence))
        for change in changes:
            key = alert_key(change.watched, (change.after or change.before).since_s)
            if change.fires:
                self.log.append((self.now_s, "fired", key))
            if change.resolves:
                self.log.append((self.now_s, "resolved", key))
            self.states.pop(change.watched, None)
            if change.after is not None and change.after.phase != RESOLVED:
                self.states[change.watched] = change.after
        self.now_s += STEP_S
        return changes

    @property
    def words(self) -> list[str]:
        return [what for _, what, _ in self.log]


VALUES = st.one_of(st.none(), st.sampled_from([50.0, 79.9, 80.0, 90.0, 99.9, 100.0, 500.0]))
ROUNDS = st.lists(st.tuples(VALUES, st.sampled_from(["read", "read", "read", "gone", "unread", "off"])), max_size=60)


@given(ROUNDS, st.integers(0, 60), st.integers(0, 60), st.booleans())
@settings(max_examples=150)
def test_what_fires_was_wrong_for_long_enough_and_is_resolved_once(
    rounds: list, for_s: int, clear_for_s: int, above: bool
) -> None:
    played = Played(rule(for_s=for_s, clear_for_s=clear_for_s, above=above))
    seen: list[tuple[int, bool, bool, str]] = []  # when, wrong, well or gone, how
    for value, how in rounds:
        is_known = how == "read" and value is not None
        seen.append((
            played.now_s, is_known and played.rule.is_wrong(value),
            how == "gone" or (is_known and played.rule.is_well(value)), how))
        played.step(value, **({how: True} if how != "read" else {}))
    counted = Counter((what, key) for _, what, key in played.log)
    assert max(counted.values(), default=1) == 1
    assert played.words == ["fired", "resolved"] * (len(played.words) // 2) + ["fired"] * (len(played.words) % 2)
    for at_s, what, key in played.log:
        since_s = int(key.rpartition("|")[2])
        if what == "fired":
            within = [row for row in seen if since_s <= row[0] <= at_s and row[3] != "unread"]
            assert at_s - since_s >= for_s and all(row[1] for row in within)
        elif next(row for row in seen if row[0] == at_s)[3] != "off":
            within = [row for row in seen if at_s - clear_for_s <= row[0] <= at_s and row[3] != "unread"]
            assert all(row[2] for row in within)


@given(st.lists(st.sampled_from([80.0, 85.0, 90.0, 99.9, 100.0, 130.0]), min_size=1, max_size=80))
def test_within_the_band_nothing_flaps(values: list[float]) -> None:
    played = Played(rule(for_s=0))
    played.step(150.0)
    for value in values:
        played.step(value)
    assert played.words == ["fired"]


def test_a_break_begins_the_time_anew_and_a_gap_in_reading_does_not() -> None:
    played = Played(rule(for_s=30))
    for value in (120.0, 120.0, 90.0, 120.0, 120.0, 120.0):
        played.step(value)
    assert played.words == []
    played.step(None, unread=True)
    played.step(120.0)
    assert played.words == ["fired"]


def test_what_is_gone_or_turned_off_is_over() -> None:
    played = Played(rule(for_s=0, clear_for_s=20))
    played.step(120.0)
    assert [change.why for _ in range(3) for change in played.step(None, gone=True)][-1] == GONE
    played.step(120.0)
    assert [change.why for change in played.step(120.0, off=True)] == [OFF]
    assert played.words == ["fired", "resolved"] * 2


@given(st.lists(st.tuples(VALUES, st.integers(0, 3)), max_size=40))
def test_an_evaluator_that_is_killed_before_it_stores_loses_and_doubles_nothing(rounds: list) -> None:
    """What one that is never killed tells, one that begins each round again does, too."""
    smooth, broken = Played(rule()), Played(rule())
    for value, kills in rounds:
        smooth.step(value)
        for _ in range(kills):  # evaluated, and nothing of it stored
            evaluate(
                EvaluationInput(
                    {broken.rule.id: broken.rule}, {broken.rule.id: {FLOW: AlertReading(value=value, cause="c")}},
                           broken.now_s, dict(broken.states)))
        broken.step(value)
    assert (smooth.log, smooth.states) == (broken.log, broken.states)


def test_every_kind_has_a_rule_that_can_fire_and_clear() -> None:
    for kind in RULE_KINDS.values():
        made = kind.rule("team:city")
        wrong, well = (made.threshold, made.clear_threshold / 2 - 1) if made.above else (
            made.threshold, made.clear_threshold * 2 + 1)
        assert made.is_wrong(wrong) and not made.is_well(wrong) and made.is_well(well), kind.name
        assert kind.severity in SEVERITIES and kind.title and kind.about
        assert kind.unit or (made.threshold, made.clear_threshold) == (1.0, 1.0)


# Notices --------------------------------------------------------------------------------------------------------------
MOVES = st.lists(st.tuples(
    st.sampled_from(["fire", "resolve", "resolve_all", "quiet", "loud", "nothing"]), st.integers(0, 4)), max_size=50)


@given(MOVES)
def test_each_alert_of_a_group_is_told_once_and_an_end_is_told_after_a_beginning(moves: list) -> None:
    group, members, now_s = Group(0), {}, 0
    notices: list[tuple[int, str, tuple[str, ...]]] = []
    for move, number in moves:
        key = f"a{number}"
        if move == "fire":
            members.setdefault(key, Member(key))
        elif move == "resolve_all":
            members = {k: Member(k, True, m.is_told, m.quiet) for k, m in members.items()}
        elif key in members and move != "nothing":
            member = members[key]
            members[key] = Member(
                key, member.resolved or move == "resolve", member.is_told,
                {"quiet": True, "loud": False}.get(move, member.quiet))
        outcome = look_at(group, members.values(), now_s)
        if outcome.notice:
            notices.append((now_s, outcome.notice.what, tuple(outcome.notice.members)))
            if outcome.notice.what != OVER:
                assert all(not members[k].quiet for k in outcome.notice.members)
                for k in outcome.notice.members:
                    members[k] = Member(k, members[k].resolved, True, members[k].quiet)
            group = Group(group.opened_s, now_s)
        if outcome.closes and members:
            break
        now_s += 30
    begun = [key for _, what, keys in notices if what != OVER for key in keys]
    assert len(begun) == len(set(begun))
    assert [what for _, what, _ in notices] == sorted(
        (what for _, what, _ in notices), key=[FIRED, MORE, OVER].index)


def test_many_alerts_of_one_cause_are_one_notice_and_later_ones_wait() -> None:
    members = [Member(f"a{number}") for number in range(40)]
    assert look_at(Group(100), members, 100 + WAIT_S - 1).notice is None
    first = look_at(Group(100), members, 100 + WAIT_S).notice
    assert (first.what, len(first.members)) == (FIRED, 40)
    later = [*(Member(member.key, is_told=True) for member in members), Member("late")]
    assert look_at(Group(100, 115), later, 115 + WINDOW_S - 1).notice is None
    assert look_at(Group(100, 115), later, 115 + WINDOW_S).notice.members == ["late"]


def test_what_is_muted_is_not_told_until_that_is_over() -> None:
    mute = Mute(500, element=FLOW)
    assert mute.covers("x", FLOW, 499) and not mute.covers("x", FLOW, 500)
    assert not mute.covers("x", Element("dataflow", "d2"), 1)
    assert Mute(500, rule_id="x").covers("x", FLOW, 1) and not Mute(500, rule_id="x").covers("y", FLOW, 1)
    assert not Mute(500).covers("x", FLOW, 1)
    assert look_at(Group(0), [Member("a", quiet=True)], 1_000).notice is None
    assert look_at(Group(0), [Member("a", quiet=True, resolved=True)], 1_000) == look_at(Group(0), [], 0)


def test_attempts_are_further_and_further_apart_and_end() -> None:
    times = [0.0]
    for attempt in range(1, MOST_ATTEMPTS):
        times.append(next_attempt_s(attempt, times[-1]))
    waits = [after - before for before, after in pairwise(times)]
    assert waits == sorted(waits) and max(waits) <= LONGEST_S and next_attempt_s(MOST_ATTEMPTS, 0.0) is None


def test_states_are_values() -> None:
    assert AlertState(5) == AlertState(5) and AlertState(5).phase != FIRING
