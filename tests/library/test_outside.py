"""Answers of other systems for a batch of events: how much of them a Python worker holds at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from workers.library import outside

ADDED = pa.schema([("body", pa.string())])
EVENT_BYTES = 1 << 20


@pytest.mark.parametrize(
    ("answers_an_event", "text", "most"),
    [(1, "x" * EVENT_BYTES, outside.PIECE_BYTES // EVENT_BYTES + 1),
     (10_000, "x", outside.PIECE_ROWS + 10_000)], ids=["long answers", "many answers"])
def test_no_more_answers_are_held_than_a_piece_has(answers_an_event: int, text: str, most: int) -> None:
    """Answers of 1 MiB for each of 10,000 events would fill the memory of the machine."""
    questions = count()

    def ask(event: Mapping[str, Any]) -> list[tuple]:
        next(questions)
        return [(text,)] * answers_an_event

    batch = pa.RecordBatch.from_pydict({"id": list(range(50))})
    pieces: Iterator[pa.RecordBatch] = outside._answered(batch, ["id"], ["id"], ADDED, ask, (None,), "null")
    first = next(pieces)
    asked_for = next(questions)
    assert first.num_rows <= most
    assert asked_for * answers_an_event == first.num_rows, "the rest was asked for before the first piece was taken"
    rows = [row["id"] for piece in [first, *pieces] for row in piece.to_pylist()]
    assert rows == [number for number in range(50) for _ in range(answers_an_event)]


def test_a_batch_without_answers_is_a_batch_without_rows() -> None:
    def ask(event: Mapping[str, Any]) -> list[tuple]:
        raise outside.NotAnswered

    batch = pa.RecordBatch.from_pydict({"id": [1, 2]})
    pieces = list(outside._answered(batch, ["id"], ["id"], ADDED, ask, (None,), "drop"))
    assert [(piece.num_rows, piece.schema.names) for piece in pieces] == [(0, ["id", "body"])]
