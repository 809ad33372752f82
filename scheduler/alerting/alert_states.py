"""The state machine of alerts: pending, firing, resolved; with a time at least, and hysteresis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from .alert_values import FIRING, PENDING, RESOLVED, AlertReading, AlertRule, AlertState, Watched

GONE, OFF, WELL = "gone", "off", "well"  # why an alert was resolved


@dataclass(frozen=True, slots=True)
class AlertTransition:
    """The change of one alert in one round; ``why`` is of a resolved one."""

    watched: Watched
    before: AlertState | None
    after: AlertState | None
    why: str = ""

    @property
    def fires(self) -> bool:
        """True if it begins to fire."""
        was_firing = self.before is not None and self.before.phase == FIRING
        return self.after is not None and self.after.phase == FIRING and not was_firing

    @property
    def resolves(self) -> bool:
        """True if it fired, and is over."""
        return self.after is not None and self.after.phase == RESOLVED


@dataclass(frozen=True, slots=True)
class EvaluationInput:
    """Facts that rules are evaluated on.

    ``readings`` hold what was read for each rule, by rule id and element. Of a rule that is absent from them nothing is
    known now, and its alerts stay as they are; an element that is absent from its rule's is gone.
    """

    rules: Mapping[str, AlertRule]
    readings: Mapping[str, Mapping[object, AlertReading]]
    now_s: int
    states: Mapping[Watched, AlertState] = field(default_factory=dict)


def evaluate(evidence: EvaluationInput) -> Sequence[AlertTransition]:
    """The transitions of alerts in this round; only those that change, in the order of rule and element."""
    changes = []
    for watched in sorted({*evidence.states, *_read(evidence)}):
        before = evidence.states.get(watched)
        after, reason = _after(evidence, watched, before)
        if after != before:
            changes.append(AlertTransition(watched, before, after, reason))
    return changes


def _read(evidence: EvaluationInput) -> set[Watched]:
    return {
        (rule_id, element) for rule_id in evidence.rules if rule_id in evidence.readings
        for element in evidence.readings[rule_id]}


def _after(evidence: EvaluationInput, watched: Watched, before: AlertState | None) -> tuple[AlertState | None, str]:
    rule_id, element = watched
    rule = evidence.rules.get(rule_id)
    if rule is None:
        return _over(before), OFF
    if rule_id not in evidence.readings:
        return before, ""
    reading = evidence.readings[rule_id].get(element)
    is_gone = reading is None
    value = None if reading is None else reading.value
    if before is None or before.phase == PENDING:
        return _before_it_fires(rule, before, value, evidence.now_s), ""
    after = _while_it_fires(rule, before, value, evidence.now_s, is_gone=is_gone)
    return after, GONE if is_gone else WELL


def _over(before: AlertState | None) -> AlertState | None:
    """Firing becomes resolved; what was only pending never was."""
    return replace(before, phase=RESOLVED) if before is not None and before.phase == FIRING else None


def _before_it_fires(
    rule: AlertRule, before: AlertState | None, value: float | None, now_s: int
) -> AlertState | None:
    if value is None or not rule.is_wrong(value):
        return None
    state = before or AlertState(now_s)
    return replace(state, phase=FIRING) if now_s - state.since_s >= rule.for_s else state


def _while_it_fires(
    rule: AlertRule, before: AlertState, value: float | None, now_s: int, *, is_gone: bool
) -> AlertState:
    if not is_gone and (value is None or not rule.is_well(value)):
        return replace(before, calm_s=None)
    calm_s = now_s if before.calm_s is None else before.calm_s
    if now_s - calm_s >= rule.clear_for_s:
        return replace(before, phase=RESOLVED, calm_s=calm_s)
    return replace(before, calm_s=calm_s)
