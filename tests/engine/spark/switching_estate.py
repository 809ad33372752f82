"""Two dynamic dataflows and a static one that share a source, in two slots: what tests of switches run.

One switches as soon as it can, the other in waves. Both have two elements, in different slots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from scheduler.model.canonical import canonical_config
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask
from scheduler.model.settings_of_fragments import FragmentSettings
from scheduler.model.task_types import DYNAMIC, DYNAMIC_FOLD

from .rig import NODE, estate_of

KEPT = {"keep_events": 1_000_000}
DROPS = {"plain": 0, "few": 3, "odd": 2, "next": 0}  # the alternate lets go what this divides
ELEMENTS = {"fast": ("f1", "f2"), "wave": ("w1", "w2")}


def element(name: str, parent: str, switching: str, catalog: Mapping) -> RunningTask:
    """A task that is done in one of four ways, one of them a path, and says in a column of its name in which."""
    ways = [
        {"name": way, "value": 4 - number, **done_by(
            f"SELECT *, '{way}' AS {name} FROM input" + (f" WHERE n % {drops} <> 0" if drops else ""), way == "few")}
        for number, (way, drops) in enumerate(DROPS.items())]
    config = canonical_config(catalog[DYNAMIC], {"alternates": ways, "switching": switching})
    return RunningTask(name, DYNAMIC, config, (parent,))


def element_with_state(name: str, parent: str, switching: str, catalog: Mapping) -> RunningTask:
    """The same, with a column of sums of what it has read since it was switched: of one fold, of two in a row, none, or
    of a task that is no path."""
    def total(column: str, number: int) -> dict[str, Any]:
        return {"id": f"t{number}", "type": "total", "config": {"name": column}}

    def sql(query: str, number: int) -> dict[str, Any]:
        return {"id": f"q{number}", "type": "sql", "config": {"query": query}}

    paths = {
        "plain": [sql(f"SELECT *, 'plain' AS {name} FROM input", 1), total("since", 2)],
        "few": [
            total("read", 1), sql(f"SELECT *, 'few' AS {name} FROM input WHERE n % 3 <> 0", 2), total("passed", 3),
            sql("SELECT * EXCEPT (read, passed), read + passed AS since FROM input", 4)],
        "odd": [sql(
            f"SELECT * EXCEPT (n), CAST(n AS DOUBLE) AS n, 'odd' AS {name}, CAST(0 AS DOUBLE) AS since FROM input "
            "WHERE n % 2 <> 0", 1)],
        "next": [total("since", 1), sql(f"SELECT *, 'next' AS {name} FROM input", 2)]}
    ways = []
    for number, (way, tasks) in enumerate(paths.items()):
        ids = ["input", *(task["id"] for task in tasks), "output"]
        streams = [{"from": source, "to": target} for source, target in pairwise(ids)]
        ways.append({"name": way, "value": 4 - number, "tasks": tasks, "streams": streams})
    config = canonical_config(catalog[DYNAMIC_FOLD], {"alternates": ways, "switching": switching, "begin": "fresh"})
    return RunningTask(name, DYNAMIC_FOLD, config, (parent,))


def since(way: str, seen: int, passed: int) -> float:
    """What the second element says of the numbers that an alternate has read, and let pass."""
    return {"plain": passed, "few": seen + passed, "odd": 0, "next": passed}[way]


def done_by(query: str, is_path: bool) -> dict[str, Any]:
    """A ``sql`` task; or the same query along a path, once all events have passed a task of their own."""
    if not is_path:
        return {"type": "sql", "config": {"query": query}}
    return {
        "tasks": [{"id": "all", "type": "sql", "config": {"query": "SELECT * FROM input"}},
                  {"id": "work", "type": "sql", "config": {"query": query}}],
        "streams": [{"from": "input", "to": "all"}, {"from": "all", "to": "work"}, {"from": "work", "to": "output"}]}


def line(first: str, second: str, switching: str, catalog: Mapping) -> list[RunningTask]:
    return [
        element(first, "source", switching, catalog), element_with_state(second, first, switching, catalog),
        RunningTask(f"{second}-sum", "total", {"name": "sum"}, (second,)),
        RunningTask(f"{second}-out", "kept", KEPT, (f"{second}-sum",))]


@dataclass(frozen=True)
class SwitchingEstate:
    """What runs: a source with the first element of the wave in one slot, what reads them in both."""

    estate: Estate
    places: Mapping[str, str]  # the query of each element
    outputs: Mapping[str, str]  # channels, by what is read there

    def wanted(self, on: Mapping[str, str]) -> Estate:
        """The estate with these alternates on, by element."""
        settings: dict[str, FragmentSettings] = {}
        for task, way in on.items():
            settings[self.places[task]] = FragmentSettings(alternates={task: way})
        return self.estate.set_to(settings, 0)


def switching_estate(prefix: str, catalog: Mapping) -> SwitchingEstate:
    """All of it, in queries whose names begin so."""
    tasks = [
        RunningTask("source", "numbers", {"rate_per_s": 50.0}, ()),
        *(task for way, names in ELEMENTS.items() for task in line(*names, way, catalog)),
        RunningTask("shift", "shift", {"by": 7}, ("source",)), RunningTask("kept", "kept", KEPT, ("shift",))]
    head, wave, fast, behind, static = (f"{prefix}{number}-0" for number in range(5))
    fragments = [
        Fragment(head, ("source", "w1"), f"{NODE}/0", 2, {"source": (fast, static), "w1": (wave,)}),
        Fragment(wave, ("w2", "w2-sum", "w2-out"), f"{NODE}/1", 3),
        Fragment(fast, ("f1",), f"{NODE}/1", 1, {"f1": (behind,)}),
        Fragment(behind, ("f2", "f2-sum", "f2-out"), f"{NODE}/0", 3),
        Fragment(static, ("shift", "kept"), f"{NODE}/1", 2)]
    return SwitchingEstate(
        estate_of(fragments, tasks, slots=2), {"w1": head, "w2": wave, "f1": fast, "f2": behind},
        {"w2": f"{wave}.2", "f2": f"{behind}.2", "static": f"{static}.1"})


def static_alone(prefix: str, rate_per_s: float) -> tuple[Estate, str]:
    """The static dataflow with a source of its own, as fast as is wanted; and the channel of its output."""
    tasks = [
        RunningTask("alone", "numbers", {"rate_per_s": rate_per_s}, ()),
        RunningTask("shift-alone", "shift", {"by": 7}, ("alone",)),
        RunningTask("kept-alone", "kept", KEPT, ("shift-alone",))]
    name = f"{prefix}-0"
    fragment = Fragment(name, ("alone", "shift-alone", "kept-alone"), f"{NODE}/0", 3)
    return estate_of([fragment], tasks, slots=2), f"{name}.2"
