"""Event time from messages to windows: what one sender or one partition sends decides nothing for others."""

from __future__ import annotations

import json
from typing import Any

from workers.engine.connectors.contract import DeadLetter, Message
from workers.engine.connectors.formats import decode, layout_of
from workers.library.aggregates import read_aggregates
from workers.library.windows import Windowed

NOW_MS = 1_700_000_040_000  # a whole minute
BEGIN_S = NOW_MS // 1000 - 3600
LAYOUT = layout_of({"columns": ["sensor", "at:bigint"], "time_field": "at"})
FOLD = Windowed(60_000, 60_000, 60_000, False, 1, read_aggregates(["n=count(*)"]))


def sent(sensor: str, at_s: int, *, partition: str = "") -> Message:
    return Message(json.dumps({"sensor": sensor, "at": 1000 * at_s}).encode(), partition=partition)


def windows_of(messages: list[Message]) -> tuple[list[tuple], list[DeadLetter], int]:
    """The windows that close, what could not be read, and how many events came too late; each comes by itself."""
    state: Any = FOLD.start()
    rows: list[tuple] = []
    dead: list[DeadLetter] = []
    for number, message in enumerate(messages):
        decoded = decode([message], LAYOUT, now_ms=NOW_MS)
        dead += decoded.dead
        for row in decoded.block(LAYOUT, first=number, born_ms=NOW_MS, source="task").to_pylist():
            rows += FOLD.step(state, row["sensor"], row["_time"], row["_seq"], row["_born"], row["sensor"], None)
    return rows, dead, FOLD.late(state)


def test_an_event_a_day_ahead_is_a_dead_letter_and_all_others_count() -> None:
    honest = [sent(f"s{number}", BEGIN_S + 100 + second) for second in range(0, 1001, 10) for number in (1, 2, 3)]
    first = [sent("a", BEGIN_S + second) for second in range(3)]
    expected = windows_of([*first, *honest])
    rows, dead, late = windows_of([*first, sent("bad", BEGIN_S + 86_400), *honest])
    assert ([row[3:] for row in rows], late) == ([row[3:] for row in expected[0]], 0) and len(rows) == 49
    assert [letter.reason for letter in dead] == [
        "its time, field at, is 82800 s ahead of its arrival, and ahead lets it be 300 s: mend the sender's clock, or "
        "name more in ahead"]


def test_of_a_backlog_of_two_partitions_ten_minutes_apart_both_have_all_their_windows() -> None:
    slow, quick = ([sent(name, begin_s + second, partition=name) for second in range(0, 1201, 5)]
                   for name, begin_s in (("t[0]", BEGIN_S), ("t[1]", BEGIN_S + 600)))
    interleaved = [message for pair in zip(slow, quick, strict=True) for message in pair]
    rows, dead, late = windows_of(interleaved)
    assert (dead, late) == ([], 0)
    for alone in (slow, quick):
        key = alone[0].partition
        assert [row[3:] for row in rows if row[3] == key] == [row[3:] for row in windows_of(alone)[0]] != []
