"""Parts of tasks that stay on a node where the task goes on at another: files, and how far it has read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from .secrets import SECRET, TEAM, secrets_of
from .task_types import TaskType

FileSecrets = Collection[tuple[str, str]]


def why_on_node(task_type: TaskType, config: Mapping[str, Any], file_secrets: FileSecrets = frozenset()) -> str:
    """The reason why a task stays on its node, in words between its type and the node's name; empty where it can go.

    Parameters
    ----------
    file_secrets : collection of (str, str), optional
        Team and name of the secrets that stand for a file of the node.
    """
    if task_type.keeps_on_node:
        return "keeps how far it has read on"
    if task_type.terminal in ("parquet", "json"):
        return "writes files on"
    values = [config.get(parameter.name) for parameter in task_type.parameters if parameter.is_file]
    if any(value and "://" not in str(value) for value in values):
        return "writes files on" if task_type.kind == "sink" else "reads a file on"
    if any((reference.get(TEAM), reference[SECRET]) in file_secrets for _, reference in secrets_of(config, task_type)):
        return "reads a file on"
    return ""
