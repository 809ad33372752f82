"""Shares: the parts of a query that dataflows answer for add up to the whole of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.operations.live_view.dataflow_use import parts_of

USERS = st.dictionaries(
    st.sampled_from("abcdef"), st.lists(st.sampled_from("xyz"), min_size=1, max_size=3, unique=True))


@given(USERS, st.lists(st.sampled_from("abcdefgh"), unique=True))
def test_parts_add_up_to_the_query(users: dict[str, list[str]], tasks: list[str]) -> None:
    parts = parts_of(tasks, users)
    needed = [task for task in tasks if task in users]
    assert sum(parts.values()) == pytest.approx(1.0 if needed else 0.0)
    assert set(parts) == {user for task in needed for user in users[task]}


def test_a_shared_task_is_divided_and_an_own_one_is_not() -> None:
    assert parts_of(["a", "b"], {"a": ("x", "y"), "b": ("x",)}) == {"x": 0.75, "y": 0.25}
