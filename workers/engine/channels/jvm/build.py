"""Compile the Java channels: ``python -m workers.engine.channels.jvm.build [--data-dir DIR]``.

The jar stands beside the environment, one for all data folders. Does nothing where it, or one in the data folder, was
built from the same sources, scripts and PySpark. Compiling needs a JDK (``javac``), 17
or newer; a machine without one uses a jar that was built on another.
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
JAR_VARIABLE = "WEIR_CHANNELS_JAR"
_MANIFEST = "META-INF/MANIFEST.MF"
_DIGEST = "Weir-Sources-Digest"


class BuildFailed(RuntimeError):
    """There is no jar of the channels that fits, and none can be built; the message says what to do."""


def pyspark_folder() -> Path:
    """PySpark's package folder, found without importing it."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise BuildFailed("PySpark is not installed in this environment: run ./weir, which installs it.")
    return Path(spec.origin).parent


def folders(data_dir: Path) -> tuple[Path, ...]:
    """Folders for jar and class archive: beside the environment, for all data folders, and in this one.

    The data folder's is for a jar that was copied there, and for an environment that this user cannot write.
    """
    beside = (Path(sys.prefix) / "jvm",) if sys.prefix != sys.base_prefix else ()
    return (*beside, data_dir / "jvm")


def folder_to_write(data_dir: Path) -> Path:
    """The first of these folders in which this user can write; made where it is missing."""
    *others, last = folders(data_dir)
    open_ones = (folder for folder in others if os.access(folder if folder.exists() else folder.parent, os.W_OK))
    chosen = next(open_ones, last)
    chosen.mkdir(parents=True, exist_ok=True)
    return chosen


def provide(data_dir: Path, *, built_jar: Path | None = None) -> Path:
    """The jar: ``built_jar`` where there is one, else that of the data folder, built unless it is up to date.

    Raises
    ------
    BuildFailed
        The given jar is missing or was built from something else, or the jar of the data folder cannot be built.
    """
    if built_jar is None:
        return build(data_dir)
    if not built_jar.is_file():
        raise BuildFailed(f"{JAR_VARIABLE} names {built_jar}, where there is no file: correct or unset it.")
    if digest_of(built_jar) != sources_digest():
        raise BuildFailed(
            f"{JAR_VARIABLE} names {built_jar}, which was built from another version of Weir or PySpark: "
            "copy the jar of a machine that runs this version, or unset the variable.")
    return built_jar


def build(data_dir: Path) -> Path:
    """Build the jar unless it is up to date; its path. Several processes may call it at once."""
    jars = [folder / JAR_NAME for folder in folders(data_dir)]
    digest = sources_digest()
    for jar in jars:
        if digest_of(jar) == digest:
            return jar
    problem = "is of another version of Weir or PySpark" if any(map(Path.is_file, jars)) else "is missing"
    compiler = find_compiler()
    if compiler is None:
        raise BuildFailed(
            f"The jar of the channels, {jars[-1]}, {problem}, and there is no Java compiler (javac) to build it: "
            "install a JDK, 17 or newer (Debian: openjdk-17-jdk-headless), or copy the jar there from a machine that "
            "runs this version.")
    try:
        jar = folder_to_write(data_dir) / JAR_NAME
        with tempfile.TemporaryDirectory(dir=jar.parent) as scratch:
            classes = Path(scratch) / "classes"
            compile_java(compiler, sorted(SOURCES.rglob("*.java")), into=classes)
            packed = Path(scratch) / JAR_NAME
            _pack(classes, packed, digest=digest)
            os.replace(packed, jar)
    except PermissionError as error:  # a slot may not, behind its wall
        raise BuildFailed(
            f"The jar of the channels, {jars[-1]}, {problem}, and this process may not write it: start the node again, "
            "which builds it first.") from error
    return jar


def find_compiler() -> str | None:
    """The path of ``javac``: that of JAVA_HOME, else that of the PATH; None where there is none."""
    home = os.environ.get("JAVA_HOME")
    return (shutil.which("javac", path=f"{home}/bin") if home else None) or shutil.which("javac")


def sources_digest() -> str:
    """A digest of all that the jar depends on."""
    digest = hashlib.sha256((pyspark_folder() / "version.py").read_bytes())
    for path in sorted([*SOURCES.rglob("*.java"), *SCRIPTS.glob("*.lua")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def digest_of(jar: Path) -> str | None:
    """The digest of what a jar was built from, None where it names none or is no jar."""
    try:
        with zipfile.ZipFile(jar) as archive:
            manifest = archive.read(_MANIFEST).decode()
    except (OSError, KeyError, UnicodeDecodeError, zipfile.BadZipFile):
        return None
    # A line of a manifest has 72 bytes at most; a longer one goes on behind a space.
    entries = dict(line.split(": ", 1) for line in manifest.replace("\n ", "").splitlines() if ": " in line)
    return entries.get(_DIGEST)


def compile_java(compiler: str, sources: list[Path], *, into: Path, class_path: tuple[Path, ...] = ()) -> None:
    """Compile Java sources against PySpark's jars.

    Raises
    ------
    BuildFailed
        The compiler refuses the sources; the message holds its words.
    """
    jars = ":".join(str(path) for path in (*class_path, pyspark_folder() / "jars" / "*"))
    command = [
        # Compiling lasts for seconds: the compiler that begins at once does it in half the CPU.
        compiler, "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC",
        "-proc:none", "-nowarn", "--release", "17", "-encoding", "UTF-8", "-cp", jars, "-d", str(into),
        *map(str, sources),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise BuildFailed(f"javac failed:\n{result.stderr}{result.stdout}")


def _pack(classes: Path, jar: Path, *, digest: str) -> None:
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_MANIFEST, _manifest(digest))
        for path in sorted(classes.rglob("*.class")):
            archive.write(path, path.relative_to(classes).as_posix())
        for script in sorted(SCRIPTS.glob("*.lua")):
            archive.write(script, f"weir/lua/{script.name}")


def _manifest(digest: str) -> str:
    line = f"{_DIGEST}: {digest}"
    return f"Manifest-Version: 1.0\n{line[:70]}\n {line[70:]}\n"


def main(arguments: list[str] | None = None) -> int:
    """Build from the command line; prints the jar's path."""
    parser = argparse.ArgumentParser(description="Compile Weir's Java channels.")
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("WEIR_DATA_DIR", "data")))
    options = parser.parse_args(arguments)
    jar_path = os.environ.get(JAR_VARIABLE, "").strip()
    try:
        print(provide(options.data_dir.resolve(), built_jar=Path(jar_path).resolve() if jar_path else None))
    except BuildFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
