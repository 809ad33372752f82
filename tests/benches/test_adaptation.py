"""The bench of adaptation measures each table and figure, and says which of the published shapes hold."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tests.benches.adaptation import MEASURED, Extent, profit_bound, shapes
from tests.benches.adaptation_workloads import STEPS, linear_road, machine_traces
from tests.benches.results import table

TINY = Extent(1, (10,), 0, (10,), 0, (10,), (0.0, 0.2), 1, 1)


# "5.3" goes through the most worlds; tests/scheduler/adaptation has its algorithms, the others how rows are made.
@pytest.mark.parametrize("name", [
    "4.6", "4.7", "4.7c", pytest.param("5.3", marks=pytest.mark.long), "ours", "autoscalers"])
def test_each_is_measured(name: str) -> None:
    _, measure = MEASURED[name]
    rows = measure(TINY)

    assert rows and table(rows)
    assert all(row["holds"] in ("yes", "no") for row in shapes({name: rows}))
    for row in rows:
        assert 0 < row.get("Ω", 1) <= 1
        assert row.get("profit", 0) <= profit_bound(linear_road(10), 10) or name == "5.3"
        assert row.get("core-hours of best fixed", 1) > 0 and 0 <= row.get("missed %", 0) <= 100


def test_a_shape_that_does_not_hold_is_said() -> None:
    rows = [{"msg/s": 10, "algorithm": name, "cores": cores, "of bound": 1.0}
            for name, cores in (("SH", 5), ("CE", 6), ("local", 4))]
    assert [row["holds"] for row in shapes({"4.7": rows})] == ["no", "yes"]


def test_machines_vary_by_recorded_use_or_by_what_is_made_up(tmp_path: Path) -> None:
    recorded = tmp_path / "use.csv.gz"
    recorded.write_bytes(gzip.compress(b"a,0,50,100\nb,30,,60\n"))
    traces = machine_traces(np.random.default_rng(1), recorded)

    assert traces[0] == pytest.approx([1.0, 1 - 0.5 / 3, 1 - 1 / 3])
    assert traces[1] == pytest.approx([0.9, 0.8])
    assert all(len(trace) == STEPS and 0.4 < trace.min() <= trace.max() < 1.4
               for trace in machine_traces(np.random.default_rng(1), None))
