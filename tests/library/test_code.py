"""Digests of the code that task types rest on: what changes them, and what does not."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.model.task_types import TaskType
from workers.library import code, registry
from workers.library.code import code_digest

ROOT = Path(__file__).resolve().parents[2]
TASKS = '''
"""Tasks of a package."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scheduler.model.task_types import Parameter, TaskType
from workers.library.config import settings

from . import constants, folds
from .helpers import scaled as times
from .shared import *

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

try:
    from .fast import root
except ImportError:
    root = math.sqrt

SCALE = TaskType(
    name="scale", kind="transform", doc="Scales.", build="coded.tasks:scale", cost_us=3,
    parameters=(Parameter("by", "number", "How much.", default=2),),
)
LIMITS = {"low": 0}
LIMITS["high"] = 9


def scale(inputs: DataFrame, config):
    """Each event, larger."""
    by = settings(SCALE, config)["by"]
    return inputs.map(lambda value: times(value, by) + constants.OFFSET)


def clip(inputs, config):
    from .late import patience

    return inputs.filter(lambda value: LIMITS["low"] <= root(value) <= LIMITS["high"] and patience())


def fold(inputs, config):
    return inputs.fold(folds.Sum(), kept)


def fold_schedule(config):
    return later(config)


def whole(inputs, config):
    return [getattr(folds, name) for name in config]
'''
HELPERS = '''
def scaled(value, by):
    return _product(value, by)


def _product(value, by):
    return value * by


def unused():
    return 1
'''
MODULES = {
    "__init__": "", "tasks": TASKS, "helpers": HELPERS, "constants": "OFFSET = 1\nOTHER = 2\n",
    "folds": "class Base:\n    start = 0\n\n\nclass Sum(Base):\n    def add(self, value):\n        return value\n",
    "shared": "from .folds import Base as kept\n\n\ndef later(config):\n    return config\n",
    "fast": "def root(value):\n    return value\n", "late": "def patience():\n    return True\n",
    "apart": "ALONE = 1\n",
}
Digest = Callable[..., str]


@pytest.fixture
def digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Digest:
    """The digest of a builder of the package, with some of its modules changed."""
    folder = tmp_path / "coded"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))

    def changed_digest(builder: str, **changes: Callable[[str], str]) -> str:
        for name, text in MODULES.items():
            (folder / f"{name}.py").write_text(changes.get(name, str)(text))
        importlib.invalidate_caches()
        code.forget()
        return code_digest(TaskType(builder, "transform", "Made.", f"coded.tasks:{builder}"))

    yield changed_digest
    code.forget()


def with_(old: str, new: str) -> Callable[[str], str]:
    def changed(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return changed


@pytest.mark.parametrize("changes", [
    {"tasks": with_("    by = settings", "    # why\n    by = settings")},
    {"tasks": with_('"""Each event, larger."""', '"""Each event, scaled."""')},
    {"tasks": with_('    """Each event, larger."""\n', "")},
    {"tasks": with_("times(value, by) + constants", "times(\n        value, by,\n    ) + constants")},
    {"tasks": with_("Tasks of a package", "What a package brings")},
    {"tasks": with_("How much.", "By how much.")},
    {"tasks": with_("cost_us=3", "cost_us=30, version=2")},
    {"tasks": with_("coded.tasks:scale", "coded.moved.tasks:scale")},
    {"tasks": with_("from .helpers import", "from .moved import"), "helpers": str.upper},  # the same in another module
    {"apart": with_("= 1", "= 2")},  # a module that it does not import
])
def test_what_is_not_the_logic_of_a_task_leaves_its_digest(digest: Digest, changes, tmp_path: Path):
    (tmp_path / "coded" / "moved.py").write_text(HELPERS)
    assert digest("scale") == digest("scale", **changes) != ""


@pytest.mark.parametrize(("builder", "changes"), [
    ("scale", {"tasks": with_("+ constants.OFFSET", "- constants.OFFSET")}),
    ("scale", {"tasks": with_("default=2", "default=3")}),  # of what it is declared with
    ("scale", {"helpers": with_("return value * by", "return by * value")}),  # two steps away
    ("scale", {"constants": with_("OFFSET = 1", "OFFSET = 5")}),
    ("clip", {"tasks": with_('LIMITS["high"] = 9', 'LIMITS["high"] = 8')}),  # changed after it was made
    ("clip", {"fast": with_("return value", "return -value")}),  # imported where that can be
    ("clip", {"tasks": with_("root = math.sqrt", "root = math.cbrt")}),
    ("clip", {"late": with_("return True", "return False")}),  # imported inside the function
    ("fold", {"folds": with_("start = 0", "start = 1")}),  # of a base class
    ("fold", {"shared": with_("return config", "return [config]")}),  # its schedule, by way of a star
    ("whole", {"folds": with_("start = 0", "start = 1")}),  # a module as a value
    ("scale", {"tasks": with_("return inputs.fold(", "return inputs.folded(")}),  # another task of its module: coarse
    ("scale", {"helpers": with_("return 1", "return 2")}),  # what it does not use of a module: coarse
])
def test_what_a_task_does_is_in_its_digest(digest: Digest, builder: str, changes):
    assert digest(builder) != digest(builder, **changes)


def test_what_is_used_of_other_packages_counts_by_its_name(digest: Digest):
    before = digest("clip", fast=lambda text: "from math import sqrt as root\n")
    assert before != digest("clip", fast=lambda text: "from numpy import sqrt as root\n")


@pytest.mark.parametrize("build", [
    "coded.nothing:scale", "no_such_package.tasks:scale", "coded.broken:scale", "sys:exit",
    "math:sqrt", "",
])
def test_what_cannot_be_read_has_none(digest: Digest, tmp_path: Path, build: str):
    assert digest("scale")
    (tmp_path / "coded" / "broken.py").write_text("def scale(:\n")
    importlib.invalidate_caches()
    assert code_digest(TaskType("t", "transform", "Made.", build)) == ""


@pytest.mark.parametrize("written", [
    "return inputs" + "".join(f".when({code}, {code})" for code in range(600)),
    "if config == 0:\n        return inputs\n" + "".join(
        f"    elif config == {code}:\n        return {code}\n" for code in range(1, 600)),
    "return " + " + ".join(f"inputs[{term}]" for term in range(1_200)),
], ids=["calls", "branches", "terms"])
def test_what_a_program_wrote_may_be_nested_too_deeply_to_be_walked(digest: Digest, written: str):
    """Then its text counts as it is."""
    deep = f"\n\ndef deep(inputs, config):\n    {written}\n"
    before = digest("deep", tasks=lambda text: text + deep)
    assert before == digest("deep", tasks=lambda text: text + deep) != ""
    assert before != digest("deep", tasks=lambda text: text + deep.replace("config", "settings"))


def test_modules_that_import_each_other_end(digest: Digest):
    def of(module: str) -> Callable[[str], str]:
        return lambda text: f"from .{module} import *\n{text}"

    assert digest("fold", folds=of("shared"), shared=of("folds"))


def test_every_task_type_of_the_library_has_one_and_none_needs_spark():
    code = (
        "import sys; from workers.library.registry import built_in; from workers.library.code import code_digest;"
        "found = [code_digest(one) for one in built_in()];"
        "print(len(found), found.count(''), len(set(found)), 'pyspark' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    types, missing, modules, spark = printed.split()
    assert (int(types) >= 26, missing, int(modules) >= 10) == (True, "0", True), "one for each module with task types"
    assert spark == "False"


def test_a_plugins_code_counts_and_what_it_uses_of_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "example_plugin"))
    importlib.invalidate_caches()
    code.forget()
    [*types] = importlib.import_module("weir_example_plugin").TASK_TYPES
    assert all(code_digest(task_type) for task_type in types)
    code.forget()


def test_it_is_found_once_in_the_life_of_a_process(digest: Digest, tmp_path: Path):
    before = digest("scale")
    (tmp_path / "coded" / "helpers.py").write_text(HELPERS.replace("value * by", "0"))
    made = TaskType("scale", "transform", "Made.", "coded.tasks:scale")
    assert code_digest(made) == before
    registry.refresh()
    assert code_digest(made) != before
