"""Spark's own pages of this process's driver: on this machine alone, and for who has the key alone.

Spark's filter `JWSFilter` refuses every request without a token signed by the key. The key is made here, reaches the
JVM over its gateway and the agent in the slot's report, and is in no command line, environment, file or broker.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

FILTER = "org.apache.spark.ui.JWSFilter"
_KEY_SETTING = f"spark.{FILTER}.param.secretKey"
SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "true", "spark.ui.port": "0", "spark.ui.filters": FILTER,
    # Nobody ends anything there, nor makes a driver stand still to dump its threads or its heap.
    "spark.ui.killEnabled": "false", "spark.ui.threadDumpsEnabled": "false", "spark.ui.heapHistogramEnabled": "false",
    # Times of tasks as pictures, which are drawn by scripts that are never run.
    "spark.ui.timelineEnabled": "false"}
_address = ""  # of this process's driver, as its slot says it


def launch(conf: Mapping[str, str]) -> str:
    """Start the JVM of a driver that is to have pages, and give it a new key; the key."""
    # Spark's pages know no other setting of what they listen to.
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = SparkConf(loadDefaults=False)
    settings.setAll(list(conf.items()))
    SparkContext._ensure_initialized(conf=settings)
    key = secrets.token_urlsafe(32)
    SparkContext._jvm.java.lang.System.setProperty(_KEY_SETTING, key)
    return key


def opened(spark: SparkSession, key: str) -> None:
    """Note where the pages are, for the slot's report."""
    global _address
    spark._jvm.java.lang.System.clearProperty(_KEY_SETTING)
    _address = f"{spark.sparkContext.uiWebUrl.rpartition(':')[2]}:{key}"


def reported() -> str:
    """The port and key of the driver's pages, as this process's slot reports them; empty where it has none."""
    return _address
