"""The citizen-journalism job of paper [5], 4.1, as task types: camera streams are decoded, put together, and encoded.

A source sends H.264 packets of four cameras; they are decoded, four frames of one moment become one picture of two by
two, a banner runs over it, and it is encoded again. Each packet is a key frame and stands for itself: a batch that is
repeated after a failure is then the same, whatever a decoder has seen before. PyAV is imported where frames are worked
on and nowhere else; it is needed for ``./weir bench video`` alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scheduler.model.task_types import Parameter, TaskType

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from pyspark.sql import DataFrame

CAMERAS = 4
CLIP_FRAMES = 32  # of each camera's clip, which is repeated without end
STREAM = "_seq BIGINT, _time BIGINT, _born BIGINT"
_SIZE = (
    Parameter("width", "integer", "Of a camera's picture, in pixels.", default=320, minimum=32, maximum=1920),
    Parameter("height", "integer", "Of a camera's picture, in pixels.", default=240, minimum=32, maximum=1080))


def _type(name: str, kind: str, doc: str, *, cost_us: float, selectivity: float = 1.0) -> TaskType:
    return TaskType(
        name=f"video_{name}", kind=kind, doc=doc, build=f"tests.benches.video_tasks:{name}", parameters=_SIZE,
        family="video", effects=(), cost_us=cost_us, selectivity=selectivity)


TASK_TYPES = [
    _type("packets", "source", "H.264 packets of four cameras.", cost_us=50),
    _type("decode", "transform", "Decodes packets.", cost_us=500),
    _type("merge", "transform", "Puts the four pictures of a moment together.", cost_us=200, selectivity=1 / CAMERAS),
    _type("overlay", "transform", "Lets a banner run over pictures.", cost_us=300),
    _type("encode", "transform", "Encodes pictures.", cost_us=3_000)]


# Frames ---------------------------------------------------------------------------------------------------------------


def drawn(camera: int, number: int, width: int, height: int) -> np.ndarray:
    """What a camera sees: a bright block that moves over a gradient, as planes of YUV 4:2:0.

    Parameters
    ----------
    camera, number : int
        Which camera, and which of its frames.
    width, height : int
        Of the picture, in pixels; even.
    """
    import numpy as np

    rows, columns = np.mgrid[0:height, 0:width]
    luma = ((rows + columns * (1 + camera) // 2 + 3 * number) % 160 + 40).astype(np.uint8)
    left = (7 * number + 40 * camera) % max(1, width - width // 4)
    luma[height // 3: height // 2, left: left + width // 4] = 235
    chroma = np.full((height // 2, width), 64 + 32 * camera, np.uint8)
    return np.vstack([luma, chroma])


def encoded(frames: Iterable[np.ndarray]) -> list[bytes]:
    """H.264 packets of frames of one size, each a key frame; the same whatever came before."""
    import av

    packets: list[bytes] = []
    encoder = None
    for at, frame in enumerate(frames):
        if encoder is None:
            encoder = av.CodecContext.create("libx264", "w")
            encoder.width, encoder.height, encoder.pix_fmt = frame.shape[1], frame.shape[0] * 2 // 3, "yuv420p"
            encoder.time_base, encoder.thread_count = Fraction(1, 25), 1
            encoder.options = {"preset": "ultrafast", "tune": "zerolatency", "qp": "26", "g": "1"}
        image = av.VideoFrame.from_ndarray(frame, format="yuv420p")
        image.pts = at
        packets += [bytes(packet) for packet in encoder.encode(image)]
    if encoder is not None:
        packets += [bytes(packet) for packet in encoder.encode(None)]
    return packets


def decoded(packets: Iterable[bytes]) -> Iterator[np.ndarray]:
    """The frames of packets, in their order."""
    import av

    decoder = av.CodecContext.create("h264", "r")
    decoder.thread_count = 1
    for packet in packets:
        for frame in decoder.decode(av.Packet(packet)):
            yield frame.to_ndarray(format="yuv420p")
    for frame in decoder.decode(None):
        yield frame.to_ndarray(format="yuv420p")


def tiled(frames: list[np.ndarray]) -> np.ndarray:
    """Four pictures as one, two by two."""
    import numpy as np

    height = frames[0].shape[0] * 2 // 3
    luma = np.block([[frames[0][:height], frames[1][:height]], [frames[2][:height], frames[3][:height]]])
    # Each chroma plane is a quarter of the picture; two of its rows are one of the array.
    width = frames[0].shape[1]
    planes = [frame[height:].reshape(2, height // 2, width // 2) for frame in frames]
    chroma = [np.block([[planes[0][at], planes[1][at]], [planes[2][at], planes[3][at]]]) for at in (0, 1)]
    return np.vstack([luma, *(plane.reshape(height // 2, 2 * width) for plane in chroma)])


def with_banner(frame: np.ndarray, number: int) -> np.ndarray:
    """A picture with a darker strip near its lower edge, over which marks run that tell its number."""
    height = frame.shape[0] * 2 // 3
    picture = frame.copy()
    strip = picture[height * 4 // 5: height * 9 // 10]
    strip[:] = strip // 3
    for bit in range(24):
        at = (bit * 12 + 4 * number) % max(12, frame.shape[1] - 8)
        strip[2:-2, at: at + 8] = 235 if number >> bit & 1 else 128
    return picture


@lru_cache(maxsize=8)
def clip(camera: int, width: int, height: int) -> tuple[bytes, ...]:
    """A camera's clip: a packet for each frame."""
    return tuple(encoded(drawn(camera, number, width, height) for number in range(CLIP_FRAMES)))


def picture_of(number: int, width: int, height: int) -> np.ndarray:
    """What the job shows of a moment, before it is encoded, by the same steps without Spark."""
    frames = [next(decoded([clip(camera, width, height)[number % CLIP_FRAMES]])) for camera in range(CAMERAS)]
    return with_banner(tiled(frames), number)


def checksum(frame: np.ndarray) -> int:
    """What tells a picture from others."""
    return zlib.crc32(frame.tobytes())


# Tasks ----------------------------------------------------------------------------------------------------------------


def packets(ticks: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """For each tick a packet of each camera; they stay together, for they are of one number."""
    width, height = int(config["width"]), int(config["height"])

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in _rows(batches):
            yield _batch([
                {**row, "camera": camera, "data": clip(camera, width, height)[row["_seq"] % CLIP_FRAMES]}
                for row in rows for camera in range(CAMERAS)])

    return ticks.mapInArrow(work, f"{STREAM}, camera BIGINT, data BINARY")


def decode(events: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The frame of each packet."""
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in _rows(batches):
            frames = decoded(row["data"] for row in rows)
            yield _batch([{**row, "data": frame.tobytes()} for row, frame in zip(rows, frames, strict=True)])

    return events.mapInArrow(work, events.schema)


def merge(events: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """One picture of those of all cameras of a moment, which come one after the other and in one batch."""
    shape = _shape(config)

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[dict[str, Any]] = []
        for rows in _rows(batches):
            waiting += rows
            whole = len(waiting) - len(waiting) % CAMERAS
            groups = [waiting[at: at + CAMERAS] for at in range(0, whole, CAMERAS)]
            waiting = waiting[whole:]
            if any(len({row["_seq"] for row in group}) > 1 for group in groups):
                raise ValueError("the pictures of a moment do not come together")
            yield _batch([
                {**_stream_of(group[-1]), "data": tiled([_frame(row["data"], shape) for row in group]).tobytes()}
                for group in groups])
        if waiting:
            raise ValueError("a batch ends within a moment")

    return events.mapInArrow(work, f"{STREAM}, data BINARY")


def overlay(events: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The picture with its banner, and its checksum."""
    shape = tuple(2 * size for size in _shape(config))

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in _rows(batches):
            pictures = [with_banner(_frame(row["data"], shape), row["_seq"]) for row in rows]
            yield _batch([
                {**row, "data": picture.tobytes(), "checksum": checksum(picture)}
                for row, picture in zip(rows, pictures, strict=True)])

    return events.mapInArrow(work, f"{STREAM}, data BINARY, checksum BIGINT")


def encode(events: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The packet of each picture."""
    shape = tuple(2 * size for size in _shape(config))

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in _rows(batches):
            made = encoded(_frame(row["data"], shape) for row in rows)
            yield _batch([{**row, "data": packet} for row, packet in zip(rows, made, strict=True)])

    return events.mapInArrow(work, events.schema)


def _shape(config: Mapping[str, Any]) -> tuple[int, int]:
    """Rows and columns of a camera's picture as an array: luma, and half as many rows of chroma."""
    return int(config["height"]) * 3 // 2, int(config["width"])


def _frame(data: bytes, shape: tuple[int, ...]) -> np.ndarray:
    import numpy as np

    return np.frombuffer(data, np.uint8).reshape(shape)


def _stream_of(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("_seq", "_time", "_born")}


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[list[dict[str, Any]]]:
    for batch in batches:
        if batch.num_rows:
            yield batch.to_pylist()


def _batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    import pyarrow as pa

    types = {"data": pa.binary()}
    names = list(rows[0])
    return pa.RecordBatch.from_arrays(
        [pa.array([row[name] for row in rows], types.get(name, pa.int64())) for name in names], names=names)
