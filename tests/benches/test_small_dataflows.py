"""What rows of small dataflows come to beside one another, and the parts of slots."""

from __future__ import annotations

from tests.benches.small_dataflows import compared
from tests.benches.tree_usage import KindUsage


def test_rows_are_compared_with_flink_and_with_fewer_dataflows() -> None:
    def row(side: str, dataflows: int, limit: str, cores: float, turn: int = 0) -> dict:
        return {"side": side, "dataflows": dataflows, "limit": limit, "cores": cores, "round": turn}

    rows = compared([
        row("Weir", 1, "5 s", 0.05), row("Weir", 10, "5 s", 0.08), row("Weir", 40, "5 s", 0.2),
        row("Weir", 10, "1 s", 0.1), row("Flink", 40, "–", 0.16), row("Flink", 40, "–", 0.1, 1),
        row("Weir", 40, "5 s", 0.2, 1), row("Weir", 40, "5 s", 0.3, 2)])

    assert [row["times_flink"] for row in rows] == [None, None, 1.25, None, 1.0, 1.0, 2.0, 3.0]
    assert [row["further_mcores"] for row in rows] == [None, 3.3, 4.0, None, None, None, None, None]


def test_parts_are_told_by_what_they_took_since_and_have_now() -> None:
    before = KindUsage(100.0, {"driver": 5.0}, {"driver": 900.0})
    now = KindUsage(110.0, {"driver": 7.0, "fold_host": 1.0}, {"driver": 500.4, "fold_host": 40.0})
    assert now.since(before) == {"driver_cores": 0.2, "fold_host_cores": 0.1, "driver_mb": 500, "fold_host_mb": 40}
