"""The command lines of `./weir backup FILE` and `./weir restore FILE`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from workers.launcher import state_folder
from workers.launcher.process_start import say
from workers.launcher.state_folder import CannotStart

from . import key_sealing
from .progress_line import ProgressLine
from .restoring import Target, check, restore
from .taking import BackupRequest, take
from .zip_archive import Manifest, in_print

PARTS = {
    "weir.sqlite3": "database", "database": "database", "broker.keys": "broker", "keys.sealed": "keys, sealed",
    "checkpoints": "checkpoints and states of queries", "folds": "states of queries by key",
    "nodes": "what nodes should run",
    "spill": "what slow readers have to read", "outputs": "files of sinks", "tables": "tables of sinks",
    "audit": "archive of the audit trail", "replay": "recordings", "secrets.json": "secrets of queries, sealed",
}


def main(arguments: Sequence[str]) -> int:
    """Do what the first word says; the exit code."""
    word, options = arguments[0], arguments[1:]
    try:
        with state_folder.full_disk_named(state_folder.data_dir_of(os.environ)):
            return (_backup if word == "backup" else _restore)(options)
    except CannotStart as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        say("stopped; nothing was changed")
        return 130


def _backup(arguments: Sequence[str]) -> int:
    parser = _parser("backup", "Write all that a system must not lose into one file, while it runs or not.")
    parser.add_argument("--replace", action="store_true", help="replace FILE where it is there")
    parser.add_argument(
        "--without-outputs", action="store_true", help="leave closed files of sinks out: they never change")
    parser.add_argument("--partial", action="store_true", help="go on although other machines run queries")
    parser.add_argument("--pause", type=float, default=5.0, metavar="SECONDS",
                        help="for how long writers may be held at most (%(default)g)")
    options = parser.parse_args(arguments)
    if not 0.1 <= options.pause <= 60:
        parser.error("--pause must be from 0.1 to 60")
    path = options.file.expanduser().resolve()
    if path.is_dir() or (path.exists() and not options.replace):
        raise CannotStart(f"{path} is there already: name another file, or say --replace.")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise CannotStart(f"{path.parent} is no folder that can be written: make it, or name another file.")
    request = BackupRequest(
        options.data_dir.expanduser().resolve(), given_url=_variable("REDIS_URL"),
        database_url=_variable("DATABASE_URL"), pause_s=options.pause,
        outputs=not options.without_outputs, partial=options.partial,
        passphrase=key_sealing.passphrase_of(options.passphrase_file))
    if options.dry_run:
        manifest = _with_progress(lambda progress: _trial_run(request, progress))
    else:
        manifest = _with_progress(lambda progress: take(path, request, progress=progress))
    _tell(manifest)
    size = "nothing was written" if options.dry_run else f"{path}: {path.stat().st_size / 1e6:.1f} MB"
    say(f"{size}; writers waited for {manifest.paused_ms / 1000:.2f} s")
    return 0


def _restore(arguments: Sequence[str]) -> int:
    parser = _parser("restore", "Put a back-up into a data folder that is not there yet, or empty.")
    options = parser.parse_args(arguments)
    path = options.file.expanduser().resolve()
    target = Target(
        options.data_dir.expanduser().resolve(), given_url=_variable("REDIS_URL"),
        database_url=_variable("DATABASE_URL"), passphrase=key_sealing.passphrase_of(options.passphrase_file))
    manifest = _with_progress(lambda progress: (check if options.dry_run else restore)(path, target, progress=progress))
    _tell(manifest)
    if options.dry_run:
        say(f"{path} is whole and may go to {target.data_dir}; nothing was changed")
        return 0
    made_at = in_print(manifest.made_at)
    say(f"restored to {target.data_dir}; `./weir up --data-dir {target.data_dir}` goes on from {made_at}")
    say("what the old system has written to other systems since then is written there again; do not run both")
    say("people, roles and API tokens are as they were then: revoke and deactivate again what was since")
    if "keys.sealed" not in manifest.files or not target.passphrase:
        say("keys were not restored: put your copy of secrets_key there before you start it, or set secrets anew")
    return 0


def _trial_run(request: BackupRequest, progress: ProgressLine) -> Manifest:
    """A back-up that is thrown away: what it would hold, and how long writers would wait."""
    path = request.data_dir / ".backup-tried"
    try:
        return take(path, request, progress=progress)
    finally:
        path.unlink(missing_ok=True)


def _parser(word: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"weir {word}", description=description)
    parser.add_argument("file", type=Path, metavar="FILE")
    folder = state_folder.data_dir_of(os.environ)
    parser.add_argument("--data-dir", type=Path, default=folder, help=state_folder.DATA_DIR_HELP)
    parser.add_argument("--dry-run", action="store_true", help="say what would be done and list what is in it")
    parser.add_argument("--passphrase-file", type=Path, help="a file whose first line seals and opens the keys")
    return parser


def _with_progress(work: Callable[[ProgressLine], Manifest]) -> Manifest:
    progress = ProgressLine()
    try:
        return work(progress)
    finally:
        progress.end()


def _tell(manifest: Manifest) -> None:
    """What an archive holds, on standard output."""
    print(f"made {in_print(manifest.made_at)} by Weir {in_print(manifest.weir)}; {in_print(manifest.database)}; "
          f"{len(manifest.nodes)} node(s), {manifest.slots} slot(s); {manifest.keys} keys of the broker")
    for name, (files, size) in sorted(manifest.parts().items()):
        print(f"  {PARTS.get(name, name):<34} {files:>6} file(s) {size / 1e6:>10.2f} MB")
    for sentence in manifest.left_out:
        print(f"  not in it: {in_print(sentence)}")


def _variable(name: str) -> str:
    return os.environ.get(name, "").strip()


