"""Parcels: files that go through the broker from one node to another, in pieces with checksums, a window at a time.

A hash in the broker has the manifest (JSON: length and SHA-256 of the file and of each piece), the pieces that come
next and how many the receiver has (``next``). The sender puts those there that are missing of the next ``WINDOW``; the
receiver writes them to its disk, and then deletes them: so the broker holds a window, however long the file is. Either
side only looks at what is there, and so both can go on after whatever died.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import redis

from workers.engine.channels import scripts
from workers.engine.slot_values import MOST_DIGITS, count_of
from workers.library.disk_room import DISK_LEFT_BYTES

from ..node_files.atomic_files import write_atomically

PIECE_BYTES = 256 << 10
WINDOW = 32  # pieces that the broker holds at once
MANIFEST_BYTES = 16 << 20  # at most
MOST_BYTES = 2 << 30  # of a file: whoever goes on with it has all of it in memory, beside the queries of its slot
PIECES_AT_ONCE = 8  # of which it is asked in one round trip
MANIFEST, NEXT, _PIECE = "manifest", "next", "piece:"
_SHA256 = re.compile("[0-9a-f]{64}")
COMING = "coming"  # what a file is while it comes, with what it is to be and the beginning of its checksum

Manifest = Mapping[str, Any]


class Files(Protocol):
    """The files beside checkpoints by fragment and kind, as parcels need them."""

    def size(self, name: str, kind: str) -> int | None:
        """Its length in bytes; None where it is not there."""

    def stamp(self, name: str, kind: str) -> object | None:
        """A value that is another when the file was replaced; None where it is not there."""

    def read(self, name: str, kind: str, first: int = 0, length: int = -1) -> bytes:
        """A part of it, or all.

        Parameters
        ----------
        first, length : int, optional
            The byte at which the part begins, and the most bytes that it has; -1 for all that are left.
        """

    def write(self, name: str, kind: str, text: bytes) -> None:
        """Replace it; a reader sees the old one or the new one, whole."""

    def append(self, name: str, kind: str, text: bytes, *, at: int) -> None:
        """Go on with it there; it stays if the machine goes.

        Parameters
        ----------
        at : int
            Behind how many bytes; what is there later than that goes.
        """

    def require_room(self, more_bytes: int) -> None:
        """Raise ``ValueError`` where so much more would leave the disk less than ``DISK_LEFT_BYTES``."""

    def rename(self, name: str, kind: str, to: str) -> None:
        """Make it another kind, and replace what was that."""

    def date(self, name: str, kind: str, at_ms: int) -> None:
        """Say when it was written, in ms since the epoch."""

    def drop(self, name: str, *kinds: str) -> None:
        """Delete it; not there is fine."""

    def kinds(self, name: str, beginning: str) -> tuple[str, ...]:
        """The kinds of a fragment's files that begin so."""


@dataclass(frozen=True, slots=True)
class FilesBeside:
    """Files beside checkpoints, on disk."""

    folder: Path

    def size(self, name: str, kind: str) -> int | None:
        """As ``Files`` has it."""
        try:
            return self._path(name, kind).stat().st_size
        except FileNotFoundError:
            return None

    def stamp(self, name: str, kind: str) -> object | None:
        """As ``Files`` has it."""
        try:
            status = self._path(name, kind).stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def read(self, name: str, kind: str, first: int = 0, length: int = -1) -> bytes:
        """As ``Files`` has it."""
        with self._path(name, kind).open("rb") as file:
            file.seek(first)
            return file.read(length)

    def write(self, name: str, kind: str, text: bytes) -> None:
        """As ``Files`` has it."""
        write_atomically(self._path(name, kind), text)

    def append(self, name: str, kind: str, text: bytes, *, at: int) -> None:
        """As ``Files`` has it."""
        path = self._path(name, kind)
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+b") as file:
            file.truncate(at)
            file.seek(at)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def require_room(self, more_bytes: int) -> None:
        """As ``Files`` has it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if more_bytes > shutil.disk_usage(self.folder).free - DISK_LEFT_BYTES:
            raise ValueError(f"it says that {more_bytes:,} bytes are still to come, and the disk has no room for them")

    def rename(self, name: str, kind: str, to: str) -> None:
        """As ``Files`` has it."""
        self._path(name, kind).replace(self._path(name, to))

    def date(self, name: str, kind: str, at_ms: int) -> None:
        """As ``Files`` has it."""
        os.utime(self._path(name, kind), ns=(at_ms * 1_000_000, at_ms * 1_000_000))

    def drop(self, name: str, *kinds: str) -> None:
        """As ``Files`` has it."""
        for kind in kinds:
            self._path(name, kind).unlink(missing_ok=True)

    def names(self, kind: str) -> tuple[str, ...]:
        """Names of which there is a file of that kind."""
        return tuple(path.name.removesuffix(f".{kind}") for path in self.folder.glob(f"*.{kind}"))

    def kinds(self, name: str, beginning: str) -> tuple[str, ...]:
        """As ``Files`` has it."""
        return tuple(path.name.removeprefix(f"{name}.") for path in self.folder.glob(f"{name}.{beginning}*"))

    def _path(self, name: str, kind: str) -> Path:
        return self.folder / f"{name}.{kind}"


# -- sending -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parcel:
    """A file to be sent: its manifest as text and what it says, the checksum of what the receiver has of it in the end,
    how a part of it is read, and the checksum of that from which it is the difference, where it is one."""

    manifest: str
    makes: str
    length: int
    lengths: tuple[int, ...]
    read: Callable[[int, int], bytes] = field(repr=False)
    base: str | None = None

    def piece(self, number: int) -> bytes:
        """The piece with this number."""
        return self.read(sum(self.lengths[:number]), self.lengths[number])


def parcel_of(length: int, read: Callable[[int, int], bytes], *, piece_bytes: int, **facts: Any) -> Parcel:
    """The parcel of a file, read once; ``facts`` go into its manifest."""
    whole, checks = hashlib.sha256(), []
    for first in range(0, length, piece_bytes):
        piece = read(first, piece_bytes)
        whole.update(piece)
        checks.append(check_of(piece))
    manifest = {"length": length, "sha256": whole.hexdigest(), "pieces": checks, **facts}
    lengths, makes = tuple(check["length"] for check in checks), makes_of(manifest)["sha256"]
    return Parcel(json.dumps(manifest), makes, length, lengths, read, facts.get("base"))


def makes_of(manifest: Manifest) -> Manifest:
    """Length and SHA-256 of what is made of a parcel: of the text that it is the difference for, or of the file."""
    return manifest.get("whole", manifest)


class Parcels:
    """A node's files as they are sent. A file is read again only after a change."""

    def __init__(self, files: Files, *, piece_bytes: int) -> None:
        self._files, self._piece_bytes = files, piece_bytes
        self._cache: dict[tuple[str, str], tuple[object, Parcel]] = {}

    def of(self, name: str, kind: str, **facts: Any) -> Parcel | None:
        """The parcel of a file; None where it is not there. ``facts`` go into its manifest."""
        stamp = self._files.stamp(name, kind)
        if stamp is None:
            return None
        stored = self._cache.get((name, kind))
        if stored is None or stored[0] != stamp:
            length, read = self._files.size(name, kind) or 0, partial(self._files.read, name, kind)
            stored = self._cache[name, kind] = (stamp, parcel_of(length, read, piece_bytes=self._piece_bytes, **facts))
        return stored[1]

    def has(self, name: str, kind: str) -> bool:
        """True where it was asked for before."""
        return (name, kind) in self._cache

    def forget(self) -> None:
        """Nothing is sent any more."""
        self._cache.clear()


def check_of(text: bytes) -> dict[str, Any]:
    """Length and SHA-256 of a text."""
    return {"length": len(text), "sha256": hashlib.sha256(text).hexdigest()}


def offer(broker: redis.Redis, key: str, parcel: Parcel, *, expires_s: int, sharing: int = 1) -> int:
    """Put the pieces there that the receiver takes next, and are missing; how many it has. Repeating it is safe.

    Parameters
    ----------
    expires_s : int
        The seconds after which it goes, where nobody offers it again.
    sharing : int, optional
        The number of parcels that share the window.
    """
    manifest, taken = fields_of(broker, key, MANIFEST, NEXT)
    first = count_of(taken) or 0
    if manifest != parcel.manifest.encode():  # the first time, or another file was sent here before
        others = [name for name in broker.hkeys(key) if name.startswith(_PIECE.encode())]
        broker.hdel(key, NEXT, *others)
        broker.hset(key, MANIFEST, parcel.manifest)
        first = 0
    broker.expire(key, expires_s)
    numbers = range(first, min(first + max(1, WINDOW // sharing), len(parcel.lengths)))
    pipeline = broker.pipeline(transaction=False)
    for number in numbers:
        pipeline.hexists(key, _piece(number))
    for number, is_there in zip(numbers, pipeline.execute() if numbers else (), strict=True):
        if not is_there:
            broker.hset(key, _piece(number), parcel.piece(number))
    return first


def fields_of(broker: redis.Redis, key: str, *names: str, most: int = MANIFEST_BYTES) -> list[bytes | None]:
    """Fields of a parcel's hash, which a slot of another node writes too; one that is longer than ``most`` bytes comes
    as an empty text."""
    return scripts.run(broker, "bounded", [key], [most, *names])


# -- receiving ---------------------------------------------------------------------------------------------------------


class Manifests:
    """Manifests of what comes, each read once.

    A slot of another node wrote them: file names are made of what they say, and so they say nothing else than a
    manifest does.
    """

    def __init__(self) -> None:
        self._cache: dict[str, tuple[bytes, Manifest | None]] = {}

    def of(self, key: str, text: bytes) -> Manifest | None:
        """The manifest in a parcel's hash; None where it is none."""
        stored = self._cache.get(key)
        if stored is None or stored[0] != text:
            stored = self._cache[key] = (text, _manifest_in(text))
        return stored[1]

    def forget(self) -> None:
        """Nothing comes any more."""
        self._cache.clear()


def _manifest_in(text: bytes) -> Manifest | None:
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_one = (
        _is_check(manifest) and isinstance(manifest.get("pieces"), list) and all(map(_is_piece, manifest["pieces"]))
        and sum(piece["length"] for piece in manifest["pieces"]) == manifest["length"]
        and ("base" not in manifest or _is_digest(manifest["base"]))
        and ("whole" not in manifest or _is_check(manifest["whole"]))
        and (manifest.get("ended_ms") is None or _is_size(manifest["ended_ms"])))
    return manifest if is_one else None


def _is_check(value: Any) -> bool:
    return isinstance(value, dict) and _is_size(value.get("length")) and _is_digest(value.get("sha256"))


def _is_piece(value: Any) -> bool:
    return _is_check(value) and value["length"] <= PIECE_BYTES


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 10**MOST_DIGITS


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and _SHA256.fullmatch(value) is not None


def fetch(
    broker: redis.Redis, key: str, files: Files, name: str, manifest: Manifest, *, to: str, expires_s: int
) -> tuple[int, str | None]:
    """Take the pieces that are there to disk: how many, and what kind the file is once it is whole and checked.

    A piece that is not what the manifest says is asked for again, and so is the file where it is broken on disk.

    Parameters
    ----------
    expires_s : int
        The seconds after which the hash goes, where nobody offers it again.

    Raises
    ------
    ValueError
        It says that it is longer than a file may be, or the disk has no room for what is still to come.
    """
    if (length := max(manifest["length"], makes_of(manifest)["length"])) > MOST_BYTES:
        raise ValueError(f"it says that it has {length:,} bytes, and a slot takes at most {MOST_BYTES:,} of another")
    kind, checks = f"{COMING}-{to}-{manifest['sha256'][:16]}", manifest["pieces"]
    files.drop(name, *(older_kind for older_kind in files.kinds(name, f"{COMING}-{to}-") if older_kind != kind))
    had, at = _pieces_in(files.size(name, kind) or 0, checks)
    if had < len(checks):
        files.require_room(manifest["length"] - at)
    have = had
    while have < len(checks) and have - had < WINDOW:
        numbers = range(have, min(have + PIECES_AT_ONCE, len(checks), had + WINDOW))
        good = []
        pieces = fields_of(broker, key, *map(_piece, numbers), most=PIECE_BYTES)
        for number, piece in zip(numbers, pieces, strict=True):
            if piece is not None and check_of(piece) != checks[number]:
                broker.hdel(key, _piece(number))
                piece = None
            if piece is None:
                break
            good.append(piece)
        if not good:
            break
        files.append(name, kind, b"".join(good), at=at)
        at, have = at + sum(map(len, good)), have + len(good)
    if (count_of(broker.hget(key, NEXT)) or 0) != have:
        broker.hset(key, NEXT, have)
        broker.expire(key, expires_s)
    if have > had:  # and those that its sender put there again meanwhile
        broker.hdel(key, *(_piece(number) for number in range(max(0, had - WINDOW), have)))
    if have < len(checks):
        return have - had, None
    if not _is_whole_on_disk(files, name, kind, manifest):
        files.drop(name, kind)
        broker.hset(key, NEXT, 0)
        return 0, None
    return have - had, kind


def is_whole(text: bytes, check: Manifest) -> bool:
    """True where a text is what its length and SHA-256 say."""
    return check_of(text) == {name: check[name] for name in ("length", "sha256")}


def _is_whole_on_disk(files: Files, name: str, kind: str, manifest: Manifest) -> bool:
    """The same of a file, of which no more than a piece is in memory."""
    size = (files.size(name, kind) or 0) if manifest["pieces"] else 0
    whole = hashlib.sha256()
    for first in range(0, size, PIECE_BYTES):
        whole.update(files.read(name, kind, first, PIECE_BYTES))
    return (size, whole.hexdigest()) == (manifest["length"], manifest["sha256"])


def _pieces_in(size: int, checks: list[Manifest]) -> tuple[int, int]:
    """How many whole pieces a file of that size has, and where they end."""
    number = at = 0
    while number < len(checks) and at + checks[number]["length"] <= size:
        at, number = at + checks[number]["length"], number + 1
    return number, at


def _piece(number: int) -> str:
    return f"{_PIECE}{number}"
