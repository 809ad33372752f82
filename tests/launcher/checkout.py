"""A checkout that holds the launcher alone, with a bare PATH and a stand-in interpreter that notes what it is asked."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

TOOLS = (
    "awk", "cat", "cksum", "cp", "date", "dirname", "env", "mkdir", "mv", "readlink", "rm", "sed", "sh", "sleep",
    "tail", "touch",
)  # fmt: skip
PYTHON = """#!/bin/sh
# Stands in for Python before and in the virtual environment.
case "$*" in
    "-m venv "*) echo "venv" >>"$CALLS"; mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
    "-m ensurepip"*) [ -e "${0%/*}/pip-works" ] ;;
    "-m pip --version") [ -e "${0%/*}/uv" ] ;;
    "-m pip install"*requirements-uv.lock) echo "uv" >>"$CALLS"; cp "$UV" "${0%/*}/uv" ;;
    "-m pip install"*) echo "pip $*" >>"$CALLS"; [ -z "${PIP_FAILS:-}" ] ;;
    "-c import celery"* | "-m compileall "*) ;;  # what makes the first start quick, of the real packages here
    "-P "* | *manage.py* | *run.py*) echo "ran ${*##*/}" ;;
    *) exec "$REAL_PYTHON" "$@" ;;
esac
"""
UV = """#!/bin/sh
echo "install $*" >>"$CALLS"
[ -z "${UV_HANGS:-}" ] || { touch "$CALLS.hangs"; sleep 600; }
[ -z "${UV_FAILS:-}" ] || { echo "no such wheel"; exit 1; }
"""
JAVA = '#!/bin/sh\necho \'openjdk version "{version}" 2025-04-15\' >&2\n'
JAVAC = "#!/bin/sh\necho 'javac {version}'\n"
APT = """#!/bin/sh
echo "apt-get $*" >>"$CALLS"
case "$*" in *"install"*openjdk-17*) [ -z "${APT_HAS_NO_17:-}" ] || exit 100 ;; esac
case "$*" in *install*jdk*) cp "$JDK_TO_BE/java" "$JDK_TO_BE/javac" "${0%/*}" ;; esac
"""


@dataclass
class Checkout:
    """A checkout that holds the launcher alone, and the PATH that it finds."""

    root: Path
    bin: Path
    variables: dict[str, str]

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run((str(self.root / "weir"), *words), capture_output=True, text=True, timeout=300,
                              cwd=self.root.parent, env={**self.variables, **variables})  # fmt: skip

    def start(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen((str(self.root / "weir"), *words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, env={**self.variables, **variables}, start_new_session=True)  # fmt: skip

    def calls(self) -> list[str]:
        file = Path(self.variables["CALLS"])
        return file.read_text().splitlines() if file.exists() else []

    def installs(self) -> list[str]:
        return [call for call in self.calls() if call.startswith("install") and "requirements" in call]

    def put(self, name: str, text: str) -> Path:
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def put_jdk(self, version: str = "17.0.15") -> None:
        self.put("java", JAVA.format(version=version))
        self.put("javac", JAVAC.format(version=version))
