"""What the bench of isolation makes of an output's blocks and of the events of both; the bench runs real drivers."""

from __future__ import annotations

from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from scheduler.model.prices import Prices
from tests.benches.isolation import Block, Moments, _with, dataflow, equality, rates, windows


def test_the_two_teams_share_the_source_and_nothing_else() -> None:
    prices = Prices()
    alone = _with(Estate(slots=(Slot("n1", 0),)), "fast", dataflow("fast", rate_per_s=97.0), prices)
    both = _with(alone, "slow", dataflow("slow", rate_per_s=97.0, pause_ms=200.0), prices)
    fast, slow = (both.submitted[name] for name in ("fast", "slow"))
    assert fast.running["meters"] == slow.running["meters"] and fast.running["out"] != slow.running["out"]
    assert {user.team for user in both.submitted.values()} == {"fast", "slow"}
    assert len(both.fragments) == 2, "the slow one reads a channel"


def test_rates_are_medians_of_windows_by_when_blocks_were_written() -> None:
    before = [Block(ms, 10) for ms in range(0, 20_000, 100)]
    after = [Block(ms, 10) for ms in range(40_000, 60_000, 100)]
    assert windows(before, 0, 12_000) == [100.0, 100.0]
    window_rates = rates([*before, *after], Moments(0, 20_000, 30_000, 40_000, 60_000))
    assert window_rates["difference"] == 0.0 and window_rates["stood_still_s"] == 20.0 and window_rates[
        "held_back_s"] == 10.0
    slower = rates([*before, *after[::2]], Moments(0, 20_000, 30_000, 40_000, 60_000))
    assert slower["difference"] == -0.5 and slower["before_per_s"] == 100.0


def test_outputs_are_equal_where_nothing_is_left_out_doubled_or_altered() -> None:
    fast = [{"_seq": number, "value": 2 * number} for number in range(9)]

    def holds(fast: list[dict], slow: list[dict]) -> bool:
        verdict = equality(fast, slow)
        return verdict["fast_is_whole"] and verdict["slow_is_whole"] and verdict["same_events"]

    assert holds(fast, fast[4:7])
    assert not holds(fast[1:], fast[4:7]) and not holds([*fast, fast[-1]], fast[4:7])
    assert not holds(fast, [fast[4], fast[6]]) and not holds(fast, [fast[4], fast[4]]) and not holds(fast, [])
    assert not holds(fast, [{"_seq": 4, "value": 1}])
