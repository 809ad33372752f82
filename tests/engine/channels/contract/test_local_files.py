"""The JVM's local file system: what Hadoop's promises, without a process for each file."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def test_files_have_their_permissions_and_no_checksums_beside_them(spark, tmp_path: Path):
    path = tmp_path / "folder" / "offsets"
    jvm = spark._jvm
    hadoop_path = jvm.org.apache.hadoop.fs.Path(path.as_uri())
    files = hadoop_path.getFileSystem(spark._jsc.hadoopConfiguration())
    out = files.create(hadoop_path, True)
    out.write(bytearray(b"v1"))
    out.close()
    files.setPermission(hadoop_path, jvm.org.apache.hadoop.fs.permission.FsPermission("640"))

    assert files.getClass().getName() == "weir.LocalFiles"
    assert path.read_bytes() == b"v1"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert files.getFileStatus(hadoop_path).getPermission().toString() == "rw-r-----"
    assert [file.name for file in path.parent.iterdir()] == ["offsets"]


def test_what_hadoops_own_wrote_is_read_and_replaced(spark, tmp_path: Path):
    jvm = spark._jvm
    target = jvm.org.apache.hadoop.fs.Path((tmp_path / "commit").as_uri())
    configuration = spark._jsc.hadoopConfiguration()
    stock = jvm.org.apache.hadoop.fs.LocalFileSystem()
    stock.initialize(target.toUri(), configuration)
    out = stock.create(target, True)
    out.write(bytearray(b"before"))
    out.close()
    (tmp_path / "new").write_bytes(b"after it")

    files = target.getFileSystem(configuration)
    stream = files.open(target)
    assert bytes(stream.readAllBytes()) == b"before"
    stream.close()
    files.delete(target, False)
    assert files.rename(jvm.org.apache.hadoop.fs.Path((tmp_path / "new").as_uri()), target)
    assert (tmp_path / "commit").read_bytes() == b"after it"
    stream = stock.open(target)  # a file of checksums left behind would make this fail
    assert bytes(stream.readAllBytes()) == b"after it"
    stream.close()
