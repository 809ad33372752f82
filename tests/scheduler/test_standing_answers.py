"""Answers that stand: never older than is said, never after something that counts has changed, never without need."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.standing_answers import STANDS_S, StandingAnswers

Answer = tuple[str, float, tuple[float, ...]]  # of which ground it is, when it was made, and from which figures

QUESTIONS = st.tuples(
    st.sampled_from("ab"), st.tuples(st.integers(0, 6), st.integers(0, 6)), st.booleans(), st.integers(-5, 30))


@given(st.lists(QUESTIONS, max_size=40))
def test_an_answer_stands_while_nothing_that_counts_has_changed(
    questions: list[tuple[str, tuple[int, int], bool, int]]
) -> None:
    standing: StandingAnswers[Answer] = StandingAnswers()
    now_s, last = 0.0, dict[str, Answer]()  # the reference: what was given last of each ground, where it may stand
    for ground, thirds, stands, later_s in questions:
        now_s += later_s
        figures = tuple(third / 3 for third in thirds)
        standing.begin_round(now_s)
        last = {name: answer for name, answer in last.items() if 0 <= now_s - answer[1] < STANDS_S}
        before = last.get(ground)

        answer = standing.of(
            ground, figures=lambda _, figures=figures, stands=stands: figures if stands else None,
            make=lambda made=(ground, now_s, figures): made)

        is_same = before is not None and stands and all(
            -1 < new - old < 1 for new, old in zip(figures, before[2], strict=True))
        assert answer == (before if is_same else (ground, now_s, figures))
        if stands:
            last[ground] = answer
        else:
            last.pop(ground, None)
