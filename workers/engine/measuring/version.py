"""The version of Weir that measured: the package's, and the commit of the checkout that it runs from."""

from __future__ import annotations

import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from workers.engine.worker_settings import ROOT

PATIENCE_S = 10.0


@cache
def weir_version() -> str:
    """As ``0.1.0 (1a2b3c4)``, with ``-dirty`` where files differ from the commit; without it where there is none."""
    try:
        package = version("weir")
    except PackageNotFoundError:
        package = "not installed"
    commit = _commit()
    return f"{package} ({commit})" if commit else package


def _commit() -> str:
    if not (ROOT / ".git").exists():  # an installed package may be in a checkout of something else
        return ""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude", "*"]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return finished.stdout.strip()
