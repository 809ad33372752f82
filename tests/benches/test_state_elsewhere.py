"""The text that is counted is real, and its counts come back from where they are kept."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.benches import services
from tests.benches.copied_counts import sizes_of_copies
from tests.benches.real_text import lines_of_text, words_of_text
from tests.benches.state_elsewhere import InBroker, InPostgresql


def test_a_few_words_of_the_text_are_most_of_it() -> None:
    times = Counter(words_of_text()).most_common()
    words = sum(number for _, number in times)
    assert len(times) > 2_000 and all(line and line == line.strip() for line in lines_of_text())
    assert sum(number for _, number in times[: len(times) // 20]) > words / 2


@pytest.mark.broker
@pytest.mark.parametrize("place", [InBroker, InPostgresql])
def test_states_come_back_as_they_were_written(place, request: pytest.FixtureRequest) -> None:
    try:
        address = request.getfixturevalue("broker_url" if place is InBroker else "database")
    except services.NotInstalled as error:
        pytest.skip(f"PostgreSQL is optional: {error}")
    words = place(address)
    assert words.read(["the", "of"]) == {}
    words.write({"the": [3.0], "of": [1.0]})
    words.write({"the": [4.0]})
    assert place(address).read(["of", "ring", "the"]) == {"the": [4.0], "of": [1.0]}


@pytest.fixture
def database():
    with services.database(rows=1) as (address, _):
        yield address


def test_a_copy_that_follows_another_has_less_than_all_of_a_count() -> None:
    lines = sizes_of_copies("total", intervals_s=[0.5, 2], rounds=1)
    sizes = [line["a copy, KB"] for line in lines]
    assert 0 < sizes[0] < sizes[1] < lines[0]["state, KB"], "more has changed since, and not all"
