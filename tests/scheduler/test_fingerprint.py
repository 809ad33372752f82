"""What makes two tasks the same, and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.model.canonical import canonical_config
from scheduler.model.dataflow import Stream
from scheduler.model.task_types import Parameter, TaskTypes
from scheduler.reuse.fingerprint import LENGTH, fingerprints

from .catalogue import TYPES, flow

BASE = flow("base", {"s": "sensors", "t": ("scale", {"by": 2}), "o": "archive"}, "s > t > o")


def with_config(config, task_id="t"):
    tasks = tuple(replace(task, config=config) if task.id == task_id else task for task in BASE.tasks)
    return replace(BASE, tasks=tasks)


def prints(dataflow, **options):
    return fingerprints(dataflow, task_types=TYPES, **options)


def test_a_fingerprint_is_128_bits_in_hexadecimal_and_never_changes():
    """Stored estates hold fingerprints: another value for the same task would start everything anew."""
    assert prints(BASE) == {
        "s": "ca39af8f0cb4d8cbd527d76210a66a15",
        "t": "cda6785746d27cc0b011672dc57e7ab6",
        "o": "e90b4fdf68c91e16ed1655ca961a1be6",
    }
    assert all(len(print_) == LENGTH == 32 for print_ in prints(BASE).values())


@pytest.mark.parametrize(
    "config",
    [
        {"by": 2.0}, {"by": 2e0}, {"by": 2, "exact": False}, {"weights": [], "by": 2}, {"options": {}, "by": 2},
        {"by": 2, "label": None},
    ],
)
def test_spelling_a_config_otherwise_changes_nothing(config):
    assert prints(with_config(config)) == prints(BASE)


@pytest.mark.parametrize(
    "config",
    [
        {"by": 2.5}, {"by": -2}, {"by": 2, "exact": True}, {"by": 2, "weights": [0]}, {"by": 2, "label": "a"},
        {"by": 2, "options": {"a": 1}},
    ],
)
def test_another_config_changes_the_task_and_all_behind_it(config):
    old, new = prints(BASE), prints(with_config(config))
    assert new["s"] == old["s"] and new["t"] != old["t"] and new["o"] != old["o"]


def test_numbers_are_one_form_where_they_are_declared_and_exact_where_they_are_not():
    def same(one, other):
        return prints(with_config(one)) == prints(with_config(other))

    assert same({"by": 0.0}, {"by": -0.0})
    assert same({"by": 1, "weights": [1, 2]}, {"by": 1, "weights": [1.0, 2e0]})
    assert not same({"by": 1, "weights": [1, 2]}, {"by": 1, "weights": [2, 1]})
    assert not same({"by": 1, "options": {"a": 1}}, {"by": 1, "options": {"a": 1.0}})
    assert same({"by": 1, "options": {"a": 1, "b": 2}}, {"by": 1, "options": {"b": 2, "a": 1}})
    large = canonical_config(TYPES["sensors"], {"seed": 2**53 + 1})
    assert large["seed"] == 2**53 + 1, "an integer is not rounded"
    assert isinstance(canonical_config(TYPES["scale"], {"by": 2})["by"], float)


def test_names_order_and_selectivity_are_no_part_of_it():
    renamed = flow("other", {"out": "archive", "x": ("scale", {"by": 2}), "in": "sensors"}, "x > out", "in > x")
    renamed = replace(renamed, streams=tuple(replace(stream, selectivity=0.3) for stream in renamed.streams))
    assert sorted(prints(renamed).values()) == sorted(prints(BASE).values())


def test_a_sources_rate_is_part_of_it():
    assert prints(replace(BASE, rates_per_s={"s": 10})) == prints(BASE), "10 events/s is the default"
    assert set(prints(replace(BASE, rates_per_s={"s": 11})).values()).isdisjoint(prints(BASE).values())


def test_a_private_dataflow_shares_with_its_own_team_only():
    shared, water, roads = prints(BASE), prints(BASE, scope="water"), prints(BASE, scope="roads")
    assert len({*shared.values(), *water.values(), *roads.values()}) == 9
    assert prints(BASE, scope="water") == water


def test_the_version_of_a_types_logic_is_part_of_it():
    newer = TaskTypes(
        [replace(task_type, version=2) if task_type.name == "scale" else task_type for task_type in TYPES.values()])
    old, new = prints(BASE), fingerprints(BASE, task_types=newer)
    assert new["s"] == old["s"] and new["t"] != old["t"] and new["o"] != old["o"]


def test_a_new_optional_parameter_leaves_running_tasks_what_they_are():
    def grown(task_type):
        return replace(task_type, parameters=(*task_type.parameters, Parameter("later", "string", "Added since.")))

    later = TaskTypes([grown(task_type) for task_type in TYPES.values()])
    assert fingerprints(BASE, task_types=later) == prints(BASE)


def test_the_order_of_parents_does_not_matter_but_which_they_are_does():
    tasks = {"a": "sensors", "b": ("sensors", {"seed": 1}), "t": "thin", "u": "alone", "o": "archive"}
    first = flow("x", tasks, "a > t > o", "b > t", "a > u > o")
    turned = replace(first, streams=first.streams[::-1])
    assert prints(turned) == prints(first)
    less = replace(first, streams=tuple(stream for stream in first.streams if stream != Stream("b", "t")))
    assert prints(less)["t"] != prints(first)["t"] and prints(less)["u"] == prints(first)["u"]


def test_where_a_stream_joins_matters_though_the_same_tasks_are_upstream():
    tasks = {"s": "sensors", "a": "thin", "b": "alone", "c": ("scale", {"by": 1}), "o": "archive"}
    beside = flow("x", tasks, "s > a > c", "s > b > c > o")
    behind = flow("x", tasks, "s > a > b > c", "a > c > o")
    assert prints(beside)["c"] != prints(behind)["c"]


def test_a_chain_of_two_thousand_tasks_and_a_deep_lattice_take_no_time():
    """Linear, not recursive, not by paths: the lattice has 2^600 of them."""
    chain = {"s": "sensors"} | {f"t{number}": "thin" for number in range(1998)} | {"o": "archive"}
    assert len(set(prints(flow("chain", chain, " > ".join(chain))).values())) == 2000
    lattice = {"s": "sensors"} | {f"{side}{level}": kind for level in range(600) for side, kind in (
        ("a", "thin"), ("b", "alone"))} | {"o": "archive"}
    streams = [f"s > {side}0" for side in "ab"] + [f"{side}599 > o" for side in "ab"] + [
        f"{one}{level} > {other}{level + 1}" for level in range(599) for one in "ab" for other in "ab"
    ]
    assert len(set(prints(flow("lattice", lattice, *streams)).values())) == 1202


def test_the_versions_of_alternates_logic_are_part_of_it():
    ways = [{"name": "all", "type": "scale", "config": {"by": 1}}, {"name": "few", "type": "thin"}]
    base = flow("d", {"s": "sensors", "a": ("dynamic", {"alternates": ways}), "p": "alarm"}, "s > a > p")

    def newer(name: str) -> TaskTypes:
        return TaskTypes([
            replace(task_type, version=2) if task_type.name == name else task_type
            for task_type in TYPES.values() if task_type.name not in ("dynamic", "dynamic_fold")])

    old = prints(base)
    assert fingerprints(base, task_types=newer("window")) == old
    one, other = (fingerprints(base, task_types=newer(name)) for name in ("scale", "thin"))
    assert one["s"] == old["s"] and len({old["a"], one["a"], other["a"]}) == 3
