"""Which wide limits a round looks at: bounded, in equal shares of teams, and each has its turn."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.latency.limit_turns import MOST_LOOKED_AT, LimitTurns, WideLimit, as_they_are, wide_limits
from scheduler.latency.pacing import Pacing, Queries, expected_at, expected_in_steps, pace
from scheduler.model.standing_answers import StandingAnswers

from .test_wide_ways import COST, SMALL, WIDE, layers

WIDEST = 19_000


@given(st.dictionaries(st.integers(0, 60), st.builds(
    WideLimit, team=st.sampled_from("abcde"), streams=st.integers(301, 20_000)), min_size=1))
def test_a_round_is_bounded_nobody_waits_for_ever_and_teams_have_equal_shares(wide: dict[int, WideLimit]) -> None:
    turns, looked_at, rounds_of = LimitTurns[int](), Counter[str](), Counter[int]()
    most = max(20_000, MOST_LOOKED_AT // 2)
    for _ in range(200):
        chosen = turns.of_round(wide, most=most)
        assert chosen and sum(wide[key].streams for key in chosen) <= most
        rounds_of.update(chosen)
        looked_at.update({team: 0 for team in "abcde"})
        for key in chosen:
            looked_at[wide[key].team] += wide[key].streams

    for team, names in {team: [key for key in wide if wide[key].team == team] for team in "abcde"}.items():
        counts = [rounds_of[key] for key in names]
        assert not names or max(counts) - min(counts) <= 1, "those of a team take turns"
        if names and min(counts) < 100:  # it waits in most rounds: no other team has more, but for what a limit has
            most_had = max(looked_at[other] for other in "abcde" if other != team)
            assert most_had <= looked_at[team] + 2 * 20_000
            assert looked_at[team] > 0


def test_ten_wide_dataflows_of_one_team_take_turns_and_the_other_team_is_in_each() -> None:
    wide = {("busy", number): WideLimit("busy", WIDEST) for number in range(10)} | {("b", 0): WideLimit("calm", 700)}
    turns, seen = LimitTurns[tuple[str, int]](), set()
    for number in range(6):
        chosen = turns.of_round(wide, most=MOST_LOOKED_AT)
        assert number == 0 or ("b", 0) in chosen
        assert sum(wide[key].streams for key in chosen) <= MOST_LOOKED_AT
        seen |= chosen
    assert seen == wide.keys()


def test_few_are_all_looked_at_in_each_round() -> None:
    wide = {number: WideLimit("a", 2_000) for number in range(20)}
    turns = LimitTurns[int]()
    assert all(turns.of_round(wide, most=MOST_LOOKED_AT) == wide.keys() for _ in range(3))


def test_queries_of_a_limit_that_waits_keep_their_intervals_and_others_are_as_without_it() -> None:
    reads, want = WIDE
    reads = {**reads, "s": (), "t": ("s",)}
    queries = Queries(dict.fromkeys(reads, COST), reads, before_s=dict.fromkeys(reads, 7.0))
    assert wide_limits(queries, {"wide": want, "small": SMALL}) == {"wide": WideLimit("", 700)}

    paced = pace(as_they_are(queries, {"wide": want}), [SMALL])

    assert {paced.interval_s[query] for query in WIDE[0]} == {7.0}
    assert {query: paced.interval_s[query] for query in "st"} == {
        query: pace(queries, [want, SMALL]).interval_s[query] for query in "st"}


def test_who_had_effort_of_late_comes_after_who_had_none() -> None:
    """By size alone a team whose figures never stand would come first in each round, and a larger one never."""
    reads: dict[str, tuple[str, ...]] = {}
    wants = []
    for number in range(8):
        writers_of, want = layers(3, 2, 2.0)
        names = {name: f"{number}.{name}" for name in writers_of}
        reads_of = {names[name]: tuple(names[writer] for writer in writers) for name, writers in writers_of.items()}
        reads |= reads_of
        way = replace(want.way, writers=reads_of, starts=frozenset(names[name] for name in want.way.starts),
                      ends=frozenset(names[name] for name in want.way.ends))
        wants.append(replace(want, key=f"busy{number}/0", way=way, team="busy"))
    larger, want = layers(4, 4, 2.0)
    wants.append(replace(want, key="calm/0", team="calm"))
    queries = Queries(dict.fromkeys({**reads, **larger}, COST), {**reads, **larger},
                      before_s=dict.fromkeys({**reads, **larger}, 30.0))
    standing, met = StandingAnswers[Pacing](200.0), []

    for now_s in range(0, 200, 100):  # nothing stands for so long
        standing.begin_round(now_s)
        expected = pace(queries, wants, standing=standing).expected
        met.append(expected["calm/0"].latency_s <= 2.0)

    assert met == [False, True]


def test_steps_spend_no_more_than_a_round_has() -> None:
    """Of a limit that steps miss, a program told the least latency, however many limits there were."""
    reads, want = layers(4, 5, 0.05)
    queries = Queries(dict.fromkeys(reads, COST), reads)
    wants = [replace(want, key=f"d{number}/0") for number in range(30)]
    standing = StandingAnswers[Pacing](1_000.0)
    standing.begin_round(0)

    expected_by_key = expected_in_steps(queries, wants, dict.fromkeys(reads, 5.0), standing=standing)

    assert standing.left_out and standing.spent_by("") <= 1_000.0
    plain = expected_at(queries, wants, dict.fromkeys(reads, 5.0))
    for key, expected in expected_by_key.items():
        assert expected.latency_s == plain[key].latency_s
        assert expected.least_s is not None and 0.05 < expected.least_s <= expected.latency_s
