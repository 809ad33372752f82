"""Arrows point one way: the contracts in pyproject.toml, and what import-linter cannot see."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from .sources import PACKAGES, ROOT, name_of, nodes, python_files, tree

# What gives another answer the next time it is asked, or depends on the machine: arguments of the science, not its own.
IMPURE_MODULES = {"time", "random", "secrets", "socket", "subprocess", "threading", "tempfile"}
IMPURE_NAMES = {
    "datetime.now", "datetime.utcnow", "datetime.today", "date.today", "datetime.datetime.now", "os.environ",
    "os.getenv", "os.urandom", "os.getpid", "uuid.uuid1", "uuid.uuid4", "uuid1", "uuid4", "numpy.random", "np.random",
}  # fmt: skip


def test_the_contracts_between_layers_hold() -> None:
    code = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    done = subprocess.run(
        (sys.executable, "-P", "-c", code, "--no-cache"), cwd=ROOT, capture_output=True, text=True, timeout=240,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_science_has_no_clock_and_no_chance_of_its_own() -> None:
    assert {name_of(path): impure for path in python_files("scheduler") if (impure := impurities(tree(path)))} == {}


@pytest.mark.parametrize("line", [
    "import time", "from random import choice", "import datetime\nnow = datetime.datetime.now()", "import secrets as s",
    "from datetime import datetime\nnow = datetime.now()", "import os\nhome = os.environ['HOME']",
    "from uuid import uuid4\nkey = uuid4()", "import numpy as np\ndraw = np.random.default_rng()",
])
def test_the_check_for_impurity_sees(line: str) -> None:
    assert impurities(ast.parse(line))


def impurities(module: ast.Module) -> list[str]:
    """Imports and names in a module whose value depends on when, where or how often it runs."""
    impure = []
    for node in nodes(module):
        if isinstance(node, ast.Import):
            impure += [alias.name for alias in node.names if alias.name.partition(".")[0] in IMPURE_MODULES]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            if (node.module or "").partition(".")[0] in IMPURE_MODULES:
                impure.append(node.module or "")
        elif isinstance(node, ast.Attribute | ast.Name):
            name = ast.unparse(node)
            impure += [name] if name in IMPURE_NAMES else []
    return impure


def test_every_package_says_what_it_is() -> None:
    packages = [path for path in python_files(*PACKAGES, "tests") if path.name == "__init__.py"]
    described = [path for path in packages if "migrations" not in path.parts]  # Django's are numbered, not described
    assert [name_of(path) for path in described if not (ast.get_docstring(tree(path)) or "").strip()] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_of_modules_is_a_package(package: str) -> None:
    folders = {path.parent for path in python_files(package)}
    assert [name_of(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_the_task_library_can_be_read_without_spark() -> None:
    code = (
        "import sys\nfrom workers.library.registry import task_types\n"
        "assert len(task_types()) > 0\nassert 'pyspark' not in sys.modules, 'pyspark was imported'"
    )
    done = subprocess.run(
        (sys.executable, "-P", "-c", code), capture_output=True, text=True, timeout=300, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
