"""The launcher's set-up: done once, repaired when interrupted, one line where something is missing.

Most tests run the real script in a folder of its own, with a bare PATH and a stand-in interpreter that notes what it is
asked for; the long one sets up a real environment.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .checkout import APT, JAVA, JAVAC, PYTHON, Checkout
from .waiting import ROOT, wait_until


def test_the_first_call_installs_and_the_second_does_not(checkout: Checkout) -> None:
    first = checkout.run("submit", "flow.yaml")
    assert (first.returncode, first.stdout) == (0, "ran manage.py submit flow.yaml\n"), first.stderr
    assert "Installing the dependencies" in first.stderr
    assert checkout.calls()[:2] == ["venv", "uv"]
    assert "--require-hashes" in checkout.installs()[0]
    made = checkout.calls()
    second = checkout.run("submit", "flow.yaml")
    assert (second.stdout, second.stderr) == ("ran manage.py submit flow.yaml\n", "")
    assert checkout.calls() == made


@pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml"])
def test_what_changed_is_installed_again(checkout: Checkout, changed: str) -> None:
    checkout.run("check")
    (checkout.root / changed).write_text("another\n")
    checkout.run("check")
    assert len(checkout.installs()) == 2
    assert checkout.calls().count("venv") == 1


def test_tests_have_a_lock_file_of_their_own(checkout: Checkout) -> None:
    checkout.put_jdk("21.0.2")
    checkout.put("chromium", "#!/bin/sh\n")
    assert checkout.run("test", "-k", "x").stdout == "ran run.py -k x\n"
    checkout.run("check")
    assert [call.rpartition("/")[2] for call in checkout.installs()] == ["requirements-test.lock", "requirements.lock"]
    checkout.run("test")
    assert len(checkout.installs()) == 2


@pytest.mark.parametrize(("words", "expected"), [
    (("up", "--port", "1"), "ran -P -m workers.launcher --port 1\n"),
    (("bench", "reuse-on-spark"), "ran -P -m tests.benches reuse-on-spark\n"),
    (("manage", "migrate"), "ran manage.py migrate\n"),
    (("migrate",), "ran manage.py migrate\n"),
    (("submit", "a file"), "ran manage.py submit a file\n"),
])
def test_words(checkout: Checkout, words: tuple[str, ...], expected: str) -> None:
    checkout.put_jdk()
    assert checkout.run(*words).stdout == expected


@pytest.mark.parametrize(("variables", "folder"), [
    ({}, "unset"), ({"PYTHONDONTWRITEBYTECODE": "1"}, "{venv}/bytecode")])
def test_bytecode_lies_in_the_environment_where_it_may_not_lie_beside_sources(
    checkout: Checkout, variables: dict[str, str], folder: str
) -> None:
    variables_of_python = 'echo "${PYTHONDONTWRITEBYTECODE-unset} ${PYTHONPYCACHEPREFIX-unset}"'
    checkout.put("python3", PYTHON.replace('echo "ran ${*##*/}"', variables_of_python))
    assert checkout.run("check", **variables).stdout == f"unset {folder.format(venv=checkout.root / '.venv')}\n"


def test_it_works_through_a_link_from_any_folder(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "weir"
    link.symlink_to("../checkout/weir")
    done = subprocess.run(
        (str(link), "check"), cwd="/", env=checkout.variables, capture_output=True, text=True, timeout=300)
    assert done.stdout == "ran manage.py check\n"
    assert (checkout.root / ".venv" / "bin" / "python").exists()


def test_pip_steps_in_where_uv_fails(checkout: Checkout) -> None:
    done = checkout.run("check", UV_FAILS="1")
    assert done.stdout == "ran manage.py check\n"
    assert any(call.startswith("pip") and "--require-hashes" in call for call in checkout.calls())


def test_a_failure_says_why_and_the_next_call_repairs(checkout: Checkout) -> None:
    done = checkout.run("check", UV_FAILS="1", PIP_FAILS="1")
    assert done.returncode == 1
    assert "no such wheel" in done.stderr
    assert "set-up.log" in done.stderr.splitlines()[-1]
    assert checkout.run("check").stdout == "ran manage.py check\n"
    assert "--reinstall" in checkout.installs()[-1]
    assert checkout.run("check").stderr == ""


def test_an_interrupted_installation_is_repaired(checkout: Checkout) -> None:
    started = checkout.start("check", UV_HANGS="1")
    wait_until(Path(checkout.variables["CALLS"] + ".hangs").exists)
    os.killpg(started.pid, signal.SIGKILL)
    started.communicate()
    assert checkout.run("check").stdout == "ran manage.py check\n"
    assert "--reinstall" not in checkout.installs()[0]
    assert "--reinstall" in checkout.installs()[-1]


def test_calls_at_once_install_once(checkout: Checkout) -> None:
    running = [checkout.start("check") for _ in range(4)]
    outputs = [process.communicate(timeout=300)[0] for process in running]
    assert [process.returncode for process in running] == [0] * 4, outputs
    assert len(checkout.installs()) == 1


def test_an_environment_that_lost_its_interpreter_is_made_anew(checkout: Checkout) -> None:
    checkout.run("check")
    (checkout.root / ".venv" / "bin" / "python").unlink()
    assert checkout.run("check").stdout == "ran manage.py check\n"
    assert checkout.calls().count("venv") == 2


def test_python_that_is_missing_or_old_is_one_line(checkout: Checkout) -> None:
    checkout.put("python3", "#!/bin/sh\nexit 1\n")
    done = checkout.run("check")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("weir: Weir needs Python 3.11 or newer") and done.stderr.count("\n") == 1
    done = checkout.run("check", WEIR_PYTHON="/no/python")
    assert "WEIR_PYTHON is /no/python" in done.stderr and done.stderr.count("\n") == 1
    agreeable = checkout.put("agreeable", "#!/bin/sh\nexit 0\n")
    done = checkout.run("check", WEIR_PYTHON=str(agreeable))
    assert f"WEIR_PYTHON is {agreeable}" in done.stderr and done.stderr.count("\n") == 1


def test_an_environment_that_cannot_be_written_is_one_line(checkout: Checkout) -> None:
    (checkout.root / "file").write_text("")
    for folder in ("/proc/weir", str(checkout.root / "file" / "venv")):
        done = checkout.run("check", WEIR_VENV=folder)
        assert done.returncode == 1 and done.stderr.count("\n") == 1
        assert f"{folder} cannot be written" in done.stderr and "WEIR_VENV" in done.stderr


def test_another_interpreter_can_be_named(checkout: Checkout) -> None:
    checkout.put("python3", "#!/bin/sh\nexit 1\n")
    mine = checkout.put("my-python", PYTHON)
    assert checkout.run("check", WEIR_PYTHON=str(mine)).stdout == "ran manage.py check\n"


def without_venv(checkout: Checkout) -> None:
    lacking = """    *"import venv, ensurepip"*) [ -e "$CALLS" ] ;;\n"""
    checkout.put("python3", PYTHON.replace("    *) exec", f"{lacking}    *) exec"))


def test_a_missing_venv_module_is_one_line(checkout: Checkout) -> None:
    without_venv(checkout)
    done = checkout.run("check")
    assert done.returncode == 1
    assert f"sudo apt-get install python3.{sys.version_info.minor}-venv" in done.stderr and done.stderr.count("\n") == 1


def test_root_gets_the_venv_module_installed(checkout: Checkout) -> None:
    without_venv(checkout)
    checkout.put("id", "#!/bin/sh\necho 0\n")
    checkout.put("apt-get", APT)
    assert checkout.run("check").stdout == "ran manage.py check\n"
    assert any("install" in call and "-venv" in call for call in checkout.calls())


@pytest.mark.parametrize("install_java", [
    lambda checkout: None,
    lambda checkout: checkout.put_jdk("1.8.0_392"),
    lambda checkout: checkout.put_jdk("11.0.2"),
    lambda checkout: (checkout.put_jdk(), checkout.put(
        "java", "#!/bin/sh\necho 'Error: Module jdk.incubator.vector not found' >&2; exit 1\n")),
    lambda checkout: checkout.put("java", JAVA.format(version="17.0.15")),
    lambda checkout: (checkout.put_jdk(), checkout.put("javac", JAVAC.format(version="11.0.2"))),
], ids=["none", "8", "11", "cut down", "no compiler", "old compiler"])
def test_a_jdk_that_does_not_fit_is_one_line(checkout: Checkout, install_java: Callable[[Checkout], object]) -> None:
    checkout.run("check")
    install_java(checkout)
    done = checkout.run("up")
    assert (done.returncode, done.stdout) == (1, "")
    assert "sudo apt-get install openjdk-17-jdk-headless" in done.stderr and done.stderr.count("\n") == 1


@pytest.fixture
def agent_place(checkout: Checkout) -> Checkout:
    """A machine that has a Java runtime and no compiler."""
    checkout.run("check")
    checkout.put("java", JAVA.format(version="17.0.15"))
    return checkout


@pytest.mark.parametrize(("jar", "words", "variables"), [
    ("checkout/data/jvm/weir-channels.jar", (), {}),
    ("state/jvm/weir-channels.jar", ("--data-dir", "{folder}/state"), {}),
    ("state/jvm/weir-channels.jar", ("--data-dir={folder}/state",), {}),
    ("state/jvm/weir-channels.jar", (), {"WEIR_DATA_DIR": "{folder}/state"}),
    ("a.jar", (), {"WEIR_CHANNELS_JAR": "{folder}/a.jar"}),
], ids=["data folder", "option", "option with =", "variable", "jar by itself"])
def test_an_agent_needs_no_compiler_where_it_has_the_jar(
    agent_place: Checkout, tmp_path: Path, jar: str, words: tuple[str, ...], variables: dict[str, str]
) -> None:
    words = ("agent", "--node", "n2", *(word.format(folder=tmp_path) for word in words))
    variables = {name: value.format(folder=tmp_path) for name, value in variables.items()}
    without = agent_place.run(*words, **variables)
    assert (without.returncode, without.stdout) == (1, "")
    assert "openjdk-17-jdk-headless" in without.stderr and "docs/operations.md" in without.stderr
    assert without.stderr.count("\n") == 1
    (tmp_path / jar).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / jar).touch()
    done = agent_place.run(*words, **variables)
    assert done.returncode == 0 and done.stdout.startswith("ran "), done.stderr
    assert agent_place.run("up", **variables).returncode == 1, "a machine that compiles needs the compiler"


def test_the_compiler_of_java_home_does(agent_place: Checkout, tmp_path: Path) -> None:
    folder = tmp_path / "jdk" / "bin"
    folder.mkdir(parents=True)
    for name, text in (("java", JAVA), ("javac", JAVAC)):
        (folder / name).write_text(text.format(version="21.0.2"))
        (folder / name).chmod(0o755)
    assert agent_place.run("up").returncode == 1
    assert agent_place.run("up", JAVA_HOME=str(folder.parent)).stdout == "ran -P -m workers.launcher\n"


@pytest.mark.parametrize("installed", ["nothing", "a runtime"])
@pytest.mark.parametrize(("variables", "package"), [
    ({}, "openjdk-17-jdk-headless"), ({"APT_HAS_NO_17": "1"}, "openjdk-21-jdk-headless"),
])
def test_root_gets_a_jdk_installed(
    checkout: Checkout, tmp_path: Path, variables: dict[str, str], package: str, installed: str
) -> None:
    jdk = tmp_path / "jdk"
    jdk.mkdir()
    for name, text in (("java", JAVA), ("javac", JAVAC)):
        (jdk / name).write_text(text.format(version="17.0.15"))
        (jdk / name).chmod(0o755)
    if installed == "a runtime":
        checkout.put("java", JAVA.format(version="17.0.15"))
    checkout.put("id", "#!/bin/sh\necho 0\n")
    checkout.put("apt-get", APT)
    done = checkout.run("up", JDK_TO_BE=str(jdk), **variables)
    assert done.stdout == "ran -P -m workers.launcher\n", done.stderr
    assert package in [call for call in checkout.calls() if call.startswith("apt-get")][-1]


def test_a_missing_browser_is_said_and_the_other_tests_run(checkout: Checkout) -> None:
    checkout.put_jdk()
    done = checkout.run("test")
    assert done.stdout == "ran run.py\n"
    assert "sudo apt-get install chromium" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("installed", [False, True], ids=["with the dependencies", "later"])
def test_root_gets_a_browser_installed_once(checkout: Checkout, installed: bool) -> None:
    checkout.put_jdk()
    checkout.put("id", "#!/bin/sh\necho 0\n")
    checkout.put("apt-get", APT + 'case "$*" in *install*chromium*) cp /bin/true "${0%/*}/chromium" ;; esac\n')
    if installed:
        checkout.put("chromium", "#!/bin/sh\n")
        checkout.run("test")
        (checkout.bin / "chromium").unlink()
    assert checkout.run("test").stdout == checkout.run("test").stdout == "ran run.py\n"
    assert sum("install" in call and "chromium" in call for call in checkout.calls()) == 1


@pytest.mark.long
def test_a_real_environment(tmp_path: Path) -> None:
    variables = {**os.environ, "WEIR_VENV": str(tmp_path / "venv"), "WEIR_DATA_DIR": str(tmp_path / "data")}
    for is_first in (True, False):
        done = subprocess.run((str(ROOT / "weir"), "manage", "version"), cwd=tmp_path, env=variables,
                              capture_output=True, text=True, timeout=900)  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("5.2")
        assert ("Installing" in done.stderr) is is_first
    code = "import scheduler, workers, dashboard, importlib.metadata as m; print(m.version('weir'))"
    done = subprocess.run((str(tmp_path / "venv" / "bin" / "python"), "-P", "-c", code), cwd=tmp_path,
                          capture_output=True, text=True, timeout=300)  # fmt: skip
    assert done.stdout == "0.1.0\n", done.stderr
