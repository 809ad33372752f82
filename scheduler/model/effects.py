"""Outside effects: what a task reaches beyond Weir, and which tasks run only as reviewers have approved them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .secrets import is_reference
from .task_types import TaskType

WORDS = {
    "network": "the network", "database": "databases", "files": "files outside", "code": "code that its config names"}

SECRETS, UNDECLARED = "secrets", "undeclared"  # a team's secrets; what a type does not say
REACHES = (*WORDS, SECRETS, UNDECLARED)


def needs_approval(task_type: TaskType | None, config: Mapping[str, Any]) -> bool:
    """True if a task runs only as reviewers have approved it.

    So does one with outside effects, one that names a secret, and one of a type that is not known or does not say.
    """
    return task_type is None or task_type.approved_only or any(is_reference(value) for value in config.values())


def reached_by(task_type: TaskType | None, config: Mapping[str, Any]) -> frozenset[str]:
    """The effects of a task beyond Weir, of `REACHES`; nothing where `needs_approval` is false."""
    if not needs_approval(task_type, config):
        return frozenset()
    names_secret = any(is_reference(value) for value in config.values())
    declared = (UNDECLARED,) if task_type is None or task_type.effects is None else task_type.effects
    return frozenset(declared) | ({SECRETS} if names_secret or not declared else set())


def effects_in_words(task_type: TaskType | None) -> str:
    """The effects of a task of this type, for messages: “the network”."""
    if task_type is None or task_type.effects is None:
        return "what it does not declare"
    return " and ".join(WORDS[effect] for effect in task_type.effects) or "a secret"
