"""Causes outrank symptoms: what one alert explains is not told by another of the same dataflow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from .alert_values import AlertReading, AlertRule, Element
from .rule_kinds import RULE_KINDS


def without_symptoms(
    rules: Mapping[str, AlertRule], readings: Mapping[str, Mapping[Element, AlertReading]]
) -> dict[str, dict[Element, AlertReading]]:
    """What was read for the rules of one team, where a value is not known that something else explains.

    A reading is explained while a rule that it is a symptom of (``RuleKind.symptom_of``) finds something wrong with the
    same dataflow. So no alert begins for it, and one that fires already stays until it is known again.
    """
    wrong: dict[str, set[str]] = defaultdict(set)  # dataflows, by kind of rule
    for rule_id, of_rule in readings.items():
        wrong[rules[rule_id].kind] |= {
            reading.dataflow for reading in of_rule.values()
            if reading.dataflow and reading.value is not None and rules[rule_id].is_wrong(reading.value)}

    def known(rule: AlertRule, reading: AlertReading) -> AlertReading:
        causes = RULE_KINDS[rule.kind].symptom_of
        return replace(reading, value=None) if any(reading.dataflow in wrong[kind] for kind in causes) else reading

    return {
        rule_id: {element: known(rules[rule_id], reading) for element, reading in of_rule.items()}
        for rule_id, of_rule in readings.items()}
