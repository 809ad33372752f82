"""The fold host of a slot: one process that works on its folds and keeps their states while a batch lasts.

Spark's own runner of Python functions waits for the next event before it reads the function's results. So a batch with
a fold could not stay open, and each query would hold a worker. This process takes a group of events and returns their
results (``HostedFold.java``), by the very function that Spark would call (``workers.library.state.FoldedStream.work``).
It is a child of the slot and ends with it. It runs code of the library alone, one message at a time, and takes messages
from the slot's driver alone (``peers``).

Messages either way are a length (4 bytes), a letter and a body:

========== ============================================================ =====================================
``b``      begin: batch (8), length (4) and folder of the states, fold   nothing
``w``      work: a record batch of Arrow's                               its results; empty without any
``s``      save: the batch is over                                       nothing
========== ============================================================ =====================================

An answer has the letter ``d``, or ``e`` and a traceback. A connection is a batch: without a save it
has no effect.
"""

from __future__ import annotations

import gc
import io
import os
import pickle
import selectors
import socket
import struct
import sys
import threading
import traceback
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa

from workers.engine.channels.jvm.build import pyspark_folder
from workers.library.batch_states import Keeping, keeping
from workers.library.state import NOTHING, Inherited, held_as
from workers.library.state_store import Parts, StoreLocation

from . import fold_files
from .hidden_pandas import pandas_hidden
from .peers import is_from

HEAD = struct.Struct(">ib")
BEGIN, WORK, SAVE, DONE, FAILED = b"bwsde"
_BATCH = struct.Struct(">qi")
_PICKLER = "pyspark.cloudpickle.cloudpickle"  # in the pickles of functions
_MOST_DEFINITIONS = 1_000  # that it has read
_WAITING = 512  # connections that have not been taken yet


@dataclass(frozen=True, slots=True)
class FoldDefinition:
    """A fold as the slot sends it: the function, what it reads and gives, and where its states begin and grow."""

    work: Any
    parts: Parts
    reads: pa.Schema
    gives: pa.Schema
    kinds: dict[str, str]  # of what it gives, as Spark names them
    inherited: Inherited | None
    location: StoreLocation | None


class FoldBatch:
    """A batch of a fold: its states, from loading to saving."""

    def __init__(self, fold: FoldDefinition, folder: Path, batch: int) -> None:
        self._fold, self.folder, self._batch = fold, folder, batch
        text = fold_files.begin(folder, batch)
        if text is None:
            text = fold.inherited.read() if fold.inherited else NOTHING
        self._keeping: Keeping = keeping(text, fold.location, fold.parts)

    def work(self, message: bytes) -> bytes:
        """The fold's rows for some events, in the order of these."""
        fold = self._fold
        results = fold.work(self._keeping.states, _lists(pa.ipc.read_record_batch(pa.py_buffer(message), fold.reads)))
        if not results:
            return b""
        columns = [
            pa.array(held_as(fold.kinds[column.name], values), type=column.type, from_pandas=True)
            for column, values in zip(fold.gives, results, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=fold.gives).serialize().to_pybytes()

    def save(self) -> None:
        """Keep the states, before Spark commits the batch."""
        fold_files.keep(self.folder, self._batch, self._keeping.save())

    def close(self) -> None:
        """Let go of what was not saved."""
        self._keeping.close()


class FoldHost:
    """Serves connections, each of which is a batch of a fold."""

    def __init__(self) -> None:
        self._batches: dict[socket.socket, FoldBatch] = {}
        self._definitions: OrderedDict[bytes, FoldDefinition] = OrderedDict()

    def serve(self, connection: socket.socket) -> bool:
        """Take a message and answer it; False where the connection has ended."""
        head = _read(connection, HEAD.size)
        length, kind = HEAD.unpack(head) if head else (0, 0)
        body = _read(connection, length) if head else None
        if body is None:
            self.forget(connection)
            return False
        try:
            letter, answer = DONE, self._answer(connection, kind, body)
        except Exception:  # the query is told, and fails by it
            letter, answer = FAILED, traceback.format_exc().encode()
        with suppress(OSError):  # it reads no more; its end is heard next
            connection.sendall(HEAD.pack(len(answer), letter) + answer)
        return True

    def forget(self, connection: socket.socket) -> None:
        """The batch of a connection is over, saved or not."""
        batch = self._batches.pop(connection, None)
        connection.close()
        if batch is not None:
            batch.close()

    def _answer(self, connection: socket.socket, kind: int, body: bytes) -> bytes:
        if kind == WORK:
            return self._batches[connection].work(body)
        if kind == SAVE:
            self._batches[connection].save()
            return b""
        batch, length = _BATCH.unpack_from(body)
        named = _BATCH.size + length
        folder = Path(body[_BATCH.size:named].decode())
        # Where a query was stopped in the middle of a batch, an old task may not be gone yet.
        for stale_batch in [connection for connection, of in self._batches.items() if of.folder == folder]:
            self._batches.pop(stale_batch).close()
        self._batches[connection] = FoldBatch(self._definition(body[named:]), folder, batch)
        return b""

    def _definition(self, definition: bytes) -> FoldDefinition:
        read = self._definitions.pop(definition, None) or _DefinitionReader(io.BytesIO(definition)).load()
        self._definitions[definition] = read
        while len(self._definitions) > _MOST_DEFINITIONS:
            self._definitions.popitem(last=False)
        return read


class _DefinitionReader(pickle.Unpickler):
    """Reads a definition without the whole of PySpark, of 10 MB: its functions name that for how they are made."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        """The class or function that a definition names; of PySpark's pickler from its file alone."""
        if module_name == _PICKLER:
            return getattr(_pickler(), global_name)
        return super().find_class(module_name, global_name)


@cache
def _pickler() -> ModuleType:
    spec = spec_from_file_location(_PICKLER, pyspark_folder() / "cloudpickle" / "cloudpickle.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _lists(events: pa.RecordBatch) -> dict[str, list]:
    """The columns of some events; NaN is missing, as for Spark's own operator. A frame of pandas would take most of a
    millisecond for each group, however small."""
    lists = {name: column.to_pylist() for name, column in zip(events.schema.names, events.columns, strict=True)}
    for column in events.schema:
        if pa.types.is_floating(column.type):
            lists[column.name] = [None if value != value else value for value in lists[column.name]]
    return lists


def _read(connection: socket.socket, length: int) -> bytes | None:
    """So many bytes; None where the connection ends before."""
    bytes_read = bytearray()
    while len(bytes_read) < length:
        try:
            more = connection.recv(min(length - len(bytes_read), 1 << 20))
        except OSError:
            return None
        if not more:
            return None
        bytes_read += more
    return bytes(bytes_read)


def _spare_pandas() -> None:
    """Let Arrow's module do without pandas, which it looks for at the first array that it makes."""
    with pandas_hidden():
        pa.array([1.0], from_pandas=True)


def _end_with_slot(path: str) -> None:
    """End when standard input does, whatever is worked on."""
    sys.stdin.buffer.read()
    Path(path).unlink(missing_ok=True)
    os._exit(0)


def main(path: str, driver: str) -> None:
    """Serve a driver, by its process, at a Unix socket until standard input ends, as it does with the slot."""
    _spare_pandas()
    gc.collect()
    gc.freeze()
    host, listening = FoldHost(), socket.socket(socket.AF_UNIX)
    Path(path).unlink(missing_ok=True)
    usual = os.umask(0o077)  # whoever may write to it has a fold worked on that they send
    listening.bind(path)
    os.umask(usual)
    listening.listen(_WAITING)
    threading.Thread(target=_end_with_slot, args=(path,), daemon=True).start()
    with selectors.DefaultSelector() as selector:
        selector.register(listening, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is listening:
                    connection, _ = listening.accept()
                    if is_from(connection, int(driver)):
                        selector.register(connection, selectors.EVENT_READ)
                    else:
                        connection.close()
                elif not host.serve(key.fileobj):
                    selector.unregister(key.fileobj)


if __name__ == "__main__":
    main(*sys.argv[1:])
