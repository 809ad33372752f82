"""The launcher in a checkout of its own."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from .checkout import PYTHON, TOOLS, UV, Checkout
from .waiting import ROOT


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    root, tools = tmp_path / "checkout", tmp_path / "bin"
    root.mkdir()
    tools.mkdir()
    shutil.copy(ROOT / "weir", root / "weir")
    (root / "tests" / "benches").mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "benches" / "names.txt", root / "tests" / "benches" / "names.txt")
    for name in ("requirements.lock", "requirements-test.lock", "requirements-uv.lock", "pyproject.toml"):
        (root / name).write_text(f"{name}\n")
    for name in TOOLS:
        (tools / name).symlink_to(shutil.which(name))
    uv = tmp_path / "fake-uv"
    uv.write_text(UV)
    uv.chmod(0o755)
    checkout = Checkout(root, tools, {
        "PATH": str(tools), "CALLS": str(tmp_path / "calls"), "UV": str(uv), "REAL_PYTHON": sys.executable,
    })
    checkout.put("python3", PYTHON)
    checkout.put("id", "#!/bin/sh\necho 1000\n")
    return checkout
