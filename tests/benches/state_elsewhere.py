"""A word count with its state in different places: as Weir keeps it, in the broker, in PostgreSQL, in RocksDB.

One query after the other in one driver, each over the same batches of real text, each word with its count so far.
``broker`` and ``PostgreSQL`` run our fold: before each Arrow batch the states of its words are read at once (pipelined,
or by one SELECT), and afterwards written at once (pipelined, or by one upsert). Both are on this machine, and
PostgreSQL does not wait for its disk. Neither is exactly once: a batch that is repeated counts again. The last
one is Spark's own state, RocksDB with its changelog, without our code or any Python.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import psycopg
import redis
from pyspark.sql import DataFrame, SparkSession

from workers.library.batch_states import Keeping, StatesByKey, keeping
from workers.library.state import NOTHING, FoldedStream, fold_rows, fold_stream, folded_by, frame_of, going_on
from workers.library.state_store import LARGE, StoreLocation

from . import spark_state
from .engine import bench
from .real_text import words_of_text
from .services import database
from .tree_usage import used_s

FOLD, STORE = "fold, as Weir keeps it", "fold, in a store"  # as a text up to 256 KiB; or by row from the first event on
BROKER, POSTGRESQL = "fold, in the broker", "fold, in PostgreSQL"
ROCKSDB = "Spark's aggregation, a row a key and batch"  # as `spark_state` has it; its Python ways take minutes here
FEW = 2_000  # events one by one: the first takes as long as the last
WARM_BATCHES = 2  # compilers, and most words

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
        self._kept: Keeping

    def read(self, _: list[str]) -> StatesByKey:
        self._kept = keeping(self._text, self._location, {})
        return self._kept.states

    def write(self, _: StatesByKey) -> None:
        self._text = self._kept.save()
        self._kept.close()


Place = InBroker | InPostgresql | InStore


@lru_cache(maxsize=4)  # a Python worker keeps its connections from batch to batch
def _connected(kind: type[InBroker] | type[InPostgresql], url: str) -> InBroker | InPostgresql:
    return kind(url)


def counted_here(stores: Path, events: DataFrame, *, large: int) -> DataFrame:
    """Each event with its key's count so far, whose state Weir keeps."""
    with going_on("task", stores=stores, fragment=f"f{time.monotonic_ns()}", large=large):
        return _counted(events)


def counted_outside(kind: type[InBroker] | type[InPostgresql], url: str, events: DataFrame) -> DataFrame:
    """Each event with its key's count so far, whose state is elsewhere."""
    def instead(folded: FoldedStream) -> DataFrame:
        work, kinds = folded.work, {each.name: each.dataType.simpleString() for each in folded.gives}

        def run(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            store = _connected(kind, url)
            for frame in frames:
                states = store.read(list(dict.fromkeys(frame["_key"])))
                given = work(states, frame)
                store.write(states)
                if given:
                    yield frame_of(kinds, given)

        return folded.frame.coalesce(1).mapInPandas(run, folded.gives)

    with folded_by(instead):
        return _counted(events)


def _counted(events: DataFrame) -> DataFrame:
    return fold_stream(events, spark_state.Count(), by=["key"], reads=["value"], kept=["key"], added="n double")


def measure_places(*, repeats: int, events: int, batches: int) -> list[dict[str, Any]]:
    """A line for each place of the state: medians of events/s and of events of a core-second, and how many times as
    many the fold does as Weir keeps it, pair by pair.

    CPU is that of the driver, its Python workers, the broker and PostgreSQL.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with bench() as at, database(rows=1) as (address, _), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "folds").mkdir()
        builder = SparkSession.builder.master("local[2]")
        for key, value in {**spark_state.SPARK, spark_state.CHANGELOG: "true"}.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        try:
            ways: dict[str, tuple[str, Callable[[DataFrame], DataFrame]]] = {
                FOLD: ("append", partial(counted_here, folder / "folds", large=LARGE)),
                STORE: ("append", partial(counted_here, folder / "folds", large=0)),
                BROKER: ("append", partial(counted_outside, InBroker, at.url)),
                POSTGRESQL: ("append", partial(counted_outside, InPostgresql, address)),
                ROCKSDB: spark_state.ways(spark, folder)[ROCKSDB]}
            runs: dict[str, list[Mapping[str, float]]] = {name: [] for name in ways}
            for number in range(repeats):
                for name in list(ways)[::-1 if number % 2 else 1]:
                    runs[name].append(_run(spark, folder, *ways[name], events=events, batches=batches))
                    print(f"{name}: {runs[name][-1]}", file=sys.stderr, flush=True)
        finally:
            spark.stop()
    return [
        {"state": name, "events/s": round(median(run["per_s"] for run in own)),
         "events a core-second": round(median(run["per_core_s"] for run in own)),
         **{f"fold/this, {unit}": round(median(
             fold[of] / run[of] for fold, run in zip(runs[FOLD], own, strict=True)), 2)
            for unit, of in (("events/s", "per_s"), ("CPU", "per_core_s"))}}
        for name, own in runs.items()]


def measure_folds(*, repeats: int, events: int, batches: int) -> list[dict[str, Any]]:
    """The same without Spark: our fold alone, in this process, with its states read and written for each batch, or for
    each event. A line for each: events of a core-second, and how many times as many the
    fold does as Weir keeps it.
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
        {"state": way, "events a core-second": round(median(own)), "fold/this": round(median(
            fold / this for fold, this in zip(runs[FOLD], own, strict=True)), 2)} for way, own in runs.items()]


def _fold_alone(place: Place, at_once: int, *, events: int, batches: int) -> float:
    words, fold = cycle(words_of_text()), spark_state.Count()
    sizes = [at_once] * (batches if at_once > 1 else FEW)
    for warm, size in [(True, events), *((False, size) for size in sizes)]:
        names = list(islice(words, size))
        states = place.read(list(dict.fromkeys(names)))
        fold_rows(fold, states, {"_key": names, "key": names, "value": [1.0] * size}, reads=("value",), kept=("key",))
        place.write(states)
        if warm:
            before_s = used_s(os.getpid())
    return sum(sizes) / (used_s(os.getpid()) - before_s)


def _run(
    spark: SparkSession, folder: Path, mode: str, make: Callable[[DataFrame], DataFrame], *, events: int, batches: int
) -> Mapping[str, float]:
    run, words = spark_state.Run(spark, folder, mode, make), cycle(words_of_text())
    for _ in range(WARM_BATCHES):
        run.put(list(islice(words, events)))
    run.query.processAllAvailable()
    for _ in range(batches):  # written beforehand: the time is the query's
        run.hide(list(islice(words, events)))
    before_s, began_s = used_s(os.getpid()), time.monotonic()
    run.show()
    run.query.processAllAvailable()
    past_s, cpu_s = time.monotonic() - began_s, used_s(os.getpid()) - before_s
    run.query.stop()
    return {"per_s": events * batches / past_s, "per_core_s": events * batches / cpu_s}
