"""A system of each kind to write to, with a real server behind it: what the contract suite of sinks takes away, brings
back, and looks into."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import psycopg

from scheduler.model.dataflow import Task
from tests.postgresql import cluster

from .rigs import PostgresqlRig

REFUSED = 13  # an event with this number is not taken, where a system can refuse events


class SinkRig(Protocol):
    """A system to write to. ``exact`` where each event is there once whatever dies, else at least once; ``refuses``
    where it may take some events and not others."""

    exact: bool
    refuses: bool
    environment: dict[str, str]

    def anew(self) -> None:
        """Give the next test something of its own to write to."""

    def task(self, **config: Any) -> Task:
        """The task that writes it: n (bigint) and text (string)."""

    def numbers(self) -> Counter[int]:
        """The numbers that are there, and how often."""

    def leave(self) -> None:
        """Be away."""

    def return_(self) -> None:
        """Be there again."""

    def break_(self) -> None:
        """Take nothing any more, though it is there; ``mend`` takes it back."""

    def mend(self) -> None:
        """Take events again, refused ones too."""


class PostgresqlSink(PostgresqlRig):
    """A table in a cluster of its own; with ``key`` rows are put in by it."""

    exact, refuses = True, True

    def __init__(self, address: str, *, key: bool = False) -> None:
        super().__init__(address)
        self._key = key

    def anew(self) -> None:
        self._table += 1
        self.name = f"sunk{self._table}"
        self._run(f"create table {self.name} (n bigint {'unique' if self._key else ''} check (n <> {REFUSED}), "
                  "text text, at timestamptz default now())")

    def task(self, **config: Any) -> Task:
        return Task(f"p{self._table}", "to_postgresql", {
            "database": self.address, "table": self.name, **({"key": ["n"]} if self._key else {}), **config})

    def numbers(self) -> Counter[int]:
        with psycopg.connect(self.address) as connection:
            rows = connection.execute(f"select n, text from {self.name}").fetchall()
        assert all(text == f"event {n}" for n, text in rows)
        return Counter(n for n, _ in rows)

    def break_(self) -> None:
        self._run(f"alter table {self.name} rename column text to other")

    def mend(self) -> None:
        with psycopg.connect(self.address) as connection:
            names = {row[0] for row in connection.execute(
                "select attname from pg_attribute where attrelid = to_regclass(%s)", (self.name,))}
            if "other" in names:
                connection.execute(f"alter table {self.name} rename column other to text")
            connection.execute(f"alter table {self.name} drop constraint if exists {self.name}_n_check")


@contextmanager
def sink_rig_of(kind: str) -> Iterator[Any]:
    """A rig of that kind, ended afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="weir-rig-"))
    try:
        if kind.startswith("postgresql"):
            with cluster() as address:
                yield PostgresqlSink(address, key=kind.endswith("upsert"))
            return
        raise AssertionError(kind)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
