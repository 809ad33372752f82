"""A driver maps its classes from the archive that was written for it, and does without one that is not its own."""

import os
import subprocess
import sys

import pytest

from workers.engine.settings import ROOT
from workers.engine.spark import shared_classes

_OPEN = """
import sys
from pathlib import Path
from workers.engine.channels.config import ChannelConfig
from workers.engine.channels.spark import spark_conf
from workers.engine.settings import from_environment
from workers.engine.spark import shared_classes
from workers.engine.spark.session import open_session
settings = from_environment()
conf = spark_conf(ChannelConfig.of(settings))
options = shared_classes.options(settings.data_dir, class_path=conf["spark.driver.extraClassPath"])
assert "-Xshare:auto" in options, options
# With this the JVM ends where it cannot map the archive.
options = options.replace("-Xshare:auto", "-Xshare:on")
spark = open_session(settings, slot=0, slot_dir=Path(sys.argv[1]), channel_conf=conf, class_options=options)
print(spark.range(3).count())
"""


def test_there_is_no_option_without_an_archive_and_another_jar_asks_for_another(tmp_path):
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"1")
    assert shared_classes.options(tmp_path, class_path=str(jar)) == ""
    archive = shared_classes.archive_path(tmp_path, class_path=str(jar))
    archive.parent.mkdir()
    archive.write_bytes(b"")
    assert f"-XX:SharedArchiveFile={archive}" in shared_classes.options(tmp_path, class_path=str(jar))
    jar.write_bytes(b"22")
    assert shared_classes.options(tmp_path, class_path=str(jar)) == ""


@pytest.mark.long
@pytest.mark.spark
def test_a_driver_maps_the_archive_that_was_written_for_it(with_jar, tmp_path):
    data_dir = with_jar(tmp_path / "data")
    for archive in (data_dir / "jvm").glob("classes-*.jsa"):
        archive.unlink()  # the one that all tests share
    env = {**os.environ, "WEIR_DATA_DIR": str(data_dir), "PYTHONPATH": str(ROOT), "WEIR_PIN": "never"}
    older = data_dir / "jvm" / "classes-0000.jsa"
    older.write_bytes(b"")
    for _ in range(2):  # the second finds it
        subprocess.run([sys.executable, "-m", "workers.engine.spark.class_archive"], env=env, check=True, timeout=600)
    assert [path.name.startswith("classes-") for path in older.parent.glob("*.jsa")] == [True] and not older.exists()
    result = subprocess.run(
        [sys.executable, "-c", _OPEN, str(tmp_path / "slot")], env=env, check=True, timeout=300, capture_output=True,
        text=True)
    assert result.stdout.split()[-1] == "3"
