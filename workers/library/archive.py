"""Events archived in files of so many, on their way through: each file appears whole, and each event in one.

A file is named after what it holds (the first event's number and a digest of all), is written beside its place and
moved there. A batch that Spark repeats after a failure therefore finds its files there, and writes none twice.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter, TaskType

from .columns import STREAM
from .config import require_columns, settings
from .disk_room import require_room
from .files import data_folder
from .sinks import FOLDER, folder_check
from .state import task_being_built

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

FILE_BATCHES = TaskType(
    name="file_batches", kind="transform", family="io",
    doc="Writes the events to files of so many each, whole and each event once, and passes them on with their file.",
    build="workers.library.archive:file_batches", effects=(),
    parameters=(
        FOLDER,
        Parameter("events", "integer", "Most events in a file; a file holds events of one micro-batch and one thread.",
                  default=10_000, minimum=1, maximum=1_000_000),
        Parameter("format", "string", "JSON lines, or Parquet.", default="json", choices=("json", "parquet")),
        Parameter("columns", "list", "Columns to write; without it all of them.", items="string",
                  column="names"),
    ),
    cost_us=12,
)
TASK_TYPES = (FILE_BATCHES,)
SUFFIX = {"json": "jsonl", "parquet": "parquet"}


def file_batches(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The events with ``file``, the name of the file in which each of them stands.

    A running task has a folder of its own, so that two that name the same folder do not mix.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    values = settings(FILE_BATCHES, config)
    most, kind = values["events"], values["format"]
    events = inputs.drop("file")
    columns = list(values["columns"] or events.columns)
    require_columns(events.columns, columns, task_type="file_batches",
                    remedy="Name columns that the task before it gives.")
    folder = data_folder() / "outputs" / f"{values['folder']}-{task_being_built()[:12]}"
    schema = StructType([*events.schema.fields, StructField("file", StringType())])

    def written(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for start in range(0, batch.num_rows, most):
                part = batch.slice(start, most)
                file = write_file(part, columns, folder, kind=kind)
                names = pa.array([file.name] * part.num_rows, pa.string())
                yield pa.RecordBatch.from_arrays([*part.columns, names], names=[*part.schema.names, "file"])

    return events.mapInArrow(written, schema)


def write_file(events: pa.RecordBatch, columns: Sequence[str], folder: Path, *, kind: str) -> Path:
    """Write columns of some events to a file that is named after its content, unless it exists.

    Parameters
    ----------
    kind : str
        ``json`` or ``parquet``.
    """
    content = (_lines if kind == "json" else _parquet)(events.select(list(columns)))
    digest = hashlib.sha256(content)
    for name in STREAM:  # other events may hold the same in the columns that are written
        digest.update(events.column(name).to_numpy().tobytes())
    path = folder / f"{events.column('_seq')[0].as_py():012d}-{digest.hexdigest()[:16]}.{SUFFIX[kind]}"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    require_room(folder)
    scratch = folder / f".{path.name}.{os.getpid()}"
    with scratch.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # the batch counts as done once it is written: its files must outlive the machine
    os.replace(scratch, path)
    return path


def _lines(events: pa.RecordBatch) -> bytes:
    rows = events.to_pylist()
    return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows).encode()


def _parquet(events: pa.RecordBatch) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([events]), sink)
    return sink.getvalue().to_pybytes()


file_batches_check = folder_check


def file_batches_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The input's, and the file's name."""
    for name in values["columns"] or ():
        inputs.without(["file"]).require(name, parameter="columns")
    return inputs.renewed({"file": "string"})
