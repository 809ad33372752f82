"""Figures that are none are refused where they come in: nothing is decided by NaN or an infinity."""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import pairwise

import pytest

import scheduler
from scheduler.controllers.controller_port import Effect, MeasureSample, held_to_bounds
from scheduler.controllers.loop_values import ControllerPromise, PromiseBound
from scheduler.deployment.deployed_bundles import Deployment, PlacedBundle
from scheduler.deployment.online import Thresholds
from scheduler.latency.batch_costs import BatchesSeen
from scheduler.latency.growing_intervals import growth
from scheduler.latency.pacing import LimitOnWay, Queries
from scheduler.latency.runtime_graph import Channel, RuntimeGraph, Vertex
from scheduler.latency.task_chaining import ChainingFacts, chainable_series
from scheduler.latency.triggers import BatchCost, BatchPlan, PathLimit
from scheduler.model.checks import require_finite


def kinds() -> Iterator[type]:
    """Public dataclasses with fields of floats."""
    for module in pkgutil.walk_packages(scheduler.__path__, "scheduler."):
        for name, kind in vars(importlib.import_module(module.name)).items():
            if (isinstance(kind, type) and is_dataclass(kind) and kind.__module__ == module.name
                    and not name.startswith("_") and figures_of(kind)):
                yield kind


def figures_of(kind: type) -> list[str]:
    return [field.name for field in fields(kind) if "float" in str(field.type)]


def refuses(kind: type, name: str, figure: float) -> bool:
    """Whether a value is refused for this figure, whatever else it has."""
    value = object.__new__(kind)
    for field in fields(kind):
        object.__setattr__(value, field.name, figure if field.name == name else None)
    try:
        value.__post_init__()  # type: ignore[attr-defined]
    except ValueError as error:
        return f"{name} of {kind.__name__}" in str(error)
    except Exception:
        return False
    return False


DOORS = [kind for kind in kinds() if "require_finite" in getattr(kind, "__post_init__", kinds).__code__.co_names]


def test_what_decisions_are_made_from_has_a_door() -> None:
    assert {LimitOnWay, Queries, PathLimit, BatchPlan, BatchCost, BatchesSeen, Thresholds, PlacedBundle, Deployment,
            ChainingFacts, PromiseBound, ControllerPromise} <= set(DOORS)
    assert len(DOORS) >= 30


@pytest.mark.parametrize("figure", [math.nan, math.inf, -math.inf])
def test_no_figure_that_is_none_comes_in(figure: float) -> None:
    assert [f"{kind.__module__}.{kind.__name__}.{name}" for kind in DOORS for name in figures_of(kind)
            if not refuses(kind, name, figure)] == []


@pytest.mark.parametrize("values", [{"a": math.nan}, [1.0, (2.0, math.inf)], {"a": {"b": -math.inf}}])
def test_figures_within_mappings_and_sequences_count(values: object) -> None:
    value = object.__new__(Queries)
    for field in fields(Queries):
        object.__setattr__(value, field.name, values if field.name == "bounds_s" else None)
    with pytest.raises(ValueError, match="bounds_s of Queries"):
        require_finite(value)


@pytest.mark.parametrize("kind", [BatchPlan, Queries])
@pytest.mark.parametrize("bounds", [{"bounds_s": {"a": 0.0}}, {"largest_s": 0.0}, {"smallest_s": -1.0}])
def test_an_interval_has_some_time(kind: type, bounds: dict[str, object]) -> None:
    first = ({"a": BatchCost(0.1, 0.1)}, ()) if kind is BatchPlan else ({"a": BatchCost(0.1, 0.1)},)
    with pytest.raises(ValueError, match="longer than 0 s"):
        kind(*first, **bounds)


def test_traffic_is_of_bundles_that_there_are_and_they_are_on_slots() -> None:
    bundles = {"a": PlacedBundle("a", "n1/0", 0.1)}
    with pytest.raises(ValueError, match="traffic names b"):
        Deployment(bundles, ("n1/0",), {("a", "b"): 1.0})
    with pytest.raises(ValueError, match="a is on n1/0"):
        Deployment(bundles, ("n2/0",))


def test_where_a_latency_is_not_known_nothing_grows() -> None:
    assert growth(math.nan, 1.0, [1.0]) == growth(0.1, math.nan, [1.0]) == 1.0
    assert growth(0.1, 1.0, [1.0]) > 1.0


def test_a_chain_takes_less_than_its_capacity_however_it_is_added_up() -> None:
    names, cores = "abcde", dict(zip("abcde", (0.0, 0.2, 0.3, 0.2, 0.2), strict=True))
    assert sum(cores.values()) < 0.9, "as floats"
    graph = RuntimeGraph(
        [Vertex(name, name, "n1") for name in names],
        [Channel(source, target) for source, target in pairwise(names)])
    facts = ChainingFacts(dict.fromkeys(names, "n1/0"), cores)
    assert chainable_series(names, graph, facts, capacity=0.9)[0] == tuple("abcd")


@pytest.mark.parametrize(("load", "measured", "verdict"), [
    (0.0, 0.0, "kept"), (0.0, 0.2, "kept"), (0.0, 0.5, "too early"), (100.0, 90.0, "kept"), (100.0, 50.0, "too early")])
def test_a_promise_at_no_load_is_held_to_samples_of_next_to_none(load: float, measured: float, verdict: str) -> None:
    promise = ControllerPromise("quick", 60.0, (PromiseBound("latency", "ms", 100.0, 200.0),), load)
    effect = Effect(0.0, tuple(MeasureSample(float(at), {"latency": 150.0}, measured) for at in range(60)))
    assert held_to_bounds(promise, effect)[0] == verdict
