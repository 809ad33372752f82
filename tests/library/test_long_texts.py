"""Texts that people and other systems send are matched in a time that grows with their length: none of these ended
within hours where one was a megabyte long, and nothing else of its process went on meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.model import profile_csv
from scheduler.model.documents import read_document
from scheduler.model.errors import InvalidDataflow
from scheduler.model.units import in_unit
from workers.engine.agents.node_files import fold_stores
from workers.engine.connectors.contract import Message
from workers.engine.connectors.formats import MessageLayout, decode
from workers.library.aggregates import read_aggregates
from workers.library.config import InvalidConfig
from workers.library.registry import task_types
from workers.library.tables import read_query

LONG = 300_000
DIGITS = "9" * LONG + "x"


def number(kind: str) -> None:
    letters = decode([Message(f'[{{"a": "{DIGITS}"}}]'.encode())], MessageLayout("json", {"a": kind}), now_ms=1).dead
    assert len(letters) == 1


def quantity() -> None:
    assert in_unit("1" + " " * LONG + "minutes", "s") is None


def profile() -> None:
    for read in (profile_csv._number, profile_csv._share):
        with pytest.raises(ValueError):
            read(DIGITS)


def aggregate() -> None:
    with pytest.raises(InvalidConfig):
        read_aggregates([f"a=quantile(b, {DIGITS})"])


def variable() -> None:
    with pytest.raises(InvalidDataflow):
        read_document(
            f"name: {'${' * LONG}\nspouts: [{{id: in, className: org.example.Sensors}}]", format="yaml",
            task_types=task_types())


def comment() -> None:
    assert read_query("SELECT :a " + "/* :b " * LONG).names == ("a",)


LOOKED_AT: dict[str, Callable[[], None]] = {
    **{f"a number for a {kind}": lambda kind=kind: number(kind) for kind in ("double", "bigint", "decimal(9,2)")},
    "a quantity": quantity, "a profile": profile, "an aggregate": aggregate, "a variable of Flux": variable,
    "a comment of a query": comment}


@pytest.mark.parametrize("look", LOOKED_AT.values(), ids=LOOKED_AT)
def test_a_long_text_is_refused_at_once(look: Callable[[], None]) -> None:
    look()


def test_the_names_in_a_long_record_are_found_at_once(tmp_path: Path) -> None:
    record = tmp_path / "f1-0.held"
    record.write_bytes(b"a" * 3 * LONG + b' "f1-0.0.x' + fold_stores.SUFFIX.encode() + b'"')
    assert list(fold_stores._names(record)) == [f"f1-0.0.x{fold_stores.SUFFIX}"]
