"""The bench of a rising rate knows a wrong count, and tells when each thing happened after a rise."""

from __future__ import annotations

import pytest

from tests.benches.recordings import BEGAN_MS
from tests.benches.rising_estate import Look, lines_of
from tests.benches.rising_rate import WrongCounts, require_counts, timed_words

WORDS = ["to", "be", "or", "not", "to", "be"]
ROWS = [{"_seq": number, "word": word, "count": 1 + WORDS[:number].count(word)} for number, word in enumerate(WORDS)]


def test_rows_of_two_bundles_may_come_in_any_order_but_for_those_of_a_word() -> None:
    assert require_counts(WORDS, ROWS) == len(WORDS)
    assert require_counts(WORDS, [*ROWS[1:4], ROWS[0], *ROWS[4:]]) == len(WORDS)


@pytest.mark.parametrize("rows", [
    ROWS[:-1], [*ROWS, ROWS[0]], [*ROWS[:-1], ROWS[-1] | {"count": 3}], [*ROWS[:-1], ROWS[-1] | {"word": "not"}],
    [ROWS[4], *ROWS[:4], ROWS[5]]])
def test_what_is_missing_doubled_wrong_or_out_of_order_is_told(rows: list[dict[str, object]]) -> None:
    with pytest.raises(WrongCounts):
        require_counts(WORDS, rows)


def test_words_are_due_evenly_at_one_rate_after_the_other() -> None:
    words, times_ms = timed_words([2.0, 4.0], step_s=1.0)
    assert [at_ms - BEGAN_MS for at_ms in times_ms] == [0, 500, 1_000, 1_250, 1_500, 1_750] and len(words) == 6


def test_a_line_tells_seconds_from_a_rise_on() -> None:
    looks = [Look(100.0 + at, waiting, bundles) for at, waiting, bundles in (
        (8, 10, 1), (12, 900, 1), (15, 2_000, 1), (18, 2_500, 2), (20, 700, 2), (25, 90, 2), (32, 5_000, 2))]
    rises = [(114.0, "40"), (133.0, "80")]
    first, second = lines_of(looks, rises, [50.0, 100.0, 200.0], began_s=100.0, step_s=10.0)
    assert first == {
        "events/s": "50 → 100", "bundles": "1 → 2", "asked after s": 4.0, "for": "40", "ring in force after s": 8.0,
        "most waiting": 2_500, "backlog gone after s": None}
    assert (second["bundles"], second["asked after s"], second["ring in force after s"]) == ("2 → 2", 13.0, None)
