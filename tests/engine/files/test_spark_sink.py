"""Folders of the file sink: what its log lists stays, what a killed writer left goes."""

import json
from pathlib import Path

from workers.engine.files.spark_sink import clear_uncommitted, committed_files


def log(folder: Path, name: str, *files: str) -> None:
    metadata = folder / "_spark_metadata"
    metadata.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"path": f"file://{folder}/{file}".replace(" ", "%20"), "action": "add"}) for file in files]
    (metadata / name).write_text("\n".join(["v1", *lines]))


def test_what_was_not_committed_is_cleared_away(tmp_path):
    folder = tmp_path / "out put"
    log(folder, "9.compact", "part-0.parquet", "part-1.parquet")
    log(folder, "10", "part-2.parquet")
    log(folder, "11")
    for name in ("part-0.parquet", "part-2.parquet", "part-3.parquet", ".part-3.parquet.crc", "notes.txt"):
        (folder / name).touch()
    assert committed_files(folder) == {"part-0.parquet", "part-1.parquet", "part-2.parquet"}
    assert clear_uncommitted(folder) == ["part-3.parquet"]
    left = sorted(path.name for path in folder.iterdir())
    assert left == ["_spark_metadata", "notes.txt", "part-0.parquet", "part-2.parquet"]


def test_a_folder_that_is_not_there_yet_is_clear(tmp_path):
    assert clear_uncommitted(tmp_path / "none") == []
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "part-0.json").touch()
    assert clear_uncommitted(tmp_path / "first") == ["part-0.json"], "its first batch was never committed"
