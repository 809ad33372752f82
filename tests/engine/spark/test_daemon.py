"""The process that forks Python workers, as far as it needs no Spark."""

from __future__ import annotations

import importlib
import sys
import zipfile
from importlib.machinery import FileFinder
from pathlib import Path
from zipimport import zipimporter

import pytest

from workers.engine.spark.daemon import forget_archives


def test_archives_are_not_looked_into_again_and_can_still_be_imported_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for name in ("__init__", "first", "second"):
            packed.writestr(f"weir_packed/{name}.py", "")
    monkeypatch.syspath_prepend(str(archive))
    importlib.import_module("weir_packed.first")
    finders = dict(sys.path_importer_cache)
    assert any(isinstance(finder, zipimporter) and finder.archive == str(archive) for finder in finders.values())
    forget_archives(finders)
    assert not any(isinstance(finder, zipimporter) for finder in finders.values())
    assert any(isinstance(finder, FileFinder) for finder in finders.values()), "folders may change"
    monkeypatch.setattr(sys, "path_importer_cache", finders)
    importlib.invalidate_caches()
    try:
        assert importlib.import_module("weir_packed.second").__name__ == "weir_packed.second"
    finally:
        for name in [name for name in sys.modules if name.startswith("weir_packed")]:
            del sys.modules[name]
