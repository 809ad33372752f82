"""The dataflows of the experiments with schedules: paper [2]'s five characters of task in its Linear and Diamond.

Parse an XML document, compute π, archive in files, download an object, look a row up; each gives one event for one.
Two shorter dataflows show pairs of them on few slots.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler.model.dataflow import Dataflow, Stream, Task

TEAM, SECRET = "bench", "places"
KEYS = 10_000
DOCUMENTS = 400  # distinct ones
RECORDS = 60  # in a document
RECORDING = "events.parquet"
SERVICE_S = {"download": 0.050, "look_up": 0.030}
OBJECT_BYTES = 20_000


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the five tasks: its type, and the rate at which its measuring begins."""

    name: str
    type: str
    config: Mapping[str, Any]
    first_per_s: float


def kinds(store_url: str, *, pi_iterations: int = 60_000) -> dict[str, Kind]:
    """The five tasks, by the names that they have in dataflows."""
    values = ["station=@station", "level:double=Reading/Level", "quality=Reading/Quality", "note=Footer/Note"]
    query = f"select name, height from places, pg_sleep({SERVICE_S['look_up']}) where key = :key"
    return {dataflow.name: dataflow for dataflow in (
        Kind("parse", "xml_document", {"values": values}, 100.0),
        Kind("pi", "pi_viete", {"iterations": pi_iterations}, 30.0),
        Kind("archive", "file_batches", {"folder": "archive", "columns": ["key"]}, 500.0),
        Kind("download", "http_get", {"url": f"{store_url}/objects/{{key}}", "into": "object", "keep": "digest"}, 10.0),
        Kind("look_up", "sql_lookup", {
            "database": {"secret": SECRET, "team": TEAM}, "query": query, "columns": ["place", "height:double"],
        }, 15.0),
    )}


def feed(rate_per_s: float) -> tuple[dict[str, Any], ...]:
    """What a task is measured with: the recording."""
    return ({"type": "replay", "config": {"path": RECORDING, "repeat": True, "rate_per_s": rate_per_s}},)


ENDS = "ends"  # no dataflow of the experiments: it measures source and sink
SHAPES: dict[str, Sequence[tuple[str, str]]] = {
    ENDS: [("source", "sink")],
    # Linear and Diamond as in paper [2], figure 5.
    "linear": [("source", "download"), ("download", "look_up"), ("look_up", "pi"), ("pi", "parse"),
               ("parse", "archive"), ("archive", "sink")],
    "diamond": [("source", "parse"), ("source", "look_up"), ("source", "archive"), ("source", "download"),
                ("parse", "pi"), ("look_up", "pi"), ("archive", "pi"), ("download", "pi"), ("pi", "sink")],
    "enrich": [("source", "parse"), ("parse", "look_up"), ("look_up", "sink")],
    "fetch": [("source", "download"), ("download", "pi"), ("pi", "sink")],
}


def dataflow(name: str, tasks: Mapping[str, Kind], *, path: str, run: str) -> Dataflow:
    """A dataflow that replays a recording; ``run`` makes its output's name its own.

    Parameters
    ----------
    name : str
        Its name.
    tasks : mapping of str to Kind
        The kind of each task, by name.
    path : str
        The recording.
    run : str
        Makes a run's names its own.
    """
    streams = tuple(Stream(*ends) for ends in SHAPES[name])
    used = dict.fromkeys(end for ends in SHAPES[name] for end in ends)
    by_its_times = {"path": path, "speed": 1, "time_column": "at_ms"}
    ends = {"source": Task("source", "replay", by_its_times),
            "sink": Task("sink", "output", {"name": f"out-{run}", "keep_events": 100})}
    return Dataflow(
        f"{name}-{run}",
        tuple(ends.get(task_id) or Task(task_id, tasks[task_id].type, dict(tasks[task_id].config)) for task_id in used),
        streams,
        visibility="private",
    )


def parts(name: str) -> dict[str, float]:
    """By task, the events that leave it for each event that leaves the source."""
    leaving: dict[str, float] = {"source": 1.0}
    waiting = dict.fromkeys(target for _, target in SHAPES[name])
    while waiting:
        for task in list(waiting):
            parents = [parent for parent, target in SHAPES[name] if target == task]
            if all(parent in leaving for parent in parents):
                leaving[task] = sum(leaving[parent] for parent in parents)
                del waiting[task]
    return leaving


def write_recording(path: Path, due_ms: Sequence[int], *, seed: int = 8) -> None:
    """Write events that are due at these times: a key to look up and to download by, and an XML document."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = random.Random(seed)
    documents = [document(rng) for _ in range(DOCUMENTS)]
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = pa.DictionaryArray.from_arrays(
        pa.array([number % DOCUMENTS for number in range(len(due_ms))], pa.int32()), pa.array(documents))
    pq.write_table(pa.table({
        "at_ms": pa.array([1_700_000_000_000 + due for due in due_ms], pa.int64()),
        "key": pa.array([rng.randrange(KEYS) for _ in due_ms], pa.int64()), "xml": texts,
    }), path)


def document(rng: random.Random) -> str:
    """A station's report, some kilobytes: what a task reads of it stands at its beginning and at its end."""
    readings = "".join(
        f'<Reading at="{number}"><Level unit="cm">{rng.uniform(0, 500):.2f}</Level>'
        f"<Quality>{rng.choice(['good', 'fair', 'poor'])}</Quality></Reading>" for number in range(RECORDS))
    return (f'<Report station="s{rng.randrange(500):03d}" xmlns="urn:weir:report"><Head><Version>1</Version></Head>'
            f"{readings}<Footer><Note>n{rng.randrange(10**6)}</Note></Footer></Report>")
