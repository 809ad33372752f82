"""What guards may say, and what is refused: each with its place and a remedy."""

from __future__ import annotations

from datetime import date
from random import Random

import pytest

from scheduler.guards.guard_reading import read_element, read_guard
from scheduler.guards.guard_tree import EXAMPLES, TEMPORAL
from scheduler.guards.guard_values import GuardCatalog, GuardedAlternate, GuardedElement, InvalidGuard
from scheduler.model.bounds import (
    GUARD_CHARACTERS,
    GUARD_LEVELS,
    GUARD_PARTS,
    GUARD_STREAMS,
    GUARD_WORDS,
    PARSER_STEPS,
)

from .random_guards import CATALOG as RANDOM_CATALOG
from .random_guards import condition, text_of

CATALOG = GuardCatalog(
    {"": {"rate": "number", "latency": "number", "backlog": "number", "mode": "text", "on": "truth"},
     "forecast": {"error": "number"}, "meters.parse": {"rate": "number"}, "alert": {"level": "text"}, "posted": {}},
    {"holidays": frozenset({date(2026, 1, 26)})})


def refusal(text: str, catalog: GuardCatalog = CATALOG) -> InvalidGuard:
    with pytest.raises(InvalidGuard) as refused:
        read_guard(text, catalog)
    return refused.value


@pytest.mark.parametrize(("text", "canonical"), [
    ("rate>100", "rate > 100"),
    ("RATE > 1e2 and Forecast.Error < .5", "(rate > 100) AND (forecast.error < 0.5)"),
    ("meters.parse.rate > 3", "meters.parse.rate > 3"),
    ("`on` or not `on`", "`on` OR (NOT `on`)"),
    ("mode in ('a', 'b')", "(mode = 'a') OR (mode = 'b')"),
    ("rate between 1 and 2", "(rate >= 1) AND (rate <= 2)"),
    ("rate not between 1 and 2", "NOT ((rate >= 1) AND (rate <= 2))"),
    ("latency is not null", "NOT (latency IS NULL)"),
    ("mean(rate, '300 s') > 5", "mean(rate, '5 min') > 5"),
    ("quantile(latency, 0.99, '1h') > -5", "quantile(latency, 0.99, '1 h') > -5"),
    ("count(posted, '10 min') > 0", "count(posted, '10 min') > 0"),
    ("latch(rate > 100, rate < 80)", "latch(rate > 100, rate < 80)"),
    ("followed_by(rate > 1, alert.level = 'it\\'s', '5 min')",
     "followed_by(rate > 1, alert.level = 'it\\'s', '5 min')"),
    ("days('holidays', 'Asia/Kolkata') or weekdays('Sat', 'sun', 'UTC')",
     "days('holidays', 'Asia/Kolkata') OR weekdays('sat', 'sun', 'UTC')"),
    ("CASE WHEN rate > 1 THEN latency END > 3", "(CASE WHEN rate > 1 THEN latency ELSE NULL END) > 3"),
    ("rate >= 1 -- a remark", "rate >= 1"),
])
def test_a_guard_is_read_and_written_in_one_form(text: str, canonical: str) -> None:
    tree = read_guard(text, CATALOG)
    assert str(tree).replace("(CASE", "CASE").replace("END)", "END") == canonical.replace("(CASE", "CASE").replace(
        "END)", "END")
    assert read_guard(str(tree), CATALOG) == tree


@pytest.mark.parametrize("seed", range(40))
def test_what_a_random_guard_is_written_as_is_read_as_the_same(seed: int) -> None:
    rng = Random(seed)
    tree = read_guard(text_of(condition(rng), rng), RANDOM_CATALOG)
    assert read_guard(str(tree), RANDOM_CATALOG) == tree


@pytest.mark.parametrize("word", sorted(TEMPORAL))
def test_the_example_of_each_word_can_be_used(word: str) -> None:
    example = EXAMPLES[word]
    assert read_guard(example if not example.startswith((
        "mean", "min", "max", "sum", "count", "quantile", "rate_of")) else f"{example} > 1", CATALOG).kind == "truth"


@pytest.mark.parametrize(("text", "line", "column", "cause", "remedy"), [
    ("rate >", 1, 6, "cannot be read", "SQL condition"),
    ("rate > 1 AND\n  lateny > 3", 2, 3, "no figure lateny", "Did you mean latency?"),
    ("rate > 1 OR forecast.eror > 3", 1, 13, "no figure forecast.eror", "forecast.error"),
    ("rate", 1, 1, "a number, and a guard is a condition", "rate > 0"),
    ("mode", 1, 1, "a text, and a guard is a condition", "SQL condition"),
    ("rate AND `on`", 1, 1, "rate is a number, not a condition", "rate > 0"),
    ("rate > 1 AND avg(rate, '5 min') > 1", 1, 14, "no avg()", "mean(rate, '5 min')"),
    ("hysteresis(rate > 1, rate < 1)", 1, 1, "no hysteresis()", "latch(rate > 100, rate < 80)"),
    ("quantil(rate, 0.5, '5 min') > 1", 1, 1, "no quantil()", "quantile("),
    ("now() > 1", 1, 1, "no now()", "for_at_least"),
    ("mean(rate, '5 minutes') > 1", 1, 12, "no duration", "'5 min'"),
    ("mean(rate, '5 secs') > 1", 1, 12, "no duration", "'5 s'"),
    ("mean(rate, 300) > 1", 1, 12, "where a duration is written", "mean(rate, '5 min')"),
    ("mean(rate, mode) > 1", 1, 12, "where a duration is written", "mean(rate, '5 min')"),
    ("mean(rate, '0 s') > 1", 1, 12, "not from 1 s to 31 d", "1 s to 31 d"),
    ("mean(rate, '32 d') > 1", 1, 12, "not from 1 s to 31 d", "1 s to 31 d"),
    ("mean(rate) > 1", 1, 1, "mean has 1 values", "mean(rate, '5 min')"),
    ("latch(rate > 100)", 1, 1, "latch has 1 values", "latch(rate > 100, rate < 80)"),
    ("latch(rate, rate < 80)", 1, 7, "rate is a number, not a condition", "rate > 0"),
    ("quantile(rate, 95, '5 min') > 3", 1, 16, "95 as its part", "from 0 to 1"),
    ("mean(max(rate, '1 min'), '2 min') > 1", 1, 6, "max is within mean", "figures alone"),
    ("mean(rate + forecast.error, '1 min') > 1", 1, 6, "figures of several streams", "one stream"),
    ("mean(3, '1 min') > 1", 1, 6, "no figure", "one stream"),
    ("mean(mode, '1 min') > 1", 1, 6, "mode is a text, not a number", "SQL condition"),
    ("count(rate > 3, '1 min') > 2", 1, 7, "count events where it is false, too", "CASE WHEN rate > 3 THEN 1"),
    ("mean(posted, '1 min') > 2", 1, 6, "posted is a stream", "count(posted, '5 min')"),
    ("posted > 2", 1, 1, "posted is a stream", "count(posted, '5 min')"),
    ("alert = 'red'", 1, 1, "alert is a stream", "level"),
    ("on > 2", 1, 1, "near “on”", "`on`"),
    ("rate = 'x'", 1, 1, "rate is a number and 'x' is a text", "numbers with numbers"),
    ("rate = NULL", 1, 1, "NULL", "IS NULL"),
    ("`on` > true", 1, 1, "conditions are compared by >", "AND, OR and NOT"),
    ("CASE WHEN rate > 1 THEN 1 ELSE 'x' END = 1", 1, 11, "gives a number and a text", "one kind"),
    ("rate > 1; rate > 2", 1, 1, "which a guard may not", "SQL condition"),
    ("rate > 1 GROUP BY mode", 1, 10, "near “GROUP BY”", "SQL condition"),
    ("(SELECT 1) > 2", 1, 9, "which a guard may not", "SQL condition"),
    ("rate > ?", 1, 1, "which a guard may not", "SQL condition"),
    ("mode LIKE 'x%'", 1, 1, "which a guard may not", "SQL condition"),
    ("CAST(mode AS double) > 1", 1, 6, "which a guard may not", "SQL condition"),
    ("rate > 'x", 1, 1, "a quote or a bracket has no end", "SQL condition"),
    ("", 1, 1, "it is empty", "SQL condition"),
    ("hours('8:00', '18:00', 'UTC')", 1, 7, "no time of day", "'08:30'"),
    ("hours('08:00', '18:00', 'Asia/Kolkatta')", 1, 25, "no time zone", "Asia/Kolkata"),
    ("weekdays('mon', 'frx', 'UTC')", 1, 17, "no day of the week “frx”", "fri"),
    ("days('holiday', 'UTC')", 1, 6, "no calendar “holiday”", "holidays"),
])
def test_what_is_wrong_is_refused_with_place_cause_and_remedy(
    text: str, line: int, column: int, cause: str, remedy: str
) -> None:
    invalid = refusal(text)
    assert cause in invalid.message and remedy in invalid.remedy, invalid.full_message
    assert (invalid.facts["line"], invalid.facts["column"]) == (line, column)
    assert f"line {line}, column {column}," in invalid.message


BROKEN = {  # a part that is wrong → what the remedy of a guard with it has
    "zzz > 1": "There are", "latenci > 1": "latency", "rate": "", "mean(rate, '5 mins') > 1": "5 min",
    "foo(rate) > 1": "There are", "sum(rate, 0.5, '1 s') > 1": "sum(rate, '5 min')", "rate > 'p'": "numbers",
    "mean(min(rate, '1 s'), '1 s') > 1": "figures alone", "max(rate - forecast.error, '1 s') > 1": "one stream",
    "for_at_least(rate, '1 s')": "rate > 0", "hours('25:00', '26:00', 'UTC')": "08:30", "rate > $x": "",
    "days('x', 'UTC')": "There are: holidays", "rate > (SELECT 1)": "", "rate > 1 1": "", "(rate > 1": "",
    "rate ISNULL NULL": "", "count(*, '1 s') > 1": "Name one figure",
    "rate OVER () > 1": ""}


@pytest.mark.parametrize("seed", range(10))
def test_random_guards_with_a_broken_part_are_refused_there(seed: int) -> None:
    """Five hundred in all: a part that is wrong stands somewhere in a random guard that is not."""
    catalog = GuardCatalog({**RANDOM_CATALOG.streams, "": {**RANDOM_CATALOG.streams[""], **CATALOG.streams[""]},
                            "forecast": CATALOG.streams["forecast"]}, CATALOG.calendars)
    for number in range(50):
        rng = Random(1000 * seed + number)
        part, remedy = rng.choice(list(BROKEN.items()))
        before, after = (text_of(condition(rng, 2), rng) for _ in range(2))
        begin = f"({before})\nAND ({'NOT (' * (wraps := rng.randint(0, 2))}"
        text = f"{begin}{part}{')' * wraps}) OR {after}"
        invalid = refusal(text, catalog)
        assert invalid.remedy and remedy in invalid.remedy, invalid.full_message
        line, column = int(str(invalid.facts["line"])), int(str(invalid.facts["column"]))
        lines = text.split("\n")
        assert 1 <= line <= len(lines) and 1 <= column <= len(lines[line - 1]) + 1
        at = sum(len(text_line) + 1 for text_line in lines[:line - 1]) + column - 1
        if part != "(rate > 1" and part != "rate > 1 1":  # of these, what comes behind is what cannot be read
            assert len(begin) <= at < len(begin) + len(part), (text[at:], invalid.full_message)


def test_a_guard_of_too_many_characters_or_levels_is_refused() -> None:
    assert f"{GUARD_CHARACTERS.most:,}" in refusal("rate > 1 OR " * GUARD_CHARACTERS.most + "rate > 2").remedy
    assert f"{GUARD_LEVELS.most} levels" in refusal(
        "rate" + " + 1" * GUARD_LEVELS.most + " > 1").message
    assert refusal("(" * 3_000 + "rate > 1").remedy
    many = ", ".join(map(str, range(700)))
    assert read_guard(f"rate IN ({many})", CATALOG).word == "or"  # many values nest nothing
    assert read_guard(" AND ".join(["rate > 1"] * 300), CATALOG).word == "and"


def doubled(times: int, within: str) -> str:
    text = "rate"
    for _ in range(times):
        text = f"CASE WHEN {text} {within} THEN 1 ELSE 2 END"
    return f"{text} > 1"


@pytest.mark.parametrize(("text", "reason"), [
    (doubled(30, "BETWEEN 1 AND 2"), "has more than 4,000 parts"),
    (doubled(12, "IN (1, 2, 3, 4)"), "has more than 4,000 parts"),
    (" OR ".join(["rate > 1"] * 280), "have 5,046 parts"),
    ("rate > " + "STRUCT(" * 30 + "1" + ")" * 30, "takes more than 30 steps"),
    ("rate > " + "ARRAY[" * 30 + "1" + "]" * 30, "takes more than 30 steps"),
    ("rate > (SELECT 1 FROM a" + " JOIN a" * 30 + ")", "takes more than 30 steps"),
    ("rate > 1" + "0" * 400, "which a guard may not"),
    ("rate" + ".a" * 1_900 + " > 1", "cannot be used"),
    ("x -> " * 700 + "1", "cannot be used"),
    ("rate" + " AT TIME ZONE 'x'" * 200, "cannot be used"),
], ids=["between", "in", "element", "struct", "array", "join", "number", "names", "lambda", "zones"])
def test_a_guard_that_would_take_long_to_read_or_decide_is_refused_at_once(text: str, reason: str) -> None:
    alternates = tuple(GuardedAlternate(name, text) for name in "xyzuvw")
    with pytest.raises(InvalidGuard) as refused:
        read_element(GuardedElement("e", alternates, "value"), CATALOG)
    assert reason in refused.value.message and refused.value.remedy
    assert (GUARD_PARTS.most, PARSER_STEPS.most) == (4_000, 30)


def test_an_element_that_names_too_many_streams_is_refused() -> None:
    def element(streams: int) -> GuardedElement:
        guard = " AND ".join(f"s{number}.rate > 1" for number in range(streams))
        return GuardedElement("e", (GuardedAlternate("x", guard), GuardedAlternate("z")))

    catalog = GuardCatalog({f"s{number}": {"rate": "number"} for number in range(99)})
    assert read_element(element(GUARD_STREAMS.most), catalog)
    with pytest.raises(InvalidGuard, match=f"name {GUARD_STREAMS.most + 1} tasks") as refused:
        read_element(element(GUARD_STREAMS.most + 1), catalog)
    assert str(GUARD_STREAMS.most) in refused.value.remedy


def test_a_guard_that_is_wrong_names_its_alternate() -> None:
    with pytest.raises(InvalidGuard, match=r"Of y: .*line 1") as refused:
        read_element(GuardedElement("e", (GuardedAlternate("x"), GuardedAlternate("y", "rate >"))), CATALOG)
    assert refused.value.facts["alternate"] == "y" and refused.value.remedy


def test_an_element_of_too_many_temporal_words_is_refused() -> None:
    def element(words: int) -> GuardedElement:
        guard = " OR ".join(f"mean(rate, '{seconds} s') > 1" for seconds in range(1, words + 1))
        return GuardedElement("e", (GuardedAlternate("x", guard), GuardedAlternate("y", guard), GuardedAlternate("z")))

    assert read_element(element(GUARD_WORDS.most), CATALOG)
    with pytest.raises(InvalidGuard, match=f"{GUARD_WORDS.most + 1} different temporal words") as refused:
        read_element(element(GUARD_WORDS.most + 1), CATALOG)
    assert str(GUARD_WORDS.most) in refused.value.remedy


@pytest.mark.parametrize(("alternates", "kind", "cause"), [
    ((GuardedAlternate("x"),), "activation", "1 alternates"),
    ((GuardedAlternate("x", "rate > 1"), GuardedAlternate("x")), "activation", "two alternates “x”"),
    ((GuardedAlternate("x"), GuardedAlternate("y", " ")), "activation", "x and y of e have no guard"),
    ((GuardedAlternate("x"), GuardedAlternate("y")), "other", "of the kind “other”"),
    ((GuardedAlternate("x", value=-1), GuardedAlternate("y")), "value", "-1 is no value"),
    ((GuardedAlternate("x", value=float("nan")), GuardedAlternate("y")), "value", "nan is no value"),
    ((GuardedAlternate("x", value="rate > 1"), GuardedAlternate("y")), "value", "a value function gives a number"),
])
def test_an_element_that_cannot_be_is_refused(
    alternates: tuple[GuardedAlternate, ...], kind: str, cause: str
) -> None:
    with pytest.raises(InvalidGuard) as refused:
        read_element(GuardedElement("e", alternates, kind), CATALOG)
    assert cause in refused.value.message and refused.value.remedy


def test_a_refused_guard_says_whose_it_is() -> None:
    with pytest.raises(InvalidGuard) as refused:
        read_element(GuardedElement("e", (GuardedAlternate("x"), GuardedAlternate("y", "rat > 1"))), CATALOG)
    assert (refused.value.facts["element"], refused.value.facts["alternate"]) == ("e", "y")
