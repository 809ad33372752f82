"""The source that replays recorded events from a file or a folder.

A recording is read once on each node and kept as an Arrow file that Python workers map into memory, beside a schedule
of when each event is due. An event is the recording's line (``senml``, ``csv``, ``json`` or ``xml``) or, from Parquet,
its columns. The event time is the recorded one, if the recording has any.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter, TaskType

from .arrow_types import parquet_types
from .config import InvalidConfig, settings
from .files import data_folder, format_of, replay_files, replay_path
from .times import recorded_ms

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from pyspark.sql import DataFrame

REPLAY = TaskType(
    name="replay", kind="source", family="source",
    doc="Replays recorded events from a file or a folder of SenML, CSV, JSON lines, XML lines or Parquet.",
    build="workers.library.replay:replay", effects=(),
    parameters=(
        Parameter("path", "string", "File or folder, relative to a replay folder of the installation.", required=True,
                  is_file=True, pattern=r"[^/\\].*"),
        Parameter("format", "string", "How the file is written; auto looks at its name and first line.",
                  default="auto", choices=("auto", "senml", "csv", "json", "xml", "parquet")),
        Parameter("speed", "number", "A multiple of the recorded speed; without it, the source's rate counts.",
                  minimum=0.001, maximum=1_000_000),
        Parameter("repeat", "boolean", "Start again at the end, recorded times moved on; otherwise the stream ends.",
                  default=False),
        Parameter("time_column", "string",
                  "Column or field that holds the recorded time (ms or s since the epoch, or ISO 8601); "
                  "SenML brings its own. Without one the time of emission counts."),
    ),
    cost_us=8,
)

TASK_TYPES = (REPLAY,)
BLOCK_ROWS = 4_096
DEFAULT_RATE_PER_S = 10.0


@dataclass(frozen=True, slots=True)
class ReplaySchedule:
    """The times at which events are due: a schedule file, and by how much a repeated recording moves on each time."""

    file: Path
    repeat_ms: int = 0
    repeat_time_ms: int = 0


def replay(ticks: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Each tick's event: the recording's, by its number, from the beginning again where it is repeated."""
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    recording = _recorded(settings(REPLAY, config))
    columns = from_arrow_schema(_events(str(recording)).schema)
    schema = StructType([*ticks.schema.fields, *columns.fields])
    path = str(recording)

    def with_events(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _with_events(batches, path)

    return ticks.mapInArrow(with_events, schema)


def replay_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the recording cannot be read as the config says."""
    values = settings(REPLAY, config)
    for file in replay_files(replay_path(values["path"])):
        if values["format"] == "auto":
            format_of(file)


def replay_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """A recorded line, or the columns of Parquet files; unknown where a file of theirs cannot be read here."""
    files = replay_files(replay_path(values["path"]))
    kind = format_of(files[0]) if values["format"] == "auto" else values["format"]
    if kind != "parquet":
        return Columns.stream({kind: "string"})
    types = parquet_types(files)
    return Columns.unknown() if types is None else Columns.stream(types)


def replay_stamp(config: Mapping[str, Any]) -> list[list[Any]]:
    """A stamp that tells a recording from another one under the same name."""
    return _stamp(replay_files(replay_path(settings(REPLAY, config)["path"])))


def replay_schedule(config: Mapping[str, Any], folder: Path) -> ReplaySchedule:
    """The times at which a recording's events are due, at the source's rate or at a multiple of their own speed."""
    from workers.engine.channels.tick_schedule import write_schedule

    values = settings(REPLAY, config)
    recording = _recorded(values)
    times_ms = _times(recording)
    count = _events(str(recording)).num_rows
    speed, rate_per_s = values["speed"], float(config.get("rate_per_s") or DEFAULT_RATE_PER_S)
    if speed is None:
        due_ms = [int(number * 1000 / rate_per_s) for number in range(count)]
        gap_ms = max(1, round(1000 / rate_per_s))
    elif times_ms is None:
        raise InvalidConfig(
            f"“{values['path']}” is to be replayed at its own speed, but has no recorded times.",
            remedy="Name the column that holds them in time_column, or leave speed out and give the source a rate.",
            path=values["path"],
        )
    else:
        due_ms = _due_at_speed(times_ms, speed)
        gap_ms = max(1, round(due_ms[-1] / max(1, count - 1)))
    name = hashlib.sha256(f"{speed}/{rate_per_s}".encode()).hexdigest()[:12]
    file = write_schedule(recording.with_name(f"{recording.stem}-{name}.due"), due_ms=due_ms, time_ms=times_ms)
    if not values["repeat"]:
        return ReplaySchedule(file)
    repeat_ms = due_ms[-1] + gap_ms
    span_ms = max(times_ms) - min(times_ms) if times_ms else 0
    return ReplaySchedule(file, repeat_ms=repeat_ms, repeat_time_ms=span_ms + gap_ms if times_ms else repeat_ms)


def _due_at_speed(times_ms: Sequence[int], speed: float) -> list[int]:
    """Due offsets at a multiple of the recorded speed; an event recorded out of order is due with the one before."""
    due_ms: list[int] = []
    latest = times_ms[0]
    for time_ms in times_ms:
        latest = max(latest, time_ms)
        due_ms.append(int((latest - times_ms[0]) / speed))
    return due_ms


def _with_events(batches: Iterable[pa.RecordBatch], path: str) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.compute as pc

    events = _events(path)
    for batch in batches:
        numbers = batch.column(batch.schema.get_field_index("_seq")).to_numpy()
        chosen = _chosen(events, numbers % max(1, events.num_rows))
        columns = [*batch.columns, *(pc.cast(column, column.type).combine_chunks() for column in chosen.columns)]
        yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, *chosen.schema.names])


def _chosen(events: pa.Table, numbers: np.ndarray) -> pa.Table:
    """The events of these numbers, read as the stretches that they come in.

    Arrow's ``take`` would first put all of the recording together in memory, for every batch anew.
    """
    import numpy as np
    import pyarrow as pa

    ends = [*(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist(), len(numbers)]
    stretches = zip([0, *ends[:-1]], ends, strict=True)
    return pa.concat_tables([events.slice(int(numbers[begin]), end - begin) for begin, end in stretches if end > begin]
                            or [events.slice(0, 0)])


@lru_cache(maxsize=16)
def _events(path: str) -> pa.Table:
    """A kept recording, mapped and not loaded; once a process."""
    import pyarrow as pa

    return pa.ipc.open_file(pa.memory_map(path)).read_all()


def _times(recording: Path) -> list[int] | None:
    import numpy as np

    file = recording.with_suffix(".times")
    return np.fromfile(file, dtype="<i8").tolist() if file.is_file() else None


def _recorded(values: Mapping[str, Any]) -> Path:
    """The recording as an Arrow file in the data folder, made where it is not there yet.

    Its name holds the sizes and times of the files it was made from: a changed recording is another recording.
    """
    path = replay_path(values["path"])
    files = replay_files(path)
    identity = json.dumps([_stamp(files), values["format"], values["time_column"]])
    recording = data_folder() / "recordings" / f"{hashlib.sha256(identity.encode()).hexdigest()[:24]}.arrow"
    if not recording.is_file():
        recording.parent.mkdir(parents=True, exist_ok=True)
        _write_recording(recording, files, values)
    return recording


def _stamp(files: Iterable[Path]) -> list[list[Any]]:
    return [[str(file), file.stat().st_size, file.stat().st_mtime_ns] for file in files]


def _write_recording(recording: Path, files: Sequence[Path], values: Mapping[str, Any]) -> None:
    """Write the recording as an Arrow file, and its times beside it, a block after the other: it may be large."""
    import pyarrow as pa

    kind = format_of(files[0]) if values["format"] == "auto" else values["format"]
    header = _header(files[0], kind, values["time_column"])
    blocks = _parquet_blocks(files, values["path"]) if kind == "parquet" else _line_blocks(files, kind, header)
    scratch = recording.with_name(f"{recording.name}.{os.getpid()}-{threading.get_ident()}")
    times_file = scratch.with_name(f"{scratch.name}.times")
    count = 0
    times_ms: array[int] | None = array("q")
    try:
        with ExitStack() as stack:
            writer: pa.RecordBatchWriter | None = None
            for events in blocks:
                if times_ms is not None:
                    block_times_ms = recorded_ms(
                        events, kind, values["time_column"], header=header, path=values["path"], first=count + 1)
                    if block_times_ms is None:
                        times_ms = None
                    else:
                        times_ms.extend(block_times_ms)
                count += events.num_rows
                events = _without_stream_columns(events).combine_chunks()
                if writer is None:
                    sink = stack.enter_context(pa.OSFile(str(scratch), "wb"))
                    writer = stack.enter_context(pa.ipc.new_file(sink, events.schema))
                writer.write_table(events)
        if count == 0:
            raise InvalidConfig(
                f"“{values['path']}” holds no event.", remedy="Name a recording that has some.", path=values["path"])
        if times_ms is not None:
            times_file.write_bytes(times_ms)
            os.replace(times_file, recording.with_suffix(".times"))
        os.replace(scratch, recording)
    finally:
        scratch.unlink(missing_ok=True)
        times_file.unlink(missing_ok=True)


def _header(file: Path, kind: str, time_column: str | None) -> str:
    """A CSV recording's first line, where the time column is told by its name; otherwise every line is an event."""
    if kind != "csv" or time_column is None or time_column.isdigit():
        return ""
    with open(file, encoding="utf-8", errors="replace") as text:
        return text.readline().rstrip("\r\n")


def _line_blocks(files: Sequence[Path], kind: str, header: str) -> Iterator[pa.Table]:
    """One event a line, in a column named after the format; empty lines and each file's header are none."""
    import pyarrow as pa

    for file in files:
        with open(file, encoding="utf-8", errors="replace") as text:
            lines = (line.rstrip("\r\n") for line in text if line.strip())
            if header and (first := next(lines, header)) != header:
                lines = chain([first], lines)
            while block := list(islice(lines, BLOCK_ROWS)):
                yield pa.table({kind: pa.array(block, pa.string())})


def _parquet_blocks(files: Sequence[Path], path: str) -> Iterator[pa.Table]:
    """The columns, in the Arrow types that Spark takes: its timestamps are in microseconds, and so on."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    try:
        schemas = [pq.read_schema(file) for file in files]
        schema = pa.unify_schemas([_plain(file_schema) for file_schema in schemas], promote_options="default")
        utc_schema = to_arrow_schema(from_arrow_schema(schema), timezone="UTC")
        for file in files:
            for batch in pq.ParquetFile(file).iter_batches(BLOCK_ROWS):
                block = pa.Table.from_batches([batch])
                block = block.cast(_plain(block.schema))
                yield pa.concat_tables([schema.empty_table(), block], promote_options="default").cast(
                    utc_schema, safe=False)
    except (pa.ArrowException, PySparkException) as error:
        raise InvalidConfig(
            f"“{path}” cannot be read as Parquet: {error}",
            remedy="Its files need the same columns, of types that Spark knows.", path=path,
        ) from error


def _plain(schema: pa.Schema) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([field.with_type(_plain_type(field.type)) for field in schema])


def _plain_type(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _without_stream_columns(events: pa.Table) -> pa.Table:
    """A recording may hold Weir's own columns, of the run that recorded it; the replay brings new ones."""
    from .columns import STREAM

    return events.drop_columns([name for name in events.column_names if name in STREAM])
