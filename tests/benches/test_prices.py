"""What `./weir bench prices` makes of what it measured: an estimate is never held against itself."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from scheduler.model.costs import DECLARED, Costs
from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from scheduler.performance.cost_model import QuerySeen, SlotSeen, expected_cores
from tests.benches.estate import NODE
from tests.benches.prices import TOGETHER, _changed, _print_later, beside_estimates, dataflows, windows_of
from workers.library.registry import task_types

# A slot takes half as much again for itself as is declared: slots with a dataflow each would not tell that.
TRUTH = Costs(slot_cores=1.5 * DECLARED.slot_cores)
SECONDS = 45.0
CHOSEN = ("two-tasks", "chain-of-five", "urban_variability", "urban_clean_averages", "meter_forecast", "urban_stats")


def entry(name: str, *, estimated: float, measured: float, basis: str) -> dict:
    return {"dataflow": name, "estimated": estimated, "measured": measured, "rests on": basis}


def window(names: tuple[str, ...], *, dearer: str = "") -> dict[str, Any]:
    """A window by `TRUTH`; one dataflow may make it take three times as much."""
    chosen = {name: dataflows()[name] for name in names}
    estate = _changed(Estate(slots=(Slot(NODE, 0),)), chosen, chosen, 2000)
    queries = [
        {"id": f"{query} of {names}", "batches": round(SECONDS / 2), "busy_ms": 0, "tasks": [
            [estate.tasks[task].type, round(SECONDS * estate.tasks[task].rate_per_s)] for task in fragment.tasks]}
        for query, fragment in estate.fragments.items()]
    seen = SlotSeen(SECONDS, 0, tuple(
        QuerySeen(query["id"], query["batches"], tuple(map(tuple, query["tasks"]))) for query in queries))
    cores = expected_cores(seen, costs=TRUTH, task_types=task_types()) * (3 if dearer in names else 1)
    return {"dataflows": list(names), "seconds": SECONDS, "cpu_ms": round(1000 * SECONDS * cores), "queries": queries}


def estimates(*names: str, dearer: str = "") -> dict[str, dict[str, Any]]:
    later = [{"dataflow": name, "measured": 0.0, "rests on": "measured", "compilers of all": 0.0} for name in names]
    windows = [window(names, dearer=dearer) for names in windows_of(CHOSEN)]
    return {row["dataflow"]: row for row in beside_estimates(
        {"trigger_ms": 2000, "windows": windows, "later": later})}


def test_what_was_not_metered_for_long_enough_is_held_to_nothing(capsys) -> None:
    assert _print_later([entry("a", estimated=0.1, measured=0.1, basis="estimated")])
    printed = capsys.readouterr().out
    assert "1 of 1 were not metered" in printed and "within" not in printed


def test_estimates_are_held_to_what_was_metered(capsys) -> None:
    assert not _print_later([
        entry("a", estimated=0.1, measured=0.1, basis="estimated"),
        entry("b", estimated=0.1, measured=0.12, basis="measured"),
        entry("c", estimated=0.1, measured=0.3, basis="measured")])
    printed = capsys.readouterr().out
    assert "1 of 3 were not metered" in printed
    assert "1 of 2 estimates are within 30% of what was metered later" in printed


@pytest.mark.parametrize("number", [1, 2, 5, 10])
def test_each_dataflow_is_missing_in_as_many_windows_and_queries_of_the_rest_go_on(number: int) -> None:
    names = [f"d{index}" for index in range(number)]
    windows = windows_of(names)
    assert windows.count(()) == 1
    halfway = windows.index(()) + 1
    for half in (windows[:halfway], windows[halfway:]):
        assert all(set(after) < set(before) for before, after in pairwise(half))
    missing = {sum(name not in window for window in windows if window) for name in names}
    assert len(missing) == 1 or number % TOGETHER
    assert number <= TOGETHER or min(missing) > 0


def test_what_a_dataflow_takes_says_nothing_of_its_estimate_and_what_others_take_does() -> None:
    [plain], [dearer], [beside] = (
        estimates("urban_stats", dearer=name).values() for name in ("", "urban_stats", "two-tasks"))
    assert plain == dearer
    assert beside["estimated"] > plain["estimated"]


def test_a_slot_that_takes_more_than_declared_is_not_taken_for_its_queries() -> None:
    names = ("two-tasks", "urban_stats")
    for name, row in estimates(*names).items():
        [alone] = [window((name,))]
        # In the estate of the estimate, the slot is shared by both.
        queries = sum(len(window((other,))["queries"]) for other in names)
        slot = TRUTH.slot_cores * (1 - len(alone["queries"]) / queries)
        assert row["estimated"] == pytest.approx(alone["cpu_ms"] / 1000 / SECONDS - slot, rel=0.06), name
