"""A driver's ports for messages and blocks, tried by another process of this machine: with Spark's own client."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

pytestmark = pytest.mark.spark
ENDPOINT = "OutputCommitCoordinator"  # every driver has it


def reached(spark: Any, **settings: str) -> str:
    """The endpoint as a client with these settings reaches it."""
    jvm = spark._jvm
    conf = jvm.org.apache.spark.SparkConf(False)
    for name, value in settings.items():
        conf.set(f"spark.{name.replace('_', '.')}", value)
    manager = jvm.org.apache.spark.SecurityManager(conf, jvm.scala.Option.empty(), None)
    client = jvm.org.apache.spark.rpc.RpcEnv.create("stranger", "127.0.0.1", 0, conf, manager, True)
    try:
        live = spark.sparkContext.getConf()
        address = jvm.org.apache.spark.rpc.RpcAddress(live.get("spark.driver.host"), int(live.get("spark.driver.port")))
        return client.setupEndpointRef(address, ENDPOINT).name()
    finally:
        client.shutdown()


def test_a_driver_answers_nobody_without_its_secret(spark: Any) -> None:
    # Who is in the process finds the secret among its user's credentials: so the client can get through at all.
    assert reached(spark, authenticate="true") == ENDPOINT
    with pytest.raises(Py4JJavaError):
        reached(spark)
    settings = dict(spark.sparkContext.getConf().getAll())
    assert settings["spark.authenticate"] == "true" and "spark.authenticate.secret" not in settings


def test_a_driver_listens_to_its_machine_alone(spark: Any) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.driver.bindAddress") == "127.0.0.1" and conf.get("spark.ui.enabled") == "false"
