"""Outlines of large running dataflows: what is shown is closed and most used, what is not is counted once."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from scheduler.reuse.outline import outline, sheets
from scheduler.reuse.running import connected_parts


@st.composite
def merged_graphs(draw) -> tuple[dict[str, tuple[str, ...]], list[set[str]]]:
    """Tasks with their parents, and dataflows as parts of the graph that are closed under parents."""
    size = draw(st.integers(1, 14))
    parents: dict[str, tuple[str, ...]] = {}
    for number in range(size):
        above = draw(st.sets(st.sampled_from(sorted(parents)), max_size=2)) if parents else set()
        parents[f"t{number:02}"] = tuple(sorted(above))
    ends = draw(st.lists(st.sets(st.sampled_from(sorted(parents)), min_size=1, max_size=3), min_size=1, max_size=5))
    return parents, [closed(parents, ends_of_part) for ends_of_part in [*ends, set(parents)]]


def closed(parents: dict[str, tuple[str, ...]], tasks: set[str]) -> set[str]:
    while more := {parent for task in tasks for parent in parents[task]} - tasks:
        tasks = tasks | more
    return tasks


@given(merged_graphs(), st.integers(0, 16), st.booleans())
def test_an_outline_parts_the_tasks(graph, most: int, want: bool) -> None:
    parents, dataflows = graph
    users = {task: sum(task in dataflow for dataflow in dataflows) for task in parents}
    wanted = dataflows[0] if want else set()
    drawn = outline(parents, users, most=most, required_tasks=wanted)
    shown = set(drawn.shown)
    assert wanted <= shown
    assert len(shown) == min(len(parents), max(most, len(wanted)))
    assert all(set(parents[task]) <= shown for task in shown), "closed under parents"
    assert sum(branch.tasks for branch in drawn.branches) == len(parents) - len(shown)
    assert all(branch.tasks > 0 and set(branch.parents) <= shown for branch in drawn.branches)
    assert len({branch.parents for branch in drawn.branches}) == len(drawn.branches)
    hanging = {parent for task in set(parents) - shown for parent in parents[task]} & shown
    assert {parent for branch in drawn.branches for parent in branch.parents} == hanging
    least = min((users[task] for task in shown - wanted), default=0)
    assert all(users[task] <= least for task in set(parents) - shown) or not shown - wanted


@given(merged_graphs())
def test_parts_are_connected_and_apart(graph) -> None:
    parents, _ = graph
    parts = connected_parts(parents)
    assert sorted(task for part in parts for task in part) == sorted(parents)
    part_of = {task: number for number, part in enumerate(parts) for task in part}
    assert all(part_of[parent] == part_of[task] for task, above in parents.items() for parent in above)
    for part in parts:
        reached = {part[0]}
        while more := {other for task in reached for other in part if (
                other in parents[task] or task in parents[other])} - reached:
            reached |= more
        assert reached == set(part)


@given(st.lists(st.integers(1, 12), max_size=12).map(lambda sizes: sorted(sizes, reverse=True)), st.integers(1, 15))
def test_sheets_hold_all_in_order_and_no_more_than_fits(sizes: list[int], most: int) -> None:
    pages = sheets(sizes, most=most)
    assert [position for sheet in pages for position in sheet] == list(range(len(sizes)))
    assert all(len(sheet) == 1 or sum(sizes[position] for position in sheet) <= most for sheet in pages)
    assert all(len(sheet) for sheet in pages)
    for sheet, after in pairwise(pages):
        assert sum(sizes[position] for position in sheet) + sizes[after[0]] > most
