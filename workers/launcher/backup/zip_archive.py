"""The archive: a zip file of what was copied, and a manifest with a checksum for every file in it."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from workers.launcher.state_folder import CannotStart

FORMAT = 1  # raised when a version of Weir that is older could not read it
MANIFEST = "manifest.json"
MARK = b"weir-backup sha256="
BLOCK = 1 << 20
MOST_FACTS_BYTES = 16 << 20  # of a manifest without its files: migrations, nodes, what was left out
ENTRY_BYTES, CHARACTER_BYTES = 200, 12  # of a file in it (JSON): size, checksum, time; each character of its path
LONGEST_NAME, LONGEST_PATH = 255, 3_000  # bytes: what a file system takes, with room for the folder's own path
_WAYS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_PACKED = (".parquet", ".zip", ".gz", ".xz", ".zst", ".snappy", ".sst", ".staged", ".blocks")
# What zipfile raises of an archive that it cannot read: RuntimeError where it has no such version, way of packing or
# password, ValueError of names, OverflowError of offsets.
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, RuntimeError, ValueError, OverflowError)
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of the archive: its size in bytes, its SHA-256, and when it was last changed (ns since the epoch)."""

    size: int
    sha256: str
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of an archive: ``made_at`` is when it was made (ISO 8601), ``paused_ms`` how long writers waited for
    it.

    ``left_out`` says in sentences what is not in it; ``migrations`` are those of the database, by app.
    """

    weir: str
    made_at: str
    database: str
    nodes: tuple[str, ...]
    slots: int
    paused_ms: int
    keys: int
    migrations: Mapping[str, list[str]]
    left_out: tuple[str, ...] = ()
    format: int = FORMAT
    files: Mapping[str, FileEntry] = field(default_factory=dict)

    def parts(self) -> dict[str, tuple[int, int]]:
        """Files and bytes of each part of the archive, by the first word of their paths."""
        parts: dict[str, tuple[int, int]] = {}
        for name, entry in self.files.items():
            files, size = parts.get(name.split("/")[0], (0, 0))
            parts[name.split("/")[0]] = (files + 1, size + entry.size)
        return parts


def write(path: Path, manifest: Manifest, sources: Mapping[str, tuple[Path, int]], *, progress: Progress) -> Manifest:
    """Write an archive whole or not at all; the manifest with its files.

    Parameters
    ----------
    sources : mapping of str to tuple
        Of each file of the archive where it is now, and how many bytes of it count.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    total, done, entries = sum(size for _, size in sources.values()) or 1, 0, {}
    temporary.unlink(missing_ok=True)
    try:  # a file or link that another user has put there is neither written nor kept
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
                for name, (source, size) in sorted(sources.items()):
                    entries[name] = _add(archive, name, source, size)
                    done += size
                    progress(f"writing {path.name}", done / total)
                text = json.dumps({**asdict(manifest), "files": {n: asdict(e) for n, e in entries.items()}}, indent=1)
                archive.writestr(MANIFEST, text, compress_type=zipfile.ZIP_DEFLATED)
                archive.comment = MARK + hashlib.sha256(text.encode()).hexdigest().encode()
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)
    return Manifest(**{**_fields(manifest), "files": entries})


def read_manifest(path: Path) -> Manifest:
    """The manifest of an archive, once that is known to be as it was written.

    Raises
    ------
    CannotStart
        It is not there, no back-up, cut short, altered, or of a later version of Weir.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo(MANIFEST)
            if info.file_size > _most_manifest_bytes(archive) or info.compress_type not in _WAYS:
                raise broken(path, MANIFEST)
            comment, text = archive.comment, archive.read(MANIFEST)
    except FileNotFoundError:
        raise CannotStart(f"There is no file {path}.") from None
    except (*_UNREADABLE, OSError) as error:
        why = str(error) or "it ends early"
        raise CannotStart(
            f"{path} is no back-up of Weir, or was cut short ({why}): copy it again, or take another one.") from None
    if comment != MARK + hashlib.sha256(text).hexdigest().encode():
        raise broken(path, MANIFEST)
    try:
        document: dict[str, Any] = json.loads(text)
        if document.get("format", 0) > FORMAT:
            newer = in_print(document.get("weir"))[:LONGEST_NAME]
            raise CannotStart(
                f"{path} is of a newer version of Weir ({newer}): restore it with that, or upgrade this one.")
        files = {name: FileEntry(**entry) for name, entry in document.pop("files").items()}
        figures = [figure for entry in files.values() for figure in (entry.size, entry.mtime_ns)]
        folders = {str(folder) for name in files for folder in PurePosixPath(name).parents}
        manifest = Manifest(**{
            **document, "files": files, "nodes": tuple(document["nodes"]), "left_out": tuple(document["left_out"])})
        names = [name for app, done in manifest.migrations.items() for name in (app, *done)]
        texts = (manifest.weir, manifest.made_at, manifest.database, *manifest.nodes, *manifest.left_out, *names)
        figures += [manifest.slots, manifest.paused_ms, manifest.keys]
        if not all(type(figure) is int and 0 <= figure < 1 << 63 for figure in figures) or folders & files.keys() or (
                not all(type(text) is str for text in texts)):
            raise broken(path, MANIFEST)
        return manifest
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise broken(path, MANIFEST) from None


def extract(path: Path, manifest: Manifest, folder: Path | None, *, progress: Progress) -> None:
    """Write an archive's files into a folder, each checked while it is written; with None they are only checked.

    Raises
    ------
    CannotStart
        A file is missing or not as it was written, or a path leads out of the folder.
    """
    total, done = sum(entry.size for entry in manifest.files.values()) or 1, 0
    with zipfile.ZipFile(path) as archive:
        for name, entry in manifest.files.items():
            parts = name.split("/")
            if not name.isprintable() or {"..", ".", ""} & set(parts) or (
                    max(len(part.encode()) for part in parts) > LONGEST_NAME or len(name.encode()) > LONGEST_PATH):
                raise broken(path, name)
            _take(archive, path, name, entry, folder)
            done += entry.size
            progress(f"{'checking' if folder is None else 'unpacking'} {path.name}", done / total)


def broken(path: Path, name: str) -> CannotStart:
    """The refusal of an archive of which a file is not as it was written."""
    return CannotStart(
        f"{path} is damaged: {in_print(name)[:LONGEST_NAME]} is not as it was written. Copy the file again, or take "
        "another back-up; nothing was changed.")


def in_print(text: object) -> str:
    """A text of an archive as a terminal may have it: what cannot be seen there, or steers it, is written out."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in str(text))


def _most_manifest_bytes(archive: zipfile.ZipFile) -> int:
    """The length of the longest manifest that tells of the archive's files: one that tells of others is forged."""
    characters = sum(len(info.filename) for info in archive.infolist())
    return MOST_FACTS_BYTES + ENTRY_BYTES * len(archive.infolist()) + CHARACTER_BYTES * characters


def _add(archive: zipfile.ZipFile, name: str, source: Path, size: int) -> FileEntry:
    """Add so many bytes of a file."""
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o600 << 16
    info.compress_type = zipfile.ZIP_STORED if source.suffix in _PACKED else zipfile.ZIP_DEFLATED
    digest, remaining_bytes = hashlib.sha256(), size
    with source.open("rb") as file, archive.open(info, "w", force_zip64=size >= 1 << 31) as target:
        while remaining_bytes and (block := file.read(min(BLOCK, remaining_bytes))):
            digest.update(block)
            target.write(block)
            remaining_bytes -= len(block)
    return FileEntry(size - remaining_bytes, digest.hexdigest(), source.stat().st_mtime_ns)


def _take(archive: zipfile.ZipFile, path: Path, name: str, entry: FileEntry, folder: Path | None) -> None:
    digest, size = hashlib.sha256(), 0
    info = archive.NameToInfo.get(name)
    if info is None or info.file_size != entry.size or info.compress_type not in _WAYS:
        raise broken(path, name)  # it may unpack to more than there is room for, in the folder or in memory
    target = Path(os.devnull) if folder is None else folder / name
    if folder is not None:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with archive.open(name) as source, target.open("wb") as file:
            while block := source.read(BLOCK):
                digest.update(block)
                size += len(block)
                file.write(block)
    except _UNREADABLE:
        raise broken(path, name) from None
    if (size, digest.hexdigest()) != (entry.size, entry.sha256):
        raise broken(path, name)
    if folder is not None:  # agents go by the age of some
        os.utime(target, ns=(entry.mtime_ns, entry.mtime_ns))


def _fields(manifest: Manifest) -> dict[str, Any]:
    return {name: getattr(manifest, name) for name in Manifest.__dataclass_fields__}


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
