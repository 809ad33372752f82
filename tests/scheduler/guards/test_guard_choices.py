"""Which alternate is on, what is told before anything runs, and dry runs."""

from __future__ import annotations

from itertools import combinations, product
from random import Random
from typing import Any

import pytest

from scheduler.guards.alternate_choice import decide
from scheduler.guards.guard_checks import MOST_CASES, check_element
from scheduler.guards.guard_compiling import closure_of
from scheduler.guards.guard_dry_run import dry_run
from scheduler.guards.guard_reading import read_element
from scheduler.guards.guard_values import GuardCatalog, GuardedAlternate, GuardedElement, GuardEvent

CATALOG = GuardCatalog({"": {"rate": "number", "cpu": "number", "mode": "text", "busy": "truth"}, "posted": {}})


def of(*guards: str, kind: str = "activation", values: tuple[Any, ...] = (1.0, 1.0, 1.0)) -> GuardedElement:
    return GuardedElement("e", tuple(
        GuardedAlternate(name, guard, value) for name, guard, value in zip("abc", guards, values, strict=False)), kind)


@pytest.mark.parametrize(("guards", "on", "current", "alternate", "trouble"), [
    (("1", "1"), (True, False), None, "a", ""),
    (("1", "1"), (False, True), "a", "b", ""),
    (("1", "1"), (None, True), "a", "b", ""),
    (("1", "1", "1"), (True, False, True), "c", "c", "both_on"),
    (("1", "1", "1"), (True, False, True), "b", "a", "both_on"),
    (("1", "1", "1"), (True, False, True), None, "a", "both_on"),
    (("1", "1"), (False, None), "b", "b", "none_on"),
    (("1", "1"), (False, None), None, "a", "none_on"),
    (("1", "1"), (False, False), "gone", "a", "none_on"),
    (("1", ""), (False, None), "a", "b", ""),
    (("1", ""), (True, None), "b", "a", ""),
])
def test_of_activation_guards_one_is_on(guards, on, current, alternate, trouble) -> None:
    choice = decide(of(*guards), dict(zip("abc", on, strict=False)), current)
    assert (choice.alternate, choice.trouble) == (alternate, trouble) and alternate in choice.why


@pytest.mark.parametrize(("on", "values", "current", "alternate", "trouble"), [
    ((True, True), (0.5, 1.0), None, "b", ""),
    ((True, False), (0.5, 1.0), "b", "a", ""),
    ((True, True), (1.0, 1.0), "b", "b", ""),
    ((True, True), (1.0, 1.0), None, "a", ""),
    ((True, True), (None, 0.1), "a", "b", ""),
    ((True, True), (float("nan"), 0.1), "a", "b", ""),
    ((True, True), (None, None), "b", "b", ""),
    ((None, False), (0.5, 1.0), "b", "b", "none_on"),
])
def test_of_value_based_guards_the_best_that_is_allowed_is_on(on, values, current, alternate, trouble) -> None:
    choice = decide(of("1", "1", kind="value"), dict(zip("ab", on, strict=True)), current,
                    dict(zip("ab", values, strict=True)))
    assert (choice.alternate, choice.trouble) == (alternate, trouble)


def findings(*guards: str, kind: str = "activation") -> list[tuple[str, tuple[str, ...], bool]]:
    return [(finding.what, finding.alternates, finding.is_certain)
            for finding in check_element(of(*guards, kind=kind), CATALOG)]


@pytest.mark.parametrize(("guards", "expected"), [
    (("rate > 100", "rate <= 100"), []),
    (("rate > 100", "NOT rate > 100"), []),
    (("rate > 100", ""), []),
    (("rate > 100", "rate < 100"), [("none_on", ("a", "b"), True)]),
    (("rate >= 100", "rate <= 100"), [("both_on", ("a", "b"), True)]),
    (("rate > 100 AND rate < 50", ""), [("never_on", ("a",), True)]),
    (("rate > 100 OR rate <= 100 OR rate IS NULL", ""), [("never_on", ("b",), True)]),
    (("rate > cpu", "cpu >= rate"), []),
    (("rate > cpu", "rate >= cpu"), [("both_on", ("a", "b"), True), ("none_on", ("a", "b"), True)]),
    (("rate > cpu", "rate >= cpu", "rate < 3"), [
        ("both_on", ("a", "b"), False), ("both_on", ("a", "c"), False), ("both_on", ("b", "c"), False),
        ("none_on", ("a", "b", "c"), False)]),
    (("mode = 'x'", "mode <> 'x'"), []),
    (("mode = 'x'", "mode = 'y'"), [("none_on", ("a", "b"), True)]),
    (("mode IN ('x', 'y')", "mode NOT IN ('y', 'x')"), []),
    (("busy", "NOT busy"), []),
    (("busy AND rate > 1", "NOT busy"), [("none_on", ("a", "b"), True)]),
    (("count(posted, '1 min') > 0", "count(posted, '1 min') = 0"), []),
    (("count(posted, '1 min') < 0", ""), [("never_on", ("a",), True)]),
    (("hours('08:00', '18:00', 'UTC')", "NOT hours('08:00', '18:00', 'UTC')"), []),
    (("for_at_least(rate > 100, '1 min')", "rate <= 100"), [("none_on", ("a", "b"), True)]),
    (("for_at_least(rate > 100, '1 min')", "for_at_least(rate < 90, '1 min')", ""), []),
    (("for_at_least(rate > 100 AND rate < 90, '1 min')", ""), [("never_on", ("a",), True)]),
    (("latch(rate > 100, rate < 80)", "NOT latch(rate > 100, rate < 80)"), []),
    (("latch(rate > 100, rate < 80)", "rate < 80", ""), []),
    (("latch(rate > 80, rate < 100)", ""), [("latch_overlap", (), True)]),
    (("followed_by(cpu > 1, rate > 100, '1 min')", "rate <= 100", ""), []),
    (("mean(rate, '1 min') > 5", "max(rate, '1 min') < 5", ""), [("both_on", ("a", "b"), False)]),
    (("1 / 0 > 1", ""), [("never_on", ("a",), True)]),
])
def test_what_is_wrong_is_told_before_anything_runs(guards, expected) -> None:
    assert findings(*guards) == expected


def test_a_finding_names_a_case_and_a_remedy() -> None:
    [finding] = check_element(of("rate > 100", "rate < 80"), CATALOG)
    assert finding.when in ("rate = 80", "rate between 80 and 100") and finding.when in finding.message
    assert "empty" in finding.remedy


def test_of_value_based_guards_several_may_be_true() -> None:
    assert findings("rate > 1", "rate > 2", kind="value") == [("none_on", ("a", "b"), True)]
    assert findings("rate > 1", "", kind="value") == []


def test_what_has_too_many_cases_is_said_to_be_undecided() -> None:
    guard = " AND ".join(f"rate % {number} > 1" for number in range(2, 14))
    [finding] = check_element(of(guard, ""), CATALOG)
    assert finding.what == "undecided" and MOST_CASES < 4 ** 12


def drawn(rng: Random, depth: int = 2) -> str:
    if depth and rng.random() < 0.7:
        parts = [drawn(rng, depth - 1) for _ in range(2)]
        return rng.choice(("({0} AND {1})", "({0} OR {1})", "NOT ({0})")).format(*parts)
    return rng.choice((
        f"rate {rng.choice(('<', '<=', '>', '>=', '=', '<>'))} {rng.randint(-2, 2)}",
        f"{rng.randint(-2, 2)} {rng.choice(('<', '>='))} cpu", f"mode {rng.choice(('=', '<>'))} '{rng.choice('xy')}'",
        "busy", "rate IS NULL", f"cpu BETWEEN {rng.randint(-2, 0)} AND 1"))


@pytest.mark.parametrize("seed", range(15))
def test_random_guards_of_single_comparisons_are_decided_as_all_values_decide_them(seed: int) -> None:
    numbers = [None, *(number / 2 for number in range(-6, 7))]
    for number in range(20):
        rng = Random(100 * seed + number)
        element = of(*(drawn(rng) for _ in range(rng.choice((2, 3)))))
        trees, _ = read_element(element, CATALOG)
        nodes = dict.fromkeys(node for tree in trees.values() for node in tree.walk() if node.word == "figure")
        slots = {node: slot for slot, node in enumerate(nodes)}
        of_kind = {"number": numbers, "text": [None, "x", "y", "z"], "truth": [None, True, False]}
        closures = {name: closure_of(tree, slots) for name, tree in trees.items()}
        ever, both, none = set(), set(), False
        for case in product(*(of_kind[node.kind] for node in nodes)):
            on = [name for name, closure in closures.items() if closure(case) is True]
            ever.update(on)
            both.update(combinations(on, 2))
            none |= not on and None not in case
        by_kind: dict[str, set[tuple[str, ...]]] = {"never_on": set(), "both_on": set(), "none_on": set()}
        for finding in check_element(element, CATALOG):
            assert finding.is_certain
            by_kind[finding.what].add(finding.alternates)
        assert by_kind["never_on"] == {(name,) for name in trees if name not in ever}, element
        assert by_kind["both_on"] == both and bool(by_kind["none_on"]) == none, element


# Dry runs -------------------------------------------------------------------------------------------------------------


def square_wave(seconds: int, period_s: int) -> list[GuardEvent]:
    return [GuardEvent(1_000 * second, "", {"rate": 120.0 if second // period_s % 2 else 60.0})
            for second in range(seconds)]


def test_a_dry_run_says_when_it_would_have_switched_and_why() -> None:
    run = dry_run(of("rate > 100", ""), CATALOG, square_wave(900, 60), begin_ms=0, end_ms=900_000)
    assert [change.at_ms for change in run.switches] == [60_000 * number for number in range(1, 15)]
    lines = run.text.splitlines()
    assert lines[0] == "It would have switched 14 times:"
    assert lines[1] == ("at 1970-01-01 00:01:00 UTC from b to a, because the guard of a is true (rate = 120)")
    assert "switches more than 12 times an hour" in run.advice and run.advice == lines[-1]
    assert run.on_ms == {"a": 420_000, "b": 480_000} and run.late == 0


def test_a_dry_run_of_a_calmer_guard_switches_less() -> None:
    calm = of("for_at_least(rate > 100, '61 s')", "")
    run = dry_run(calm, CATALOG, square_wave(900, 60), begin_ms=0, end_ms=900_000)
    assert run.switches == () and run.text == "It would have switched 0 times." and run.advice == ""


def test_what_was_before_a_dry_run_fills_windows_and_counts_for_nothing() -> None:
    element, events = of("mean(rate, '1 min') > 100", ""), square_wave(900, 300)
    run = dry_run(element, CATALOG, events, begin_ms=500_000, end_ms=800_000)
    assert [change.choice.alternate for change in run.switches] == ["b"] and run.switches[0].at_ms > 600_000
    assert sum(run.on_ms.values()) == 300_000 and run.on_ms["a"] == run.switches[0].at_ms - 500_000


def test_a_dry_run_without_events_has_its_first_alternate() -> None:
    run = dry_run(of("rate > 1", ""), CATALOG, [], begin_ms=0, end_ms=1_000)
    assert run.on_ms == {"a": 0, "b": 1_000} and run.switches == ()
