"""States of windows, repetitions and pairs as commit c3b94a08 kept them: what comes out afterwards is what comes out
where one version has worked on all events."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from workers.library.batch_states import keeping, parts_of
from workers.library.config import settings
from workers.library.operators import WINDOW, window_fold
from workers.library.repetitions import Deduplicated
from workers.library.state_store import StoreLocation
from workers.library.windows import JoinFold

KEPT = json.loads((Path(__file__).parent / "states_c3b94a08.json").read_text())
EVENTS, CUT = KEPT["events"], KEPT["cut"]
BATCH = 9  # events
Step = Callable[[dict, Sequence[Any]], list]


def _name(case: dict) -> str:
    config = case["config"]
    return "-".join([case["task"], *(str(config[name]) for name in ("kind", "outer") if name in config), *(
        [case["type"]] if "type" in case else [])])


def _fold_and_step(case: dict) -> tuple[Any, Step]:
    """The present fold of a task, and how an event goes into it."""
    if case["task"] == "deduplicate":
        repetitions = Deduplicated(**case["config"])
        return repetitions, lambda state, event: [
            event[0] for _ in repetitions.step(state, event[3], event[1], event[0], event[2])]
    if case["task"] == "join":
        pairs = JoinFold(**case["config"])
        return pairs, lambda state, event: list(pairs.step(
            state, "=" + event[3], event[1], event[0], event[2], *(
                str(event[0]) if event[5] == side else None for side in "LR")))
    kind = case["type"]
    aggregates, windows = window_fold(settings(WINDOW, case["config"]), {"v": kind, "k": "string"})
    return windows, lambda state, event: list(windows.step(
        state, event[3], event[1], event[0], event[2], event[3], *(
            _value(event[4], kind) if aggregate.column else None for aggregate in aggregates)))


def _value(value: int | None, kind: str) -> str | float | None:
    if value is None:
        return None
    if kind == "double":
        return float(value)
    return str(Decimal(value).scaleb(-2)) if kind.startswith("decimal") else str(value)


@pytest.mark.parametrize("large", [False, True], ids=["text", "store"])
@pytest.mark.parametrize("case", KEPT["cases"], ids=_name)
def test_what_comes_out_has_no_seam(case: dict, large: bool, tmp_path: Path) -> None:
    fold, step = _fold_and_step(case)
    state: dict = fold.start()
    whole = [step(state, event) for event in EVENTS]
    text, rows = json.dumps({"": case["state"]}), []
    for begin in range(CUT, len(EVENTS), BATCH):
        kept_states = keeping(text, StoreLocation(str(tmp_path), "s", 1 if large else 1 << 30), parts_of(fold))
        rows += [step(kept_states.states.get(""), event) for event in EVENTS[begin:begin + BATCH]]
        text = kept_states.save()
        kept_states.close()
    assert [sorted(out, key=str) for out in rows] == [sorted(out, key=str) for out in whole[CUT:]]
    assert any(rows)
