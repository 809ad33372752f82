"""Guards evaluated event by event come to what scanning everything anew comes to, also where they are restored."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from scheduler.guards.guard_compiling import compile_element
from scheduler.guards.guard_values import GuardedAlternate, GuardedElement
from tests.benches.guard_engine import GuardEngine

from .naive_guards import NaiveGuards, naive_choice, steps_of
from .random_guards import BEGIN_MS, CATALOG, condition, history, number, text_of

END_MS = BEGIN_MS + 130_000


def drawn(rng: Random) -> tuple[GuardedElement, list[Any], list[Any]]:
    """An element of two or three alternates, its guards and its values as tuples; None for a guard that is empty."""
    kind = rng.choice(("activation", "activation", "value"))
    guards: list[Any] = [condition(rng) for _ in range(rng.choice((1, 2, 3)))]
    if len(guards) == 1 or rng.random() < 0.2:
        guards.insert(rng.randrange(len(guards) + 1), None)
    values: list[Any] = [("number", rng.randint(0, 3) / 2) for _ in guards]
    if kind == "value" and rng.random() < 0.5:
        values[0] = number(rng, 1)
    element = GuardedElement("e", tuple(
        GuardedAlternate(f"alternate-{place}", "" if guard is None else text_of(guard, rng),
                         value[1] if value[0] == "number" else text_of(value, rng))
        for place, (guard, value) in enumerate(zip(guards, values, strict=True))), kind)
    return element, guards, values


def compare(seed: int) -> int:
    """Hold one random element over one random history to the naive evaluator, step by step; how often it switched."""
    rng = Random(seed)
    element, guards, values = drawn(rng)
    compiled = compile_element(element, CATALOG)
    events = history(rng)
    trees = [tree for tree in [*guards, *values] if tree is not None]
    steps = steps_of(events, trees, BEGIN_MS, END_MS)
    naive, engine = NaiveGuards(steps), GuardEngine(BEGIN_MS)
    changes = engine.put("e", compiled)
    names = [alternate.name for alternate in element.alternates]
    current, expected, taken = None, [], iter(events)
    for place, step in enumerate(steps):
        if rng.random() < 0.02:  # it is killed and goes on
            text = json.dumps(engine.state_of("e"), allow_nan=False)
            engine_after = GuardEngine(engine.now_ms)
            changes += engine_after.put("e", compiled, state=json.loads(text))
            assert json.loads(json.dumps(engine_after.state_of("e"))) == json.loads(text), seed
            engine = engine_after
        if step.event is None:
            changes += engine.advance(step.at_ms)
        else:
            for event in taken:  # those before it are late
                changes += engine.take(event)
                if event is step.event:
                    break
        results = [naive.at(tree, place) for tree in trees]
        watch = engine.watch("e")
        used = [tree for tree in guards if tree is not None] + [
            value for value in values if value[0] != "number"]
        assert [naive.at(tree, place) for tree in used] == watch.results, (seed, step, element, results)
        choice = naive_choice(
            names, [None if guard is None else "null" if (value := naive.at(guard, place)) is None else value
                    for guard in guards], [naive.at(value, place) for value in values], element.kind, current)
        assert watch.choice is not None and (watch.choice.alternate, watch.choice.trouble) == choice, (seed, step)
        if not expected or expected[-1][1:] != choice:
            expected.append((step.at_ms, *choice))
        current = choice[0]
    assert [(change.at_ms, change.choice.alternate, change.choice.trouble) for change in changes] == expected, seed
    return sum(change.is_switch for change in changes)


def test_random_guards_come_to_what_scanning_anew_comes_to() -> None:
    assert sum(map(compare, range(60))) > 60


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_random_guards_come_to_what_scanning_anew_comes_to(part: int) -> None:
    assert sum(map(compare, range(1000 * part, 1000 * part + 1000))) > 1000
