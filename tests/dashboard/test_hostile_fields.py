"""Every address that changes something, with fields that nobody means well: answered, and for nobody's rows but the
sender's."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.dashboard.one_of_each import WHO, Everything
from tests.dashboard.test_routes import drawn, everything, expected  # noqa: F401 - a fixture

DEEP: Any = "x"
for _ in range(60):
    DEEP = [DEEP]
TEXTS = (
    "", " ", "-1", "0", "1.5", "1e999999", "NaN", "-inf", "1" * 5_000, "9" * 300, "\u0660\u0661", "\u00b2", "a\0b",
    "a\u202eb", "x" * 6_000, "null", "[" * 3_000, "{}", "../..", "'\";--", "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00", "24:00", "\u2028", "root", "mobility")
VALUES = (
    None, True, -1, 2**63, 2**70, 1e308, float("nan"), float("inf"), "\ud800", [], {}, [[]], DEEP,
    {"a": {"\ud800": "\0"}}, ["\0", "\ud800", None, 2**70])
BODIES = 6  # for each address in a run


def places(document: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each value of a JSON document, those that hold others included."""
    inner = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(
        document, list) else ()
    for key, value in inner:
        yield (*above, key)
        yield from places(value, (*above, key))


def hostile(body: dict[str, Any], *, is_json: bool) -> dict[str, Any]:
    """The same fields, of which one has a value that nobody means well, is missing or is there twice."""
    changed, ways = copy.deepcopy(body), list(places(body))
    if not ways:
        return {random.choice(("team", "name", "digest", "way")): random.choice(TEXTS)}
    *above, last = random.choice(ways)
    part = changed
    for key in above:
        part = part[key]
    choice = random.random()
    if choice < 0.1:
        del part[last]
    elif is_json:
        part[last] = random.choice((*TEXTS, *VALUES))
    else:
        part[last] = [part[last], random.choice(TEXTS)] if choice < 0.2 else random.choice(TEXTS)
    return changed


def test_no_field_breaks_an_address_or_opens_it(everything: Everything, request: pytest.FixtureRequest) -> None:  # noqa: F811
    """What is asked for in vain changes nothing (`Everything.mark`), and nothing is answered by a defect."""
    rows = [row for row in expected().items() if row[0][0] != "get"]
    for (method, pattern), marks in drawn(request, rows):
        refused = [who for who, mark in zip(WHO, marks, strict=True) if mark == "-"]
        for _ in range(BODIES):
            body = hostile(everything.body_of(pattern), is_json=pattern.startswith("api/"))
            everything.mark("dev", method, pattern, body)
            if refused and marks.strip("-"):  # some are let in, and the fields say nothing of who
                who = random.choice(refused)
                mark = everything.mark(who, method, pattern, body)
                assert mark in ("-", "=") or "team" in everything.body_of(pattern), (who, method, pattern, body, mark)
