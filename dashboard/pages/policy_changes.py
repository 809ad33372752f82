"""Differences of one policy of a dynamic task from another, by parts. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.guards.element_policies import ElementPolicy


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """A part of a policy before and after; empty where it was not there."""

    what: str
    before: str
    after: str


def policy_changes(before: ElementPolicy, after: ElementPolicy) -> list[PolicyChange]:
    """The parts that differ: guards and values by alternate, the kind of guards, and who decides."""
    pairs = [("chosen by", before.kind, after.kind), ("switched by", before.source, after.source)]
    for name in dict.fromkeys([*before.values, *after.values]):
        pairs.append((f"guard of {name}", before.guards.get(name, ""), after.guards.get(name, "")))
        pairs.append((f"value of {name}", *(_number(policy.values.get(name, "")) for policy in (before, after))))
    return [PolicyChange(aspect, old, new) for aspect, old, new in pairs if old != new]


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
