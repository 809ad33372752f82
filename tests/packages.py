"""The package that the docs show, and how a package is installed for a test."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "docs" / "example_plugin"


def install_package(project: Path, target: Path) -> None:
    """Install a package of one's own into a folder, with its entry points, as pip does."""
    with tempfile.TemporaryDirectory() as scratch:
        copied = shutil.copytree(project, Path(scratch) / "project")
        subprocess.run(
            [sys.executable, "-c", "from setuptools import setup; setup()", "-q", "install_lib", "-d", str(target),
             "install_egg_info", "-d", str(target)],
            cwd=copied, check=True, capture_output=True)
    importlib.invalidate_caches()  # the folder may have been listed before, and bear the same time still
