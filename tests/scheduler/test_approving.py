"""Rules of approval as values: which clause counts, what expires, when it is closed, and what a team begins with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.applying import apply_plan
from scheduler.approving import (
    DEFAULT,
    RULES,
    Approval,
    ApprovalDemand,
    Automatic,
    Case,
    Clause,
    EnactmentWindow,
    Freeze,
    InvalidRules,
    Rules,
    case_of,
    less_asked,
    rules_of,
    status_of,
)
from scheduler.defragmenting import plan_defragmentation
from scheduler.interruptions import interruptions_of
from scheduler.planning import plan_removal
from scheduler.reuse.defragment import DefragmentRule

from .catalogue import EMPTY, PRICES, TYPES, flow, submit

HOUR_MS = 3_600_000
cases = st.builds(
    Case, kind=st.sampled_from(["submit", "remove", "change"]), is_own=st.booleans(),
    money_per_hour=st.floats(-2, 2), touches_others=st.booleans(), pause_ms=st.sampled_from([0.0, 250.0, 3000.0]),
    reaches=st.sets(st.sampled_from(["network", "code", "secrets"])).map(frozenset))
clauses = st.builds(
    Clause, kinds=st.sampled_from([(), ("submit",), ("remove", "change")]),
    whose=st.sampled_from(["any", "own", "others"]),
    above_money_per_hour=st.none() | st.floats(-2, 2), approvals=st.integers(1, 3),
    role=st.sampled_from(["approver", "admin"]), expires_after_h=st.none() | st.integers(1, 48))
windows = st.builds(
    EnactmentWindow, days=st.lists(st.integers(0, 6), min_size=1, unique=True).map(tuple),
    begin_min=st.integers(0, 700),
    end_min=st.integers(701, 1440)) | st.builds(
    EnactmentWindow, days=st.lists(st.integers(0, 6), min_size=1, unique=True).map(tuple),
    begin_min=st.integers(701, 1439),
    end_min=st.integers(1, 700))
moments = st.integers(1_700_000_000_000, 1_900_000_000_000)
freezes = st.builds(lambda since, hours, reason: Freeze(since, since + hours * HOUR_MS, reason), moments,
                    st.integers(1, 10_000), st.sampled_from(["", "holidays"]))
rules = st.builds(
    Rules, clauses=st.lists(clauses, max_size=3).map(tuple), otherwise=clauses,
    automatic=st.none() | st.builds(
        Automatic, most_money_per_hour=st.floats(-1, 1), alone=st.booleans(),
        effects=st.sampled_from([(), ("network",), ("network", "secrets")])),
    windows=st.lists(windows, max_size=2).map(tuple), freezes=st.lists(freezes, max_size=2).map(tuple))


@given(case=cases, at_ms=moments)
def test_a_team_begins_with_one_approver_for_everything_at_any_time(case: Case, at_ms: int) -> None:
    assert DEFAULT.demand(case) == ApprovalDemand(1, "approver", None) and DEFAULT.closed(at_ms) is None
    assert status_of(DEFAULT.demand(case), [Approval(7, "approver", 0)], at_ms=at_ms).missing == 0


@given(rules=rules, case=cases)
def test_the_first_clause_that_fits_counts_and_the_limit_goes_before_all(rules: Rules, case: Case) -> None:
    demand, limit = rules.demand(case), rules.automatic
    below = limit is not None and case.money_per_hour <= limit.most_money_per_hour and case.pause_ms <= 250 and not (
        limit.alone and case.touches_others) and all(effect in limit.effects for effect in case.reaches)
    assert demand.automatic is below
    if not below:
        fitting = [clause for clause in rules.clauses if (
            case.kind in (clause.kinds or (case.kind,))
            and {"any": True, "own": case.is_own, "others": not case.is_own}[clause.whose]
            and not (clause.above_money_per_hour is not None
                     and case.money_per_hour <= clause.above_money_per_hour))]
        chosen = [*fitting, rules.otherwise][0]
        assert (demand.approvals, demand.role, demand.expires_after_h) == (
            chosen.approvals, chosen.role, chosen.expires_after_h)


@given(rules=rules)
def test_rules_are_stored_as_they_are(rules: Rules) -> None:
    assert RULES.loads(RULES.dumps(rules)) == rules == rules_of(RULES.document(rules))


@given(rules=rules, at_ms=moments)
def test_windows_and_freezes_by_the_calendar(rules: Rules, at_ms: int) -> None:
    at = datetime.fromtimestamp(at_ms / 1000, tz=UTC)

    def opens(window: EnactmentWindow) -> bool:
        """Whether one of its occurrences, on the calendar, holds the moment."""
        for back in (0, 1):
            midnight = datetime(at.year, at.month, at.day, tzinfo=UTC) - timedelta(days=back)
            begin, end = (midnight + timedelta(minutes=minute) for minute in (window.begin_min, window.end_min))
            end += timedelta(days=1) if window.end_min < window.begin_min else timedelta()
            if midnight.weekday() in window.days and begin <= at < end:
                return True
        return False

    frozen = any(freeze.since_ms <= at_ms < freeze.until_ms for freeze in rules.freezes)
    closed = rules.closed(at_ms)
    assert (closed is not None) is (frozen or (bool(rules.windows) and not any(map(opens, rules.windows))))
    if closed is not None:
        assert closed.until_ms > at_ms
        unfrozen = Rules(windows=rules.windows)
        if not frozen:
            assert unfrozen.closed(closed.until_ms) is None, "it is open when it was said to open"
            assert unfrozen.closed(closed.until_ms - 60_000) is not None or not unfrozen.windows


@given(demand=st.builds(ApprovalDemand, approvals=st.integers(0, 3), role=st.sampled_from(["approver", "admin"]),
                        expires_after_h=st.none() | st.integers(1, 5)),
       approvals=st.lists(st.builds(
           Approval, person=st.integers(1, 4), role=st.sampled_from(["approver", "admin"]),
           at_ms=st.integers(0, 6 * HOUR_MS))), at_ms=st.integers(6 * HOUR_MS, 12 * HOUR_MS))
def test_one_person_counts_once_with_the_role_that_is_demanded_until_it_expires(
    demand: ApprovalDemand, approvals: list[Approval], at_ms: int
) -> None:
    status = status_of(demand, approvals, at_ms=at_ms)
    for person in status.counted:
        newest = max(approval.at_ms for approval in approvals if approval.person == person)
        assert demand.expires_after_h is None or at_ms < newest + demand.expires_after_h * HOUR_MS
        assert demand.role == "approver" or any(
            approval.role == "admin" for approval in approvals if approval.person == person)
    assert len(set(status.counted)) == len(status.counted) and status.missing == max(
        0, demand.approvals - len(status.counted))


def test_a_fusion_pauses_what_runs_and_a_submission_does_not() -> None:
    estate = EMPTY
    for name, by in (("a", 1), ("b", 2)):
        estate = submit(estate, flow(name, {"in": "sensors", "by": ("scale", {"by": by}), "out": (
            "archive", {"name": name})}, "in > by > out"), name)
    removal = plan_removal(estate, "a", task_types=TYPES, prices=PRICES)
    assert interruptions_of(removal) == []
    fused = plan_defragmentation(
        apply_plan(estate, removal), "b", task_types=TYPES, prices=PRICES, rule=DefragmentRule(ratio=0.0))
    assert {interruption.between_nodes for interruption in interruptions_of(fused)} == {False}
    case = case_of(fused, team="water", pause_ms=3000)
    assert case.pause_ms == 3000 and case.is_own and case.money_per_hour < 0
    assert not Automatic().allows(case) and Automatic(most_pause_ms=5000).allows(case)


@pytest.mark.parametrize("document", [
    {"otherwise": {"approvals": 0}}, {"clauses": [{"kinds": ["dance"]}]}, {"windows": [{"days": [], "begin_min": 0,
    "end_min": 5}]}, {"freezes": [{"since_ms": 5, "until_ms": 5}]}, {"otherwise": {"role": "viewer"}}, [], None,
    # Numbers that JSON does not have, and the database therefore does not store.
    {"automatic": {"most_money_per_hour": float("inf")}}, {"otherwise": {"above_money_per_hour": float("nan")}},
    # Moments that are no dates: no page could show them, and no plan be held until then.
    {"freezes": [{"since_ms": 0, "until_ms": 10**15}]}, {"freezes": [{"since_ms": -62135683140000, "until_ms": 5}]}])
def test_what_are_no_rules_is_said(document: object) -> None:
    with pytest.raises(InvalidRules, match="no rules"):
        rules_of(document)


@given(before=rules, after=rules, case=cases)
def test_rules_ask_for_less_where_a_case_says_so_and_nowhere_else(before: Rules, after: Rules, case: Case) -> None:
    case_of_less = less_asked(before, after)
    if case_of_less is None:
        assert not after.demand(case).asks_less_than(before.demand(case))
    else:
        assert after.demand(case_of_less).asks_less_than(before.demand(case_of_less))
    assert less_asked(before, before) is None


@pytest.mark.parametrize(("before", "after", "less"), [
    (Rules(), Rules(otherwise=Clause(approvals=2)), False), (Rules(otherwise=Clause(approvals=2)), Rules(), True),
    (Rules(), Rules(automatic=Automatic(most_money_per_hour=-0.5)), True),
    (Rules(), Rules(otherwise=Clause(role="admin")), False), (Rules(otherwise=Clause(role="admin")), Rules(), True),
    (Rules(otherwise=Clause(expires_after_h=2)), Rules(otherwise=Clause(expires_after_h=3)), True),
    (Rules(otherwise=Clause(expires_after_h=2)), Rules(otherwise=Clause(expires_after_h=1)), False),
    (Rules(clauses=(Clause(kinds=("remove",), approvals=2), Clause(approvals=1))),
     Rules(clauses=(Clause(approvals=1), Clause(kinds=("remove",), approvals=2))), True),  # another order
    (Rules(clauses=(Clause(above_money_per_hour=1.0, approvals=3),)),
     Rules(clauses=(Clause(above_money_per_hour=1.5, approvals=3),)), True),
    (Rules(automatic=Automatic()), Rules(automatic=Automatic(effects=("network",))), True),
    (Rules(automatic=Automatic(effects=("network",))), Rules(automatic=Automatic()), False),
    (Rules(freezes=(Freeze(0, 1),)), Rules(), False)])
def test_what_counts_as_less(before: Rules, after: Rules, less: bool) -> None:
    assert (less_asked(before, after) is not None) is less
