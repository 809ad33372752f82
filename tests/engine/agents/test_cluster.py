"""Slots on a Spark cluster, without one: what they ask of it, and why they refuse it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from workers.engine.spark import cluster
from workers.engine.spark.cluster import ClusterUnfit, HostView
from workers.engine.spark.session import configuration
from workers.engine.worker_settings import ROOT, Settings, from_environment

VARIABLE = re.compile(r"\b(WEIR_[A-Z_]+[A-Z]|REDIS_URL)\b")


def conf_of(settings: Settings) -> dict[str, str]:
    return configuration(settings, scratch=Path("/scratch"), sockets=Path("/sockets"))


@pytest.mark.parametrize("url", ["spark://h:7077", "spark://10.0.0.1:7077,10.0.0.2:7078", "spark://[::1]:7077"])
def test_a_standalone_cluster_is_named_by_its_masters(url: str) -> None:
    assert all(port in (7077, 7078) and not host.startswith("[") for host, port in cluster.masters(url))


@pytest.mark.parametrize(
    "url", ["yarn", "k8s://https://h:443", "local[4]", "local-cluster[2,1,1024]", "spark://h", "h:7077"])
def test_another_kind_of_cluster_is_refused_by_its_name(url: str) -> None:
    with pytest.raises(ClusterUnfit, match=re.escape(repr(url))) as refused:
        cluster.require_master(url)
    assert "WEIR_SPARK_MASTER" in str(refused.value) and "spark://HOST:PORT" in str(refused.value)


def test_a_master_that_does_not_answer_is_named(free_port: int) -> None:
    with pytest.raises(ClusterUnfit, match=f"127.0.0.1:{free_port}.*Start the cluster"):
        cluster.require_master(f"spark://127.0.0.1:{free_port}")


def test_a_slot_takes_its_cores_and_no_more() -> None:
    conf = conf_of(Settings(spark_master="spark://h:7077", slot_cores=3, slot_memory_mb=700))
    assert (conf["spark.cores.max"], conf["spark.executor.cores"], conf["spark.executor.memory"]) == ("3", "3", "700m")
    assert conf["spark.master"] == "spark://h:7077" and conf["spark.task.maxFailures"] == "1"
    assert "spark.driver.host" not in conf and "spark.authenticate" not in conf  # the cluster's operator decides
    assert conf_of(Settings(spark_master="spark://127.0.0.1:7077"))["spark.driver.host"] == "127.0.0.1"


def test_a_local_slot_has_nothing_of_a_cluster() -> None:
    local = conf_of(Settings())
    assert local["spark.master"] == f"local[{Settings().threads}]" and local["spark.authenticate"] == "true"
    assert not {"spark.cores.max", "spark.executor.cores", "spark.executor.memory"} & local.keys()


def test_settings_come_from_the_environment() -> None:
    settings = from_environment({"WEIR_SPARK_MASTER": "spark://h:1", "WEIR_SLOT_CORES": "2"})
    assert (settings.spark_master, settings.slot_cores) == ("spark://h:1", 2)


def variables_of_tasks() -> Iterator[str]:
    for path in (ROOT / "workers" / "library").rglob("*.py"):
        yield from VARIABLE.findall(path.read_text())


def test_executors_have_what_tasks_read_of_their_environment_and_no_key() -> None:
    assert set(variables_of_tasks()) - set(cluster.ENVIRONMENT) == set()
    environment = {name: f"of {name}" for name in (*cluster.ENVIRONMENT, "WEIR_SECRETS_KEY", "WEIR_SECRET_KEY")}
    settings = Settings(spark_master="spark://h:7077", redis_url="redis://h", data_dir=Path("/data"))
    given = cluster.environment_of_tasks(settings, environment)
    assert given.keys() == set(cluster.ENVIRONMENT)
    assert (given["REDIS_URL"], given["WEIR_DATA_DIR"], given["WEIR_HTTP_HOSTS"]) == (
        "redis://h", "/data", "of WEIR_HTTP_HOSTS")
    assert "redis://h" not in conf_of(settings).values()  # a driver's settings are in its command line


@pytest.fixture
def driver(tmp_path: Path) -> HostView:
    view = HostView.here(tmp_path / "probe")
    view.probe.write_text(view.probe.name)
    return view


def test_an_executor_that_shares_all_is_fit(driver: HostView, broker_url: str) -> None:
    executor = HostView.looked_at(driver.probe, jar="", redis_url=broker_url)
    assert cluster.unfitness(driver, executor) == []


@pytest.mark.parametrize(("lack", "cause", "remedy"), [
    ({"sees_folder": False}, "does not see", "shared file system"),
    ({"code": "another"}, "another version of Weir", "Install the same"),
    ({"python": "3.9.1"}, "Python 3.9.1", "Install the same"),
    ({"lacks_broker": "TimeoutError: late"}, "does not reach the broker (TimeoutError: late)", "--broker-host"),
    ({"sees_jar": False}, "jar of the channels", "WEIR_CHANNELS_JAR"),
])
def test_what_an_executor_lacks_is_told_with_its_host_and_a_remedy(
    driver: HostView, broker_url: str, lack: dict, cause: str, remedy: str
) -> None:
    executor = replace(HostView.looked_at(driver.probe, jar="", redis_url=broker_url), host="worker-7", **lack)
    [reason] = cluster.unfitness(driver, executor)
    assert reason.startswith("worker-7 ") and cause in reason and remedy in reason


def test_a_folder_that_is_not_there_or_cannot_be_written_is_noticed(tmp_path: Path, broker_url: str) -> None:
    driver = HostView.here(tmp_path / "elsewhere" / "probe")
    unseen = HostView.looked_at(driver.probe, jar=str(tmp_path / "no.jar"), redis_url=broker_url)
    assert not unseen.sees_folder and not unseen.sees_jar
    driver.probe.parent.mkdir()
    driver.probe.write_text(driver.probe.name)
    [reason] = cluster.unfitness(driver, replace(unseen, sees_folder=True))  # nothing was answered
    assert "cannot write" in reason


def test_a_broker_that_is_away_is_noticed(driver: HostView, free_port: int) -> None:
    view = HostView.looked_at(driver.probe, jar="", redis_url=f"redis://127.0.0.1:{free_port}/0")
    assert "ConnectionError" in view.lacks_broker
