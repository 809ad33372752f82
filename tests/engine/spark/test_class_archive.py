"""A driver maps its classes from the archive that was written for it, and does without one that is not its own."""

import fcntl
import os
import subprocess
import sys

import pytest

from workers.engine.spark import class_archive, shared_classes
from workers.engine.worker_settings import ROOT, Settings

_OPEN = """
import sys
from pathlib import Path
import psutil
from workers.engine.channels.channel_config import ChannelConfig
from workers.engine.channels.spark_channels import spark_conf
from workers.engine.worker_settings import from_environment
from workers.engine.spark import shared_classes
from workers.engine.spark.driver_warming import warm_up
from workers.engine.spark.session import open_session
settings = from_environment()
conf = spark_conf(ChannelConfig.of(settings))
options = shared_classes.options(settings.data_dir, class_path=conf["spark.driver.extraClassPath"])
assert "-Xshare:auto" in options, options
# With this the JVM ends where it cannot map the archive.
options = options.replace("-Xshare:auto", "-Xshare:on")
spark = open_session(settings, slot=0, slot_dir=Path(sys.argv[1]), channel_conf=conf, class_options=options)
count = spark.range(3).count()
driver = next(each for each in psutil.Process().children(recursive=True) if each.name() == "java")
mapped = [pages for pages in driver.memory_maps(grouped=True) if pages.path.endswith(".jsa")]
warm_up(spark, Path(sys.argv[1]))
programs = " ".join(part for each in psutil.Process().children(recursive=True) for part in each.cmdline())
assert "workers.engine.spark.fold_host" in programs and "pyspark.worker" not in programs, programs
assert "pandas" not in sys.modules
frame = spark.range(3).toPandas()
assert spark.createDataFrame(frame).count() == len(frame) == 3
print(count, sum(pages.private_dirty for pages in mapped), sum(pages.rss for pages in mapped))
"""


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """What stands beside a new environment."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    folder = tmp_path / "venv" / "jvm"
    folder.mkdir(parents=True)
    return folder


def test_there_is_no_option_without_an_archive_and_another_jar_asks_for_another(tmp_path, beside):
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"1")
    assert shared_classes.options(tmp_path, class_path=str(jar)) == ""
    archive = beside / shared_classes.archive_name(class_path=str(jar))
    archive.write_bytes(b"")
    for data_dir in (tmp_path / "data", tmp_path / "other"):
        assert f"-XX:SharedArchiveFile={archive}" in shared_classes.options(data_dir, class_path=str(jar))
    jar.write_bytes(b"22")
    assert shared_classes.options(tmp_path, class_path=str(jar)) == ""


@pytest.mark.parametrize("variable", ["JAVA_TOOL_OPTIONS", "SPARK_CONF_DIR", "JAVA_HOME"])
def test_what_shapes_a_jvm_asks_for_an_archive_of_its_own(tmp_path, monkeypatch, variable):
    before = shared_classes.archive_name(class_path="a.jar")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch(mode=0o755)
    monkeypatch.setenv(variable, str(tmp_path))
    assert shared_classes.archive_name(class_path="a.jar") != before


@pytest.fixture
def recorded(monkeypatch, beside):
    """The settings of a node whose drivers' classes were recorded already; the list of what was written."""
    written = []

    def write(_, __, scratch):
        written.append(scratch)
        (scratch / "classes.jsa").write_bytes(b"classes")
        return scratch / "classes.jsa"

    monkeypatch.setattr(class_archive, "spark_conf", lambda _: {"spark.driver.extraClassPath": "a.jar"})
    monkeypatch.setattr(class_archive, "_written", write)
    return written


def test_two_data_folders_have_one_archive_written_once(tmp_path, beside, recorded):
    made = {class_archive.make(Settings(data_dir=tmp_path / name)) for name in ("data", "other", "data")}
    assert made == {beside / shared_classes.archive_name(class_path="a.jar")} and len(recorded) == 1
    assert sorted(path.suffix for path in beside.iterdir()) == [".jsa", ".lock"]


def test_one_process_at_a_time_writes_and_who_was_killed_is_cleared_up_behind(tmp_path, beside, recorded):
    (beside / "making-classes").mkdir()
    (beside / "making-classes" / "classes.lst").touch()
    with (beside / "classes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert class_archive.make(Settings(data_dir=tmp_path)) is None and not recorded
    assert class_archive.make(Settings(data_dir=tmp_path)).read_bytes() == b"classes"
    assert not (beside / "making-classes").exists()


def test_older_archives_go_but_for_two_that_another_java_or_run_may_use(tmp_path, beside, recorded):
    of_data_folder = tmp_path / "jvm" / "classes-1.jsa"  # where earlier versions kept it
    of_data_folder.parent.mkdir()
    for age, path in enumerate((of_data_folder, *(beside / f"classes-{number}.jsa" for number in (2, 3, 4)))):
        path.touch()
        os.utime(path, (age, age))
    archive = class_archive.make(Settings(data_dir=tmp_path))
    assert set(beside.glob("*.jsa")) == {archive, *(
        beside / f"classes-{number}.jsa" for number in (3, 4))} and not of_data_folder.exists()


@pytest.mark.long
@pytest.mark.spark
def test_a_driver_maps_the_archive_that_was_written_for_it(tmp_path):
    """In an environment of its own as far as Java's files go. Few pages of the archive are the driver's alone. It warms
    up with a fold host, without a process that forks Python workers, and without pandas, which comes when needed."""
    beside = tmp_path / "venv" / "jvm"
    env = {**os.environ, "WEIR_DATA_DIR": str(tmp_path / "data"), "PYTHONPATH": str(ROOT), "WEIR_PIN": "never"}
    beside.parent.mkdir()
    (tmp_path / "data").mkdir()
    moved = f"import sys; sys.prefix = {str(beside.parent)!r}\n"
    write = f"{moved}from workers.engine.spark import class_archive; sys.exit(class_archive.main([]))"
    for _ in range(2):  # the second finds it
        subprocess.run([sys.executable, "-c", write], env=env, check=True, timeout=600)
    (archive,) = beside.glob("classes-*.jsa")
    with archive.open("rb") as written:
        os.fsync(written.fileno())  # pages that are not on the disk yet would count as the driver's own
    result = subprocess.run(
        [sys.executable, "-c", moved + _OPEN, str(tmp_path / "slot")],
        env={**env, "WEIR_DATA_DIR": str(tmp_path / "other")}, check=False, timeout=300, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    count, of_driver, mapped = map(int, result.stdout.split()[-3:])
    assert count == 3 and of_driver < mapped / 2
