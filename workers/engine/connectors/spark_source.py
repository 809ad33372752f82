"""Sources that Spark reads: a streaming query whose batches are handed to the runner piece by piece.

The position in the source is Spark's checkpoint; the broker also has how much of which batch is written. Of a batch
that Spark repeats only the missing part is written, and of a written batch nothing. All sources of a host share one
driver, which lives as long as any of them.
"""

from __future__ import annotations

import itertools
import json
import queue
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from subprocess import TimeoutExpired
from typing import Any

from workers.engine.agents.node_files.node_store import NodeStore
from workers.engine.worker_settings import from_environment
from workers.library.spark_sources import require_source
from workers.library.spark_text import identifier

from .contract import MOST_MESSAGES, DeadLetter, Message, Opening, Polled, Position, SourceAway, SourceRefused

WAIT_S = 0.5  # between two looks whether a source is still wanted
END_S = 5.0


class _Driver:
    """The Spark session of this process, by those who use it."""

    def __init__(self) -> None:
        self._lock, self._session, self._users = threading.Lock(), None, 0

    def __enter__(self) -> Any:
        with self._lock:
            if self._session is not None and _jvm_is_gone():
                self._session = None
                _end_jvm()
            if self._session is None:
                from workers.engine.spark.session import open_session

                settings = replace(from_environment(), spark_master="")  # it reads here, whatever slots do
                folder = NodeStore(settings.data_dir, settings.node).host_folder / "spark"
                folder.mkdir(parents=True, exist_ok=True)
                self._session = open_session(settings, slot=-1, slot_dir=folder, pin=False, class_options="")
            self._users += 1
            return self._session

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._session is not None:
                session, self._session = self._session, None
                with suppress(Exception):
                    session.stop()
                _end_jvm()


DRIVER = _Driver()


def open_spark_source(opening: Opening) -> SparkReader:
    """Go on with the source's checkpoint, or begin one."""
    require_source(opening.config["source"])
    return SparkReader(opening)


class SparkReader:
    """A query of Spark's that waits with each piece of a batch until it is written."""

    def __init__(self, opening: Opening) -> None:
        self._config, self._secrets = opening.config, _secret_options(opening.config["secret_options"])
        self._names = list(opening.config["columns"])
        self._checkpoint = from_environment().data_dir / "checkpoints" / f"in-{opening.task}"
        self._pieces: queue.Queue[tuple[int, int, bool, list[Message]]] = queue.Queue(maxsize=1)
        self._acknowledgement, self._closing = threading.Event(), threading.Event()
        self._dead_letters: list[DeadLetter] = []
        if opening.position is None:  # of an earlier life, or begun and never heard of
            shutil.rmtree(self._checkpoint, ignore_errors=True)
        session = DRIVER.__enter__()
        try:
            self._query = self._start(session)
            self._position = self._begin(opening.position)
        except BaseException:
            self.close(for_good=False)
            raise
        self._ready.set()

    def position(self) -> Position:
        return self._position

    def poll(self, timeout_s: float) -> Polled:
        lost, self._dead_letters = self._dead_letters, []
        try:
            batch, until, is_over, messages = self._pieces.get(timeout=0 if lost else timeout_s)
        except queue.Empty:
            if not lost:
                self._must_run()
            return Polled(position=self._position if lost else None, lost=lost)
        self._position = {**self._position, "batch": batch, "rows": None if is_over else until}
        return Polled(messages, self._position, lost)

    def written(self) -> None:
        self._acknowledgement.set()

    def rest(self, timeout_s: float) -> None:
        self._closing.wait(timeout_s)  # Spark waits with the piece that it has

    def close(self, *, for_good: bool) -> None:
        self._closing.set()
        self._ready.set()
        with suppress(Exception):  # its driver may be gone
            if self._query is not None:
                self._query.stop()
        DRIVER.__exit__()
        if for_good:
            shutil.rmtree(self._checkpoint, ignore_errors=True)

    # -- the query -----------------------------------------------------------------------------------------------------

    _query: Any = None

    def _start(self, session: Any) -> Any:
        self._ready = threading.Event()
        try:
            reader = session.readStream.format(self._config["source"]).options(
                **self._config["options"], **self._secrets)
            if self._config["schema"]:
                reader = reader.schema(self._config["schema"])
            frame = reader.load()
        except Exception as error:
            raise self._refusal(error) from None
        missing = [name for name in self._names if name not in frame.columns]
        if missing:
            raise SourceRefused(
                f"The format {self._config['source']} gives no column {', '.join(missing)}.",
                remedy=f"It gives {', '.join(frame.columns)}.")
        try:
            # As text, in UTC: Python has no time beyond the year 9999, and one such row would stop all others.
            times = {name: frame[identifier(name)].cast("string") for name, kind in frame.dtypes
                     if name in self._names and kind in ("timestamp", "timestamp_ntz", "date")}
            writer = frame.withColumns(times).select(*map(identifier, self._names)).writeStream.foreachBatch(self._give)
            return writer.option("checkpointLocation", str(self._checkpoint)).trigger(
                processingTime=f"{round(self._config['every'] * 1000)} milliseconds").start()
        except Exception as error:
            raise self._refusal(error) from None

    def _begin(self, position: Position | None) -> dict[str, Any]:
        """The position that counts with this checkpoint: another one's batches have other numbers."""
        begin = {"query": str(self._query.id), "batch": -1, "rows": None}
        if position is None:
            return begin
        if position["query"] == begin["query"]:
            return dict(position)
        self._dead_letters.append(DeadLetter(
            "the place in the source is lost with its checkpoint: it is read from where its options say", "checkpoint"))
        return begin

    def _give(self, frame: Any, batch: int) -> None:
        """Hand a batch over, on a thread of Spark's; it is done when this returns."""
        self._ready.wait()
        done_batch, done_rows = self._position["batch"], self._position["rows"]
        if batch < done_batch or (batch == done_batch and done_rows is None):
            return
        first = done_rows if batch == done_batch else 0
        rows = itertools.islice(frame.toLocalIterator(), first, None)
        until, following = first, _next_piece(rows)
        while following:
            piece, following = following, _next_piece(rows)
            until += len(piece)
            messages = [
                Message(place=f"batch {batch}, row {number}", values=row.asDict(recursive=True))
                for number, row in enumerate(piece, start=until - len(piece))]
            self._acknowledgement.clear()
            self._offer((batch, until, not following, messages))
            while not self._acknowledgement.wait(WAIT_S):
                self._must_go_on()

    def _offer(self, piece: tuple[int, int, bool, list[Message]]) -> None:
        while True:
            self._must_go_on()
            try:
                return self._pieces.put(piece, timeout=WAIT_S)
            except queue.Full:
                continue

    def _must_go_on(self) -> None:
        if self._closing.is_set():
            raise RuntimeError("the source ends")  # so that Spark does not count the batch as done

    def _must_run(self) -> None:
        again = "It is started again by itself."
        try:
            runs, error = self._query.isActive, None
            if not runs:
                error = self._query.exception()
        except Exception:
            raise SourceAway("Spark's driver ended.", remedy=again) from None
        if error is not None:
            raise self._refusal(error)
        if not runs:
            raise SourceAway("Spark's query ended.", remedy=again)

    def _refusal(self, error: Exception) -> SourceRefused:
        """What Spark says, without secrets."""
        text = str(getattr(error, "desc", None) or error).strip() or type(error).__name__
        for value in sorted(self._secrets.values(), key=len, reverse=True):
            text = text.replace(value, "•••")
        return SourceRefused(
            f"Spark cannot read the format {self._config['source']}: {text.splitlines()[0][:300]}",
            remedy="See to the options, and to whether the format's package is there.")


def _next_piece(rows: Iterator[Any]) -> list[Any]:
    return list(itertools.islice(rows, MOST_MESSAGES))


def _secret_options(text: str | None) -> Mapping[str, str]:
    if not text:
        return {}
    try:
        options = json.loads(text)
    except ValueError:
        options = None
    if not isinstance(options, dict) or not all(isinstance(value, str) for value in options.values()):
        raise SourceRefused("The secret of secret_options is no JSON object of texts.",
                            remedy='Keep it as {"name": "value"}.')
    return options


def _jvm_is_gone() -> bool:
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    return process is not None and process.poll() is not None


def _end_jvm() -> None:
    """End the driver's JVM: PySpark keeps it for the next session, and it is large."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    with suppress(Exception):  # of one whose JVM is gone
        gateway.shutdown()
    if (process := getattr(gateway, "proc", None)) is not None:
        process.stdin.close()
        try:
            process.wait(END_S)
        except TimeoutExpired:
            process.kill()
