"""Stores in which files appear: a folder, and a bucket of an S3-compatible store. What is there, and what is in it."""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from workers.engine.bucket_requests import BucketAddress, line_to, part_of
from workers.library.inbox import inbox_path, inboxes
from workers.library.live_files import S3, bucket_and_prefix, endpoint_of
from workers.library.outbound import HttpAnswer, Line, TooLate, Unanswered
from workers.library.reach import host_and_port, require_allowed

from .bucket_listing import NotListed, objects_of
from .contract import SourceAway, SourceRefused

AGAIN = "It is tried again by itself."


_PART = re.compile(r"(?!\.{1,2}$)[^\x00-\x1f\x7f]+")  # of an object's path; what a path leaves out, or follows, is none


class FileGone(Exception):
    """A file is not there any more, or is another one than was seen; the text says which."""


@dataclass(frozen=True, slots=True, order=True)
class ListedFile:
    """A file as it was seen: when it was last written (ms since the epoch), its path below the store, its size in
    bytes, and what tells this content from another."""

    modified_ms: int
    name: str
    size: int
    version: str = ""


class FileStore(Protocol):
    """A store in which files appear: a folder or a bucket. Methods raise ``SourceAway`` or ``SourceRefused``."""

    def files(self) -> Iterator[ListedFile]:
        """All files that are there now, in any order."""
        ...

    def open(self, listed: ListedFile) -> BinaryIO:
        """A file as it was seen; ``FileGone`` where it is not there any more. So may reading it."""
        ...


def store_of(config: Mapping[str, Any]) -> FileStore:
    """The store that a config names; ``InvalidConfig`` where it may not be read."""
    return Bucket(config) if config["path"].startswith(S3) else Folder(config["path"])


def is_hidden(name: str) -> bool:
    """True where a name says that the file is not meant to be read, or not yet."""
    return any(part.startswith((".", "_")) for part in name.split("/"))


class PathPattern:
    """A pattern of paths: * and ? stay within a name, ** does not, and **/ may be nothing.

    A path is gone through once, with the set of all places in the pattern (bits of a number) to which its characters
    may have led. A regular expression would try one way after the other, and with a dozen stars never end.
    """

    def __init__(self, match: str) -> None:
        parts: list[str] = re.findall(r"\*\*/|\*\*|.", match, re.DOTALL)
        parts = [piece for part in parts for piece in (["maybe", "**/"] if part == "**/" else [part])]

        def places(*kinds: str) -> int:
            return sum(1 << bit for bit, part in enumerate(parts) if part in kinds)

        self._stays, self._stays_at_slash = places("*", "**", "**/"), places("**", "**/")
        self._skips, self._skips_two = places("*", "**", "maybe"), places("maybe")
        self._goes_on = {part: places(part, "?") for part in set(parts) if len(part) == 1 and part not in "*?"}
        self._goes_on["/"] = places("/", "**/")
        self._else_goes_on = places("?")
        self._begin, self._end = self._with_skips(1), 1 << len(parts)

    def fullmatch(self, path: str) -> bool:
        """True where a whole path matches."""
        places = self._begin
        for character in path:
            stays = self._stays_at_slash if character == "/" else self._stays
            goes_on = self._goes_on.get(character, self._else_goes_on)
            places = self._with_skips((places & goes_on) << 1 | places & stays)
        return bool(places & self._end)

    def _with_skips(self, places: int) -> int:
        while (more := places | (places & self._skips) << 1 | (places & self._skips_two) << 2) != places:
            places = more
        return places


class Folder:
    """A folder of this machine, with those below it."""

    def __init__(self, name: str) -> None:
        self._name, self._path = name, inbox_path(name)

    def files(self) -> Iterator[ListedFile]:
        try:
            yield from self._below()
        except PermissionError:
            raise SourceRefused(f"The folder {self._name} may not be read.",
                                remedy="Let the user that Weir runs as read it.") from None
        except OSError:
            raise SourceAway(f"The folder {self._name} is not there.", remedy=AGAIN) from None

    def _below(self) -> Iterator[ListedFile]:
        """Folder by folder, one of them open at a time: who delivers files may have made very many in each other."""
        folders = [(self._path, "")]
        while folders:
            folder, prefix = folders.pop()
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        if is_hidden(entry.name):
                            continue
                        name = prefix + entry.name
                        try:
                            if entry.is_dir(follow_symlinks=False):
                                folders.append((Path(entry.path), f"{name}/"))
                                continue
                            status = entry.stat()
                        except FileNotFoundError:  # gone since it was listed
                            continue
                        if stat.S_ISREG(status.st_mode):
                            yield _listed_file(name, status)
            except FileNotFoundError:
                if not prefix:
                    raise

    def open(self, listed: ListedFile) -> BinaryIO:
        try:
            path = (self._path / listed.name).resolve(strict=True)
            if not any(path.is_relative_to(folder) for folder in inboxes()):
                raise FileGone("leads out of the inbox, and is not read")
            file = path.open("rb")
        except (FileNotFoundError, NotADirectoryError):
            if not self._path.is_dir():
                raise SourceAway(f"The folder {self._name} is not there.", remedy=AGAIN) from None
            raise FileGone("was removed before it was read") from None
        except PermissionError:
            raise SourceRefused(f"The file {listed.name} may not be read.",
                                remedy="Let the user that Weir runs as read it, or remove it.") from None
        except OSError as error:
            raise SourceAway(f"The file {listed.name} cannot be opened: {error.strerror}.", remedy=AGAIN) from None
        if _listed_file(listed.name, os.fstat(file.fileno())) != listed:
            file.close()
            raise FileGone("was changed while it was read")
        return file


def _listed_file(name: str, status: os.stat_result) -> ListedFile:
    return ListedFile(status.st_mtime_ns // 1_000_000, name, status.st_size, str(status.st_mtime_ns))


class Bucket:
    """Files of a bucket below a prefix."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        server, tls = endpoint_of(config), config["tls"]
        require_allowed(server, usual_port=443 if tls else 80)
        self._bucket, self._prefix = bucket_and_prefix(config["path"])
        self._address = BucketAddress(
            "https" if tls else "http", *host_and_port(server, usual_port=443 if tls else 80), self._bucket,
            config["region"], config["access_key"], config["secret_key"])

    def files(self) -> Iterator[ListedFile]:
        begin = f"{self._prefix}/" if self._prefix else ""
        try:
            for item in objects_of(self._address, begin):
                name = item.key.removeprefix(begin)
                is_folder = name.endswith("/") and not item.size  # as consoles and some copies make them
                if name and not is_folder and not is_hidden(name):
                    yield ListedFile(item.modified_ms, name, item.size, item.tag)
        except NotListed as error:
            raise self._refusal(error.status) from None

    def open(self, listed: ListedFile) -> BinaryIO:
        path = f"{self._prefix}/{listed.name}" if self._prefix else listed.name
        if not all(map(_PART.fullmatch, path.split("/"))):
            raise FileGone("has a key that cannot be requested (with //, . or .. as a part, or a control "
                           "character); copy it to another key")
        return io.BufferedReader(_Object(self, path, listed), buffer_size=1 << 20)  # type: ignore[return-value]

    def part(self, line: Line, path: str, listed: ListedFile, start: int, end: int) -> bytes:
        """Some bytes of an object, as long as it is the one that was seen.

        Parameters
        ----------
        start, end : int
            The first byte, and the one behind the last.
        """
        answer = self._answer(line, path, listed, start, end)
        if answer.status == 206 and len(answer.body) > end - start:  # whatever it says, no more of it is taken
            raise FileGone("came with more bytes than were asked for")
        if answer.status in (412, 416):
            raise FileGone("was changed while it was read")
        if answer.status == 404:
            raise FileGone("was removed before it was read")
        if answer.status != 206 or len(answer.body) < end - start:
            raise self._refusal(answer.status)
        return answer.body

    def _answer(self, line: Line, path: str, listed: ListedFile, start: int, end: int) -> HttpAnswer:
        def ask() -> HttpAnswer:
            return part_of(line, self._address, path, start=start, end=end, tag=listed.version)

        try:
            try:
                return ask()
            except Unanswered as error:
                if isinstance(error, TooLate):
                    raise
                return ask()  # a store may have ended the connection while nothing was read
        except Unanswered:
            raise self._refusal(0) from None

    def line(self) -> Line:
        """A connection to the store, for one object."""
        return line_to(self._address)

    def _refusal(self, status: int) -> SourceAway | SourceRefused:
        """What an answer means, in words that hold no address and no key."""
        if status == 404:
            return SourceRefused(f"The bucket {self._bucket} is not there.", remedy="Make it, or mend the path.")
        if status in (301, 307):
            return SourceRefused(f"The bucket {self._bucket} is in another region.", remedy="Name its region.")
        if status in (401, 403):
            return SourceRefused(
                f"The bucket {self._bucket} may not be read.",
                remedy="See to access_key and secret_key, and to what they may read.")
        return SourceAway("The store does not answer.", remedy=AGAIN)


class _Object(io.RawIOBase):
    """An object as a file: each read is a request for that part."""

    def __init__(self, bucket: Bucket, path: str, listed: ListedFile) -> None:
        self._bucket, self._path, self._listed, self._offset = bucket, path, listed, 0
        self._line = bucket.line()

    def close(self) -> None:
        self._line.close()
        super().close()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._offset

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._offset, io.SEEK_END: self._listed.size}[whence]
        self._offset = max(0, base + offset)
        return self._offset

    def readinto(self, buffer: Any) -> int:
        end = min(self._offset + len(buffer), self._listed.size)
        if end <= self._offset:
            return 0
        part = self._bucket.part(self._line, self._path, self._listed, self._offset, end)
        buffer[:len(part)] = part
        self._offset += len(part)
        return len(part)
