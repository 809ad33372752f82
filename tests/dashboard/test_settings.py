"""Settings: declared, documented, and a wrong one is named."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from dashboard.config.environment import DECLARED, ROOT, Environment, InvalidSetting
from scheduler.model.prices import Prices

VARIABLE = re.compile(r"\b(?:WEIR_[A-Z_]+[A-Z]|REDIS_URL|DATABASE_URL)\b")
DOCUMENT = (ROOT / "docs" / "settings.md").read_text()
TABLE = re.findall(r"^\| `([A-Z_]+)` \| ([^|]*) \|", DOCUMENT, re.MULTILINE)


def used_in_code() -> set[str]:
    files = [path for folder in ("dashboard", "workers", "scheduler") for path in (ROOT / folder).rglob("*")
             if path.suffix in {".py", ".java"}]
    return set().union(*(VARIABLE.findall(path.read_text()) for path in [*files, ROOT / "manage.py", ROOT / "weir"]))


def test_every_declared_setting_is_documented_and_nothing_else_is():
    assert sorted(name for name, _ in TABLE) == sorted(declared.name for declared in DECLARED)


def test_every_variable_that_the_code_names_is_documented():
    assert used_in_code() - set(VARIABLE.findall(DOCUMENT)) == set()


def test_documented_defaults_are_the_declared_ones():
    stated = {name: match[1] for name, text in TABLE if (match := re.fullmatch(r"`(.*)`", text.strip()))}
    declared = {setting.name: setting.default for setting in DECLARED}
    assert {name: declared[name] for name in stated if name != "WEIR_DATA_DIR"} == stated


@pytest.mark.parametrize(("name", "value", "read"), [
    ("WEIR_SLOTS", "0", lambda e: e.integer("WEIR_SLOTS", minimum=1)),
    ("WEIR_SLOTS", "two", lambda e: e.integer("WEIR_SLOTS", minimum=1)),
    ("WEIR_DEBUG", "maybe", lambda e: e.flag("WEIR_DEBUG")),
    ("WEIR_CORE_HOUR_PRICE", "nan", lambda e: e.number("WEIR_CORE_HOUR_PRICE", minimum=0.0)),
    ("WEIR_CORE_HOUR_PRICE", "-1", lambda e: e.number("WEIR_CORE_HOUR_PRICE", minimum=0.0)),
    ("WEIR_TRAFFIC_GB_PRICE", "-0.01", lambda e: e.number("WEIR_TRAFFIC_GB_PRICE", minimum=0.0)),
    ("WEIR_VM_SIZES", "small:2", lambda e: e.vm_sizes()),
    ("WEIR_VM_SIZES", "small:0:0.1", lambda e: e.vm_sizes()),
    ("WEIR_VM_SIZES", "small:2:-0.1", lambda e: e.vm_sizes()),
    ("WEIR_VM_SIZES", "small:2:inf", lambda e: e.vm_sizes()),
    ("WEIR_VM_SIZES", "small:2:0.1,small:4:0.2", lambda e: e.vm_sizes()),
    ("WEIR_NODE_SIZES", "n1:huge", lambda e: e.node_sizes()),
    ("WEIR_MACHINE_COMMAND", "machine {action} {node}", lambda e: e.machine_command()),
    ("WEIR_MACHINE_COMMAND", "/bin/machine {action}", lambda e: e.machine_command()),
    ("WEIR_MACHINE_COMMAND", "/bin/machine {action} {node} {key}", lambda e: e.machine_command()),
    ("WEIR_MACHINE_COMMAND", "/bin/machine {action} {node.__class__}", lambda e: e.machine_command()),
    ("WEIR_MACHINE_COMMAND", "/bin/machine {action} '{node}", lambda e: e.machine_command()),
    ("WEIR_NODE_RACKS", "n1", lambda e: e.node_racks()),
    ("WEIR_NODE_RACKS", "n1:", lambda e: e.node_racks()),
    ("WEIR_NODE_RACKS", "n1:a,n1:b", lambda e: e.node_racks()),
    ("WEIR_PIN", "kafka", lambda e: e.choice("WEIR_PIN", "auto", "always")),
    ("REDIS_URL", "localhost:6379", lambda e: e.redis_url()),
    ("REDIS_URL", "redis+sentinel://:x@h:1,h:2", lambda e: e.redis_url()),
    ("DATABASE_URL", "postgres://u:p@h:x,h:2/weir", lambda e: e.database_url()),
])
def test_a_wrong_value_is_named(name, value, read):
    with pytest.raises(InvalidSetting) as caught:
        read(Environment({name: value}))
    assert name in caught.value.message and name in caught.value.remedy


def test_a_slot_hour_costs_what_the_size_of_its_node_says():
    environment = Environment({"WEIR_VM_SIZES": "small:2:0.1, large:8:0.36", "WEIR_NODE_SIZES": "n1:large"})
    prices = Prices(core_hour=0.048, sizes=tuple(environment.node_sizes().items()))
    assert (prices.slot_hour("n1"), prices.slot_hour("n2")) == (0.045, 0.048)


def test_nodes_are_in_the_racks_that_are_named():
    assert Environment({"WEIR_NODE_RACKS": "n1:a, n2:b"}).node_racks() == {"n1": "a", "n2": "b"}
    assert Environment({}).node_racks() == {}


@pytest.mark.parametrize("name", ["/proc/weir", "{file}", "{file}/below"])
def test_a_command_says_in_a_line_that_a_data_folder_cannot_be_used(tmp_path, name):
    file = tmp_path / "file"
    file.touch()
    environment = os.environ | {"WEIR_DATA_DIR": name.format(file=file), "WEIR_SECRET_KEY": ""}
    done = subprocess.run(
        (sys.executable, "-P", str(ROOT / "manage.py"), "check"), env=environment, capture_output=True, text=True,
        timeout=300)
    line = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert line.startswith(f"weir: The data folder {name.format(file=file)} cannot be used") and "WEIR_DATA_DIR" in line


def test_an_empty_environment_will_do(tmp_path, migrated_file):
    """All migrations from nothing are those of ``migrated_file``, whose copy is found where it lies."""
    environment = {name: value for name, value in os.environ.items() if not VARIABLE.fullmatch(name)}
    environment |= {"WEIR_DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "dashboard.config.settings"}
    shutil.copyfile(migrated_file, tmp_path / "weir.sqlite3")
    code = """
import django; django.setup()
from django.core.management import call_command
call_command("migrate", check_unapplied=True)
call_command("makemigrations", check_changes=True)
"""
    done = subprocess.run(
        (sys.executable, "-c", code), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    key = tmp_path / "secret_key"
    assert (len(key.read_text()) >= 50, key.stat().st_mode & 0o777) == (True, 0o600)
