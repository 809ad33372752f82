"""The fold host by its protocol, without Spark: batches are repeated, cut short, and begin with the right states."""

from __future__ import annotations

import os
import pickle
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from scheduler.model.dataflow import Task
from tests.launcher.waiting import wait_until
from workers.engine.spark import fold_files
from workers.engine.spark.fold_host import BEGIN, DONE, FAILED, HEAD, SAVE, WORK, FoldBatch, FoldDefinition, FoldHost
from workers.engine.spark.hosted_folds import can_be_hosted
from workers.library.registry import task_types
from workers.library.state import Inherited
from workers.library.state_store import StoreLocation

READS = pa.schema([("_key", pa.string()), ("n", pa.int64())])
GIVES = pa.schema([("key", pa.string()), ("sum", pa.int64())])


def sums(states: Any, frame: pd.DataFrame) -> Sequence[Sequence]:
    """Running sums by key; negative numbers cannot be added."""
    rows = []
    for key, number in zip(frame["_key"], frame["n"], strict=True):
        if number < 0:
            raise ValueError(f"{number} is negative")
        state = states.get(key)
        if state is None:
            state = states[key] = {"sum": 0}
        state["sum"] += int(number)
        rows.append((key, state["sum"]))
    return [list(column) for column in zip(*rows, strict=True)]


def definition(folder: Path, *, inherited: Inherited | None = None, large: int = 1 << 18) -> bytes:
    return pickle.dumps(FoldDefinition(
        sums, {}, READS, GIVES, {"key": "string", "sum": "bigint"}, inherited,
        StoreLocation(str(folder / "stores"), "f.t-0", large)))


class Batch:
    """A connection to a host in this process: what an operator of a query has for a batch."""

    def __init__(self, host: FoldHost, folder: Path, number: int, fold: bytes) -> None:
        self._host = host
        self._near_end, self._far_end = socket.socketpair()
        place = str(folder).encode()
        self.began = self._ask(BEGIN, struct.pack(">qi", number, len(place)) + place + fold)

    def _ask(self, what: int, body: bytes) -> tuple[int, bytes]:
        sender = threading.Thread(target=self._near_end.sendall, args=(HEAD.pack(len(body), what) + body,))
        sender.start()
        self._host.serve(self._far_end)
        sender.join()
        length, letter = HEAD.unpack(self._near_end.recv(HEAD.size, socket.MSG_WAITALL))
        return letter, self._near_end.recv(length, socket.MSG_WAITALL) if length else b""

    def work(self, events: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        rows = pa.RecordBatch.from_pylist([{"_key": key, "n": number} for key, number in events], schema=READS)
        letter, answer = self._ask(WORK, rows.serialize().to_pybytes())
        assert letter == DONE, answer.decode()
        made = pa.ipc.read_record_batch(pa.py_buffer(answer), GIVES) if answer else None
        return [] if made is None else [(row["key"], row["sum"]) for row in made.to_pylist()]

    def refused(self, events: Sequence[tuple[str, int]]) -> str:
        rows = pa.RecordBatch.from_pylist([{"_key": key, "n": number} for key, number in events], schema=READS)
        letter, answer = self._ask(WORK, rows.serialize().to_pybytes())
        assert letter == FAILED
        return answer.decode()

    def save(self) -> None:
        assert self._ask(SAVE, b"")[0] == DONE

    def end(self) -> None:
        self._near_end.close()
        assert not self._host.serve(self._far_end)


events = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), min_size=1, max_size=6)
batches = st.lists(st.tuples(st.lists(events, max_size=3), st.lists(st.booleans(), max_size=2)), max_size=6)


@pytest.mark.parametrize("large", [1 << 18, 1], ids=["as text", "in a store"])
@given(batches=batches)
def test_batches_that_are_repeated_begin_with_the_states_before_them(
    tmp_path_factory: pytest.TempPathFactory, large: int, batches: list
) -> None:
    """Each attempt of a batch ends before or after it was saved, by the host's death or not; only then it succeeds."""
    folder = tmp_path_factory.mktemp("host")
    fold, host, states = definition(folder, large=large), FoldHost(), {}
    place, made, expected = folder / "folds" / "0", [], []
    for number, (groups, failed) in enumerate(batches):
        for is_saved in failed:
            attempt = Batch(host, place, number, fold)
            for group in groups:
                attempt.work(group)
            if is_saved:
                attempt.save()
            attempt.end()
            host = FoldHost()
        if not groups:
            continue  # no event, no question
        batch = Batch(host, place, number, fold)
        for group in groups:
            made += batch.work(group)
            for key, value in group:
                states[key] = states.get(key, 0) + value
                expected.append((key, states[key]))
        batch.save()
        batch.end()
    assert made == expected
    assert len(list(place.glob("*")) if place.is_dir() else []) <= len(batches)


def test_one_that_was_begun_before_and_is_not_gone_holds_nothing_up(tmp_path: Path) -> None:
    fold, host, place = definition(tmp_path, large=1), FoldHost(), tmp_path / "folds" / "0"
    first = Batch(host, place, 0, fold)
    first.work([("a", 1)])
    first.save()
    old = Batch(host, place, 1, fold)
    old.work([("a", 5)])
    new = Batch(host, place, 1, fold)
    assert new.work([("a", 2)]) == [("a", 3)]
    assert "KeyError" in old.refused([("a", 5)])
    new.save()
    new.end()


def test_a_fold_begins_with_what_it_inherits_and_a_failure_names_its_code(tmp_path: Path) -> None:
    (tmp_path / "begun").write_text('{"states": {"t": [null, "{\\"a\\": {\\"sum\\": 40}}"]}}')
    fold = definition(tmp_path, inherited=Inherited(str(tmp_path / "begun"), "t", 1))
    batch = Batch(FoldHost(), tmp_path / "folds" / "0", 7, fold)
    assert batch.work([("a", 2)]) == [("a", 42)]
    assert __file__ in (failure := batch.refused([("a", -1)])) and "-1 is negative" in failure
    assert fold_files.newest(tmp_path / "folds" / "0", upto=7) is None, "nothing was saved"


def echo(_: Any, events: dict[str, list]) -> Sequence[Sequence]:
    return [events["x"], [None if value is None else -value for value in events["x"]], events["text"]]


@given(values=st.lists(st.tuples(st.floats() | st.none(), st.text() | st.none()), min_size=1, max_size=9))
def test_a_number_that_is_none_is_missing_on_the_way_in_and_out(
    tmp_path_factory: pytest.TempPathFactory, values: list[tuple[float | None, str | None]]
) -> None:
    """As it is to Spark's own operator, which reads frames of pandas."""
    reads = pa.schema([("x", pa.float64()), ("text", pa.string())])
    gives = pa.schema([("same", pa.float64()), ("less", pa.float64()), ("text", pa.string())])
    kinds = {"same": "double", "less": "double", "text": "string"}
    fold = FoldDefinition(echo, {}, reads, gives, kinds, None, None)
    columns = zip(*values, strict=True)
    events = pa.RecordBatch.from_arrays(
        [pa.array(column, of.type) for column, of in zip(columns, reads, strict=True)], schema=reads)
    folder = tmp_path_factory.mktemp("host")
    batch = FoldBatch(fold, folder, 0)
    made = pa.ipc.read_record_batch(pa.py_buffer(batch.work(events.serialize().to_pybytes())), gives)
    frame = events.to_pandas()
    assert made.column("same").to_pylist() == [None if pd.isna(x) else x for x in frame["x"]]
    assert made.column("less").to_pylist() == [None if pd.isna(x) else -x for x in frame["x"]]
    assert made.column("text").to_pylist() == [text for _, text in values]


@given(batches=st.lists(st.integers(0, 60), unique=True, max_size=40), at=st.integers(0, 61))
def test_the_newest_states_up_to_a_batch_count(
    tmp_path_factory: pytest.TempPathFactory, batches: list[int], at: int
) -> None:
    folder = tmp_path_factory.mktemp("files")
    for batch in sorted(batches):
        fold_files.keep(folder, batch, str(batch))
    left = sorted(batches)[-fold_files.KEPT:]
    assert sorted(int(path.name) for path in folder.iterdir()) == left
    before = [batch for batch in left if batch < at]
    assert fold_files.begin(folder, at) == (str(before[-1]) if before else None)
    assert sorted(int(path.name) for path in folder.iterdir()) == before


ASK = """
import socket, sys
with socket.socket(socket.AF_UNIX) as host:
    host.connect(sys.argv[1])
    try:
        host.sendall(bytes.fromhex(sys.argv[2]))
        print(len(host.recv(1)))
    except OSError:
        print(0)
"""


def test_a_host_serves_its_driver_alone_and_ends_with_whoever_started_it(tmp_path: Path) -> None:
    """A process of the node's user reaches the socket of another slot, whatever folders Landlock closes to it."""
    path, unknown = tmp_path / "s", HEAD.pack(0, WORK)
    host = subprocess.Popen(
        (sys.executable, "-m", "workers.engine.spark.fold_host", str(path), str(os.getpid())), stdin=subprocess.PIPE)
    with socket.socket(socket.AF_UNIX) as here:
        wait_until(lambda: here.connect_ex(str(path)) == 0, limit_s=240)
        here.sendall(unknown)
        assert HEAD.unpack(here.recv(HEAD.size, socket.MSG_WAITALL))[1] == FAILED, "its driver is answered"
        stranger = subprocess.run(
            (sys.executable, "-c", ASK, str(path), unknown.hex()), capture_output=True, text=True, check=True)
        assert stranger.stdout.strip() == "0", "another process of the same user is not"
    host.stdin.close()
    assert host.wait(240) == 0
    assert not path.exists()


WORKS = """
import sys
from pathlib import Path
import pyarrow as pa
from workers.engine.spark import fold_host
fold_host._spare_pandas()
fold = fold_host.FoldHost()._definition(bytes.fromhex(sys.argv[2]))
schema = fold.reads
columns = {"x": [0.5, float("nan"), None], "at": [1, None, 3], "text": ["", None, "a"]}
events = pa.RecordBatch.from_pydict(columns, schema)
made = fold_host.FoldBatch(fold, Path(sys.argv[1]), 0).work(events.serialize().to_pybytes())
assert pa.ipc.read_record_batch(pa.py_buffer(made), schema).to_pydict() == events.to_pydict() | {"x": [0.5, None, None]}
assert not {"pandas", "pyspark"} & sys.modules.keys()
import pandas, pyspark.cloudpickle
"""


def test_a_host_works_without_pandas_and_pyspark_and_who_imports_them_gets_them(tmp_path: Path) -> None:
    schema = pa.schema([("x", pa.float64()), ("at", pa.timestamp("us", tz="UTC")), ("text", pa.string())])
    kinds = {"x": "double", "at": "timestamp", "text": "string"}
    fold = FoldDefinition(lambda _, columns: list(columns.values()), {}, schema, schema, kinds, None, None)
    subprocess.run((sys.executable, "-c", WORKS, str(tmp_path), cloudpickle.dumps(fold).hex()), check=True)


LOCAL, CLUSTER = (SimpleNamespace(sparkContext=SimpleNamespace(master=at)) for at in ("local[4]", "spark://there:7077"))
AVERAGE = Task("a", "block_average", {"window": 3})


@pytest.mark.parametrize(("tasks", "at", "can"), [
    ([AVERAGE], LOCAL, True),
    ([AVERAGE, Task("p", "python", {"function": "f"})], LOCAL, True),
    ([AVERAGE, Task("p", "python_by_key", {"function": "f", "by": ["k"]})], LOCAL, False),
    ([AVERAGE, Task("t", "train", {"features": ["x"], "target": "y"})], LOCAL, False),
    ([AVERAGE, Task("w", "window", {"aggregates": ["n=count(*)"], "idle": 5.0})], LOCAL, False),
    ([AVERAGE, Task("w", "window", {"aggregates": ["n=count(*)"], "idle": None})], LOCAL, True),
    ([AVERAGE], CLUSTER, False),
], ids=["fold", "Python without state", "Python by key", "model", "Spark's clock", "event time", "on a cluster"])
def test_folds_of_the_library_alone_are_hosted(tmp_path: Path, tasks: list[Task], at: Any, can: bool) -> None:
    assert can_be_hosted(at, tasks, task_types(), tmp_path) == can


def test_a_query_whose_states_spark_has_keeps_them_there(tmp_path: Path) -> None:
    """As a checkpoint of an earlier version has them; one of a query without state has no operator's folder."""
    (tmp_path / "state").mkdir()
    assert can_be_hosted(LOCAL, [AVERAGE], task_types(), tmp_path)
    (tmp_path / "state" / "0" / "0").mkdir(parents=True)
    assert not can_be_hosted(LOCAL, [AVERAGE], task_types(), tmp_path)


def test_copies_of_a_fold_that_earlier_versions_planned_are_forgotten(tmp_path: Path) -> None:
    """Not before a batch is over: until then nothing need have been worked on."""
    for operator in ("0", "1", "2"):
        for place in ("_metadata", "0/_metadata"):
            (tmp_path / "state" / operator / place).mkdir(parents=True)
    (tmp_path / "state" / "0" / "0" / "1.zip").touch()
    for is_over, left in ((False, {"0", "1", "2"}), (True, {"0"})):
        (tmp_path / "commits").mkdir(exist_ok=True)
        if is_over:
            (tmp_path / "commits" / "0").touch()
        fold_files.forget_copies(tmp_path)
        assert {path.name for path in (tmp_path / "state").iterdir()} == left
    fold_files.forget_copies(tmp_path / "nothing yet")
