"""The state of alternates: whether those of a task can begin, share and be switched as its document says."""

from __future__ import annotations

from collections.abc import Sequence

from .alternates import BEGIN, BY, FRESH, LEARNED, SHARED, TaskAlternate, why_not_one_state
from .canonical import canonical_config
from .draft_values import DraftTask
from .positions import DocumentNode, Problems, shown
from .warm_up import WARM


def check_alternate_state(
    node: DocumentNode, ways: Sequence[DraftTask], problems: Problems, *, task_id: str, in_waves: bool
) -> None:
    """Report where alternates cannot go on with one state, as they are to, or be switched by such a key.

    Parameters
    ----------
    node : DocumentNode
        The task.
    ways : sequence of DraftTask
        Its alternates.
    in_waves : bool
        Whether the document's tasks switch in waves.
    """
    begin, by = node.value[BEGIN].value if BEGIN in node.value else None, node.value.get(BY)
    if begin is not None and in_waves:
        problems.add(
            "no_alternate", node.keys[BEGIN], "Alternates with state do not switch in waves.",
            "Leave switching: wave out, or use alternates without state.", task_id=task_id)
    if by is not None and begin != SHARED:
        problems.add(
            "no_shared_state", node.keys[BY], "Alternates are switched by key only where they share their state.",
            "Say begin: shared, or leave by out.", task_id=task_id)
    if LEARNED in node.value and not (by is not None and by.value):
        problems.add(
            "no_shared_state", node.keys[LEARNED], "A learned guard chooses for each key, and no key is named.",
            "Name the columns of the key in by.", task_id=task_id)
    if WARM in node.value and begin != FRESH:
        problems.add(
            "no_shared_state", node.keys[WARM], "Only alternates that begin without state warm up.",
            "Say begin: fresh, or leave warm out.", task_id=task_id)
    if begin != SHARED or not ways or problems:  # configs are compared that can be read
        return
    first, *others = (TaskAlternate(way.alternate, way.type.name, way.config) for way in ways)
    for other, way in zip(others, ways[1:], strict=True):
        if why_not := why_not_one_state(first, other, ways[0].type):
            problems.add(
                "no_shared_state", way.position,
                f"Alternates {first.name} and {other.name} cannot share their state: they {why_not}.",
                f"Let them differ in {', '.join(ways[0].type.shares_state or ('nothing',))} at most, or say begin: "
                "fresh.", task_id=task_id)
    key = ways[0].type.key_columns(canonical_config(ways[0].type, ways[0].config))
    for column in by.value if by is not None and by.is_list else ():
        if isinstance(name := column.value, str) and name not in key:
            near = problems.nearest(name, key)
            problems.add(
                "no_shared_state", column.position,
                f"Alternates cannot be switched by {shown(name)}: they keep their state by {', '.join(key)}.",
                f"Did you mean {near}?" if near else "Name columns of the key of all alternates.", task_id=task_id)
