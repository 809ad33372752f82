"""Causes outrank symptoms, and silence is learned: by random readings, against what is said of both."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from scheduler.alerting.alert_values import AlertReading, Element
from scheduler.alerting.causes import NAMED, one_for_each_cause, without_symptoms
from scheduler.alerting.rule_kinds import RULE_KINDS
from scheduler.alerting.silence import LEAST_KNOWN, silence

KINDS = [kind for kind in RULE_KINDS.values() if kind.scope == "team"]
RULES = {f"team:city/{kind.name}": kind.rule("team:city") for kind in KINDS}
FLOWS = ("a", "b")


def test_who_is_a_symptom_of_whom_has_no_circle_and_names_kinds_that_there_are() -> None:
    def causes(kind: str) -> set[str]:
        direct = RULE_KINDS[kind].symptom_of
        return {*direct, *(further for cause in direct for further in causes(cause))}

    for kind in KINDS:
        assert causes(kind.name) == set(kind.symptom_of), "what explains a cause explains its symptoms"
        assert kind.name not in causes(kind.name)
        assert all(RULE_KINDS[cause].scope == "team" for cause in kind.symptom_of)


@given(st.dictionaries(
    st.tuples(st.sampled_from(sorted(RULES)), st.sampled_from(FLOWS)), st.sampled_from((True, False, None))))
def test_of_what_is_wrong_with_a_dataflow_just_what_nothing_explains_is_told(wrong) -> None:
    readings: dict = {rule_id: {} for rule_id, _ in wrong}
    for (rule_id, flow), is_wrong in wrong.items():
        rule = RULES[rule_id]
        value = None if is_wrong is None else rule.threshold if is_wrong else rule.clear_threshold / 2 - 1
        readings[rule_id][Element("dataflow", flow)] = AlertReading(value=value, cause="c", dataflow=flow)
    after = without_symptoms(RULES, readings)
    assert {rule_id: set(of_rule) for rule_id, of_rule in after.items()} == {
        rule_id: set(of_rule) for rule_id, of_rule in readings.items()}
    for flow in FLOWS:
        wrong_kinds = {RULES[rule_id].kind for (rule_id, of), is_wrong in wrong.items() if of == flow and is_wrong}
        alarms = {RULES[rule_id].kind for rule_id, of_rule in after.items() for element, reading in of_rule.items()
                if element.id == flow and reading.value is not None and RULES[rule_id].is_wrong(reading.value)}
        assert alarms == {kind for kind in wrong_kinds if wrong_kinds.isdisjoint(RULE_KINDS[kind].symptom_of)}
        assert bool(alarms) == bool(wrong_kinds), "where something is wrong, something is told"


@given(st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.sampled_from(("slot:n1/0", "node:n2", "query:f"))))
def test_what_has_one_cause_is_one_alert_that_counts_all_and_names_the_first(causes) -> None:
    readings = {
        Element("dataflow", name): AlertReading(value=1.0, cause=cause, text="It is away.", dataflow=name, name=name)
        for name, cause in causes.items()}
    alerts = one_for_each_cause(readings)
    assert {f"{element.kind}:{element.id}" for element in alerts} == set(causes.values())
    assert sorted(name for reading in alerts.values() for name in reading.concerned) == sorted(causes)
    for reading in alerts.values():
        names = sorted(name for name, cause in causes.items() if cause == reading.cause)
        assert reading.dataflow == names[0] and reading.text.endswith(": It is away.")
        assert all(name in reading.text for name in names[:NAMED])
        assert (f"{len(names)} dataflows" in reading.text) is (len(names) > 1)
        assert (f"and {len(names) - NAMED} more" in reading.text) is (len(names) > NAMED)


RATES = st.lists(st.sampled_from((0.0, 0.0, 0.0, 1.0, 5.5, math.nan)), max_size=200)


@given(RATES)
def test_silence_counts_from_the_last_event_beyond_the_longest_before(rates) -> None:
    late = silence(rates, 60)
    measured = [rate for rate in rates if not math.isnan(rate)]
    if len(measured) < LEAST_KNOWN or not any(measured) or math.isnan(rates[-1]):
        assert late is None
        return
    text = "".join("0" if rate == 0 else "|" for rate in rates)
    *before, now = text.split("|")
    assert late == 60 * max(0, len(now) - max(map(len, before)))


def test_a_source_that_is_quiet_as_ever_is_not_silent() -> None:
    hourly = ([1.0] + [0.0] * 59) * 3
    assert silence(hourly, 60) == 0 and silence(hourly + [0.0] * 30, 60) == 30 * 60
