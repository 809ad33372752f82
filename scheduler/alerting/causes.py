"""Causes outrank symptoms: an alert that another one of the same dataflow explains is left out, and one cause makes one
alert, however many dataflows it concerns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from .alert_values import AlertReading, AlertRule, Element
from .rule_kinds import RULE_KINDS

NAMED = 3  # dataflows of one alert; the others are counted


def without_symptoms(
    rules: Mapping[str, AlertRule], readings: Mapping[str, Mapping[Element, AlertReading]]
) -> dict[str, dict[Element, AlertReading]]:
    """The readings for the rules of one team, without values that a known cause explains.

    A reading is explained while a rule that it is a symptom of (``RuleKind.symptom_of``) finds something wrong with the
    same dataflow. So no alert begins for it, and one that fires already stays until it is known again.
    """
    wrong: dict[str, set[str]] = defaultdict(set)  # dataflows, by kind of rule
    for rule_id, of_rule in readings.items():
        wrong[rules[rule_id].kind] |= {
            reading.dataflow for reading in of_rule.values()
            if reading.dataflow and reading.value is not None and rules[rule_id].is_wrong(reading.value)}

    def unless_explained(rule: AlertRule, reading: AlertReading) -> AlertReading:
        causes = RULE_KINDS[rule.kind].symptom_of
        return replace(reading, value=None) if any(reading.dataflow in wrong[kind] for kind in causes) else reading

    return {
        rule_id: {element: unless_explained(rules[rule_id], reading) for element, reading in of_rule.items()}
        for rule_id, of_rule in readings.items()}


def one_for_each_cause(readings: Mapping[Element, AlertReading]) -> dict[Element, AlertReading]:
    """The readings for a rule whose single alert covers all that a cause concerns (``RuleKind.by_cause``).

    Parameters
    ----------
    readings : mapping of Element to AlertReading
        One for each dataflow, each with its ``name``; ``cause`` is ``<kind>:<id>`` of what stands in its way.

    Returns
    -------
    dict of Element to AlertReading
        By what stands in the way, with the worst value, how many dataflows it concerns and the names of the first.
    """
    concerned: dict[Element, list[AlertReading]] = defaultdict(list)
    for reading in readings.values():
        kind, _, name = reading.cause.partition(":")
        concerned[Element(kind, name)].append(reading)
    return {element: _joint_reading(sorted(of_cause, key=lambda reading: (reading.name, reading.dataflow)))
            for element, of_cause in concerned.items()}


def _joint_reading(readings: Sequence[AlertReading]) -> AlertReading:
    first, *others = readings
    names = ", ".join(reading.name for reading in readings[:NAMED])
    more = f" and {len(readings) - NAMED} more" if len(readings) > NAMED else ""
    whom = f"{len(readings)} dataflows do not run as they should ({names}{more})" if others else \
        f"{first.name} does not run as it should"
    return replace(
        first, text=f"{whom}: {first.text}", concerned=tuple(reading.dataflow for reading in readings))
