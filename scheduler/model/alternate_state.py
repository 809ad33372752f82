"""The state of alternates: whether those of a task can begin, share and be switched as its document says."""

from __future__ import annotations

from collections.abc import Sequence

from .alternates import BEGIN, BY, FRESH, LEARNED, SHARED, TaskAlternate, why_not_one_state
from .bounds import PATH_STATES
from .canonical import canonical_config
from .draft_values import DraftTask
from .paths import path_in
from .positions import DocumentNode, Problems, shown
from .warm_up import WARM


def check_alternate_state(
    node: DocumentNode, alternates: Sequence[DraftTask], problems: Problems, *, task_id: str, in_waves: bool
) -> None:
    """Report where alternates cannot go on with one state, as they are to, or be switched by such a key.

    Parameters
    ----------
    in_waves : bool
        True if the document's tasks switch in waves.
    """
    begin, by = node.value[BEGIN].value if BEGIN in node.value else None, node.value.get(BY)
    steps = [step for way in alternates for step in way.steps]
    for key, does in ((BY, "that are switched by key"), (WARM, "that warm up")):
        if in_waves and key in node.value:
            problems.add(
                "no_alternate", node.keys[key], f"Alternates {does} do not switch in waves.",
                f"Leave {key} or switching: wave out.", task_id=task_id)
    if begin is not None and all(step.type is not None and not step.type.stateful for step in steps):
        problems.add(
            "no_alternate", node.keys[BEGIN], "No alternate keeps state, but the task says how one begins.",
            "Leave begin out.", task_id=task_id)
    for step in steps if begin is not None else ():
        if step.config.get("idle") is not None:
            problems.add(
                "no_alternate", step.parameters["idle"].position if "idle" in step.parameters else step.position,
                f"{step.type.name if step.type else step.id} has idle, but no alternate works in silence.",
                "Leave idle out.", task_id=task_id)
    if by is not None and begin == FRESH:
        problems.add(
            "no_shared_state", node.keys[BY],
            "Alternates are switched by key only where they share their state, or have none.",
            "Say begin: shared, or leave by out.", task_id=task_id)
    if LEARNED in node.value and not (by is not None and by.value):
        problems.add(
            "no_shared_state", node.keys[LEARNED], "A learned guard chooses for each key, and no key is named.",
            "Name the columns of the key in by.", task_id=task_id)
    elif LEARNED in node.value and begin != SHARED:
        problems.add(
            "no_shared_state", node.keys[LEARNED], "A learned guard chooses among forecasts that share their state.",
            "Say begin: shared, or leave learned out.", task_id=task_id)
    if WARM in node.value and begin != FRESH:
        problems.add(
            "no_shared_state", node.keys[WARM], "Only alternates that begin without state warm up.",
            "Say begin: fresh, or leave warm out.", task_id=task_id)
    for way in alternates:
        _check_number(way, problems, task_id)
    if begin != SHARED or not alternates or problems:  # configs are compared that can be read
        return
    if by is not None and not all(
            way.path is None and way.type is not None and way.type.stateful for way in alternates):
        problems.add(
            "no_shared_state", node.keys[BY],
            "Alternates that share their state are switched by key only where each is one task with state.",
            "Leave by out, or let each alternate be a task with state.", task_id=task_id)
        return
    _check_shared(alternates, problems, task_id)
    first = alternates[0].type
    if by is None or first is None or problems:
        return
    key = first.key_columns(canonical_config(first, alternates[0].config))
    for column in by.value if by.is_list else ():
        if isinstance(name := column.value, str) and name not in key:
            near = problems.nearest(name, key)
            problems.add(
                "no_shared_state", column.position,
                f"Alternates cannot be switched by {shown(name)}: they keep their state by {', '.join(key)}.",
                f"Did you mean {near}?" if near else "Name columns of the key of all alternates.", task_id=task_id)


def _check_number(way: DraftTask, problems: Problems, task_id: str) -> None:
    number = sum(step.type is not None and step.type.stateful for step in way.steps)
    if number > PATH_STATES.most:
        problems.add(
            "too_many_tasks", way.position, f"{number} tasks of alternate {way.alternate} keep state: more than "
            f"{PATH_STATES.most}.", "Let tasks before or behind the dynamic task keep some of it.", task_id=task_id)


def _check_shared(alternates: Sequence[DraftTask], problems: Problems, task_id: str) -> None:
    """Report where the n-th task with state of an alternate cannot go on with the state of those of the others."""
    others: list[tuple[DraftTask, DraftTask]] = []  # of the first alternate that has an n-th one
    for way in alternates:
        for number, step in enumerate(_with_state(way, problems, task_id)):
            if number == len(others):
                others.append((way, step))
            before, first = others[number]
            assert step.type is not None and first.type is not None
            why_not = why_not_one_state(
                *(TaskAlternate(step.id, task.type.name, task.config) for task in (first, step)), step.type)
            if why_not:
                problems.add(
                    "no_shared_state", way.position if way.path is None else step.position,
                    f"Alternates {before.alternate} and {way.alternate} cannot share their state: "
                    f"{_named(before, first)} and {_named(way, step)} {why_not}.",
                    f"Let them differ in {', '.join(first.type.shares_state or ('nothing',))} at most, or say begin: "
                    "fresh.", task_id=task_id)


def _named(way: DraftTask, step: DraftTask) -> str:
    return "its task" if way.path is None else step.id


def _with_state(way: DraftTask, problems: Problems, task_id: str) -> list[DraftTask]:
    """The tasks with state of an alternate, upstream first; a problem is reported where two are not in one line."""
    if way.path is None:
        return [way] if way.type is not None and way.type.stateful else []
    steps = {step.id: step for step in way.steps}
    above: dict[str, set[str]] = {}
    row: list[DraftTask] = []
    for name, read in path_in(way.config).parents().items():
        above[name] = set(read).union(*(above.get(parent, set()) for parent in read))
        step = steps.get(name)
        if step is None or step.type is None or not step.type.stateful:
            continue
        if row and row[-1].id not in above[name]:
            problems.add(
                "no_shared_state", step.position,
                f"{row[-1].id} and {name} keep state on two branches, so others cannot tell which state is whose.",
                "Let them stand one behind the other, or say begin: fresh.", task_id=task_id)
        row.append(step)
    return row
