"""Fingerprints: a hash for each task that two tasks share exactly when they are equivalent (paper [1], 3.2).

The paper calls two tasks equivalent when their types and configs are equal and there is a bijection between their
ancestor graphs that keeps types, configs and streams. Comparing graphs is costly; a fingerprint, the hash of a task's
type, canonical config and the multiset of its parents' fingerprints, takes one pass over the submitted dataflow
however much runs.

The two agree on de-duplicated dataflows, and only there. A fingerprint sees the ancestor graph *unfolded* into a tree:
it cannot tell one parent that feeds two children from two equal parents that feed one child each. In a de-duplicated
dataflow no two tasks are equivalent, so no two have the same fingerprint (by induction from the sources down), every
node of the unfolded tree that has one fingerprint is one and the same task, and folding the tree back along equal
fingerprints gives the ancestor graph again: nothing is lost. Conversely a bijection as above maps each task to one of
equal fingerprint, again from the sources down. On a dataflow with duplicates the fingerprint is the coarser of the
two, which is what validation wants: it names as duplicates also those tasks that become equivalent once their
equivalent ancestors are made one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from graphlib import TopologicalSorter
from typing import Any

from scheduler.model.alternates import logic_version
from scheduler.model.canonical import canonical_json, identity_config
from scheduler.model.dataflow import Dataflow
from scheduler.model.task_types import TaskTypes

LENGTH = 32  # hexadecimal digits kept of a SHA-256: 128 bits


def fingerprint(
    type_name: str,
    *,
    version: int | list[Any],
    config: Mapping[str, Any],
    parents: Iterable[str] = (),
    scope: str = "",
    salt: str = "",
) -> str:
    """The fingerprint of one task whose config is canonical and whose parents' fingerprints are known.

    A parameter without a value does not count, so that a type may gain an optional parameter and its running tasks
    stay what they are. A salt sets the task, and so all that is downstream of it, apart from its equals.

    Parameters
    ----------
    version : int or list
        The version of the logic (`scheduler.model.alternates.logic_version`).
    config : mapping of str to Any
        Its config, canonical.
    parents : iterable of str, optional
        Fingerprints of the parents, in any order.
    scope : str, optional
        The part that separates equals: a team whose tasks are private; empty for none.
    salt : str, optional
        The part that separates a fresh task from its equals.
    """
    stated = {name: value for name, value in config.items() if value is not None}
    identity = canonical_json([type_name, version, stated, scope, sorted(parents), *([salt] if salt else [])])
    return hashlib.sha256(identity.encode()).hexdigest()[:LENGTH]


def fingerprints(
    dataflow: Dataflow, *, task_types: TaskTypes, scope: str = "", apart: Collection[str] = (), salt: str = "",
    unchanged: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Fingerprints of all tasks of a dataflow, in time linear in its tasks and streams.

    Parameters
    ----------
    scope : str
        "" for a shared dataflow, else the team whose private dataflow it is: a private task only ever equals private
        tasks of the same team. Selectivities are no part of it: they estimate what the logic does, not change it.
    apart : collection of str
        Submitted task ids that the salt sets apart.
    unchanged : mapping of str to str, optional
        Tasks, by submitted id, that run already under an identity that stays; with each all that is upstream of it.

    Returns
    -------
    dict of str to str
        Fingerprint by submitted task id, upstream first.

    References
    ----------
    .. [1] Chaturvedi, Tyagi and Simmhan, "Collaborative Reuse of Streaming Dataflows in IoT Applications", 2017, 3.2.
    """
    tasks = {task.id: task for task in dataflow.tasks}
    parents = dataflow.parents()
    fingerprints: dict[str, str] = {}
    unchanged = unchanged or {}
    for task_id in TopologicalSorter(parents).static_order():
        if task_id in unchanged:
            fingerprints[task_id] = unchanged[task_id]
            continue
        task_type = task_types[tasks[task_id].type]
        config = identity_config(dataflow, tasks[task_id], task_type)
        fingerprints[task_id] = fingerprint(
            task_type.name,
            version=logic_version(task_type, config, task_types),
            config=config,
            parents=(fingerprints[parent] for parent in parents[task_id]),
            scope=scope,
            salt=salt if task_id in apart else "",
        )
    return fingerprints
