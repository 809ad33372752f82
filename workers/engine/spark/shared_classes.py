"""The place of a driver's archive of classes, and the options that use it. Imports nothing of Spark.

See ``class_archive.py``, which writes it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from workers.engine.channels.jvm.build import folders, pyspark_folder

# Of the environment, what changes a driver's class path or its JVM's options.
_SHAPING = (
    "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR",
    "SPARK_DIST_CLASSPATH")
GC = ("-XX:+UseSerialGC",)  # an archive is of one collector's object layout


def java() -> str:
    """The Java program that PySpark starts drivers with."""
    home = os.environ.get("JAVA_HOME")
    return (shutil.which("java", path=f"{home}/bin") if home else None) or shutil.which("java") or "java"


def archive_name(*, class_path: str) -> str:
    """The file name of the archive for this Java, this PySpark, these jars and these options of the environment."""
    digest = hashlib.sha256("\0".join(GC).encode())
    home = Path(java()).resolve().parent.parent
    for path in (java(), str(home / "release"), *class_path.split(":"), str(pyspark_folder() / "version.py"),
                 str(pyspark_folder() / "jars")):
        resolved = Path(path).resolve()
        stat = resolved.stat() if resolved.exists() else None
        digest.update(f"{resolved}\0{stat and (stat.st_size, stat.st_mtime_ns)}\0".encode())
    for variable in _SHAPING:
        digest.update(f"{os.environ.get(variable, '')}\0".encode())
    return f"classes-{digest.hexdigest()[:16]}.jsa"


def find_archive(data_dir: Path, *, class_path: str) -> Path | None:
    """The archive that fits, beside the environment or in the data folder; None where there is none yet."""
    name = archive_name(class_path=class_path)
    return next((folder / name for folder in folders(data_dir) if (folder / name).is_file()), None)


def options(data_dir: Path, *, class_path: str) -> str:
    """The options of a driver's JVM for the class archive: none where there is no archive for it."""
    archive = find_archive(data_dir, class_path=class_path)
    if archive is None:
        return ""
    # A JVM that the archive does not fit starts without it, and need not say so. At the address that it was made for,
    # drivers share most of its pages; at another address, which newer JVMs choose by chance, they share none.
    return (f"-XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:cds=off"
            " -XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0")
