"""What `./weir bench crowd` makes of what it saw."""

from __future__ import annotations

import pytest

from tests.benches.crowd import ACTS, CrowdedSite, is_within_limits, rows_of


def seen(took_s: list[float], *statuses: int) -> CrowdedSite:
    crowd = CrowdedSite(port=0, tokens=())
    crowd.took_s["approve"] = took_s
    crowd.statuses["approve"].update(statuses)
    return crowd


def test_a_row_tells_quantiles_and_how_requests_were_answered():
    rows = rows_of(seen([number / 100 for number in range(100, 0, -1)], *[200] * 90, *[409] * 8, 500, 404))
    assert [row["request"] for row in rows] == list(ACTS)
    row = next(row for row in rows if row["request"] == "approve")
    assert (row["times"], row["p50 s"], row["p99 s"], row["most s"]) == (100, 0.51, 1.0, 1.0)
    assert (row["done"], row["409"], row["500"], row["other"]) == (90, 8, 1, 1)


@pytest.mark.parametrize(("took_s", "statuses", "is_well"), [
    ([0.2] * 200 + [3.0], [200] * 201, True),
    ([0.2] * 20 + [3.0], [200] * 21, False),
    ([0.2], [500], False),
    ([0.2], [0], False),
    ([0.2], [409], True),
    ([], [], False),
])
def test_it_fails_where_approvals_are_slow_or_anything_is_a_defect(
    took_s: list[float], statuses: list[int], is_well: bool
):
    assert is_within_limits(rows_of(seen(took_s, *statuses))) is is_well
