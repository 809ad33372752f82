"""Compile the Java channels: ``python -m workers.engine.channels.jvm.build [--data-dir DIR]``.

Skips when the jar was built from the same sources, scripts and PySpark. Needs a JDK (``javac``), 17 or newer.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = HERE / "src"
SCRIPTS = HERE.parent / "lua"
JAR_NAME = "weir-channels.jar"


class BuildFailed(RuntimeError):
    """The Java channels could not be compiled; the message says what to do."""


def pyspark_folder() -> Path:
    """PySpark's package folder, found without importing it."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise BuildFailed("PySpark is not installed in this environment.")
    return Path(spec.origin).parent


def jar_path(data_dir: Path) -> Path:
    """Where the jar of this installation stands."""
    return data_dir / "jvm" / JAR_NAME


def build(data_dir: Path) -> Path:
    """Build the jar unless it is up to date; returns its path. Safe to call from several processes at once."""
    jar = jar_path(data_dir)
    digest = sources_digest()
    stamp = jar.with_suffix(".sha256")
    if jar.is_file() and stamp.is_file() and stamp.read_text().strip() == digest:
        return jar
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jar.parent) as scratch:
        classes = Path(scratch) / "classes"
        _compile(classes)
        packed = Path(scratch) / JAR_NAME
        _pack(classes, packed)
        os.replace(packed, jar)
        note = Path(scratch) / "stamp"
        note.write_text(digest + "\n")
        os.replace(note, stamp)
    return jar


def sources_digest() -> str:
    """A digest of all that the jar depends on."""
    digest = hashlib.sha256((pyspark_folder() / "version.py").read_bytes())
    for path in sorted([*SOURCES.rglob("*.java"), *SCRIPTS.glob("*.lua")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _compile(classes: Path) -> None:
    compiler = shutil.which("javac")
    if compiler is None:
        raise BuildFailed("No Java compiler: install a JDK, 17 or newer (Debian: openjdk-17-jdk-headless).")
    sources = [str(path) for path in sorted(SOURCES.rglob("*.java"))]
    command = [
        compiler, "-proc:none", "-nowarn", "--release", "17", "-encoding", "UTF-8",
        "-cp", f"{pyspark_folder() / 'jars'}/*", "-d", str(classes), *sources,
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise BuildFailed(f"javac failed:\n{result.stderr}{result.stdout}")


def _pack(classes: Path, jar: Path) -> None:
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
        for path in sorted(classes.rglob("*.class")):
            archive.write(path, path.relative_to(classes).as_posix())
        for script in sorted(SCRIPTS.glob("*.lua")):
            archive.write(script, f"weir/lua/{script.name}")


def main(arguments: list[str] | None = None) -> int:
    """Build from the command line; prints the jar's path."""
    parser = argparse.ArgumentParser(description="Compile Weir's Java channels.")
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("WEIR_DATA_DIR", "data")))
    options = parser.parse_args(arguments)
    try:
        print(build(options.data_dir.resolve()))
    except BuildFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
