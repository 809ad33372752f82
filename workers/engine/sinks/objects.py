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
from workers.engine.bucket_requests import ask_bucket, line_to
from workers.engine.connectors.bucket_listing import NotListed, objects_of
from workers.library.outbound import HttpAnswer, Unanswered

from . import s3
from .contract import Batch, Batching, Overtaken, Refuse, SinkAway, SinkOpening, SinkRefused
from .delta import LARGEST_EVENTS, number_of
from .rows import chosen, json_lines

LOOK_S, MOST_BEHIND = 60.0, 10_000  # to find the newest object: seconds, and objects behind what is known
ANSWER_BYTES = 64 << 10  # that are read of an answer: why the store refuses
ALREADY_THERE = (409, 412)  # an object of that name is there, or is put at the same time
UNTIL = "x-amz-meta-weir-until"  # the metadata with an object's last block
_TYPES = {"parquet": "application/vnd.apache.parquet", "json": "application/x-ndjson"}


def open_s3(opening: SinkOpening) -> ObjectWriter:
    """Look up how far the sink has come in its bucket."""
    return ObjectWriter(opening)


class ObjectWriter:
    """A bucket that objects are put into."""

    def __init__(self, opening: SinkOpening) -> None:
        config = opening.config
        self._format, self._names = config["format"], chosen(opening.columns, config["columns"])
        self._base = f"{config['prefix']}/{opening.sink}" if config["prefix"] else opening.sink
        self._title = f"The bucket {config['bucket']}"
        self._bucket = s3.bucket_of(config)
        self.batching = Batching(
            linger_s=config["every"], most_events=LARGEST_EVENTS, most_bytes=round(config["megabytes"] * 1e6))
        self._position = self._look(opening.known_offset)

    def position(self) -> Offset | None:
        return self._position

    def write(self, batch: Batch, refuse: Refuse) -> None:
        rows = batch.rows.select(self._names)
        name = f"{self._base}-again-{time.time_ns()}" if batch.again else self._name(batch.after)
        answer = self._ask(
            "PUT", f"{name}.{self._format}", body=as_bytes(rows, self._format),
            headers={"if-none-match": "*", **self._metadata(batch)})
        if answer.status in ALREADY_THERE:
            raise Overtaken
        self._require_success(answer)

    def rest(self) -> None:
        return

    def close(self) -> None:
        return

    def _metadata(self, batch: Batch) -> Mapping[str, str]:
        kind = {"content-type": _TYPES[self._format]}
        return kind if batch.again else {**kind, UNTIL: str(batch.until)}

    def _name(self, after: Offset) -> str:
        return f"{self._base}-{number_of(after):020d}"

    def _look(self, noted: Offset) -> Offset | None:
        """The last block that is in an object, of those that begin where the sink is known to be, or behind it."""
        name = self._newest(self._name(noted))
        if not name:
            return None if noted == START else noted
        answer = self._ask("HEAD", name)
        if answer.status == 404:  # it was taken away since it was listed
            raise s3.explained("", self._title)
        self._require_success(answer)
        until = answer.headers.get(UNTIL, "")
        if not re.fullmatch(r"\d{1,19}-\d{1,19}", until):
            raise SinkRefused(f"{self._title} has an object of this sink's name that it did not write.",
                              remedy=f"Move {name} elsewhere.")
        return Offset(until)

    def _newest(self, after: str) -> str:
        """The last of the sink's objects behind a name; "" for none. Names come in their order."""
        ours = re.compile(re.escape(self._base) + r"-\d{20}\.\w+")
        newest, deadline = "", time.monotonic() + LOOK_S
        try:
            for behind, listed in enumerate(objects_of(self._bucket, f"{self._base}-", after=after, writes=True)):
                if behind > MOST_BEHIND or time.monotonic() > deadline:
                    raise SinkAway(f"{self._title} lists objects of this sink without end.",
                                   remedy="See to the store; it is tried again by itself.")
                if not ours.fullmatch(listed.key):
                    return newest
                newest = listed.key
        except NotListed as error:
            raise s3.explained_status(error.status, error.text, self._title) from None
        return newest

    def _ask(self, method: str, key: str, **more: Any) -> HttpAnswer:
        """An answer over a connection of its own: one that was kept may have ended, and nothing is put twice."""
        line = line_to(self._bucket, writes=True)
        try:
            return ask_bucket(line, self._bucket, method, key, most_bytes=ANSWER_BYTES, **more)
        except Unanswered:
            raise s3.explained("", self._title) from None
        finally:
            line.close()

    def _require_success(self, answer: HttpAnswer) -> None:
        if not 200 <= answer.status < 300:
            raise s3.explained_status(answer.status, answer.body.decode(errors="replace"), self._title)


def as_bytes(rows: pa.Table, format: str) -> bytes:
    """Events as one file: Parquet, or one JSON object a line."""
    if format == "json":
        return b"".join(line + b"\n" for line in json_lines(rows))
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(rows, sink)
    return sink.getvalue()
