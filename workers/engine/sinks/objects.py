"""Objects of an S3-compatible service: Parquet or JSON lines, each event in exactly one object.

An object is named after the sink and the block before its first one, and put only if no object has that name. Its
metadata names its last block. So the names alone tell what is written: a writer whose object exists already goes on
behind it. Readers may move or delete objects.
"""

from __future__ import annotations

import io
import re
import time
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from scheduler.contracts.offsets import START, Offset

from . import s3
from .contract import Batch, Batching, Overtaken, Refuse, SinkAway, SinkOpening
from .delta import LARGEST_EVENTS, number_of
from .rows import chosen, json_lines

LOOK_S, MOST_BEHIND = 60.0, 10_000  # to find the newest object: seconds, and objects behind what is known
UNTIL = "weir-until"  # the metadata with an object's last block
_TYPES = {"parquet": "application/vnd.apache.parquet", "json": "application/x-ndjson"}


def open_s3(opening: SinkOpening) -> ObjectWriter:
    """Look up how far the sink has come in its bucket."""
    return ObjectWriter(opening)


class ObjectWriter:
    """A bucket that objects are put into."""

    def __init__(self, opening: SinkOpening) -> None:
        config = opening.config
        self._format, self._names = config["format"], chosen(opening.columns, config["columns"])
        self._folder = config["prefix"]
        self._base = f"{config['prefix']}/{opening.sink}" if config["prefix"] else opening.sink
        self._title = f"The bucket {config['bucket']}"
        self._bucket = s3.bucket_of(config)
        self.batching = Batching(
            linger_s=config["every"], most_events=LARGEST_EVENTS, most_bytes=round(config["megabytes"] * 1e6))
        self._position = self._look(opening.known_offset)

    def position(self) -> Offset | None:
        return self._position

    def write(self, batch: Batch, refuse: Refuse) -> None:
        from obstore.exceptions import AlreadyExistsError, BaseError

        rows = batch.rows.select(self._names)
        name = f"{self._base}-again-{time.time_ns()}" if batch.again else self._name(batch.after)
        try:
            self._bucket.put(
                f"{name}.{self._format}", as_bytes(rows, self._format), mode="create", use_multipart=False,
                attributes=self._attributes(batch))
        except AlreadyExistsError:
            raise Overtaken from None
        except (BaseError, OSError) as error:
            raise s3.explained(error, self._title) from None

    def rest(self) -> None:
        return

    def close(self) -> None:
        return

    def _attributes(self, batch: Batch) -> Mapping[str, str]:
        kind = {"Content-Type": _TYPES[self._format]}
        return kind if batch.again else {**kind, UNTIL: str(batch.until)}

    def _name(self, after: Offset) -> str:
        return f"{self._base}-{number_of(after):020d}"

    def _look(self, noted: Offset) -> Offset | None:
        """The last block that is in an object, of those that begin where the sink is known to be, or behind it."""
        from obstore.exceptions import BaseError

        try:
            name = self._newest(self._name(noted))
            if not name:
                return None if noted == START else noted
            attributes: Any = self._bucket.get(name).attributes
        except (BaseError, OSError) as error:
            raise s3.explained(error, self._title) from None
        return Offset(attributes[UNTIL])


    def _newest(self, after: str) -> str:
        """The last of the sink's objects behind a name; "" for none. Names come in their order, ours side by side."""
        ours = re.compile(re.escape(self._base) + r"-\d{20}\.\w+")
        newest, behind, deadline = "", 0, time.monotonic() + LOOK_S
        # A prefix here is a folder, not the beginning of a name.
        for entries in self._bucket.list(self._folder or None, offset=after, chunk_size=100):
            for entry in entries:
                if not ours.fullmatch(entry["path"]):
                    return newest
                newest = entry["path"]
            behind += len(entries)
            if behind > MOST_BEHIND or time.monotonic() > deadline:
                raise SinkAway(f"{self._title} lists objects of this sink without end.",
                               remedy="See to the store; it is tried again by itself.")
        return newest


def as_bytes(rows: pa.Table, format: str) -> bytes:
    """Events as one file: Parquet, or one JSON object a line."""
    if format == "json":
        return b"".join(line + b"\n" for line in json_lines(rows))
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(rows, sink)
    return sink.getvalue()
