"""Turns of teams: what one team's policies take costs no other team its second, and all of its own come in turn."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.operations.policies.team_turns import BURST_S, EACH_S, TeamTurns

costs = st.dictionaries(
    st.tuples(st.sampled_from(["city", "mobility", "water"]), st.integers(0, 5)),
    st.integers(1, 5 * 1024).map(lambda count: count / 1024),  # sums of them are exact, whatever the others add
    min_size=1)


def estate_of(tasks: dict[tuple[str, int], float]) -> SimpleNamespace:
    return SimpleNamespace(submitted={
        f"{team}{number}": SimpleNamespace(team=team, running={"work": f"{team}{number}"}) for team, number in tasks})


def looks(tasks: dict[tuple[str, int], float], count: int) -> list[list[str]]:
    """Which tasks are looked at in so many looks, each of which takes what it costs."""
    spent = [0.0]
    turns, estate = TeamTurns(lambda: spent[0]), estate_of(tasks)
    cost = {f"{team}{number}": taken for (team, number), taken in tasks.items()}
    given_at: list[list[str]] = []
    for _ in range(count):
        given_at.append([])
        for task in turns.of(estate, cost):
            given_at[-1].append(task)
            spent[0] += cost[task]
    return given_at


@given(costs)
@settings(max_examples=40, deadline=None)
def test_a_team_takes_its_share_whatever_others_take(tasks: dict[tuple[str, int], float]) -> None:
    seen = looks(tasks, 60)
    for team in {team for team, _ in tasks}:
        team_tasks = {key: taken for key, taken in tasks.items() if key[0] == team}
        alone = looks(team_tasks, 60)
        assert alone == [[task for task in look if task.startswith(team)] for look in seen]
        taken = sum(team_tasks[team, int(task.removeprefix(team))] for look in alone for task in look)
        assert taken <= BURST_S + 60 * EACH_S + max(team_tasks.values()) + 1e-6
        if sum(team_tasks.values()) <= EACH_S:
            assert all(len(look) == len(team_tasks) for look in alone)


def test_tasks_of_a_team_that_takes_too_much_come_in_turn() -> None:
    tasks = {("city", number): 1.0 for number in range(5)}
    given_to = [task for look in looks(tasks, 200) for task in look]
    assert given_to[:20] == sorted(map("".join, [("city", str(number)) for number in range(5)])) * 4
    assert len(given_to) < 30


def test_what_is_no_teams_any_more_is_looked_at_too() -> None:
    assert list(TeamTurns().of(SimpleNamespace(submitted={}), ["gone"])) == ["gone"]
