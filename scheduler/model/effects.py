"""Outside effects: what a task reaches beyond Weir, and which tasks run only as reviewers have approved them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .secrets import is_reference
from .task_types import TaskType

WORDS = {
    "network": "the network", "database": "databases", "files": "files outside", "code": "code that its config names"}


def needs_approval(task_type: TaskType | None, config: Mapping[str, Any]) -> bool:
    """Whether a task runs only as reviewers have approved it.

    So does one with outside effects, one that names a secret, and one of a type that is not known or does not say.
    """
    return task_type is None or task_type.approved_only or any(is_reference(value) for value in config.values())


def effects_in_words(task_type: TaskType | None) -> str:
    """What a task of this type reaches, for messages: “the network”."""
    if task_type is None or task_type.effects is None:
        return "what it does not declare"
    return " and ".join(WORDS[effect] for effect in task_type.effects) or "a secret"
