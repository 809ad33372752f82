"""The states of folds at a fold host, beside the checkpoint of their query: of each fold a file for each batch.

A file has what Spark would keep of the fold: its states as JSON, or a pointer to a store
(``workers.library.state_store``). It is written when the batch is over and before Spark commits it. A batch in which a
fold had no event leaves no file: the newest one before it counts. Imports nothing of Spark.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

KEPT = 20  # files of a fold: as many batches as Spark keeps


def folder_of(checkpoint: Path, fold: int) -> Path:
    """The folder of the states of a fold, by its place in the stream."""
    return checkpoint / "folds" / str(fold)


def are_of_spark(checkpoint: Path) -> bool:
    """True where Spark keeps the states: it makes an operator's folder in the first batch that has the operator."""
    states = checkpoint / "state"
    return states.is_dir() and any(folder.name.isdigit() for folder in states.iterdir())


def forget_copies(checkpoint: Path) -> None:
    """Delete what Spark noted of operators with state that no batch has worked on, once one is over.

    Earlier versions planned a fold once for each reader of its stream, and worked on the first one; Spark refuses a
    checkpoint with other operators than the query's.
    """
    if not any((checkpoint / "commits").glob("[0-9]*")):
        return
    for operator in list((checkpoint / "state").glob("[0-9]*")):
        if all(file.name == "_metadata" for file in operator.glob("[0-9]*/*")):  # no version of its state
            shutil.rmtree(operator)


def newest(folder: Path, *, upto: int) -> str | None:
    """The states of a fold after a batch; None if no event had come to it by then."""
    batch = max((number for number in _batches(folder) if number <= upto), default=None)
    return None if batch is None else (folder / str(batch)).read_text(encoding="utf-8")


def size(checkpoint: Path) -> int:
    """The size in bytes of the newest states of all folds; of those in stores only what points there."""
    folders = checkpoint.glob("folds/*/")
    newest_files = [folder / str(max(batches)) for folder in folders if (batches := _batches(folder))]
    return sum(file.stat().st_size for file in newest_files if file.is_file())


def begin(folder: Path, batch: int) -> str | None:
    """The states that a batch begins with. What it left when it was worked on before, and not committed, is deleted."""
    for number in _batches(folder):
        if number >= batch:
            (folder / str(number)).unlink()
    return newest(folder, upto=batch - 1)


def keep(folder: Path, batch: int, states: str) -> None:
    """Write the states after a batch, in one step, and delete those that nobody goes back to."""
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / f"{batch}.new"
    written.write_text(states, encoding="utf-8")
    os.replace(written, folder / str(batch))
    for number in sorted(_batches(folder))[:-KEPT]:
        (folder / str(number)).unlink()


def _batches(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []
