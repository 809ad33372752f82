"""Putting a back-up into a new data folder: checked first, then made whole beside it, then moved to its place."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import redis

from workers import broker_client
from workers.launcher import broker as embedded
from workers.launcher import state_folder
from workers.launcher.process_start import shown
from workers.launcher.state_folder import ROOT, CannotStart

from . import backup_layout, broker_keys, held_database, key_sealing, serving
from .progress_line import ProgressLine
from .zip_archive import Manifest, broken, extract, in_print, read_manifest

SINK, RESTORED = "weir:sink:", "restored"


@dataclass(frozen=True, slots=True)
class Target:
    """The place that a back-up is restored to: ``given_url`` is ``REDIS_URL``, ``database_url`` ``DATABASE_URL``, both
    may be empty."""

    data_dir: Path
    given_url: str = ""
    database_url: str = ""
    passphrase: str | None = None


def check(path: Path, target: Target, *, progress: ProgressLine) -> Manifest:
    """Check that an archive is whole, of a version that this one knows, and may go there; its manifest."""
    manifest = read_manifest(path)
    for name in manifest.files:  # a jar would be run, and users of the broker let in
        part = name.split("/")[0]
        if part not in backup_layout.ARCHIVED or (part in backup_layout.FILES) != (part == name):
            raise broken(path, name)
    is_postgresql = manifest.database == "postgresql"
    if newer := held_database.newer_migrations(manifest.migrations):
        raise CannotStart(
            f"{path} is of a newer version of Weir ({in_print(manifest.weir)}; its database has "
            f"{in_print(newer[-1])}): restore it with that, or upgrade this one.")
    if is_postgresql != held_database.is_postgresql(target.database_url):
        raise CannotStart(
            f"{path} is of a system with {'PostgreSQL' if is_postgresql else 'SQLite'}: "
            + ("name an empty PostgreSQL database in DATABASE_URL." if is_postgresql
               else "unset DATABASE_URL to restore it."))
    _check_place(target)
    _check_room(manifest, target.data_dir)
    extract(path, manifest, None, progress=progress)
    for name in (backup_layout.BROKER, backup_layout.COLUMNS if is_postgresql else backup_layout.DATABASE):
        if name not in manifest.files:
            raise CannotStart(
                f"{path} has no {name}, and nothing can go on without it: take another back-up; nothing was changed.")
    return manifest


def restore(path: Path, target: Target, *, progress: ProgressLine) -> Manifest:
    """Put an archive into a data folder that is not there yet, or empty; whole or not at all."""
    manifest = check(path, target, progress=progress)
    data_dir = target.data_dir
    folder = data_dir.with_name(f".{data_dir.name}.restoring-{os.getpid()}")
    data_dir.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700)
    try:
        extract(path, manifest, folder, progress=progress)
        if target.passphrase and (folder / backup_layout.KEYS).is_file():
            key_sealing.open_into(folder, (folder / backup_layout.KEYS).read_bytes(), target.passphrase)
        (folder / backup_layout.KEYS).unlink(missing_ok=True)
        if manifest.database == "postgresql":
            _fill_database(folder, manifest)
        _fill_broker(folder, target)
        os.sync()
        if data_dir.is_dir():
            (data_dir / "lock").unlink(missing_ok=True)
            data_dir.rmdir()
        folder.rename(data_dir)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return manifest


def _check_place(target: Target) -> None:
    folder = target.data_dir
    if folder.is_dir():
        if (folder / "lock").exists():
            state_folder.lock(folder).close()
        if names := sorted(path.name for path in folder.iterdir() if path.name != "lock"):
            raise CannotStart(
                f"The data folder {folder} is not empty ({', '.join(names[:3])}{', …' if len(names) > 3 else ''}): "
                "name another with --data-dir, or move that one away.")
    elif folder.exists():
        raise CannotStart(f"{folder} is no folder: name another with --data-dir.")
    if target.given_url:
        if not embedded.answers(target.given_url):
            raise CannotStart(f"REDIS_URL names {shown(target.given_url)}, where no broker answers.")
        with broker_client.connect(target.given_url) as client:
            if not broker_keys.is_empty(client):
                raise CannotStart(
                    f"The broker at {shown(target.given_url)} holds a system already: name another, or another of its "
                    "databases, in REDIS_URL.")


def _check_room(manifest: Manifest, data_dir: Path) -> None:
    needed = sum(entry.size for entry in manifest.files.values())
    parent = next(folder for folder in (data_dir, *data_dir.parents) if folder.is_dir())
    free = shutil.disk_usage(parent).free
    if free < needed * 1.1:
        raise CannotStart(
            f"{parent} has room for {free >> 20} MB, and the back-up unpacks to {needed >> 20} MB: make room, or name "
            "another folder with --data-dir.")


def _fill_broker(folder: Path, target: Target) -> None:
    keys = folder / backup_layout.BROKER
    if target.given_url:
        with broker_client.connect(target.given_url) as client:
            broker_keys.load(client, keys)
            mark_sinks(client)
    else:
        with serving.started(folder) as url, broker_client.connect(url) as client:
            broker_keys.load(client, keys)
            mark_sinks(client)
    keys.unlink()


def mark_sinks(client: redis.Redis) -> None:
    """Let each sink of another system know up to where its channel goes now.

    That system may have more: what was written there after the back-up. The sink then does not pass over as much of
    what its channel gets from now on.
    """
    for key in client.scan_iter(match=f"{SINK}*", count=1000):
        channel = key.decode().removeprefix(SINK)
        if client.type(key) == b"hash" and client.exists(f"weir:ch:{channel}"):
            newest = client.xinfo_stream(f"weir:ch:{channel}")["last-generated-id"]
            client.hset(key, RESTORED, newest)


def _fill_database(folder: Path, manifest: Manifest) -> None:
    """Rows of PostgreSQL: by Django, which knows its tables."""
    tables = folder / backup_layout.TABLES
    (tables / "migrations.json").write_text(json.dumps(manifest.migrations))
    command = (sys.executable, "-P", str(ROOT / "manage.py"), "restore_database", str(tables))
    done = subprocess.run(
        command, capture_output=True, text=True,
        env={**os.environ, "WEIR_DATA_DIR": str(folder), "WEIR_SECRET_KEY": "of-no-session-" + "0" * 50})
    if done.returncode:
        words = done.stderr.strip().splitlines() or ["no reason was given"]
        raise CannotStart(f"The database could not be filled: {words[-1]}")
    shutil.rmtree(tables)
