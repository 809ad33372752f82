"""Where a driver's archive of classes stands, and the options that use it. Imports nothing of Spark.

See ``class_archive.py``, which writes it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from workers.engine.channels.jvm.build import pyspark_folder

GC = ("-XX:+UseSerialGC",)  # an archive is of one collector's object layout


def java() -> str:
    """The Java program that PySpark starts drivers with."""
    home = os.environ.get("JAVA_HOME")
    return (shutil.which("java", path=f"{home}/bin") if home else None) or shutil.which("java") or "java"


def archive_path(data_dir: Path, *, class_path: str) -> Path:
    """The archive of this Java, this PySpark and these jars; it need not be there."""
    digest = hashlib.sha256()
    for path in (java(), *class_path.split(":"), str(pyspark_folder() / "version.py"), str(pyspark_folder() / "jars")):
        resolved = Path(path).resolve()
        stat = resolved.stat() if resolved.exists() else None
        digest.update(f"{resolved}\0{stat and (stat.st_size, stat.st_mtime_ns)}\0".encode())
    digest.update(os.environ.get("JAVA_TOOL_OPTIONS", "").encode())
    return data_dir / "jvm" / f"classes-{digest.hexdigest()[:16]}.jsa"


def options(data_dir: Path, *, class_path: str) -> str:
    """What a driver's JVM is started with: nothing where there is no archive for it."""
    archive = archive_path(data_dir, class_path=class_path)
    # Where the JVM finds that it does not fit after all, it starts without it and need not say so.
    return f"-XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:cds=off" if archive.is_file() else ""
