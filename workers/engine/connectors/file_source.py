"""Files that appear in a folder or a bucket, each event once: in the order in which they were last written.

What was read is remembered by a floor and by names: a file that was last written before the floor is not looked at, of
those after it each that was read is known. The floor follows the newest file at the distance of ``late``, so that one
which appears late is read, and as much is remembered as appears within that time and no more.
"""

from __future__ import annotations

import base64
import hashlib
import heapq
import time
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from .contract import MOST_BYTES, MOST_MESSAGES, DeadLetter, Message, Opening, Polled, Position, SourceAway
from .file_pieces import FilePieces, FileReading, place_before_last
from .file_stores import FileGone, FileStore, ListedFile, PathPattern, store_of

MOST_NAMES = 5_000  # that are remembered: beyond that the floor rises
MOST_AHEAD = 1_000  # files that one look finds
LOOK_EVERY_S = 1.0  # between two lists of an empty store, of somebody who waits


def open_files(opening: Opening) -> FilesReader:
    """Read a store from where it was left, or from where the config says."""
    return FilesReader(opening)


def look_at_files(opening: Opening, count: int) -> Iterator[Polled]:
    """The last events of the newest files; without files, the first that appear."""
    config = opening.config
    store, pattern = store_of(config), PathPattern(config["match"])
    while True:
        newest = heapq.nlargest(count, (listed for listed in store.files() if pattern.fullmatch(listed.name)))
        yield Polled()
        if newest:
            break
        time.sleep(LOOK_EVERY_S)
    messages: list[Message] = []
    lost: list[DeadLetter] = []
    for listed in newest:
        if len(messages) >= count:
            break
        ended = _end_of(listed, store, config, count)
        messages[:0], lost[:0] = ended.messages, ended.lost
        yield Polled()
    yield Polled(messages, lost=lost)


def _end_of(listed: ListedFile, store: FileStore, config: Mapping[str, Any], count: int) -> Polled:
    """The last events of a file, and what of its end could not be read."""
    messages: deque[Message] = deque(maxlen=count)
    dead: deque[DeadLetter] = deque(maxlen=count)
    reading = _reading(listed, config)
    try:
        with store.open(listed) as file:
            at = place_before_last(file, reading, listed.size, count)
            pieces = FilePieces(file, reading, at=at)
            piece = pieces.take()
            while True:
                messages += piece.messages
                dead += piece.dead
                if piece.is_over:
                    return Polled(list(messages), lost=list(dead))
                piece = pieces.take()
    except FileGone as gone:
        return Polled(lost=[DeadLetter(f"{gone}: it is not read", listed.name)])
    except OSError as error:
        raise SourceAway(f"The file {listed.name} cannot be read: {error.strerror}.") from None


def _reading(listed: ListedFile, config: Mapping[str, Any]) -> FileReading:
    """How a file is read, by the config."""
    facts: dict[str, Any] = {
        "file_name": listed.name.encode(errors="backslashreplace").decode(), "file_time": listed.modified_ms}
    extras = {name: facts[name] for name in config["include"]}
    return FileReading(facts["file_name"], config["format"], config["header"], config["columns"], extras or None)


class ReadFiles:
    """Files that were read: all that were last written before ``floor_ms``, and those of ``names`` (a digest of each,
    with when it was written)."""

    def __init__(self, floor_ms: int = 0, names: dict[str, int] | None = None, *, late_ms: int) -> None:
        self.floor_ms, self.names, self._late_ms = floor_ms, dict(names or {}), late_ms

    def __contains__(self, listed: ListedFile) -> bool:
        return listed.modified_ms < self.floor_ms or digest_of(listed) in self.names

    def add(self, *files: ListedFile, now_ms: int) -> None:
        """Remember files. One that says that it was written later than now does not raise the floor beyond now."""
        self.names |= {digest_of(listed): listed.modified_ms for listed in files}
        newest_ms = min(now_ms, max(self.names.values(), default=0))
        self.floor_ms = max(self.floor_ms, newest_ms - self._late_ms)
        if len(self.names) > MOST_NAMES:
            self.floor_ms = max(self.floor_ms, sorted(self.names.values())[len(self.names) - MOST_NAMES])
        self.names = {name: at_ms for name, at_ms in self.names.items() if at_ms >= self.floor_ms}


def digest_of(listed: ListedFile) -> str:
    """A short name of a file as it was seen; one that was written anew has another."""
    text = f"{listed.name}\0{listed.modified_ms}\0{listed.size}\0{listed.version}"
    return base64.b64encode(hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=9).digest()).decode()


class FilesReader:
    """A store that is looked at every few seconds, and the file that is being read."""

    def __init__(self, opening: Opening) -> None:
        config = opening.config
        self._config = config
        self._store = store_of(config)
        self._pattern = PathPattern(config["match"])
        self._every_s, late_ms = float(config["every"]), int(config["late"] * 1000)
        self._ahead: list[ListedFile] = []
        self._pieces: FilePieces | None = None
        self._due_s = 0.0
        position = opening.position
        if position is None:
            self._read_files, self._now, self._place = self._begin(config["start"], late_ms), None, None
        else:
            self._read_files = ReadFiles(position["floor_ms"], position["names"], late_ms=late_ms)
            self._now = ListedFile(*position["now"]) if position["now"] else None  # it was being read
            self._place = position["at"]

    def position(self) -> Position:
        now = self._now
        return {
            "floor_ms": self._read_files.floor_ms, "names": dict(self._read_files.names), "at": self._place,
            "now": None if now is None else [now.modified_ms, now.name, now.size, now.version]}

    def poll(self, timeout_s: float) -> Polled:
        if self._now is None and not self._ahead:
            wait_s = self._due_s - time.monotonic()
            if wait_s > 0:
                time.sleep(min(wait_s, timeout_s))
                return Polled()
            self._look()
        messages: list[Message] = []
        lost: list[DeadLetter] = []
        size, is_news = 0, False
        while (self._now or self._ahead) and len(messages) + len(lost) < MOST_MESSAGES and size < MOST_BYTES:
            if self._now is None:
                self._now, self._place = self._ahead.pop(0), None
            size += self._read_on(messages, lost)
            is_news = True
        return Polled(messages, self.position() if is_news else None, lost)

    def written(self) -> None:
        return  # the files stay where they are

    def rest(self, timeout_s: float) -> None:
        time.sleep(timeout_s)

    def close(self, *, for_good: bool) -> None:
        if self._pieces is not None:
            self._pieces.close()

    def _begin(self, start: str, late_ms: int) -> ReadFiles:
        if start == "oldest":
            return ReadFiles(late_ms=late_ms)
        if start != "newest":
            time_ = datetime.fromisoformat(start)
            at = time_ if time_.tzinfo else time_.replace(tzinfo=UTC)
            return ReadFiles(int(at.timestamp() * 1000), late_ms=late_ms)
        newest = heapq.nlargest(MOST_NAMES, self._store.files())
        done = ReadFiles(newest[-1].modified_ms + 1 if len(newest) == MOST_NAMES else 0, late_ms=late_ms)
        done.add(*newest, now_ms=_now_ms())
        return done

    def _look(self) -> None:
        matching = (listed for listed in self._store.files() if self._pattern.fullmatch(listed.name))
        news = (listed for listed in matching if listed not in self._read_files)
        self._ahead = heapq.nsmallest(MOST_AHEAD, news)
        is_more = len(self._ahead) == MOST_AHEAD
        self._due_s = time.monotonic() + (0 if is_more else self._every_s)

    def _read_on(self, messages: list[Message], lost: list[DeadLetter]) -> int:
        """The next piece of the file that is being read; how many bytes it gave."""
        listed = self._now
        assert listed is not None
        try:
            if self._pieces is None:
                self._pieces = FilePieces(self._store.open(listed), _reading(listed, self._config), at=self._place)
            piece = self._pieces.take()
        except OSError as error:
            raise SourceAway(f"The file {listed.name} cannot be read: {error.strerror}.",
                             remedy="It is tried again by itself.") from None
        except FileGone as gone:
            loss = "the rest of it is not read" if self._place else "it is not read"
            lost.append(DeadLetter(f"{gone}: {loss}", listed.name))
            self._finish(listed)
            return 0
        messages += piece.messages
        lost += piece.dead
        self._place = piece.at
        if piece.is_over:
            self._finish(listed)
        return piece.size

    def _finish(self, listed: ListedFile) -> None:
        if self._pieces is not None:
            self._pieces.close()
        self._read_files.add(listed, now_ms=_now_ms())
        self._now = self._place = self._pieces = None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
