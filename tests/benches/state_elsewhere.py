"""A count by word as a fold alone, without Spark, with its state in different places: as Weir keeps it, in a store, in
the broker, in PostgreSQL.

For the last two the states of a batch's words are read at once (pipelined, or by one SELECT), and afterwards written at
once (pipelined, or by one upsert); or both for each event. Both are on this machine, and PostgreSQL does not wait for
its disk. Neither is exactly once: a batch that is repeated would count again.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
import redis

from workers.library.batch_states import Keeping, StatesByKey, keeping
from workers.library.state import NOTHING, fold_rows
from workers.library.state_store import LARGE, StoreLocation

from .engine import bench
from .real_text import words_of_text
from .services import database
from .spark_state import Count
from .tree_usage import used_s

FOLD, STORE = "fold, as Weir keeps it", "fold, in a store"  # as a text up to 256 KiB; or by row from the first event on
BROKER, POSTGRESQL = "fold, in the broker", "fold, in PostgreSQL"
FEW = 2_000  # events one by one: the first takes as long as the last

States = dict[str, Any]


class InBroker:
    """States by key, each in a hash of its own."""

    def __init__(self, url: str) -> None:
        self._broker = redis.Redis.from_url(url)

    def read(self, names: list[str]) -> States:
        pipeline = self._broker.pipeline(transaction=False)
        for name in names:
            pipeline.hget(f"word:{name}", "state")
        return {name: json.loads(text) for name, text in zip(names, pipeline.execute(), strict=True) if text}

    def write(self, states: States) -> None:
        pipeline = self._broker.pipeline(transaction=False)
        for name, state in states.items():
            pipeline.hset(f"word:{name}", "state", json.dumps(state))
        pipeline.execute()


class InPostgresql:
    """States by key, each in a row of its own."""

    def __init__(self, url: str) -> None:
        self._database = psycopg.connect(url, autocommit=True)
        self._database.execute("create table if not exists states (name text primary key, state text)")

    def read(self, names: list[str]) -> States:
        rows = self._database.execute("select name, state from states where name = any(%s)", [names])
        return {name: json.loads(text) for name, text in rows}

    def write(self, states: States) -> None:
        self._database.execute(
            "insert into states select * from unnest(%s::text[], %s::text[]) "
            "on conflict (name) do update set state = excluded.state",
            [list(states), [json.dumps(state) for state in states.values()]])


class InStore:
    """States by key as Weir keeps them, read and written by batch."""

    def __init__(self, folder: Path, *, large: int = LARGE) -> None:
        folder.mkdir()
        self._location, self._text = StoreLocation(str(folder), "fold", large), NOTHING
        self._keeping: Keeping

    def read(self, _: list[str]) -> StatesByKey:
        self._keeping = keeping(self._text, self._location, {})
        return self._keeping.states

    def write(self, _: StatesByKey) -> None:
        self._text = self._keeping.save()
        self._keeping.close()


Place = InBroker | InPostgresql | InStore


def measure_folds(*, repeats: int, events: int, batches: int) -> list[dict[str, Any]]:
    """A line for each place: medians of events of a core-second, and how many times as many the fold does as Weir keeps
    it, and in a store, pair by pair. CPU is that of this process, the broker and PostgreSQL.
    """
    with bench() as at, database(rows=1) as (address, _), tempfile.TemporaryDirectory() as name:
        folders = (Path(name, str(number)) for number in itertools.count())
        ways: dict[str, tuple[Callable[[], Place], int]] = {
            FOLD: (lambda: InStore(next(folders)), events), STORE: (lambda: InStore(next(folders), large=0), events),
            BROKER: (lambda: InBroker(at.url), events), POSTGRESQL: (lambda: InPostgresql(address), events),
            f"{BROKER}, event by event": (lambda: InBroker(at.url), 1),
            f"{POSTGRESQL}, event by event": (lambda: InPostgresql(address), 1)}
        runs: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(repeats):
            for way in list(ways)[::-1 if number % 2 else 1]:
                make, at_once = ways[way]
                runs[way].append(_fold_alone(make(), at_once, events=events, batches=batches))
                print(f"{way}: {runs[way][-1]:,.0f} events a core-second", file=sys.stderr, flush=True)
    return [
        {"state": way, "events a core-second": round(median(way_runs)), **{
            f"{base} / this": round(median(fold / this for fold, this in zip(runs[base], way_runs, strict=True)), 2)
            for base in (FOLD, STORE)}} for way, way_runs in runs.items()]


def _fold_alone(place: Place, at_once: int, *, events: int, batches: int) -> float:
    words, fold = cycle(words_of_text()), Count()
    sizes = [at_once] * (batches if at_once > 1 else FEW)
    for warm, size in [(True, events), *((False, size) for size in sizes)]:
        names = list(islice(words, size))
        states = place.read(list(dict.fromkeys(names)))
        fold_rows(fold, states, {"_key": names, "key": names, "value": [1.0] * size}, reads=("value",), kept=("key",))
        place.write(states)
        if warm:
            before_s = used_s(os.getpid())
    return sum(sizes) / (used_s(os.getpid()) - before_s)
