"""Streams that were divided by key, each by its own writer, are read together only where a key has one text in all."""

from __future__ import annotations

import pytest
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from workers.engine.channels.spark_channels import KeysDiffer, require_one_type


def test_a_key_has_one_type_in_all_streams() -> None:
    left, right, other = (
        StructType([StructField(name, kind()) for name, kind in columns]) for columns in (
            (("k", LongType), ("m", StringType)), (("m", StringType), ("k", LongType)), (("k", DoubleType),)))
    require_one_type([left, right], ["k", "m"])
    for streams, key, kinds in (([left, other], ["k"], "bigint, double"), ([right, other], ["m"], "string, none")):
        with pytest.raises(KeysDiffer, match=f"have it as {kinds}"):
            require_one_type(streams, key)
