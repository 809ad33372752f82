"""Policies as values: read back as they were stored, going where the task goes; and the figures of a dataflow."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from scheduler.guards.element_policies import ElementPolicy, policy_in, policy_of, stated_policy
from scheduler.guards.figure_streams import DATAFLOW_FIGURES, DataflowSubject
from scheduler.guards.guard_reading import named_in
from scheduler.guards.policy_sources import PEOPLE, RULES
from scheduler.history.series import DATAFLOW, SLOT, Series
from scheduler.model.alternates import TaskAlternate, first_on
from scheduler.model.fragment import Fragment
from scheduler.model.settings_of_fragments import (
    USUAL,
    FragmentSettings,
    changed_settings,
    settings_of_new,
)

WAYS = (TaskAlternate("a", "sql", value=1.0, guard="rate > 1"), TaskAlternate("b", "sql", value="rate / 2"))
NAMES, TEXTS = st.sampled_from(["a", "b", "c"]), st.text(max_size=8)
POLICIES = st.builds(
    ElementPolicy, st.dictionaries(NAMES, TEXTS), st.dictionaries(NAMES, st.floats(0, 9) | TEXTS),
    st.sampled_from(["value", "activation"]), st.sampled_from([RULES, PEOPLE]),
    st.dictionaries(TEXTS, st.fixed_dictionaries({"of": st.just("task"), "dataflow": TEXTS, "task": TEXTS})), TEXTS)
SETTINGS = st.dictionaries(NAMES, st.integers(0, 3).map(lambda number: {"kind": f"{number}"}))


@given(POLICIES)
def test_a_policy_is_read_back_as_it_was_stored(policy: ElementPolicy) -> None:
    assert policy_in(json.loads(json.dumps(policy.document()))) == policy


def test_reviewers_read_values_in_three_digits() -> None:
    assert ElementPolicy({"a": "rate > 1"}, {"a": 4 / 7, "b": "rate / 3"}).words == (
        "a while rate > 1, worth 0.571; b always, worth rate / 3")


def test_what_the_document_says_is_in_force_until_another_policy_is_set() -> None:
    stated = policy_of("t", WAYS, USUAL, "activation")
    assert stated == stated_policy(WAYS, "activation") and stated.guards == {"a": "rate > 1"} and stated.decides
    by_hand = ElementPolicy(source=RULES)
    assert not by_hand.decides and ElementPolicy(values={"a": "rate"}).decides
    assert policy_of("t", WAYS, FragmentSettings(policies={"t": by_hand.document()})) == by_hand
    assert first_on(WAYS).name == "a" and first_on([WAYS[1]]).name == "b"


@given(SETTINGS, SETTINGS, SETTINGS)
def test_a_plan_changes_the_policies_that_it_names_and_no_others(was: dict, planned: dict, now: dict) -> None:
    before, after, at_present = (FragmentSettings(50, policies=policies) for policies in (was, planned, now))
    changed = changed_settings({"f": before}, {"f": after}, {"f": at_present})["f"].policies
    for task in "abc":
        expected = planned.get(task) if was.get(task) != planned.get(task) else now.get(task)
        assert changed.get(task) == expected


def test_policies_go_with_their_tasks_into_another_query() -> None:
    def fragment(name: str, *tasks: str, inherits: tuple[str, ...] = ()) -> Fragment:
        return Fragment(name, tasks, "n1/0", len(tasks), inherits=inherits)

    settings = {"f1": FragmentSettings(policies={"x": {"kind": "value"}, "gone": {}})}
    moved = settings_of_new(
        {"f1": fragment("f1", "x", "gone")}, {"f2": fragment("f2", "x", inherits=("f1",))}, settings, {})
    assert moved["f2"].policies == {"x": {"kind": "value"}}


def test_a_slot_that_nobody_hears_of_is_lost_and_cores_have_a_price() -> None:
    subject = DataflowSubject("d", ("n1/0", "n1/1"), core_hour=0.5)
    figures = subject.figures({Series(SLOT, "n1/0", "cpu"): 1.0, Series(DATAFLOW, "d", "cpu"): 3.0})
    assert (figures["slots_lost"], figures["price_per_h"], figures["limits_missed"]) == (1, 1.5, None)
    assert subject.figures({})["slots_lost"] is None and figures.keys() == DATAFLOW_FIGURES.keys()


def test_names_in_a_text_that_cannot_be_read_are_none() -> None:
    assert named_in("city.air.parse.rate > 1 AND count(events.alarm, '5 min') > 0 AND rate > 2") == {
        "city.air.parse.rate", "events.alarm", "rate"}
    assert named_in("rate >") == named_in("((") == frozenset()
