"""The project's own files, as git knows them; where there is no git, as the folders hold them."""

from __future__ import annotations

import ast
import gc
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("dashboard", "scheduler", "workers")
SOURCE_FOLDERS = (*PACKAGES, "tests", "templates", "static", "docs")


@cache
def project_files() -> tuple[Path, ...]:
    """Every file of the project that is tracked or about to be."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, check=False,
    )  # fmt: skip
    if listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    else:
        nested = [path for folder in SOURCE_FOLDERS for path in (ROOT / folder).rglob("*")]
        paths = [path for path in [*ROOT.glob("*"), *nested] if "__pycache__" not in path.parts]
    return tuple(sorted(path for path in paths if path.is_file()))


def python_files(*folders: str) -> list[Path]:
    """The project's Python files under these folders (all of them where none is named)."""
    wanted = [ROOT / folder for folder in folders] or [ROOT]
    return [
        path for path in project_files()
        if path.suffix == ".py" and any(path.is_relative_to(folder) for folder in wanted)
    ]  # fmt: skip


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a file; it stays, so that looking for garbage among its nodes takes longer than parsing."""
    gc.disable()
    try:
        return ast.parse(path.read_text(), filename=str(path))
    finally:
        gc.enable()


def nodes(module: ast.Module) -> tuple[ast.AST, ...]:
    """All nodes of a module, found once: what many tests go through stays with the tree."""
    if not hasattr(module, "nodes"):
        gc.disable()
        try:
            module.nodes = tuple(ast.walk(module))
        finally:
            gc.enable()
    return module.nodes


def name_of(path: Path) -> str:
    """A file's name for a test's report."""
    return str(path.relative_to(ROOT))
