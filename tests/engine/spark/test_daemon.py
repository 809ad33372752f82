"""The process that forks Python workers, as far as it needs no Spark."""

from __future__ import annotations

import importlib
import os
import socket
import sys
import zipfile
from collections.abc import Callable
from importlib.machinery import FileFinder
from pathlib import Path
from zipimport import zipimporter

import pytest

from workers.engine.spark.daemon import forget_archives, only_from


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


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="only Linux tells who is at the other end of a socket")
@pytest.mark.parametrize(("driver", "worked"), [(os.getpid, 1), (os.getppid, 0)], ids=["driver", "another process"])
def test_workers_work_for_their_driver_alone(driver: Callable[[], int], worked: int) -> None:
    """The stock daemon runs code of whoever reaches its socket, and slots of a node reach each other by path."""
    calls = []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        code = only_from(driver(), lambda connection, authenticated: calls.append(connection) or 0)(theirs, True)
        assert len(calls) == worked and code == 1 - worked
        assert worked or ours.recv(1) == b"", "it is closed before anything is read"
