"""Taking a back-up: which parts are copied in which order, so that together they are a moment of the system.

Weir recovers from the state in which a kill of every process at one moment leaves it. A back-up is such a state, and so
needs no recovery of its own. Parts know of one another through the broker alone: blocks, readers' places, positions,
desired states and reports. So writes to the broker wait while

1. its keys are read,
2. files of checkpoints, nodes and sinks are held by hard links: what says that batches are done first, then what they
   wrote, then the state of operators, then what says that batches were planned. A query may be in mid-batch: of a
   batch that is said to be done, all is there; one that is not is repeated,
3. the database's moment begins: it knows nothing of an engine that is later than the copied one.

Where records of fragments change meanwhile, all of 2 is taken once more. Then writers go on. What was held is written
to the archive at leisure, after the files that the database hands over to (the archive of its audit trail).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import redis

from workers import broker_client
from workers.launcher.state_folder import CannotStart

from . import backup_layout, broker_keys, held_database, key_sealing, serving
from .linking import LinkedFiles, signature
from .progress_line import ProgressLine
from .zip_archive import Manifest, write

LONGEST_CLOSING_S = 20.0  # of a sink's file
HOLDING = ".backup-"


@dataclass(frozen=True, slots=True)
class BackupRequest:
    """The scope of a back-up: ``given_url`` is ``REDIS_URL``, ``database_url`` ``DATABASE_URL``, both may be empty.

    ``pause_s`` is for how long writers may be held at most. Without ``outputs``, closed files of sinks stay out; with
    ``partial``, a system counts whose other nodes' files are not here. With a ``passphrase``, keys are in it, sealed.
    """

    data_dir: Path
    given_url: str = ""
    database_url: str = ""
    pause_s: float = 5.0
    outputs: bool = True
    partial: bool = False
    passphrase: str | None = None


def take(path: Path, request: BackupRequest, *, progress: ProgressLine) -> Manifest:
    """Write a back-up of a system, which may run, into a file; its manifest."""
    if not request.data_dir.is_dir():
        raise CannotStart(f"There is no data folder {request.data_dir}: name it with --data-dir.")
    held_database.check_is_there(request.database_url, request.data_dir)
    with _alone(request.data_dir) as folder, ExitStack() as stack:
        client = stack.enter_context(broker_client.connect(
            stack.enter_context(serving.of_system(request.data_dir, given_url=request.given_url)), socket_timeout=60))
        missing = _missing_nodes(client, request)
        copy = LinkedFiles(request.data_dir, folder / "files")
        keys, paused_ms, reading = _moment(client, copy, folder, request, stack)
        reading.copy(folder, progress=lambda part: progress("copying the database", part))
        migrations = reading.migrations()
        for name in backup_layout.BEHIND_DATABASE:
            copy.take(backup_layout.files_below(request.data_dir / name))
        left_out = [*_left_out(request, copy), *(
            f"checkpoints and files of the node {node}, which are on its own machine" for node in missing)]
        if request.passphrase:
            (folder / backup_layout.KEYS).write_bytes(key_sealing.seal(request.data_dir, request.passphrase))
        manifest = Manifest(
            weir=version("weir"), made_at=datetime.now(UTC).isoformat(timespec="seconds"), database=reading.kind,
            nodes=tuple(sorted(path.name for path in (request.data_dir / "nodes").glob("*") if path.is_dir())),
            slots=len(list((request.data_dir / "nodes").glob("*/slot-[0-9]*"))), paused_ms=paused_ms, keys=keys,
            migrations=migrations, left_out=tuple(left_out))
        return write(path, manifest, _sources(folder, copy), progress=progress)


@contextmanager
def _alone(data_dir: Path) -> Iterator[Path]:
    """A folder for what is held; one back-up at a time, and what one left that was killed goes."""
    with (data_dir / "backup.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotStart(f"Another back-up of {data_dir} is being made: wait for it.") from None
        for leftover in data_dir.glob(f"{HOLDING}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        folder = data_dir / f"{HOLDING}{os.getpid()}"
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _moment(
    client: redis.Redis, copy: LinkedFiles, folder: Path, request: BackupRequest, stack: ExitStack
) -> tuple[int, int, held_database.DatabaseSnapshot]:
    """Everything that belongs together, of one moment: how many keys, how long writers waited, and the database."""
    began_s = time.monotonic()
    deadline_s = began_s + 0.9 * request.pause_s
    with broker_keys.paused(client, limit_s=request.pause_s):
        keys = broker_keys.dump(client, folder / backup_layout.BROKER)
        while not hold(copy, outputs=request.outputs):
            if time.monotonic() > deadline_s:
                raise CannotStart(
                    "Queries were being started or stopped all the time, as when a plan is carried out: try again when "
                    "that is over.")
            copy.clear()
            time.sleep(0.02)
        reading = stack.enter_context(held_database.read(request.database_url, request.data_dir))
    return keys, round(1000 * (time.monotonic() - began_s)), reading


def hold(copy: LinkedFiles, *, outputs: bool = True) -> bool:
    """Hold the engine's files as they are; False where it is no moment: records of fragments changed meanwhile, or a
    query did so many batches that what belongs to its newest one that is held as done is gone.

    Parameters
    ----------
    outputs : bool, optional
        True where closed files of sinks are held, too.
    """
    data_dir = copy.data_dir
    before = signature(backup_layout.records(data_dir))
    copy.take(backup_layout.commits(data_dir))
    for folder in backup_layout.sink_folders(data_dir):
        with _closing_waits(folder):
            copy.take(backup_layout.files_below(folder), where=lambda name: outputs or "/.weir/" in name)
    if outputs:  # what stands beside folders of sinks: `file_batches`
        copy.take(backup_layout.files_below(data_dir / "outputs"), where=lambda name: name not in copy.sizes)
    copy.take(backup_layout.files_below(data_dir / "tables"), where=lambda name: "/_delta_log/" in name)
    copy.take(backup_layout.files_below(data_dir / "tables"), where=lambda name: "/_delta_log/" not in name)
    copy.take(backup_layout.states(data_dir))
    copy.take_sqlite(backup_layout.fold_stores(data_dir))  # versions that are older than the newest are in it, too
    copy.take(backup_layout.offsets(data_dir))
    copy.take(backup_layout.files_below(data_dir / "spill"))
    copy.take(backup_layout.records(data_dir))
    return signature(backup_layout.records(data_dir)) == before and _goes_on(copy)


def _goes_on(copy: LinkedFiles) -> bool:
    """Whether of each checkpoint the newest batch that is done was planned: Spark forgets the plan of one first."""
    newest: dict[Path, int] = {}
    for name in map(Path, copy.sizes):
        if name.parent.name == "commits" and name.name.isdigit():
            checkpoint = name.parent.parent
            newest[checkpoint] = max(int(name.name), newest.get(checkpoint, 0))
    return all(str(checkpoint / "offsets" / str(batch)) in copy.sizes for checkpoint, batch in newest.items())


@contextmanager
def _closing_waits(folder: Path) -> Iterator[None]:
    """Hold a sink's folder: no file is closed meanwhile. One that is being closed for long is waited for."""
    descriptor = os.open(folder / ".weir" / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)  # slots write there
    try:
        until_s = time.monotonic() + LONGEST_CLOSING_S
        while not _is_locked(descriptor):
            if time.monotonic() > until_s:
                raise CannotStart(f"{folder} is held by a process that does not let it go: end it, then try again.")
            time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _missing_nodes(client: redis.Redis, request: BackupRequest) -> list[str]:
    """The nodes whose files are on other machines; refused unless that is wanted."""
    nodes = request.data_dir / "nodes"
    here = {path.relative_to(nodes).parts[0] for path in nodes.rglob("desired.json")}
    missing = [node for node in broker_keys.nodes_with_work(client) if node not in here]
    if missing and not request.partial:
        raise CannotStart(
            f"{', '.join(missing)} runs queries, and how far they are is on its own machine: stop it and copy its data "
            "folder at the same time, then say --partial. Without it, what ran there begins anew after a restore.")
    return missing


def _left_out(request: BackupRequest, copy: LinkedFiles) -> Iterator[str]:
    if not request.passphrase:
        yield ("keys (secret_key, secrets_key) and passwords of the sample workspace: keep secrets_key elsewhere, or "
               "give --passphrase-file")
    if not request.outputs:
        yield "closed files of sinks, in outputs"
    if names := backup_layout.unknown(request.data_dir):
        yield f"what is not Weir's in the data folder: {', '.join(names)}"
    yield "sessions: everybody logs in again"


def _sources(folder: Path, copy: LinkedFiles) -> dict[str, tuple[Path, int]]:
    """Every file of the archive, where it is held, and its size."""
    sources = {name: (copy.folder / name, size) for name, size in copy.sizes.items()}
    for name in (backup_layout.DATABASE, backup_layout.BROKER, backup_layout.KEYS):
        with suppress(FileNotFoundError):
            sources[name] = (folder / name, (folder / name).stat().st_size)
    for path in backup_layout.files_below(folder / backup_layout.TABLES):
        sources[f"{backup_layout.TABLES}/{path.name}"] = (path, path.stat().st_size)
    return sources
